//! Asks and placed allocations come in (section 4.B of the scheduling rules).

use std::sync::{Arc, LazyLock};

use super::{Books, Cx, Partition, Placement, apps::creation_time, states::AppEvent};
use crate::{
    alloc::{Alloc, AskSpec, Phase},
    app::TaskGroup,
    command::{AllocationItem, ReleaseItem},
    effect::{Callback, Effect, NewAllocation},
    event::{Change, Detail, EventKind},
    node::Asked,
    resources::Resource,
    types::{AllocIx, AppIx, AppState, Nanos, NodeIx, ObjectState},
};

/// What an ask says that is there no more.
static NOTHING: LazyLock<Arc<AskSpec>> = LazyLock::new(Arc::default);

impl Partition {
    /// An allocation request: allocations in order, their rejections, then releases in order (R1.29).
    pub(super) fn apply_allocations(
        &mut self,
        allocations: Vec<AllocationItem>,
        releases: &[ReleaseItem],
        cx: &mut Cx,
    ) {
        let mut rejected = Vec::new();
        for mut item in allocations {
            if let Err(reason) = self.add_allocation(&mut item, cx) {
                rejected.push(Callback::RejectedAllocation { key: item.spec.key.clone(), app: item.app, reason });
            }
        }
        cx.fx.extend(rejected.into_iter().map(Effect::Callback));
        for item in releases {
            self.release(item, cx);
        }
    }

    /// One entry; the error is the text of its rejection (R4.7).
    fn add_allocation(&mut self, item: &mut AllocationItem, cx: &mut Cx) -> Result<(), Arc<str>> {
        let key = &item.spec.key;
        if self.state == ObjectState::Stopped {
            return Err(format!(
                "partition {} is stopped cannot add a new allocation {key} for application {}",
                self.internal, item.app
            )
            .into());
        }
        if item.spec.foreign.is_some() {
            return self.add_foreign(item, cx);
        }
        let Some(app) = self.app_by_id.get(&item.app).copied() else {
            self.bad_updates += 1;
            return Err(format!("failed to find application {}", item.app).into());
        };
        let node = match &item.node {
            Some(id) => match self.node_by_id.get(id) {
                Some(node) => Some(*node),
                None => {
                    self.bad_updates += 1;
                    return Err(format!("failed to find node {id}").into());
                }
            },
            None => None,
        };
        if item.spec.resource.is_zero() {
            self.bad_updates += 1;
            return Err("allocation contains no resources".into());
        }
        if item.spec.resource.has_negative() {
            self.bad_updates += 1;
            return Err("allocation contains negative resources".into());
        }
        let hash = self.keys.hash(app, key);
        let mut known = self.keys.find(hash, &self.allocs, app, key);
        if let Some(lost) = known.filter(|lost| node.is_some() && self.node_is_back(*lost)) {
            // R4.10: it runs, though its node was taken away for a while, and is counted again.
            self.forget(lost);
            known = None;
        }
        match known {
            None if node.is_none() && self.is_ending(app) => {
                // SEEDS S31: it would never be placed, and be dropped with the application.
                let (id, state) = (&item.app, self.apps[app].state);
                Err(format!("application {id} is {state} and ends: it takes no more asks").into())
            }
            None => {
                self.note_creation(app, &item.spec, cx.now);
                let alloc = self.new_alloc(app, &mut item.spec, hash, cx.now);
                match node {
                    None => self.add_ask(alloc, cx),
                    Some(node) => {
                        self.note_ran(alloc, cx.now);
                        self.note_part(alloc);
                        self.recover(alloc, node, cx);
                    }
                }
                Ok(())
            }
            Some(known) => self.update_allocation(known, node, &item.spec, cx),
        }
    }

    /// It fails or expires: nothing of it is placed any more (R3.21, SEEDS S6).
    pub(super) fn is_ending(&self, app: AppIx) -> bool {
        let row = &self.apps[app];
        matches!(row.state, AppState::Failing | AppState::Failed) || row.expiring
    }

    /// The submission time of an application is that of its oldest ask (R3.49).
    fn note_creation(&mut self, app: AppIx, spec: &AskSpec, now: Nanos) {
        let created = spec.created.unwrap_or(now);
        let row = &mut self.apps[app];
        if created < row.submission {
            row.submission = created;
            self.touch_app(app);
        }
    }

