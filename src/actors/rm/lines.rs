//! From callbacks to lines: consecutive entries of one kind become one line, and none is reordered.

use crate::{
    domain::effect::{Callback, ContainerState, Question, QuestionKind},
    messages::rm::{Outgoing, Payload, Predicates, Rejected, Updated},
};

use super::buffer::{LINE_BYTES, LINE_ENTRIES, texts};

/// Nodes that the questions of a line name at most, where it has several.
const SEVERAL_NODES: usize = 1024;

/// Leaves out what the shim does not want (SEEDS S7).
pub fn wanted(mut items: Vec<Outgoing>, all_container_states: bool) -> Vec<Outgoing> {
    if !all_container_states {
        items.retain(|item| {
            !matches!(
                item,
                Outgoing::Callback(Callback::ContainerState {
                    state: ContainerState::Scheduled | ContainerState::Reserved,
                    ..
                })
            )
        });
    }
    items
}

/// The shim has to confirm something of it.
pub fn wants_confirmation(payload: &Payload) -> bool {
    matches!(payload, Payload::Released(list) if list.iter().any(|released| released.confirm))
}

/// Groups what one partition delivered.
pub fn group(items: Vec<Outgoing>, predicates: Predicates) -> Vec<Payload> {
    let mut payloads: Vec<Payload> = Vec::new();
    let mut bytes = 0;
    for item in items {
        let size = match &item {
            Outgoing::Callback(callback) => texts(callback),
            Outgoing::Ask(_) => 0,
        };
        bytes += size;
        let room = |last: &&mut Payload| match last {
            Payload::AskSeveral(_) => true,
            _ => last.entries() < LINE_ENTRIES && bytes <= LINE_BYTES,
        };
        let last = payloads.last_mut().filter(room);
        let next = match item {
            Outgoing::Callback(callback) => add(last, callback),
            Outgoing::Ask(question) => ask(last, question, predicates),
        };
        if next.is_some() {
            bytes = size;
        }
        payloads.extend(next);
    }
    payloads
}

/// Adds to the open payload, or gives one to begin with.
fn add(last: Option<&mut Payload>, callback: Callback) -> Option<Payload> {
    match (callback, last) {
        (Callback::New(new), Some(Payload::New(list))) => list.push(new),
        (Callback::New(new), _) => return Some(Payload::New(vec![new])),
        (Callback::Released(released), Some(Payload::Released(list))) => list.push(released),
        (Callback::Released(released), _) => return Some(Payload::Released(vec![released])),
        (Callback::RejectedAllocation { key, app, reason }, last) => {
            let entry = Rejected { key, app, reason };
            match last {
                Some(Payload::RejectedAllocations(list)) => list.push(entry),
                _ => return Some(Payload::RejectedAllocations(vec![entry])),
            }
        }
        // Accepted and rejected ones of a request are one response (R1.30, R1.31).
        (Callback::AcceptedApplication(app), Some(Payload::Applications { accepted, .. })) => accepted.push(app),
        (Callback::AcceptedApplication(app), _) => {
            return Some(Payload::Applications { accepted: vec![app], rejected: vec![] });
        }
        (Callback::RejectedApplication { app, reason }, last) => {
            let entry = Rejected { key: "".into(), app, reason };
            match last {
                Some(Payload::Applications { rejected, .. }) => rejected.push(entry),
                _ => return Some(Payload::Applications { accepted: vec![], rejected: vec![entry] }),
            }
        }
        (Callback::UpdatedApplication { app, state, at, message }, last) => {
            let entry = Updated { app, state, at, message };
            match last {
                Some(Payload::UpdatedApplications(list)) => list.push(entry),
                _ => return Some(Payload::UpdatedApplications(vec![entry])),
            }
        }
        (Callback::AcceptedNode(node), Some(Payload::Nodes { accepted, .. })) => accepted.push(node),
        (Callback::AcceptedNode(node), _) => {
            return Some(Payload::Nodes { accepted: vec![node], rejected: vec![] });
        }
        (Callback::RejectedNode { node, reason }, last) => {
            let entry = Rejected { key: node, app: "".into(), reason };
            match last {
                Some(Payload::Nodes { rejected, .. }) => rejected.push(entry),
                _ => return Some(Payload::Nodes { accepted: vec![], rejected: vec![entry] }),
            }
        }
        (Callback::ContainerState { app, key, state, reason }, _) => {
            return Some(Payload::ContainerState { app, key, state, reason });
        }
    }
    None
}

