//! The state of targets as JSON.

use std::{collections::BTreeMap, sync::Arc};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{
    domain::{hostlist::HostList, idset::IdSet, journal::Target, types::Nanos},
    http::api::overdue::OverdueDrains,
    messages::journal::Status,
};

/// Targets as an idset and their hosts.
#[derive(Serialize, JsonSchema)]
struct Targets {
    idset: String,
    nodelist: String,
}

/// Targets that were drained together.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DrainedTargets")]
#[serde(rename_all = "camelCase")]
struct Drained {
    idset: String,
    nodelist: String,
    timestamp: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Arc<str>>,
    /// What an operator gave as the reason, where it is another: the resource manager had drained them before.
    #[serde(skip_serializing_if = "Option::is_none")]
    operator_reason: Option<Arc<str>>,
    /// When they were to be empty, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline: Option<f64>,
    by: Vec<&'static str>,
}

/// The answer.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ResourceStatus")]
pub struct Body<'a> {
    all: Targets,
    online: Targets,
    offline: Targets,
    torpid: Targets,
    allocated: Targets,
    drained: Vec<Drained>,
    /// What still runs where the deadline has passed.
    overdue: &'a OverdueDrains,
    streams: usize,
    faults: &'a [String],
    #[serde(rename = "R", skip_serializing_if = "Option::is_none")]
    r: Option<&'a RawValue>,
}

/// The text of a status. `allocated` tells whether a node has allocations.
pub fn text(status: &Status, overdue: &OverdueDrains, allocated: impl Fn(&str) -> bool) -> String {
    let pick = |which: &dyn Fn(&Target) -> bool| targets(status.targets.iter().filter(|target| which(target)));
    let body = Body {
        all: pick(&|_| true),
        online: pick(&|target| target.online),
        offline: pick(&|target| !target.online),
        torpid: pick(&|target| target.torpid),
        allocated: pick(&|target| target.online && target.node.as_deref().is_some_and(&allocated)),
        drained: drained(&status.targets),
        overdue,
        streams: status.streams,
        faults: &status.faults,
        r: serde_json::from_str(&status.r).ok(),
    };
    // Text, numbers and JSON that was read before: this cannot fail.
    serde_json::to_string(&body).unwrap_or_default()
}

fn targets<'a>(which: impl Iterator<Item = &'a Target>) -> Targets {
    let (mut idset, mut nodelist) = (IdSet::new(), HostList::new());
    for target in which {
        idset.insert(target.rank);
        nodelist.push(&target.host);
    }
    Targets { idset: idset.to_string(), nodelist: nodelist.to_string() }
}

/// One entry for targets of the same time, reasons, origin and deadline, by time: what was drained together stays together.
fn drained(all: &[Target]) -> Vec<Drained> {
    let mut groups: BTreeMap<_, Vec<&Target>> = BTreeMap::new();
    for target in all {
        if let Some(drain) = &target.drain {
            let own = drain.operator.clone().flatten().filter(|own| Some(own) != drain.reason.as_ref());
            let by = (drain.operator.is_some(), drain.rm);
            let key = (micros(drain.since), drain.reason.clone(), own, by, drain.deadline);
            groups.entry(key).or_default().push(target);
        }
    }
    let entries = groups.into_iter().map(|((since, reason, operator_reason, (operator, rm), deadline), members)| {
        let Targets { idset, nodelist } = targets(members.into_iter());
        let by = [(operator, "operator"), (rm, "rm")].into_iter().filter(|(by, _)| *by).map(|(_, name)| name).collect();
        let deadline = deadline.map(|deadline| micros(deadline) as f64 / 1e6);
        Drained { idset, nodelist, timestamp: since as f64 / 1e6, reason, operator_reason, deadline, by }
    });
    entries.collect()
}

/// Microseconds, as the log has them.
fn micros(at: Nanos) -> i64 {
    at.0.div_euclid(1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::journal::DrainState;

    #[test]
    fn targets_are_grouped_by_what_they_are() {
        let target = |rank: u32, online, drain| Target {
            rank,
            host: format!("n{rank}").into(),
            node: Some(format!("node-{rank}").into()),
            online,
            torpid: rank == 1,
            drain,
        };
        let drain = |since, reason: Option<&str>, rm: bool| {
            Some(DrainState {
                since: Nanos(since),
                reason: reason.map(Into::into),
                operator: (!rm).then_some(None),
                rm,
                deadline: (!rm).then_some(Nanos(1_733_970_000_500_000_000)),
            })
        };
        let status = Status {
            targets: vec![
                target(0, true, drain(1_733_965_155_627_216_000, Some("disk"), false)),
                target(1, true, drain(1_733_965_155_627_216_999, Some("disk"), false)),
                target(2, true, None),
                target(3, false, drain(2_000_000_000, None, true)),
            ],
            r: r#"{"version":1}"#.into(),
            streams: 2,
            faults: vec!["a fault".to_owned()],
        };
        let text = text(&status, &OverdueDrains::default(), |node| node == "node-2" || node == "node-3");
        let expected = concat!(
            r#"{"all":{"idset":"0-3","nodelist":"n[0-3]"},"online":{"idset":"0-2","nodelist":"n[0-2]"},"#,
            r#""offline":{"idset":"3","nodelist":"n3"},"torpid":{"idset":"1","nodelist":"n1"},"#,
            r#""allocated":{"idset":"2","nodelist":"n2"},"drained":["#,
            r#"{"idset":"3","nodelist":"n3","timestamp":2.0,"by":["rm"]},"#,
            r#"{"idset":"0-1","nodelist":"n[0-1]","timestamp":1733965155.627216,"reason":"disk","#,
            r#""deadline":1733970000.5,"by":["operator"]}],"overdue":{"count":0,"nodes":[]},"#,
            r#""streams":2,"faults":["a fault"],"R":{"version":1}}"#,
        );
        assert_eq!(text, expected);
    }
}
