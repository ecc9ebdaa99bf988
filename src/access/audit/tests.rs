use std::sync::mpsc;

use futures::FutureExt as _;

use super::*;

fn request(who: &str) -> Request {
    let [action, kind] = ["POST /si/v1/rm/a/nodes", "POST /si/v1/rm/{rmID}/nodes"].map(str::to_owned);
    Request { who: who.to_owned(), role: Role::Shim.to_string(), ..Request::new("http", None, None, action, kind) }
}

fn told(audit: &Audit) -> Vec<(String, String, String, u64)> {
    audit.sum_up();
    let entry = |record: &Arc<Record>| record.entry.clone();
    let told = |entry: Entry| (entry.who, entry.action, entry.outcome, entry.count.unwrap_or(1));
    audit.from(0, usize::MAX).1.iter().map(entry).map(told).collect()
}

#[test]
fn numbers_are_dense_and_go_on() {
    let audit = Audit::default();
    let drained = request("alice");
    drained.detail.tell("node-7: disk");
    audit.answered(drained, "done", "200".to_owned());
    audit.note(Entry::default());
    let (oldest, all) = audit.from(0, 10);
    assert_eq!((oldest, all.iter().map(|record| record.id).collect::<Vec<_>>()), (1, vec![1, 2]));
    assert_eq!((&*all[0].entry.who, &*all[0].entry.detail, &*all[0].entry.outcome), ("alice", "node-7: disk", "done"));
    let again = Audit::resumed(all.iter().map(|record| (**record).clone()).collect(), None);
    again.note(Entry::default());
    assert_eq!(again.from(3, 1).1[0].id, 3);
    assert_eq!(*again.newest().borrow(), 3);
}

#[test]
fn what_is_not_written_is_shown_to_nobody() {
    let (writer, records) = std::sync::mpsc::channel();
    let audit = Audit::resumed(Vec::new(), Some(writer));
    let readable = || audit.from(0, 10).1.len();
    let newest = audit.newest();
    audit.note(Entry::default());
    audit.note(Entry::default());
    assert_eq!((readable(), *newest.borrow(), audit.noted()), (0, 0, 2));
    audit.written(records.recv().unwrap().id);
    assert_eq!((readable(), *newest.borrow()), (1, 1));
    // Nobody writes any more.
    drop(records);
    audit.note(Entry::default());
    audit.written(2);
    assert_eq!((readable(), *newest.borrow()), (3, 3));
}

#[test]
fn memory_is_bounded() {
    let audit = Audit::default();
    (0..KEPT + 5).for_each(|_| audit.note(Entry::default()));
    let (oldest, all) = audit.from(0, usize::MAX);
    assert_eq!((oldest, all.len()), (6, KEPT));
    for n in 0..2 * SUMS {
        audit.count(&request(&format!("user-{n}")), "refused");
    }
    assert_eq!(audit.inner().sums.len(), SUMS + 1);
    let long = Detail::default();
    long.tell("ö".repeat(LONGEST));
    assert!(long.text().len() <= LONGEST + 3);
    (0..5).for_each(|_| long.tell("ö".repeat(LONGEST)));
    assert!(long.text().len() <= TOLD * (LONGEST + 5));
}

#[test]
fn what_comes_often_is_summed_up() {
    let audit = Audit::default();
    for _ in 0..3 {
        audit.count(&request("k8s"), "done");
    }
    audit.count(&request("k8s"), "failed");
    assert!(audit.from(0, 10).1.is_empty());
    audit.sum_up();
    audit.sum_up();
    let counts: Vec<_> = audit.from(0, 10).1.iter().map(|record| record.entry.count).collect();
    assert_eq!(counts, [Some(3), Some(1)]);
}

#[test]
fn what_somebody_fails_at_again_and_again_pushes_nothing_out() {
    let audit = Audit::default();
    audit.answered(Request { role: Role::Operator.to_string(), ..request("alice") }, "done", "200".to_owned());
    for _ in 0..KEPT {
        audit.answered(request("evil"), "failed", "400".to_owned());
        audit.answered(request("evil"), "done", "200".to_owned());
    }
    audit.answered(request("k8s"), "failed", "400".to_owned());
    let told = told(&audit);
    assert_eq!((&*told[0].0, told.len()), ("alice", (1 + FAILED + DONE + 1 + 2) as usize));
    let row =
        |who: &str, action: &str, outcome: &str, count| (who.to_owned(), action.to_owned(), outcome.to_owned(), count);
    let (all, ends) = (KEPT as u64, &told[told.len() - 3..]);
    let expected = [
        row("k8s", "POST /si/v1/rm/a/nodes", "failed", 1),
        row("evil", "POST /si/v1/rm/a/nodes", "done", all - u64::from(DONE)),
        row("evil", "POST /si/v1/rm/{rmID}/nodes", "failed", all - u64::from(FAILED)),
    ];
    assert!(expected.iter().all(|row| ends.contains(row)), "{ends:?}");
    // Whoever does not have a role has them all.
    let audit = Audit::default();
    let anyone = || Request { role: String::new(), ..request("anyone") };
    (0..3 * DONE).for_each(|_| _ = audit.answered(anyone(), "done", "200".to_owned()));
    assert_eq!(audit.from(0, usize::MAX).1.len(), 3 * DONE as usize);
}

