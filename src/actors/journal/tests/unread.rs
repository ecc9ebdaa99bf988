//! Journals that cannot be read or written, and sessions that know what is in them.

use super::*;
use crate::{
    domain::queue_order::{OrderKind, QueueOrder},
    messages::journal::KeepOrders,
};

/// What cannot be read while directories are in its place.
struct InTheWay(Vec<PathBuf>);

impl InTheWay {
    fn of(dir: &Path, names: &[&str]) -> InTheWay {
        let paths: Vec<_> = names.iter().map(|name| dir.join(name)).collect();
        for path in &paths {
            std::fs::rename(path, path.with_added_extension("aside")).unwrap();
            std::fs::create_dir(path).unwrap();
        }
        InTheWay(paths)
    }

    fn goes(self) {
        for path in self.0 {
            std::fs::remove_dir(&path).unwrap();
            std::fs::rename(path.with_added_extension("aside"), path).unwrap();
        }
    }
}

const LOGS: [&str; 2] = ["resource.eventlog", "resource.eventlog.copy"];
const ORDERS: [&str; 2] = ["queue.orders", "queue.orders.copy"];

/// An order to a queue, as a partition has it.
fn stopped(queue: &str) -> (Arc<str>, Option<Arc<QueueOrder>>) {
    let (by, when) = ("alice".into(), "2027-01-15T08:00:00Z".into());
    let order = QueueOrder { kind: OrderKind::Stop, by, at: Nanos::ZERO, when, reason: "billing".into() };
    (queue.into(), Some(Arc::new(order)))
}

/// A directory with a drain of `n1` and a stop of `root.b`, and what the session that went on knows.
async fn told_before(dir: &Path) -> Standing {
    let rig = Rig::start(Some(dir), 100);
    rig.begin(1).await;
    rig.register(1, &FOUR).await;
    pass(150).await;
    rig.drain("1").await.unwrap();
    rig.journal.send(KeepOrders(vec![stopped("root.b")])).await.unwrap().unwrap();
    let standing = rig.begin(2).await;
    assert_eq!(standing, ["n1".into()] as [Arc<str>; 1]);
    rig.go_on(3, None).await
}

#[actix::test]
async fn a_journal_that_cannot_be_opened_is_read_when_it_can() {
    tokio::time::pause();
    let base = tempfile::tempdir().unwrap();
    let dir = &base.path().join("journal");
    told_before(dir).await;
    let in_the_way = InTheWay::of(dir, &LOGS);
    let rig = Rig::start(Some(dir), 100);
    let known = rig.go_on(2, None).await;
    assert!(known.hosts.is_empty() && known.orders == [stopped("root.b")], "what can be read holds: {known:?}");
    // Others first: ranks are those of the directory all the same.
    rig.register(2, &["n3", "n1", "n9"]).await;
    // A session that goes on holds what its log says: that the journal does not know it means nothing yet.
    let held = Fact::Node(NodeEffect::Held { node: "node-n1".into() });
    rig.journal.send(Post { epoch: 2, facts: vec![held] }).await.unwrap();
    pass(3_000).await;
    assert!(matches!(rig.drain("n3").await, Err(DrainRefusal::Disk(why)) if why.contains("cannot be read")));
    assert_eq!((rig.faults.count(), rig.told()), (1, Vec::new()));

    in_the_way.goes();
    pass(1_500).await;
    assert!(rig.faults.all().is_empty());
    // What is here is drained, and what comes will be.
    assert_eq!(rig.told(), ["2 true hosts n1", "2 stopped root.b", "2 true node-n1"]);
    rig.drain("n3").await.unwrap();
    let status = rig.journal.send(GetStatus).await.unwrap();
    let shown = status.targets.iter().map(|target| (&*target.host, target.online, target.drain.is_some()));
    let expected =
        [("n0", false, false), ("n1", true, true), ("n2", false, false), ("n3", true, true), ("n9", true, false)];
    assert_eq!(shown.collect::<Vec<_>>(), expected);
    assert!(rig.history().await.iter().any(|event| event.starts_with("drain idset=1 ")));
}

