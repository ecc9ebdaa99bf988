//! The queue tree: built from the configuration, extended by placement, cleaned of what is empty (sections 3 and 4 of the queue rules).

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use smallvec::SmallVec;

use super::{Amount, Cx, Parked, Partition};
use crate::{
    acl::Acl,
    conf::{QueueConf, TemplateConf},
    effect::{Effect, QueueEffect},
    event::{Change, Detail, EventKind},
    queue::{Queue, QueueSettings, RECOVERY_QUEUE},
    rare::Rare,
    resources::Resource,
    run::Run,
    settings::{inherit, settings},
    sorted::Sorted,
    types::{AppState, Nanos, ObjectState, QueueIx},
};

/// A limit that is in force: explicit zeros count only beside something above zero (QUE-021).
pub(super) fn effective(limit: Option<Arc<Resource>>) -> Option<Arc<Resource>> {
    limit.filter(|limit| limit.is_positive())
}

impl Partition {
    /// The queue and those above it, up to root.
    pub(crate) fn path(&self, queue: QueueIx) -> impl Iterator<Item = QueueIx> + '_ {
        std::iter::successors(Some(queue), |queue| self.queues[*queue].parent)
    }

    /// As [`Partition::path`], for who changes them.
    pub(super) fn up(&self, queue: QueueIx) -> SmallVec<[QueueIx; 8]> {
        self.path(queue).collect()
    }

    /// Builds the managed queues; parents before children.
    pub(super) fn build_queues(&mut self, conf: &QueueConf, cx: &mut Cx) {
        self.root = self.add_managed(None, conf, cx);
        self.load_limits(cx);
    }

    /// Adds a managed queue and all below it.
    pub(super) fn add_managed(&mut self, parent: Option<QueueIx>, conf: &QueueConf, cx: &mut Cx) -> QueueIx {
        let ix = self.add_queue(parent, &conf.name, !conf.parent && parent.is_some(), true, cx.now);
        self.configure_queue(ix, conf);
        self.queue_added(ix, cx);
        for child in &conf.children {
            self.add_managed(Some(ix), child, cx);
        }
        ix
    }

    /// What a managed queue takes from its configuration (R1.16).
    pub(super) fn configure_queue(&mut self, ix: QueueIx, conf: &QueueConf) {
        let parent = self.queues[ix].parent;
        let properties = match parent {
            Some(parent) => inherit(&self.queues[parent].properties, &conf.properties),
            None => conf.properties.clone(),
        };
        let inherited = parent.and_then(|parent| self.queues[parent].template.clone());
        let row = &mut self.queues[ix];
        row.settings = settings(&properties);
        row.properties = Arc::new(properties);
        row.max_applications = conf.max_applications;
        row.admin_acl = conf.admin_acl.clone();
        row.submit_acl = conf.submit_acl.clone();
        // TPL-001, TPL-005; a reload keeps what is inherited (CFG-103).
        row.template = if row.leaf { None } else { conf.template.clone().or(inherited) };
        if parent.is_some() {
            row.max = effective(conf.max.clone().map(Arc::new));
            row.guaranteed = effective(conf.guaranteed.clone().map(Arc::new));
        }
        self.touch_queue(ix);
    }

    /// A row, linked to its parent, without configuration.
    fn add_queue(
        &mut self,
        parent: Option<QueueIx>,
        name: &Arc<str>,
        leaf: bool,
        managed: bool,
        now: Nanos,
    ) -> QueueIx {
        let (path, depth): (Arc<str>, u32) = match parent {
            Some(parent) => {
                let row = &self.queues[parent];
                (format!("{}.{name}", row.path).into(), row.depth + 1)
            }
            None => (name.clone(), 0),
        };
        let row = Queue {
            name: name.clone(),
            path: path.clone(),
            parent,
            children: BTreeMap::new(),
            leaf,
            managed,
            state: ObjectState::Active,
            state_since: now,
            properties: Arc::default(),
            settings: QueueSettings::default(),
            max: None,
            guaranteed: None,
            states: [0; AppState::ALL.len()],
            max_applications: 0,
            admin_acl: Acl::default(),
            submit_acl: Acl::default(),
            template: None,
            allocated: Amount::default(),
            asked: Rare::default(),
            told_allocated: Resource::new(),
            pending: Amount::default(),
            in_question: Rare::default(),
            preempting: Rare::default(),
            claimed: Rare::default(),
            awaited: Rare::default(),
            attempts: (Nanos::ZERO, 0),
            running: 0,
            allocating: BTreeSet::new(),
            apps: imbl::OrdSet::new(),
            priority: i32::MIN,
            exposed_priority: i32::MIN,
            priorities: Sorted::new(),
            child_order: Run::new(),
            order: None,
            app_order: Run::new(),
            blocked: false,
            blocked_children: imbl::OrdSet::new(),
            blocked_apps: imbl::OrdSet::new(),
            blocked_in: 0,
            parked: Parked::default(),
            dirty: false,
            depth,
            quota_start: None,
            free: Default::default(),
        };
        let ix = self.queues.add(row);
        self.queue_by_path.insert(path, ix);
        if let Some(parent) = parent {
            self.queues[parent].children.insert(name.clone(), ix);
        }
        ix
    }

    fn queue_added(&self, ix: QueueIx, cx: &mut Cx) {
        let row = &self.queues[ix];
        let detail = if row.managed { Detail::None } else { Detail::QueueDynamic };
        cx.event(EventKind::Queue, &row.path, Change::Add, detail);
        cx.fx.push(Effect::Queue(QueueEffect::Added { queue: row.path.clone() }));
    }

    /// Makes a dynamic leaf with all missing levels above it; the leaf takes its parent's template (R3.32, TPL-004).
    pub(super) fn add_dynamic(&mut self, path: &str, cx: &mut Cx) -> Option<QueueIx> {
        let recovery = path == RECOVERY_QUEUE;
        let mut parent = self.root;
        let mut parts = path.split('.').skip(1).peekable();
        while let Some(part) = parts.next() {
            let last = parts.peek().is_none();
            if let Some(child) = self.queues[parent].children.get(part) {
                parent = *child;
                continue;
            }
            let template = self.queues[parent].template.clone();
            let ix = self.add_queue(Some(parent), &part.into(), last, false, cx.now);
            // TPL-008: no template on the recovery queue.
            if !last {
                self.queues[ix].template = template;
            } else if let Some(template) = template.filter(|_| !recovery) {
                self.apply_template(ix, &template);
            }
            self.touch_queue(ix);
            self.queue_added(ix, cx);
            self.plan_cleaning(cx.now);
            parent = ix;
        }
        (parent != self.root).then_some(parent)
    }

    fn apply_template(&mut self, ix: QueueIx, template: &TemplateConf) {
        let row = &mut self.queues[ix];
        row.max_applications = template.max_applications;
        row.properties = template.properties.clone();
        row.settings = settings(&row.properties);
        row.max = effective(template.max.clone());
        row.guaranteed = effective(template.guaranteed.clone());
    }

    /// Changes a queue's state.
    pub(super) fn set_queue_state(&mut self, ix: QueueIx, state: ObjectState, cx: &mut Cx) {
        let row = &mut self.queues[ix];
        if row.state == state {
            return;
        }
        row.state = state;
        row.state_since = cx.now;
        self.touch_queue(ix);
        if state == ObjectState::Draining {
            self.plan_cleaning(cx.now);
        }
    }

    /// Removes draining and dynamic queues below one that are empty, children first, so many `more` at most (R1.17,
    /// QUE-010–QUE-013).
    pub(super) fn clean_below(&mut self, ix: QueueIx, more: &mut usize, cx: &mut Cx) {
        for child in self.queues[ix].children.values().copied().collect::<Vec<_>>() {
            self.clean_below(child, more, cx);
            if *more == 0 {
                return;
            }
            let row = &self.queues[child];
            if row.is_removable() && row.children.is_empty() && row.apps.is_empty() {
                self.remove_queue(child, cx);
                *more -= 1;
            }
        }
    }

    pub(super) fn remove_queue(&mut self, ix: QueueIx, cx: &mut Cx) {
        self.leave_parent(ix);
        self.queue_takes_no_more_turns(ix);
        let row = self.queues.free(ix);
        let (path, name, parent, managed) = (row.path.clone(), row.name.clone(), row.parent, row.managed);
        self.queue_by_path.remove(&path);
        if let Some(parent) = parent {
            let row = &mut self.queues[parent];
            row.children.remove(&name);
            row.blocked_children.remove(&ix);
        }
        let detail = if managed { Detail::QueueConfig } else { Detail::QueueDynamic };
        cx.event(EventKind::Queue, &path, Change::Remove, detail);
        cx.fx.push(Effect::Queue(QueueEffect::Removed { queue: path }));
    }
}