#[test]
fn nobody_takes_the_sums_of_others() {
    let audit = Audit::default();
    for n in 0..3 * SUMS {
        let stranger = Request { address: format!("10.0.{}.{}", n / 200, n % 200), ..request(UNKNOWN) };
        audit.count(&Request { role: String::new(), ..stranger }, "refused");
        audit.count(&Request { action: format!("POST /si/v1/rm/{n}/nodes"), ..request("evil") }, "done");
        audit.count(&Request { action: format!("POST /{n}"), ..request("evil") }, "failed");
    }
    audit.count(&request("k8s"), "done");
    let told = told(&audit);
    assert_eq!(told.len(), OF_STRANGERS + 1 + OF_CALLER + 1 + 1);
    let count = |who: &str, action: &str, outcome: &str| {
        let found = told.iter().find(|told| (&*told.0, &*told.1, &*told.2) == (who, action, outcome));
        found.map(|told| told.3)
    };
    assert_eq!(count("k8s", "POST /si/v1/rm/a/nodes", "done"), Some(1));
    assert_eq!(count("evil", "POST /si/v1/rm/{rmID}/nodes", "failed"), Some(3 * SUMS as u64), "by its kind");
    assert_eq!(count("evil", OTHERS, "done"), Some((3 * SUMS - (OF_CALLER - 1)) as u64));
    assert_eq!(count(UNKNOWN, OTHERS, "refused"), Some((3 * SUMS - OF_STRANGERS) as u64));
}

#[test]
fn what_nobody_answered_is_noted_all_the_same() {
    let audit = Arc::new(Audit::default());
    let asked = Request { role: Role::Operator.to_string(), ..request("alice") };
    let pending = |noted| Pending::new(audit.clone(), asked.clone(), noted);
    assert_eq!(pending(true).answered("done", "200".to_owned(), None), Some(1));
    assert_eq!(pending(true).answered("refused", "403".to_owned(), None), None);
    drop(pending(true));
    drop(pending(false));
    let told = told(&audit);
    let outcomes: Vec<_> = told.iter().map(|(_, action, outcome, _)| (&**action, &**outcome)).collect();
    let (action, kind) = (&*asked.action, &*asked.kind);
    assert_eq!(outcomes, [(action, "done"), (action, "unknown"), (action, "unknown"), (kind, "refused")]);
    let mut stream = pending(false);
    (0..3).for_each(|_| stream.goes_on());
    drop(stream);
    let mut stream = pending(false);
    stream.goes_on();
    stream.answered("refused", "PermissionDenied".to_owned(), None);
    let ends: Vec<_> = self::told(&audit).into_iter().skip(4).map(|(.., outcome, count)| (outcome, count)).collect();
    assert_eq!(ends, [("done".to_owned(), 2), ("refused".to_owned(), 1)]);
    // Not even an operator's is left out where there are many.
    (0..2 * FAILED + DONE).for_each(|_| drop(pending(true)));
    assert_eq!(audit.noted(), 6 + u64::from(2 * FAILED + DONE));
}

#[tokio::test(start_paused = true)]
async fn an_answer_waits_for_its_record_but_not_for_a_disk_that_hangs() {
    let (writer, records) = mpsc::channel();
    let audit = Arc::new(Audit::resumed(Vec::new(), Some(writer)));
    let id = audit.answered(request("alice"), "done", "200".to_owned()).unwrap();
    let mut settled = Box::pin(audit.settled(id));
    assert!(settled.as_mut().now_or_never().is_none());
    audit.written(records.recv().unwrap().id);
    assert!(settled.now_or_never().is_some());
    let begun = tokio::time::Instant::now();
    audit.settled(id + 1).await;
    assert_eq!(begun.elapsed(), PATIENCE);
}

#[test]
fn records_are_found_by_their_ids_also_behind_one_that_is_missing() {
    let record = |id| Record { id, time: String::new(), entry: Entry::default() };
    let audit = Audit::resumed([1, 2, 4, 5].map(record).into(), None);
    let ids = |from| audit.from(from, 10).1.iter().map(|record| record.id).collect::<Vec<_>>();
    assert_eq!((ids(0), ids(3), ids(5), ids(6)), (vec![1, 2, 4, 5], vec![4, 5], vec![5], vec![]));
}

#[test]
fn redacted_records_name_nobody_and_say_what_was_done() {
    let redacted = |action: &str, route: Option<&'static str>| {
        let entry = Entry {
            who: "alice".to_owned(),
            address: "10.1.2.3".to_owned(),
            action: action.to_owned(),
            detail: "node-7".to_owned(),
            ..Entry::default()
        };
        let record = Record { id: 1, time: String::new(), entry };
        let text = serde_json::to_string(&record.clone().redacted(|_, _| route)).unwrap();
        assert!(["alice", "10.1.2.3", "secret", "node-7"].iter().all(|name| !text.contains(name)), "{text}");
        assert_eq!(record.clone().redacted(|_, _| route), record.clone().redacted(|_, _| route));
        record.redacted(|_, _| route).entry.action
    };
    let drain = "/api/v1/partition/{partition}/resource/drain";
    let told = redacted("POST /api/v1/partition/secret/resource/drain", Some(drain));
    assert!(told.starts_with("POST /api/v1/partition/partition-") && told.ends_with("/resource/drain"), "{told}");
    let stop = "/api/v1/partition/{partition}/queue/{queue}/stop";
    let told = redacted("POST /api/v1/partition/secret/queue/root.secret/stop", Some(stop));
    assert!(told.contains("/queue/queue-") && told.ends_with("/stop"), "{told}");
    assert_eq!(redacted("POST /api/v1/secret/of/somebody", None), "POST others");
    let sum = "POST /si/v1/rm/{rm}/nodes";
    assert_eq!(redacted(sum, Some("/si/v1/rm/{rm}/nodes")), sum);
    for plain in ["others", "POST others", "read files again", "/si.v1.Scheduler/UpdateNode", "/x.Y/Requests Z"] {
        assert_eq!(redacted(plain, None), plain);
    }
}
