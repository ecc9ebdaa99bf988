//! Running the rules (PLC-001, PLC-007, PLC-010–PLC-019, PLC-030–PLC-045).

use std::{cell::RefCell, collections::BTreeMap, iter::successors};

use super::{
    reason,
    rule::{RuleConf, RuleKind, is_qualified},
};
use crate::{
    acl::Groups,
    names::{INVALID_QUEUE_NAME, MAX_QUEUE_LEVELS, is_queue_name, too_many_levels},
    queue::RECOVERY_QUEUE,
    sorted::Texts,
};

/// Tag that forces the creation of an application (PLC-019, R3.28).
pub const FORCE_TAG: &str = "application.create.force";

/// What the rules know of an application.
#[derive(Clone, Debug)]
pub struct Submission<'a> {
    /// Application id, for the texts.
    pub app: &'a str,
    /// Queue as submitted, may be empty.
    pub queue: &'a str,
    /// Name of the user who submitted it.
    pub user: &'a str,
    /// Groups of the owner.
    pub groups: Groups<'a>,
    /// Tags of the application, by name.
    pub tags: &'a Texts,
    /// Its creation is forced: it goes to the recovery queue rather than nowhere.
    pub forced: bool,
}

/// The queues of a partition, as far as the rules need them. Paths are full and lowercase.
pub trait QueueLookup {
    /// The queue at a path, `None` where there is none.
    fn queue(&self, path: &str) -> Option<QueueStatus>;
    /// The lists of this existing queue let the user submit at it and below it (ACL-010).
    fn lets_submit(&self, path: &str, user: &str, groups: &Groups<'_>) -> bool;
}

/// The user may submit at this existing queue: by it or by one of its ancestors (ACL-010); never at the recovery queue (ACL-014).
pub fn may_submit(queues: &dyn QueueLookup, path: &str, user: &str, groups: &Groups<'_>) -> bool {
    path != RECOVERY_QUEUE && up(path).any(|path| queues.lets_submit(path, user, groups))
}

/// A path and those of its ancestors, up to root.
fn up(path: &str) -> impl Iterator<Item = &str> {
    successors(Some(path), |path| path.rsplit_once('.').map(|(above, _)| above))
}

/// One evaluation: what it knows already of who may submit where, since many rules may lead to the same queues.
struct Evaluation<'e, 'a> {
    app: &'e Submission<'a>,
    queues: &'e dyn QueueLookup,
    may_submit: RefCell<BTreeMap<String, bool>>,
}

impl Evaluation<'_, '_> {
    /// See [`may_submit`].
    fn may_submit(&self, path: &str) -> bool {
        if path == RECOVERY_QUEUE {
            return false;
        }
        let mut known = self.may_submit.borrow_mut();
        let mut new = Vec::new();
        let may = up(path).find_map(|path| {
            if let Some(may) = known.get(path) {
                return Some(*may);
            }
            new.push(path.to_owned());
            self.queues.lets_submit(path, self.app.user, &self.app.groups).then_some(true)
        });
        let may = may.unwrap_or(false);
        known.extend(new.into_iter().map(|path| (path, may)));
        may
    }
}

/// See [`QueueLookup`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueStatus {
    /// It can hold applications.
    pub leaf: bool,
    /// It takes no new ones.
    pub draining: bool,
}

/// Where an application goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueuePlacement {
    /// An existing leaf.
    Existing {
        /// Its lowercase path.
        path: String,
    },
    /// A leaf to be made, with all levels below `ancestor`.
    Create {
        /// Its lowercase path; every part is a valid name.
        path: String,
        /// Lowest existing ancestor: a parent that is not draining.
        ancestor: String,
    },
    /// The recovery queue, made where it does not exist (PLC-042).
    Recovery,
    /// No queue takes it: the application is rejected.
    Rejected {
        /// The whole reason.
        reason: String,
        /// The queue that a rule gave and that cannot be made; the application shows it. Empty: no rule gave any.
        queue: String,
    },
}

/// The application's creation is forced: a tag says so, its key in any case (PLC-019).
pub fn is_forced(tags: &Texts) -> bool {
    let value = tag(tags, FORCE_TAG);
    matches!(value, Some("1" | "t" | "T" | "TRUE" | "true" | "True"))
}

/// Runs the rules in order; the first that gives an acceptable queue wins (PLC-001).
///
/// A rule that fails is passed over, so that it defeats neither later rules nor recovery; where nothing else is found
/// its error is the reason. A queue that cannot be made is passed over as well, for later rules and the default queue, but
/// not for recovery: without one of them the application is rejected, forced or not (PLC-035). A name of the recovery queue
/// is a rule that fails (PLC-044). An empty list is one that could not be built: everything is rejected (CFG-098, PLC-003).
pub fn place(rules: &[RuleConf], app: &Submission<'_>, queues: &dyn QueueLookup) -> QueuePlacement {
    if rules.is_empty() {
        return nowhere(reason::not_placed(app.app, reason::NO_MATCH));
    }
    let of = Evaluation { app, queues, may_submit: RefCell::default() };
    let mut failed = None;
    let mut not_created = None;
    for rule in rules {
        match run(rule, app, queues).map(|path| path.map(|path| of.accept(&path))) {
            Ok(Some(Accepted::Yes(placement))) => return placement,
            Ok(Some(Accepted::NotCreated { reason, queue })) => {
                not_created = not_created.or(Some(QueuePlacement::Rejected { reason, queue }));
            }
            Ok(Some(Accepted::Reserved(reason))) => failed = failed.or(Some(reason)),
            Ok(Some(Accepted::No) | None) => {}
            Err(cause) => failed = failed.or_else(|| Some(reason::not_placed(app.app, cause))),
        }
    }
    if app.forced {
        return not_created.unwrap_or(QueuePlacement::Recovery);
    }
    // It is never made for this (PLC-040).
    if queues.queue("root.default").is_some()
        && let Accepted::Yes(placement) = of.accept("root.default")
    {
        return placement;
    }
    if let Some(rejected) = not_created {
        return rejected;
    }
    nowhere(failed.unwrap_or_else(|| reason::not_placed(app.app, reason::NO_MATCH)))
}