    /// A row for an ask; it is in no book yet.
    fn new_alloc(&mut self, app: AppIx, spec: &mut Arc<AskSpec>, hash: u32, now: Nanos) -> AllocIx {
        let created = spec.created.unwrap_or(now);
        let seq = self.serial();
        let (ask_shim, shapes) = (self.ask_shim, &mut self.shapes);
        let ix = self.allocs.add_with(|ix| {
            let (shape, resource) = shapes.intern(&spec.resource, ask_shim.then_some(ix));
            // Nobody else has it yet: thousands of asks that want the same share it from here on.
            if let Some(spec) = Arc::get_mut(spec) {
                spec.resource = resource.clone();
            }
            Alloc { shape, seq, created, requested: created, ..Alloc::new(app, spec.clone(), resource) }
        });
        self.keys.insert(hash, ix);
        let app_row = &mut self.apps[app];
        app_row.by_seq.insert(seq, ix);
        if spec.placeholder {
            self.end_gang_wait(app);
            self.gang_changes(app, |gang| gang.announced.add(&spec.resource));
            let group = self.apps[app]
                .gang
                .task_groups
                .entry(spec.task_group.clone())
                .or_insert_with(|| TaskGroup { min: spec.resource.clone(), ..TaskGroup::default() });
            group.count += 1;
            group.live += 1;
        }
        ix
    }

    /// A new ask waits (R4.9).
    fn add_ask(&mut self, alloc: AllocIx, cx: &mut Cx) {
        let app = self.allocs[alloc].app;
        self.enqueue(alloc);
        if self.apps[app].gang.to_come && self.apps[app].waits_for_first_placeholder(&self.group_key(alloc)) {
            self.start_gang_wait(app, cx.now);
        }
        match self.apps[app].state {
            AppState::New => _ = self.fire(app, AppEvent::Run, None, cx),
            _ => self.run_again(app, cx),
        }
        self.start_timer_of_waiting(app, cx);
        self.request_event(alloc, Change::Add, Detail::AppRequest, cx);
    }

    pub(super) fn request_event(&self, alloc: AllocIx, change: Change, detail: Detail, cx: &mut Cx) {
        let row = &self.allocs[alloc];
        let app = &self.apps[row.app];
        cx.event_of(EventKind::App, &app.id, &row.spec.key, change, detail, &row.resource);
    }

    /// Events tell once that an ask went (EVT-024): that of a gang that timed out, before its allocation is released.
    pub(super) fn ask_went(&mut self, alloc: AllocIx, detail: Detail, cx: &mut Cx) {
        if !std::mem::replace(&mut self.allocs[alloc].told_gone, true) {
            self.request_event(alloc, Change::Remove, detail, cx);
        }
    }

    /// An allocation that the shim placed itself, new or pending before: in all books, past all limits (R4.10, R4.12).
    fn recover(&mut self, alloc: AllocIx, node: NodeIx, cx: &mut Cx) {
        let app = self.allocs[alloc].app;
        if self.apps[app].state == AppState::New {
            self.fire(app, AppEvent::Run, None, cx);
        }
        let row = &mut self.allocs[alloc];
        row.phase = Phase::Allocated;
        row.node = Some(node);
        row.bound = cx.now;
        if self.allocs[alloc].is_placeholder() {
            self.start_gang_timer(app, true, cx);
        }
        let placement = self.past_limits(alloc, Some(node), Books::ALL);
        self.charge_and_tell(&placement, cx);
        if self.apps[app].state == AppState::Accepted {
            // QUE-090: it has its first allocation, though it does not run yet.
            self.enter_allocating(app);
            self.questions.entering.remove(&app);
            self.rouse_parked(app);
        }
        self.quota_clock_on_increase(placement.queue, cx.now);
        if self.is_ending(app) {
            self.ask_back_late(alloc, cx);
        }
    }

    /// An application that comes with allocations ran before: the limit of its time (SEEDS S6) goes on with what is left since
    /// application and the oldest of them were made, as far as their tags tell.
    fn note_ran(&mut self, alloc: AllocIx, now: Nanos) {
        let row = &self.allocs[alloc];
        let (ix, app, made) = (row.app, &self.apps[row.app], row.spec.created);
        let Some(began) = made.max(creation_time(&app.tags)).filter(|_| !row.is_placeholder()) else { return };
        let ran = app.started.unwrap_or(now).minus(began);
        if ran <= app.ran || app.started.is_some() && began >= app.arrived {
            return;
        }
        self.apps[ix].ran = ran;
        if let Some(started) = self.apps[ix].started.filter(|_| self.apps[ix].execution_timer.is_some()) {
            self.start_execution_timer(ix, started);
        }
    }