#[actix::test]
async fn what_a_session_knows_holds_whatever_its_journal_can_not_do() {
    tokio::time::pause();
    for (case, lost) in
        [("logs", false), ("orders", false), ("logs", true), ("orders", true), ("nothing is written", true)]
    {
        let base = tempfile::tempdir().unwrap();
        let dir = &base.path().join("journal");
        let own = told_before(dir).await;
        let in_the_way = match case {
            "logs" => InTheWay::of(dir, &LOGS),
            "orders" => InTheWay::of(dir, &ORDERS),
            _ => {
                // Gone, and nothing can be made in its place: there is a dead link where the files go.
                std::fs::remove_dir_all(dir).unwrap();
                std::os::unix::fs::symlink("/proc/nothing/here", dir).unwrap();
                InTheWay(Vec::new())
            }
        };
        let rig = Rig::start(Some(dir), 100);
        for epoch in 4..6 {
            // The next session of this process does not go on, and is told the same.
            let known = rig.go_on(epoch, (epoch == 4).then(|| own.clone())).await;
            assert_eq!(
                (known.hosts, known.notes, known.orders),
                (own.hosts.clone(), own.notes.clone(), own.orders.clone()),
                "{case}"
            );
        }
        rig.register(5, &FOUR).await;
        let held = Fact::Node(NodeEffect::Held { node: "node-n1".into() });
        rig.journal.send(Post { epoch: 5, facts: vec![held] }).await.unwrap();
        pass(3_000).await;
        assert!(!rig.told().iter().any(|told| told.contains("false")), "{case}");
        let drained = async || {
            let targets = rig.journal.send(GetStatus).await.unwrap().targets;
            targets
                .iter()
                .filter(|target| target.drain.is_some())
                .map(|target| target.host.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(drained().await, ["n1"], "{case}");
        assert!(rig.drain("n3").await.is_err() && rig.faults.count() > 0, "{case}");
        assert!(rig.journal.send(KeepOrders(vec![stopped("root.c")])).await.unwrap().is_err(), "{case}");

        // It is mended: with what was there, or without.
        match case {
            "nothing is written" => std::fs::remove_file(dir).unwrap(),
            _ if lost => in_the_way.0.iter().for_each(|path| std::fs::remove_dir(path).unwrap()),
            _ => in_the_way.goes(),
        }
        pass(1_500).await;
        rig.drain("n3").await.unwrap();
        rig.journal.send(KeepOrders(vec![stopped("root.c")])).await.unwrap().unwrap();
        assert_eq!(drained().await, ["n1", "n3"], "{case} {lost}");
        let told = rig.faults.all().join("; ");
        assert_eq!(told.contains("the log of the session knows 1 "), lost, "{case} {lost}: {told}");
        let next = Rig::start(Some(dir), 100).go_on(7, None).await;
        assert_eq!(next.hosts, ["n1".into(), "n3".into()] as [Arc<str>; 2], "{case} {lost}: it is on disk");
        assert_eq!(next.orders, [stopped("root.b"), stopped("root.c")], "{case} {lost}: it is on disk");
    }
}

#[actix::test]
async fn what_another_server_told_counts_whatever_is_read_later() {
    tokio::time::pause();
    let base = tempfile::tempdir().unwrap();
    let dir = &base.path().join("journal");
    told_before(dir).await;
    let in_the_way = InTheWay::of(dir, &LOGS);
    let rig = Rig::start(Some(dir), 100);
    rig.go_on(2, None).await;
    rig.register(2, &FOUR).await;
    let hosts = ["n3".into()].into();
    rig.journal.send(Agree { nodes: ["node-n3".into()].into(), hosts, notes: BTreeMap::new() }).await.unwrap();
    in_the_way.goes();
    pass(1_500).await;
    let told = rig.told();
    assert!(
        told.contains(&"2 true node-n3".to_owned()) && !told.iter().any(|told| told.contains("true hosts n1")),
        "{told:?}"
    );
    let next = Rig::start(Some(dir), 100).go_on(3, None).await;
    assert_eq!(next.hosts, ["n3".into()] as [Arc<str>; 1], "it is on disk");
}