fn nowhere(reason: String) -> QueuePlacement {
    QueuePlacement::Rejected { reason, queue: String::new() }
}

/// The path that a rule gives, `None` where it does not match.
fn run(rule: &RuleConf, app: &Submission<'_>, queues: &dyn QueueLookup) -> Result<Option<String>, String> {
    let input = match &rule.kind {
        RuleKind::Provided => app.queue,
        RuleKind::User => app.user,
        RuleKind::Fixed { queue, .. } => queue,
        RuleKind::Tag { name } => tag(app.tags, name).unwrap_or_default(),
    };
    let no_input = input.is_empty() && matches!(rule.kind, RuleKind::Provided | RuleKind::Tag { .. });
    if no_input || !rule.filter.admits(app.user, &app.groups) {
        return Ok(None);
    }
    let (qualified, name) = match &rule.kind {
        RuleKind::Provided | RuleKind::Tag { .. } if input.starts_with("root.") => (true, input.to_owned()),
        RuleKind::Provided | RuleKind::Tag { .. } | RuleKind::User => (false, input.replace('.', "_dot_")),
        RuleKind::Fixed { qualified, .. } => (*qualified, input.to_owned()),
    };
    if !name.split('.').all(is_queue_name) {
        return Err(INVALID_QUEUE_NAME.to_owned());
    }
    let path = match (&rule.parent, qualified) {
        (_, true) => name,
        (None, false) => format!("root.{name}"),
        (Some(parent), false) => match parent_path(parent, app, queues)? {
            Some(parent) => format!("{parent}.{name}"),
            None => return Ok(None),
        },
    };
    let levels = path.split('.').count();
    if levels > MAX_QUEUE_LEVELS {
        return Err(too_many_levels(levels));
    }
    let exists = queues.queue(&path.to_ascii_lowercase()).is_some();
    Ok((exists || rule.create).then_some(path))
}

/// What a parent rule gives, from root on (PLC-016).
fn parent_path(rule: &RuleConf, app: &Submission<'_>, queues: &dyn QueueLookup) -> Result<Option<String>, String> {
    let Some(path) = run(rule, app, queues)? else {
        return Ok(None);
    };
    debug_assert!(is_qualified(&path), "every rule gives a path from root on");
    match queues.queue(&path.to_ascii_lowercase()) {
        Some(queue) if queue.leaf => Err(reason::parent_is_leaf(&path)),
        _ => Ok(Some(path)),
    }
}

enum Accepted {
    Yes(QueuePlacement),
    No,
    /// The queue does not exist and cannot be made; with the whole reason.
    NotCreated {
        reason: String,
        queue: String,
    },
    /// The queue would have the name of the recovery queue; with the whole reason.
    Reserved(String),
}

impl Evaluation<'_, '_> {
    /// Tests what a rule gave (PLC-030–PLC-035, PLC-044).
    fn accept(&self, path: &str) -> Accepted {
        let (app, queues) = (self.app, self.queues);
        let key = path.to_ascii_lowercase();
        if let Some(queue) = queues.queue(&key) {
            // Only recovery itself may use the recovery queue (PLC-045).
            let usable = queue.leaf && !queue.draining && key != RECOVERY_QUEUE;
            return match usable && self.may_submit(&key) {
                true => Accepted::Yes(QueuePlacement::Existing { path: key }),
                false => Accepted::No,
            };
        }
        let mut ancestor = key.as_str();
        let status = loop {
            match ancestor.rsplit_once('.') {
                Some((above, _)) => ancestor = above,
                // Not even root is there.
                None => return Accepted::No,
            }
            if let Some(status) = queues.queue(ancestor) {
                break status;
            }
        };
        if !self.may_submit(ancestor) {
            return Accepted::No;
        }
        if key[ancestor.len()..].split('.').any(|name| name == RECOVERY_NAME) {
            return Accepted::Reserved(reason::not_created(app.app, path, reason::reserved_name()));
        }
        if status.leaf {
            let reason = reason::not_created(app.app, path, reason::below_leaf(path, ancestor));
            return Accepted::NotCreated { reason, queue: path.to_owned() };
        }
        if status.draining {
            let reason = reason::not_created(app.app, path, reason::below_draining(ancestor));
            return Accepted::NotCreated { reason, queue: path.to_owned() };
        }
        let ancestor = ancestor.to_owned();
        Accepted::Yes(QueuePlacement::Create { path: key, ancestor })
    }
}

/// Name of the recovery queue, which no ordinary dynamic queue may have at any level (PLC-044).
const RECOVERY_NAME: &str = "@recovery@";

/// A tag of an application by its name; where none has it as it is written, by one that differs in case.
pub(crate) fn tag<'a>(tags: &'a Texts, name: &str) -> Option<&'a str> {
    let in_any_case = || tags.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value);
    tags.get(name).or_else(in_any_case).map(String::as_str)
}

#[cfg(test)]
mod tests;
