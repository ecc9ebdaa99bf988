//! The way of an application into a queue: placement, creation of queues, limits from tags, gang checks.

use std::{fmt, sync::Arc};

use serde_core::{
    Deserializer as _,
    de::{Error as _, MapAccess, Visitor},
};
use serde_json::{Deserializer, value::RawValue};

use super::{Cx, Partition, queues::effective};
use crate::{
    acl::Groups,
    app::App,
    command::AddApplication,
    event::{Change, Detail, EventKind},
    placement::{self, QueueLookup, QueuePlacement, QueueStatus, Submission, reason, tag},
    queue::RECOVERY_QUEUE,
    resources::{MAX_TYPES, Resource, ResourceType, Shown, min_limit},
    settings::unsigned,
    sorted::Texts,
    types::{ObjectState, QueueIx},
};

/// Quota tags of a namespace (R3.34).
const TAG_MAX: &str = "namespace.resourcequota";
const TAG_GUARANTEED: &str = "namespace.resourceguaranteed";
const TAG_MAX_APPS: &str = "namespace.resourcemaxapps";

impl QueueLookup for Partition {
    fn queue(&self, path: &str) -> Option<QueueStatus> {
        let row = &self.queues[*self.queue_by_path.get(path)?];
        Some(QueueStatus { leaf: row.leaf, draining: row.state == ObjectState::Draining })
    }

    fn lets_submit(&self, path: &str, user: &str, groups: &Groups<'_>) -> bool {
        self.queue_by_path.get(path).is_some_and(|queue| {
            let row = &self.queues[*queue];
            row.submit_acl.allows(user, groups) || row.admin_acl.allows(user, groups)
        })
    }
}

impl Partition {
    /// The queue of a submission, made where the rules say so; the error is the reason of the rejection.
    pub(super) fn place_application(
        &mut self,
        item: &AddApplication,
        row: &mut App,
        cx: &mut Cx,
    ) -> Result<QueueIx, Arc<str>> {
        let submission = Submission {
            app: &item.id,
            queue: &item.queue,
            user: &row.user,
            groups: Groups::new(&row.groups),
            tags: &item.tags,
            forced: row.forced,
        };
        let path = match placement::place(&self.conf.rules, &submission, self) {
            QueuePlacement::Rejected { reason, queue } => {
                row.queue_path = queue.into();
                return Err(reason.into());
            }
            QueuePlacement::Existing { path } | QueuePlacement::Create { path, .. } => path,
            QueuePlacement::Recovery => RECOVERY_QUEUE.to_owned(),
        };
        // What runs already is taken wherever it comes from (R3.28).
        if let Some(reason) = self.refused_by_order(&path).filter(|_| !row.forced) {
            row.queue_path = path.into();
            return Err(reason);
        }
        let ix = match self.queue_by_path.get(path.as_str()).copied() {
            Some(ix) => Some(ix),
            None => self.add_dynamic(&path, cx),
        };
        ix.filter(|ix| self.queues[*ix].leaf).ok_or_else(|| reason::not_found(&item.id, &path).into())
    }

    /// Limits that the tags of a submission set on its dynamic queue; each tag sets only what it carries (R3.35, QUE-045,
    /// section 12 item 8).
    pub(super) fn apply_tags(&mut self, ix: QueueIx, tags: &Texts, cx: &mut Cx) {
        let row = &self.queues[ix];
        if row.managed || *row.path == *RECOVERY_QUEUE {
            return;
        }
        let path = row.path.clone();
        let max_apps = tag(tags, TAG_MAX_APPS).and_then(unsigned).filter(|max| *max > 0);
        if let Some(max) = max_apps.filter(|max| *max != self.queues[ix].max_applications) {
            self.queues[ix].max_applications = max;
            self.unblock_limits();
        }
        let quota = |key| tag(tags, key).and_then(quota_of_json).filter(Resource::is_positive).map(Arc::new);
        let (max, guaranteed) = (quota(TAG_MAX), quota(TAG_GUARANTEED));
        let row = &self.queues[ix];
        let differs = |new: &Option<Arc<Resource>>, old: &Option<Arc<Resource>>| new.is_some() && new != old;
        let changes = differs(&max, &row.max) || differs(&guaranteed, &row.guaranteed);
        if max.is_some() {
            self.set_max(ix, max, &path, cx);
        }
        if guaranteed.is_some() {
            self.set_guaranteed(ix, guaranteed, &path, cx);
        }
        if changes {
            self.tell_of_guarantee_above_max(ix, &path, cx);
        }
    }

