//! Usage over time from the log, as the door reads it: from disk and memory, over restarts, losses and times without events.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc, time::Duration};

use actix::prelude::*;

use super::{EventActor, now};
use crate::{
    domain::{
        event::{Change, Detail, Event, EventKind},
        event_settings::{EventSettings, StoreSettings},
        resources::{MEMORY, Resource},
        types::Nanos,
        ugm::Who,
        usage::{By, Gap, History, Line, Question, UsageKey, UsagePiece},
    },
    messages::event::{ApplyEventSettings, Intake, Publish, ReadUsage, Stands, StopEvents, ToEvents},
};

const PARTITION: &str = "[rm-1]default";

fn settings(ring: u64, max_events: u64) -> EventSettings {
    let store = StoreSettings { max_events, max_age: Nanos::ZERO, ..StoreSettings::default() };
    EventSettings { ring_capacity: ring, store, ..EventSettings::default() }
}

fn event(user: &str, change: Change, amount: i64, at: Nanos) -> Event {
    Event {
        kind: EventKind::UserGroup,
        object: user.into(),
        reference: "root.a".into(),
        change,
        detail: Detail::UserResource,
        message: Default::default(),
        resource: Some(Arc::new(Resource::of(&[("memory", amount)]))),
        at,
        partition: PARTITION.into(),
    }
}

fn add(user: &str, amount: i64, at: Nanos) -> Event {
    event(user, Change::Add, amount, at)
}

fn remove(user: &str, amount: i64, at: Nanos) -> Event {
    event(user, Change::Remove, amount, at)
}

/// Events that change nothing in the end: an allocation of `noise` that lasts no time.
fn noise(count: usize, at: Nanos) -> Vec<Event> {
    (0..count).flat_map(|_| [add("noise", 7, at), remove("noise", 7, at)]).collect()
}

fn publish(actor: &Addr<EventActor>, events: Vec<Event>) {
    actor.do_send(Publish { rm: "rm-1".into(), epoch: 1, events, traced: Vec::new(), first: None });
}

/// Amount × nanoseconds by user, and the gaps.
async fn used(actor: &Addr<EventActor>, since: Option<Nanos>, until: Nanos) -> (BTreeMap<String, i128>, Vec<Gap>) {
    told(actor, since, until, false).await
}

/// The same, of a log or not.
async fn told(
    actor: &Addr<EventActor>,
    since: Option<Nanos>,
    until: Nanos,
    of_logs: bool,
) -> (BTreeMap<String, i128>, Vec<Gap>) {
    let partition = PARTITION.into();
    let question = Question { partition, by: By::User, queue: None, since, until, step: None, of_logs };
    let mut history = History::new(question);
    let (mut from, mut lines) = (None, Vec::new());
    loop {
        let since = since.unwrap_or(Nanos(i64::MIN));
        let page = actor.send(ReadUsage { from, since, events: 10 }).await.unwrap().unwrap();
        for piece in &page.pieces {
            history.take(piece);
            match piece {
                UsagePiece::Log(piece) => from = Some(piece.end()),
                UsagePiece::Point(point) => from = from.or(Some(point.id)),
            }
        }
        lines.extend(history.lines(usize::MAX));
        if page.last || history.is_over() {
            break;
        }
    }
    history.finish();
    lines.extend(history.lines(usize::MAX));
    let (mut sums, mut gaps) = (BTreeMap::new(), Vec::new());
    for line in lines {
        match line {
            Line::Share(share) => assert!(sums.insert(share.name.to_string(), share.used.amount(&MEMORY)).is_none()),
            Line::Gap(gap) => gaps.push(gap),
        }
    }
    assert_eq!(history.is_complete(), gaps.is_empty());
    (sums, gaps)
}

fn sums(of: &[(&str, i128)]) -> BTreeMap<String, i128> {
    of.iter().map(|(user, sum)| (user.to_string(), *sum)).collect()
}

async fn flushed() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