    /// A part of a gang comes with its node, an originator's too (R6.28): the placeholder that it once replaced does not come any more.
    fn note_part(&mut self, alloc: AllocIx) {
        let row = &self.allocs[alloc];
        let (app, resource) = (row.app, row.resource.clone());
        let is_part = !row.is_placeholder() && !row.spec.task_group.is_empty();
        if is_part && self.apps[app].gang.placeholder_ask.is_some() {
            self.gang_changes(app, |gang| gang.announced.add(&resource));
            self.gang_progress(app);
            // SEEDS S10: that one came before the shim registered again, and the first of its gang with it or before it.
            self.end_gang_wait(app);
        }
    }

    /// It ended with its node, and a node of that name has come since.
    fn node_is_back(&self, alloc: AllocIx) -> bool {
        self.gone_with.get(&alloc).is_some_and(|node| self.node_by_id.contains_key(node))
    }

    /// A known key again: its size changes, or the shim placed it (R4.11–R4.14).
    fn update_allocation(
        &mut self,
        alloc: AllocIx,
        node: Option<NodeIx>,
        spec: &Arc<AskSpec>,
        cx: &mut Cx,
    ) -> Result<(), Arc<str>> {
        let row = &self.allocs[alloc];
        let changed = node.is_some() || *row.resource != *spec.resource;
        match row.phase {
            // What the shim was asked about, or was to take a placeholder's place, is no longer what waits.
            Phase::AwaitingShim if changed => self.withdraw_question(alloc, cx),
            Phase::Replacing if changed => self.undo_swap_of_real(alloc, cx),
            _ => {}
        }
        let row = &self.allocs[alloc];
        if row.is_pending() {
            if *row.resource != *spec.resource {
                self.resize_pending(alloc, &spec.resource, cx);
            }
            if let Some(node) = node {
                if self.allocs[alloc].reserved.is_some() {
                    self.end_claim(alloc);
                    self.unreserve(alloc, cx);
                }
                self.dequeue(alloc);
                self.allocs[alloc].failures = None;
                self.request_event(alloc, Change::Set, Detail::RequestAlloc, cx);
                self.recover(alloc, node, cx);
            }
            return Ok(());
        }
        if row.node.is_none() {
            // Its node was removed and the shim has not released it yet (R2.22).
            self.bad_updates += 1;
            return Err(match self.gone_with.get(&alloc) {
                Some(node) if !self.node_is_back(alloc) => format!("failed to find node {node}").into(),
                _ => format!("failed to find node of allocation {}: it ended, release it first", spec.key).into(),
            });
        }
        if row.phase == Phase::Allocated && *row.resource != *spec.resource {
            let delta = spec.resource.minus(&row.resource);
            let app = row.app;
            let (shape, resource) = self.shapes.intern(&spec.resource, self.ask_shim.then_some(alloc));
            let old = std::mem::replace(&mut self.allocs[alloc].shape, shape);
            self.shapes.release(old);
            if self.allocs[alloc].preempted {
                self.sub_preempting(alloc);
            }
            self.allocs[alloc].resource = resource;
            if self.allocs[alloc].preempted {
                self.add_preempting(alloc);
            }
            self.resize(alloc, &delta, cx);
            self.allocation_changed(app);
            self.quota_clock_on_increase(self.apps[app].queue, cx.now);
            let row = &self.allocs[alloc];
            if let Some(real) = row.link.filter(|real| !row.resource.fits(&self.allocs[*real].resource)) {
                // R6.11: the place would grow with the replacement, and nobody looks at a limit then.
                self.undo_swap_of_real(real, cx);
            }
        }
        Ok(())
    }

    /// Another size is another need: what it has preempted for the old one is held no more.
    fn resize_pending(&mut self, alloc: AllocIx, resource: &Arc<Resource>, cx: &mut Cx) {
        self.end_claim(alloc);
        if let Some(node) = self.allocs[alloc].reserved
            && !self.nodes[node].capacity.fits(resource)
        {
            self.unreserve(alloc, cx);
        }
        // What failed before is no question of its size: the row of failures goes on (R4.28).
        self.dequeue(alloc);
        let row = &self.allocs[alloc];
        let placeholder = row.is_placeholder();
        if placeholder {
            let delta = resource.minus(&row.resource);
            self.gang_changes(row.app, |gang| gang.announced.add(&delta));
        }
        let (shape, resource) = self.shapes.intern(resource, self.ask_shim.then_some(alloc));
        let old = std::mem::replace(&mut self.allocs[alloc].shape, shape);
        self.shapes.release(old);
        let before = std::mem::replace(&mut self.allocs[alloc].resource, resource);
        if let Some(node) = self.allocs[alloc].reserved {
            self.nodes[node].reservations.resize(&before, &self.allocs[alloc].resource);
        }
        self.enqueue(alloc);
        if let Some(node) = self.allocs[alloc].reserved {
            // It may fit its node now, and others what it leaves of it.
            self.reindex(node);
            self.unblock_shapes(node);
        }
        if placeholder {
            // Its gang may wait for less now, and with it other gangs (SEEDS S11).
            self.unblock_limits();
        }
    }