    /// A configuration with such quotas is refused (CFG-041). A submission is not (QUE-045): it may be none of its user's doing.
    fn tell_of_guarantee_above_max(&self, ix: QueueIx, path: &Arc<str>, cx: &mut Cx) {
        let row = &self.queues[ix];
        if let (Some(max), Some(guaranteed)) = (&row.max, &row.guaranteed)
            && !max.fits_or_unlimited(guaranteed)
        {
            let text = format!("guaranteed resource {guaranteed} is larger than maximum resource {max}, which counts");
            cx.message(EventKind::Queue, path, &"".into(), (Change::Set, Detail::QueueConfig), &text, None);
        }
    }

    /// A new max, with its event where it differs (EVT-043, EVT-048).
    pub(super) fn set_max(&mut self, ix: QueueIx, max: Option<Arc<Resource>>, path: &Arc<str>, cx: &mut Cx) {
        let row = &mut self.queues[ix];
        if row.max.clone().unwrap_or_default() != max.clone().unwrap_or_default() {
            let shown = max.clone().unwrap_or_default();
            cx.message(EventKind::Queue, path, &"".into(), (Change::Set, Detail::QueueMax), "", Some(shown));
        }
        let max = effective(max);
        if std::mem::replace(&mut row.max, max.clone()) == max {
            return;
        }
        self.shares_changed(ix);
        self.unblock_limits();
        self.squeezed(cx.now);
    }

    /// A new guarantee, with its event where it differs (EVT-044).
    pub(super) fn set_guaranteed(
        &mut self,
        ix: QueueIx,
        guaranteed: Option<Arc<Resource>>,
        path: &Arc<str>,
        cx: &mut Cx,
    ) {
        let row = &mut self.queues[ix];
        if row.guaranteed.clone().unwrap_or_default() != guaranteed.clone().unwrap_or_default() {
            let shown = guaranteed.clone().unwrap_or_default();
            cx.message(EventKind::Queue, path, &"".into(), (Change::Set, Detail::QueueGuaranteed), "", Some(shown));
        }
        let guaranteed = effective(guaranteed);
        if std::mem::replace(&mut row.guaranteed, guaranteed.clone()) != guaranteed {
            self.shares_changed(ix);
        }
    }

    /// What shares are parts of has changed: the place of a queue, and of its applications where they are sorted by them
    /// (QUE-075).
    fn shares_changed(&mut self, ix: QueueIx) {
        self.touch_queue(ix);
        if self.queues[ix].settings.sort_fair {
            for app in self.queues[ix].apps.iter().copied().collect::<Vec<_>>() {
                self.touch_app(app);
            }
        }
    }

    /// A gang needs a fifo leaf and a total that its queues can hold (R3.37, QUE-047); what runs already is taken, whatever they may
    /// hold by now (R3.28).
    pub(super) fn check_gang(&self, ix: QueueIx, app: &App) -> Result<(), Arc<str>> {
        let Some(ask) = app.gang.placeholder_ask.as_ref().filter(|_| !app.forced) else { return Ok(()) };
        let row = &self.queues[ix];
        if row.settings.sort_fair {
            return Err(format!(
                "queue {} cannot run application {} with task group request: unsupported sort type",
                row.path, app.id
            )
            .into());
        }
        let max = self.configured_max(ix);
        if max.as_ref().is_some_and(|max| !max.fits_or_unlimited(ask)) {
            return Err(format!(
                "queue {} cannot fit application {}: task group request {ask} larger than max queue allocation {}",
                row.path,
                app.id,
                Shown(max.as_ref())
            )
            .into());
        }
        Ok(())
    }

    /// The smallest max on the path, root left out (QUE-024).
    pub(super) fn configured_max(&self, queue: QueueIx) -> Option<Resource> {
        let mut max = None;
        for ix in self.path(queue).filter(|ix| *ix != self.root) {
            max = min_limit(self.queues[ix].max.as_deref(), max.as_ref());
        }
        max
    }
}

