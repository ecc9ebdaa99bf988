use std::time::Duration;

use super::*;
use crate::messages::{event::Publisher, recorded::Outlet};

fn nowhere() -> Publisher {
    struct Nobody;
    impl actix::Actor for Nobody {
        type Context = actix::Context<Self>;
    }
    impl actix::Handler<crate::messages::event::Publish> for Nobody {
        type Result = ();
        fn handle(&mut self, _msg: crate::messages::event::Publish, _ctx: &mut Self::Context) {}
    }
    use actix::Actor as _;
    Nobody.start().recipient().into()
}

#[actix::test]
async fn the_record_of_a_partition_is_read_as_it_was_written() {
    let entry = |beginning: Option<Vec<u8>>, last| Entry {
        instance: 3,
        number: 300,
        at: Nanos(9),
        beginning,
        steps: vec![1, 2, 3],
        digest: u64::MAX - 7,
        events: 0,
        took: Duration::ZERO,
        last,
        permits: Vec::new(),
        outlet: Outlet::new(nowhere()),
    };
    let both = Taken {
        requests: vec![(7, 1), (1 << 50, 3)],
        keyed: vec![((u64::MAX, 1), (1 << 40, u32::MAX), 1), ((2, 3), (4, 5), 6)],
    };
    for (beginning, last, handed, taken) in
        [(None, false, None, Taken::default()), (Some(vec![9; 200]), true, Some([1, 2, 3, 1 << 40]), both)]
    {
        let mut bytes = Vec::new();
        steps(&entry(beginning.clone(), last), Predicates::Batch, handed, &taken, &mut bytes);
        let read = read_steps(&bytes).unwrap();
        assert_eq!((read.instance, read.number, read.last, read.asks), (3, 300, last, Predicates::Batch));
        assert_eq!((read.digest, read.handed, &read.requests), (u64::MAX - 7, handed, &taken.requests));
        assert_eq!(read.keyed, taken.keyed);
        assert_eq!((read.beginning, read.steps), (beginning.as_deref(), &[1, 2, 3][..]));
        for length in 0..bytes.len() - 3 {
            assert!(read_steps(&bytes[..length]).is_err(), "{length}");
        }
    }
}

#[test]
fn numbered_requests_count_with_all_of_their_parts_and_in_order() {
    let (one, other) = (PartOf::Partition(0), PartOf::Session);
    let mut numbers = Numbers::default();
    numbers.note(&[(1, 2), (2, 1)], one);
    assert_eq!(numbers.taken, 0);
    // The same part once more, as after a kill, is no other part.
    let mut numbers: Numbers = read_json(&json(&numbers)).unwrap();
    numbers.note(&[(1, 2)], one);
    assert_eq!((numbers.taken, &numbers.recorded[&1]), (0, &PartsOf::from([one])));
    numbers.note(&[(1, 2)], other);
    assert_eq!((numbers.taken, numbers.recorded.len()), (2, 0));
    numbers.note(&[(1, 2), (4, 1)], other);
    assert_eq!(numbers.taken, 2);
    let mut numbers: Numbers = read_json(&json(&numbers)).unwrap();
    numbers.note(&[(3, 1)], one);
    assert_eq!(numbers.taken, 4);
    // An earlier release counted one of two.
    let mut old: Numbers = read_json(br#"{"taken":6,"parts":{"7":[1,2]}}"#).unwrap();
    old.note(&[(7, 2)], one);
    assert_eq!(old.taken, 7);
    numbers.refuse((4, "why".into()));
    let again: Numbers = read_json(&json(&numbers)).unwrap();
    assert_eq!(again, numbers, "what was refused stays known");
}

#[test]
fn what_conversations_know_is_in_a_snapshot() {
    let mut talks = Talks::default();
    let release = Released {
        key: "k".into(),
        app: "a".into(),
        termination: Termination::Preempted,
        message: "m".into(),
        confirm: true,
    };
    let row = UnconfirmedRelease { release, since: Nanos(5), age: Nanos::ZERO, sent: 3 };
    talks.apps.insert("a".into());
    talks.unconfirmed.insert(("a".into(), "k".into(), Termination::Preempted), row);
    let refusals = [AppRefusal { at: Nanos(1), app: "b".into(), reason: "full".into() }].into();
    talks.queues.insert("root.a".into(), Admissions { admitted: 4, refused: 1, refusals });
    let bytes = SavedPartition::of(1, 2, Nanos(3), talks.clone()).with(b"partition");
    let (saved, partition) = SavedPartition::read(&bytes).unwrap();
    assert_eq!((saved.instance, saved.number, saved.at, partition), (1, 2, 3, &b"partition"[..]));
    assert_eq!(format!("{:?}", saved.talks().unwrap()), format!("{talks:?}"));
    assert!(SavedPartition::read(&bytes[..20]).is_err());
}

#[test]
fn callbacks_and_questions_are_read_as_they_were_written() {
    let callbacks = [
        Callback::RejectedNode { node: "n".into(), reason: "why".into() },
        Callback::RejectedAllocation { key: "k".into(), app: "a".into(), reason: "why".into() },
    ];
    let read: Said = read_json(&said(&"[rm]p".into(), &callbacks)).unwrap();
    let again: Vec<_> = read.callbacks.into_iter().map(|one| one.callback().unwrap()).collect();
    assert_eq!(format!("{again:?}"), format!("{callbacks:?}"));
    let kind = QuestionKind::FitsWithout { victims: vec!["v".into()], start: -1 };
    let question = Question { id: 4, key: "k".into(), node: "n".into(), more: vec!["m".into()], kind, together: true };
    let saved: SavedQuestion =
        read_json(&json(&SavedQuestion::of(&"[rm]p".into(), 9, Predicates::Several, &question))).unwrap();
    assert_eq!((saved.line, saved.asks()), (9, Predicates::Several));
    assert_eq!(format!("{:?}", saved.question()), format!("{question:?}"));
    // Whatever the shim takes, victims are asked about one by one.
    let again = crate::actors::rm::replay::Open {
        partition: "[rm]p".into(),
        questions: vec![question],
        asks: Predicates::Batch,
    };
    assert!(matches!(&*again.payloads(), [crate::messages::rm::Payload::Ask(_)]));
}