    /// An ask became an allocation that is in all books: states, timers, events, and the callback. `charged` are the effects of
    /// its charge, which come after the change of the state.
    pub(super) fn allocated(&mut self, alloc: AllocIx, charged: &mut Vec<Effect>, cx: &mut Cx) {
        let row = &self.allocs[alloc];
        let (app, placeholder, Some(node)) = (row.app, row.is_placeholder(), row.node) else { return };
        let (spec, resource) = (row.spec.clone(), row.resource.clone());
        let node_id = self.nodes[node].spec.id.clone();
        self.questions.placed += u64::from(self.ask_shim && self.is_constrained(&spec));
        self.counts_for_itself(app, charged, cx);
        cx.event_of(EventKind::Node, &node_id, &spec.key, Change::Add, Detail::NodeAlloc, &resource);
        if !placeholder && !spec.originator {
            self.end_gang_wait(app);
        }
        if placeholder {
            self.placeholder_allocated(alloc, cx);
        } else {
            let gang = &self.apps[app].gang;
            if spec.is_real_part() && !gang.started && gang.pending_placeholders > 0 {
                // The gang has begun with this part: its placeholders wait for room for all of it no more (SEEDS S11).
                self.end_gang_claim(app);
                self.rouse_groups(app);
            }
            self.real_came(app, false, cx);
        }
        cx.fx.append(charged);
        self.note_peak(app);
        self.allocated_events(alloc, cx);
        self.allocation_changed(app);
        let (app, resource) = (cx.text(&self.apps[app].id), cx.resource(&resource));
        cx.callback(Callback::New(Box::new(NewAllocation { spec, app, node: node_id, resource })));
    }

    /// Charges a placement and tells everybody of it.
    pub(super) fn charge_and_tell(&mut self, placement: &Placement, cx: &mut Cx) {
        let room = std::mem::take(&mut self.scratch);
        let mut charged = cx.apart(room, |cx| self.charge(placement, cx));
        self.allocated(placement.alloc, &mut charged, cx);
        self.scratch = charged;
    }

    /// The peak of an application's usage; placeholders and real allocations each have theirs, and the higher shows
    /// (`maxUsedResource`). A resize does not count (R4.14), nor what the shim has not agreed to.
    pub(super) fn note_peak(&mut self, app: AppIx) {
        let row = &mut self.apps[app];
        for (used, Asked { amount: awaiting, .. }) in
            [&row.allocated, &row.gang.allocated].into_iter().zip(row.asked.iter())
        {
            if used.is_empty() {
                continue;
            }
            if !awaiting.is_empty() {
                row.max_used.raise(&used.minus(awaiting));
            } else if !row.max_used.ge_all(used) {
                row.max_used.raise(used);
            }
        }
    }

    /// The row of an ask goes: it is in no book any more.
    pub(super) fn forget(&mut self, alloc: AllocIx) {
        // The next one in this row has not been refused anywhere.
        self.forget_refusals(alloc);
        self.forget_refused_victims(alloc);
        let row = self.allocs.free(alloc);
        let (app, seq, shape) = (row.app, row.seq, row.shape);
        self.keys.remove(app, &row.spec.key, alloc);
        // The row may stay unused for long, and is in each snapshot.
        row.log = Vec::new();
        row.failures = None;
        row.spec = NOTHING.clone();
        row.resource = NOTHING.resource.clone();
        for time in [
            &mut row.created,
            &mut row.requested,
            &mut row.bound,
            &mut row.preemption_tried,
            &mut row.predicate_event,
            &mut row.required_node_event,
        ] {
            *time = Nanos::ZERO;
        }
        self.gone_with.remove(&alloc);
        self.apps[app].by_seq.remove(&seq);
        self.shapes.release(shape);
    }
}