/// Reads the JSON form of a quota tag: `{"resources":{"memory":{"value":7}}}`, values as numbers or texts. As shims are used
/// to, keys are compared without case and what is not known is passed over (QUE-045).
fn quota_of_json(text: &str) -> Option<Resource> {
    let mut quota = Resource::new();
    each_member(text, |key, types| {
        if !key.eq_ignore_ascii_case("resources") {
            return Some(());
        }
        each_member(types, |name, quantity| {
            let kind = ResourceType::new(name).filter(|_| quota.len() < MAX_TYPES)?;
            let mut value = 0;
            each_member(quantity, |key, number| {
                if key.eq_ignore_ascii_case("value") {
                    value = number_of(number, value)?;
                }
                Some(())
            })?;
            quota.set(kind, i128::from(value));
            Some(())
        })
    })?;
    Some(quota)
}

/// A number, or a text of one; where it is `null` that of before holds.
fn number_of(json: &str, before: i64) -> Option<i64> {
    match serde_json::from_str::<Option<i64>>(json) {
        Ok(number) => Some(number.unwrap_or(before)),
        Err(_) => serde_json::from_str::<String>(json).ok()?.parse().ok(),
    }
}

/// Hands out the members of an object, each with the text of its value; nothing is kept of them, so that a large text takes no
/// more memory. `null` is an object without any. `None`: the text is something else, or `each` did not take a member.
fn each_member(json: &str, each: impl FnMut(&str, &str) -> Option<()>) -> Option<()> {
    let mut from = Deserializer::from_str(json);
    from.deserialize_any(Members(each)).ok()?;
    from.end().ok()
}

struct Members<F>(F);

impl<'de, F: FnMut(&str, &str) -> Option<()>> Visitor<'de> for Members<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<(), A::Error> {
        while let Some((key, value)) = members.next_entry::<String, &RawValue>()? {
            (self.0)(&key, value.get()).ok_or_else(|| A::Error::custom("not taken"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quota_tags_are_read_or_ignored() {
        // R3.34, RES-011
        let read = |text: &str| quota_of_json(text);
        assert_eq!(read(r#"{"resources":{"vcore":{"value":111}}}"#), Some(Resource::of(&[("vcore", 111)])));
        assert_eq!(
            read(r#" { "resources" : { "memory":{"value":"7"} , "vcore":{"value":-2} } } "#),
            Some(Resource::of(&[("memory", 7), ("vcore", -2)]))
        );
        assert_eq!(read(r#"{"resources":{}}"#), Some(Resource::new()));
        let many = |count: usize| {
            let types: Vec<_> = (0..count).map(|n| format!(r#""x/{n}":{{"value":1}}"#)).collect();
            format!(r#"{{"resources":{{{}}}}}"#, types.join(","))
        };
        assert_eq!(read(&many(1000)).map(|quota| quota.len()), Some(1000));
        let long = format!(r#"{{"resources":{{"{}":{{"value":1}}}}}}"#, "x".repeat(254));
        assert!(read(&many(1001)).is_none() && read(&long).is_none());
        // QUE-045: what is good JSON of that form is read, whatever stands beside it.
        for good in [
            r#"{"resources":{"memory":{"value":7}},"x":[1.5,{"y":null}]}"#,
            r#"{"Resources":{"memory":{"VALUE":7,"unit":"B"}}}"#,
            r#"{"resources":{"m\u0065mory":{"value":7}}}"#,
            r#"{"resources":{"memory":{"value":7}},"RESOURCES":null}"#,
        ] {
            assert_eq!(read(good), Some(Resource::of(&[("memory", 7)])), "{good}");
        }
        let unset = r#"{"resources":{"memory":{"value":7},"vcore":null,"gpu":{"value":null}}}"#;
        assert_eq!(read(unset), Some(Resource::of(&[("memory", 7), ("vcore", 0), ("gpu", 0)])));
        assert!(["null", "{}", r#"{"x":{}}"#].iter().all(|empty| read(empty) == Some(Resource::new())));
        let bad = [
            "",
            "{",
            "7",
            r#"{"resources":{"memory":7}}"#,
            r#"{"resources":{}} x"#,
            r#"{"resources":{"memory":{"value":1.5}}}"#,
            r#"{"resources":{"memory":{"value":9223372036854775808}}}"#,
            r#"{"resources":[]}"#,
        ];
        for bad in bad {
            assert!(read(bad).is_none(), "{bad}");
        }
    }
}