/// As `add`, for a question.
fn ask(last: Option<&mut Payload>, question: Question, predicates: Predicates) -> Option<Payload> {
    let fits = matches!(question.kind, QuestionKind::Fits { .. });
    match (predicates, last) {
        (Predicates::Several, Some(Payload::AskSeveral(list)))
            if question.together
                && list.iter().map(Question::nodes).sum::<usize>() + question.nodes() <= SEVERAL_NODES =>
        {
            list.push(question);
            None
        }
        (Predicates::Several, _) if question.together => Some(Payload::AskSeveral(vec![question])),
        (Predicates::Several | Predicates::Batch, _) if fits => Some(Payload::AskBatch(question)),
        // It was meant for a stream that took several nodes at a time: the first is asked about.
        _ => Some(Payload::Ask(Question { more: Vec::new(), ..question })),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::domain::{
        alloc::AskSpec,
        effect::{NewAllocation, Released},
        types::Termination,
    };

    fn accepted(n: usize) -> Outgoing {
        Outgoing::Callback(Callback::AcceptedNode(format!("n{n}").into()))
    }

    fn released(key: &str) -> Outgoing {
        Outgoing::Callback(Callback::Released(Box::new(Released {
            key: key.into(),
            app: "a".into(),
            termination: Termination::StoppedByRm,
            message: "".into(),
            confirm: false,
        })))
    }

    fn question(key: &str, node: &str) -> Outgoing {
        Outgoing::Ask(Question {
            together: key != "alone",
            id: 1,
            key: key.into(),
            node: node.into(),
            more: vec!["n8".into(), "n9".into()],
            kind: QuestionKind::Fits { allocate: true },
        })
    }

    #[test]
    fn consecutive_entries_of_one_kind_share_a_line_of_256() {
        // R1.24, R1.28, SEEDS S26
        let items: Vec<Outgoing> = (0..300).map(accepted).chain([released("k")]).chain([accepted(300)]).collect();
        let sizes: Vec<usize> = group(items, Predicates::Off).iter().map(Payload::entries).collect();
        assert_eq!(sizes, [256, 44, 1, 1]);
    }

    #[test]
    fn a_line_gathers_a_megabyte_of_texts_at_most() {
        // SEEDS S26, S36: tags may be long, and a client refuses messages that are.
        let new = |bytes: usize| {
            let tags = [("note".to_owned(), "x".repeat(bytes))].into();
            let spec = Arc::new(AskSpec { key: "k".into(), tags, ..AskSpec::default() });
            let (app, node, resource) = ("a".into(), "n".into(), Arc::default());
            Outgoing::Callback(Callback::New(Box::new(NewAllocation { spec, app, node, resource })))
        };
        let sizes = |lengths: &[usize]| {
            let items = lengths.iter().map(|bytes| new(*bytes)).collect();
            group(items, Predicates::Off).iter().map(Payload::entries).collect::<Vec<_>>()
        };
        assert_eq!(sizes(&[400_000; 5]), [2, 2, 1]);
        assert_eq!(sizes(&[10, 2_000_000, 10, 10]), [1, 1, 2], "one that is larger has a line of its own");
    }

    #[test]
    fn releases_and_rejections_are_different_kinds() {
        // R1.28
        let rejected =
            Outgoing::Callback(Callback::RejectedAllocation { key: "k".into(), app: "a".into(), reason: "".into() });
        let payloads = group(vec![released("k"), rejected, released("l")], Predicates::Off);
        assert!(matches!(payloads[..], [Payload::Released(_), Payload::RejectedAllocations(_), Payload::Released(_)]));
    }

    #[test]
    fn accepted_and_rejected_applications_are_one_response() {
        // R1.30
        let answers = vec![
            Outgoing::Callback(Callback::AcceptedApplication("a".into())),
            Outgoing::Callback(Callback::RejectedApplication { app: "b".into(), reason: "".into() }),
            Outgoing::Callback(Callback::AcceptedApplication("c".into())),
        ];
        let payloads = group(answers, Predicates::Off);
        let [Payload::Applications { accepted, rejected }] = &payloads[..] else { panic!("{payloads:?}") };
        assert_eq!(accepted, &[Arc::from("a"), Arc::from("c")]);
        assert_eq!(&*rejected[0].app, "b");
    }

    #[test]
    fn a_question_names_several_nodes_only_where_the_shim_answers_for_them() {
        let items = || vec![question("a", "n1"), question("b", "n1")];
        let sizes = |predicates| group(items(), predicates).iter().map(Payload::entries).collect::<Vec<_>>();
        assert_eq!(sizes(Predicates::Single), [1, 1]);
        assert_eq!(sizes(Predicates::Batch), [3, 3]);
        assert_eq!(sizes(Predicates::Several), [6]);
    }

    #[test]
    fn unconstrained_asks_share_a_line_up_to_its_bound() {
        let shown = |items| {
            let shown = |payload: &Payload| match payload {
                Payload::AskSeveral(list) => format!("{} together", list.len()),
                Payload::AskBatch(_) => "alone".to_owned(),
                other => format!("{other:?}"),
            };
            group(items, Predicates::Several).iter().map(shown).collect::<Vec<_>>()
        };
        let together = |count: usize| (0..count).map(|n| question(&n.to_string(), "n"));
        let alone = || question("alone", "n");
        assert_eq!(shown(together(1).collect()), ["1 together"]);
        assert_eq!(
            shown(together(2).chain([alone(), alone()]).chain(together(2)).collect()),
            ["2 together", "alone", "alone", "2 together"]
        );
        let fit = SEVERAL_NODES / 3;
        assert_eq!(shown(together(fit + 2).collect()), [format!("{fit} together"), "2 together".to_owned()]);
    }
}