fn start(directory: &Path, max_events: u64) -> Addr<EventActor> {
    EventActor::durable(settings(20, max_events), (directory, None), false).unwrap().start()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

#[actix::test]
async fn what_is_on_disk_and_what_is_in_memory_make_one_history() {
    tokio::time::pause();
    let directory = tempfile::tempdir().unwrap();
    let actor = start(directory.path(), 0);
    let begun = now();
    let at = |nanos: i64| Nanos(begun.0 + nanos);
    let mut expected = 0;
    for round in 0..50 {
        publish(&actor, noise(1 + round % 40, at(round as i64 * 100)));
        publish(&actor, vec![add("alice", 3, at(round as i64 * 100 + 50))]);
        expected += 3 * (10_000 - (round as i128 * 100 + 50));
        if round % 9 == 0 {
            flushed().await;
        }
        let (told, gaps) = used(&actor, Some(begun), at(10_000)).await;
        assert_eq!((told, gaps), (sums(&[("alice", expected)]), vec![]), "{round}");
    }
    // A part of it, which begins and ends in the middle.
    let (told, _) = used(&actor, Some(at(75)), at(175)).await;
    assert_eq!(told, sums(&[("alice", 3 * 100 + 3 * 25)]));
}

#[actix::test]
async fn usage_is_known_where_the_events_that_made_it_are_dropped() {
    tokio::time::pause();
    let directory = tempfile::tempdir().unwrap();
    let actor = start(directory.path(), 160);
    let begun = now();
    let at = |nanos: i64| Nanos(begun.0 + nanos);
    publish(&actor, vec![add("alice", 5, at(0))]);
    for round in 1..20 {
        publish(&actor, noise(20, at(round * 100)));
        flushed().await;
    }
    let (told, gaps) = used(&actor, Some(at(1_850)), at(2_000)).await;
    assert_eq!((told, gaps), (sums(&[("alice", 5 * 150)]), vec![]));
    let (told, gaps) = used(&actor, Some(at(0)), at(2_000)).await;
    let [gap] = &gaps[..] else { panic!("{gaps:?}") };
    assert_eq!((gap.from, gap.reason), (at(0), "retention"));
    assert_eq!(told, sums(&[("alice", 5 * i128::from(at(2_000).0 - gap.to.0))]));
    let (all, gaps) = used(&actor, None, at(2_000)).await;
    assert_eq!((all, gaps), (told, vec![]), "as far back as is known");
    // Only what the ring has, without a store.
    let actor = EventActor::new(settings(20, 0)).start();
    publish(&actor, vec![add("alice", 5, at(0))]);
    publish(&actor, noise(500, at(100)));
    let (told, gaps) = used(&actor, Some(at(200)), at(300)).await;
    assert_eq!((told, gaps), (sums(&[("alice", 500)]), vec![]));
    let (told, gaps) = used(&actor, Some(at(0)), at(300)).await;
    assert_eq!((told, gaps.len()), (sums(&[("alice", 5 * 200)]), 1));
}

#[actix::test]
async fn what_an_ended_server_had_is_not_used_for_ever() {
    tokio::time::pause();
    let directory = tempfile::tempdir().unwrap();
    let (store, killed) = (directory.path().join("events"), directory.path().join("killed"));
    let actor = start(&store, 0);
    let begun = now();
    publish(&actor, vec![add("alice", 5, begun)]);
    flushed().await;
    flushed().await;
    copy(&store, &killed);
    actor.send(StopEvents).await.unwrap().unwrap();
    let stopped = now();
    for (path, reason) in [(&store, "stopped"), (&killed, "crash")] {
        let actor = start(path, 0);
        let again = now();
        publish(&actor, vec![add("bob", 2, again)]);
        for written in [false, true] {
            let until = Nanos(again.0 + 1_000);
            let (told, gaps) = used(&actor, Some(begun), until).await;
            let [gap] = &gaps[..] else { panic!("{gaps:?}") };
            assert_eq!(gap.reason, reason);
            assert!(begun <= gap.from && gap.from <= stopped && gap.to <= again && stopped <= gap.to, "{gap:?}");
            assert_eq!(told, sums(&[("alice", 5 * i128::from(gap.from.0 - begun.0)), ("bob", 2_000)]), "{written}");
            flushed().await;
        }
    }
}

#[actix::test]
async fn a_server_in_which_nothing_happened_still_ends_what_was_used_before_it() {
    tokio::time::pause();
    let directory = tempfile::tempdir().unwrap();
    let (store, killed) = (directory.path().join("events"), directory.path().join("killed"));
    let actor = start(&store, 0);
    let begun = now();
    publish(&actor, vec![add("alice", 5, begun)]);
    flushed().await;
    let known = now();
    actor.send(StopEvents).await.unwrap().unwrap();
    let stopped = now();
    // It is killed before it has said that it is alive, or is stopped in good order.
    let idle = start(&store, 0);
    copy(&store, &killed);
    idle.send(StopEvents).await.unwrap().unwrap();
    for (path, reasons) in [(&store, &["stopped", "stopped"][..]), (&killed, &["crash"])] {
        let actor = start(path, 0);
        let again = now();
        publish(&actor, vec![add("bob", 2, again)]);
        flushed().await;
        let until = Nanos(again.0 + 1_000);
        let (told, gaps) = used(&actor, Some(begun), until).await;
        assert_eq!(gaps.iter().map(|gap| gap.reason).collect::<Vec<_>>(), reasons, "{gaps:?}");
        let (first, last) = (&gaps[0], &gaps[gaps.len() - 1]);
        assert!(known <= first.from && first.from <= stopped && last.to <= again, "{gaps:?}");
        assert_eq!(told, sums(&[("alice", 5 * i128::from(first.from.0 - begun.0)), ("bob", 2_000)]));
    }
}

#[actix::test]
async fn times_without_events_are_told_and_usage_is_right_after_them() {
    tokio::time::pause();
    let directory = tempfile::tempdir().unwrap();
    for actor in [start(directory.path(), 0), EventActor::new(settings(1_000, 0)).start()] {
        let begun = now();
        publish(&actor, vec![add("alice", 5, begun)]);
        actor.send(ApplyEventSettings(EventSettings { tracking: false, ..settings(1_000, 0) })).await.unwrap();
        publish(&actor, vec![remove("alice", 2, now()), add("bob", 4, now())]);
        // It lasts.
        let (told, gaps) = used(&actor, Some(begun), now()).await;
        assert_eq!((told.len(), gaps.len(), gaps[0].reason), (1, 1, "tracking-off"));
        actor.send(ApplyEventSettings(settings(1_000, 0))).await.unwrap();
        let on = now();
        let check = async || {
            let until = Nanos(on.0 + 1_000_000);
            let (told, gaps) = used(&actor, Some(begun), until).await;
            let [gap] = &gaps[..] else { panic!("{gaps:?}") };
            let (first, then) = (i128::from(gap.to.0 - begun.0), i128::from(until.0 - gap.to.0));
            assert_eq!(told, sums(&[("alice", 5 * first + 3 * then), ("bob", 4 * then)]));
        };
        check().await;
        publish(&actor, noise(3, on));
        check().await;
        flushed().await;
        publish(&actor, noise(3, on));
        check().await;
        let (told, gaps) = used(&actor, Some(on), Nanos(on.0 + 10)).await;
        assert_eq!((told, gaps), (sums(&[("alice", 30), ("bob", 40)]), vec![]));
    }
}

#[actix::test]
async fn a_time_when_another_server_led_is_a_gap() {
    tokio::time::pause();
    let directory = tempfile::tempdir().unwrap();
    for actor in [start(directory.path(), 0), EventActor::new(settings(1_000, 0)).start()] {
        let intake = Intake::new(actor.clone().recipient());
        // Another resource manager, which this server leads all the time, has nothing to do with it.
        let lead = |here| {
            vec![(UsageKey::lead("rm-1", here), Resource::new()), (UsageKey::lead("rm", !here), Resource::new())]
        };
        let alice =
            UsageKey { partition: PARTITION.into(), who: Who::User, name: "alice".into(), queue: "root.a".into() };
        let begun = now();
        let gaps = async |since: Option<Nanos>| {
            // What was put in is taken in a little later.
            let (told, gaps) = used(&actor, since, Nanos(now().0 + 1_000_000_000)).await;
            assert!(gaps.iter().all(|gap| gap.reason == "led-elsewhere"), "{gaps:?}");
            (told, gaps.len(), gaps.iter().map(|gap| gap.to.0 - gap.from.0).sum::<i64>())
        };
        // It leads first when the resource manager has been there for a while.
        intake.put(ToEvents::Used(lead(true)));
        intake.put(ToEvents::Used(vec![(alice.clone(), Resource::of(&[("memory", 5)]))]));
        let (told, count, length) = gaps(Some(Nanos(begun.0 - 1_000))).await;
        assert!(told["alice"] > 0 && count == 1 && length > 1_000);
        publish(&actor, vec![remove("alice", 5, now())]);
        intake.put(ToEvents::Used(lead(false)));
        publish(&actor, noise(2, now()));
        intake.put(ToEvents::Used(lead(true)));
        publish(&actor, noise(2, now()));
        assert_eq!(gaps(Some(Nanos(begun.0 - 1_000))).await.1, 2);
        flushed().await;
        let (_, count, length) = gaps(None).await;
        // From the beginning of what is known: the ring begins with the first event. None is open to the end.
        assert!(count > 0 && length < 1_000_000_000, "{count} {length}");
        assert_eq!(gaps(Some(Nanos(now().0 + 1_000_000))).await.1, 0);
    }
}

#[actix::test]
async fn events_that_were_not_stored_are_told_and_usage_is_right_after_them() {
    tokio::time::pause();
    let directory = tempfile::tempdir().unwrap();
    let mut actor = EventActor::durable(settings(5, 0), (directory.path(), None), false).unwrap();
    actor.durable.as_mut().unwrap().limit_backlog(10);
    let actor = actor.start();
    let begun = now();
    let at = |nanos: i64| Nanos(begun.0 + nanos);
    publish(&actor, vec![add("alice", 5, at(0))]);
    publish(&actor, [vec![remove("alice", 1, at(100))], noise(10, at(150)), vec![add("bob", 2, at(200))]].concat());
    publish(&actor, vec![add("alice", 1, at(300))]);
    for written in [false, true] {
        let (told, gaps) = used(&actor, Some(at(0)), at(400)).await;
        let [gap] = &gaps[..] else { panic!("{gaps:?}") };
        assert_eq!((gap.from, gap.to, gap.reason), (at(100), at(200), "not-stored"), "{written}");
        // 5 until the gap ends, then 4, then 5 again.
        assert_eq!(told, sums(&[("alice", 5 * 200 + 4 * 100 + 5 * 100), ("bob", 2 * 200)]), "{written}");
        flushed().await;
    }
}

/// A log as a server hears of it that follows it.
struct Heard(Arc<Intake>);

impl Heard {
    fn by(actor: &Addr<EventActor>) -> Heard {
        Heard(Intake::new(actor.clone().recipient()))
    }

    /// It is read from here on.
    fn stands(&self, rm: &str, next: u64, at: Nanos, used: &[(&str, i64)]) {
        let row = |(name, amount): &(&str, i64)| {
            let (partition, queue) = (format!("[{rm}]default").into(), "root.a".into());
            let key = UsageKey { partition, who: Who::User, name: (*name).into(), queue };
            (key, Resource::of(&[("memory", *amount)]))
        };
        let used = used.iter().map(row).collect();
        self.0.put(ToEvents::Publish(Publish::numbered(&rm.into(), next, Vec::new())));
        self.0.put(ToEvents::Stands(Stands { rm: rm.into(), next, at, used }));
    }

    fn events(&self, first: u64, events: Vec<Event>) {
        self.0.put(ToEvents::Publish(Publish::numbered(&"rm-1".into(), first, events)));
    }
}

fn of_logs(directory: &Path) -> Addr<EventActor> {
    EventActor::durable(settings(20, 0), (directory, None), false).unwrap().of_logs().start()
}

const HOUR: i64 = 3_600_000_000_000;

#[actix::test]
async fn a_log_that_is_read_again_has_the_same_history() {
    tokio::time::pause();
    let directory = tempfile::tempdir().unwrap();
    let begun = now();
    let at = |hours: i64| Nanos(begun.0 + hours * HOUR);
    let hours = |of: &[(&str, i64)]| -> BTreeMap<String, i128> {
        of.iter().map(|(user, sum)| ((*user).to_owned(), i128::from(*sum) * i128::from(HOUR))).collect()
    };
    let all = vec![add("alice", 5, at(0)), add("bob", 1, at(1)), remove("alice", 2, at(2))];
    let actor = of_logs(directory.path());
    let heard = Heard::by(&actor);
    heard.stands("rm-1", 0, at(0), &[]);
    heard.events(0, all[..2].to_vec());
    let (sums, gaps) = told(&actor, Some(at(0)), at(2), true).await;
    assert_eq!((sums, gaps), (hours(&[("alice", 10), ("bob", 1)]), vec![]));
    actor.send(StopEvents).await.unwrap().unwrap();
    // It was stopped for a while, and reads again what it had, and what came meanwhile; another log is beside it.
    let actor = of_logs(directory.path());
    let heard = Heard::by(&actor);
    heard.stands("rm-2", 9, at(7), &[("carol", 1)]);
    heard.stands("rm-1", 0, at(0), &[]);
    heard.events(0, all.clone());
    let (sums, gaps) = told(&actor, Some(at(0)), at(4), true).await;
    let whole = hours(&[("alice", 5 * 2 + 3 * 2), ("bob", 3)]);
    assert_eq!((sums, gaps), (whole.clone(), vec![]));
    flushed().await;
    assert_eq!(told(&actor, Some(at(0)), at(4), true).await, (whole.clone(), vec![]));
    // It is read anew from a snapshot, by the same process: nothing of it is new.
    heard.stands("rm-1", 1, at(0), &[("alice", 5)]);
    heard.events(1, all[1..].to_vec());
    assert_eq!(told(&actor, Some(at(0)), at(4), true).await, (whole.clone(), vec![]));
    actor.send(StopEvents).await.unwrap().unwrap();
    // Where the snapshot is of later, what was before it is a gap, and nothing counts then.
    let actor = of_logs(directory.path());
    let heard = Heard::by(&actor);
    heard.stands("rm-1", 8, at(6), &[("alice", 1)]);
    heard.events(8, vec![remove("alice", 1, at(8))]);
    let (sums, gaps) = told(&actor, Some(at(0)), at(9), true).await;
    let [gap] = &gaps[..] else { panic!("{gaps:?}") };
    assert_eq!((gap.from, gap.to, gap.reason), (at(2), at(6), "led-elsewhere"));
    assert_eq!(sums, hours(&[("alice", 5 * 2 + 2), ("bob", 1)]));
    // A session ends, and another begins; no event tells of it.
    heard.events(9, vec![add("bob", 4, at(9))]);
    heard.stands("rm-1", 10, at(10), &[]);
    heard.stands("rm-1", 10, at(11), &[]);
    heard.events(10, vec![add("bob", 2, at(12))]);
    for _ in [false, true] {
        assert_eq!(told(&actor, Some(at(9)), at(13), true).await, (hours(&[("bob", 4 + 2)]), vec![]));
        flushed().await;
    }
    // The log is gone, and one of that name begins anew.
    heard.0.put(ToEvents::Publish(Publish::forgotten(&"rm-1".into())));
    heard.stands("rm-1", 0, at(14), &[]);
    heard.events(0, vec![add("dora", 1, at(14))]);
    assert_eq!(told(&actor, Some(at(14)), at(15), true).await, (hours(&[("dora", 1)]), vec![]));
}

#[actix::test]
async fn a_history_of_logs_without_a_disk_and_with_times_without_events() {
    tokio::time::pause();
    let directory = tempfile::tempdir().unwrap();
    let stored = of_logs(directory.path());
    let small = EventActor::new(settings(6, 0)).of_logs().start();
    for (actor, ring) in [(stored, false), (small, true)] {
        let begun = now();
        let at = |nanos: i64| Nanos(begun.0 + nanos);
        let heard = Heard::by(&actor);
        heard.stands("rm-1", 3, at(0), &[("alice", 5)]);
        heard.events(3, noise(2, at(10)));
        heard.events(7, vec![add("bob", 1, at(20))]);
        heard.stands("rm-1", 8, at(30), &[("bob", 2)]);
        heard.stands("rm-2", 4, at(90), &[("bob", 7)]);
        heard.events(8, vec![add("bob", 1, at(40))]);
        let joined = told(&actor, Some(at(-10)), at(50), true).await;
        let gap = Gap { from: at(-10), to: at(0), reason: "led-elsewhere", detail: Arc::default() };
        assert_eq!(joined, (sums(&[("alice", 5 * 30), ("bob", 10 + 20 + 30)]), vec![gap]));
        heard.events(9, noise(4, at(60)));
        let (told_all, gaps) = told(&actor, Some(at(60)), at(70), true).await;
        assert_eq!((told_all, gaps), (sums(&[("bob", 30)]), vec![]), "{ring}");
        // Events are off for a while, in which a session ends.
        actor.send(ApplyEventSettings(EventSettings { tracking: false, ..settings(6, 0) })).await.unwrap();
        heard.events(17, vec![add("carol", 4, at(80))]);
        heard.stands("rm-1", 18, Nanos(now().0), &[]);
        heard.events(18, vec![add("dora", 2, Nanos(now().0))]);
        actor.send(ApplyEventSettings(settings(6, 0))).await.unwrap();
        let on = now();
        heard.events(19, noise(1, on));
        let (sums_after, gaps) = told(&actor, Some(on), Nanos(on.0 + 10), true).await;
        assert_eq!((sums_after, gaps), (sums(&[("dora", 20)]), vec![]), "{ring}");
    }
}
