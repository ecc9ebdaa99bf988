//! The actor: messages in and out on a paused clock.

mod unread;

use std::path::Path;

use futures::FutureExt as _;
use serde_json::Value;

use super::*;
use crate::{
    domain::{
        effect::NodeEffect,
        journal::{DrainRequest, Fact, UndrainRequest},
        resources::Resource,
    },
    messages::{
        journal::{MAX_WAITING, SENTINEL},
        rm::ClosingKind,
    },
};

/// Takes what operators drained in the partition's place.
#[derive(Default)]
struct Partition {
    seen: Arc<Mutex<Vec<String>>>,
}

impl Actor for Partition {
    type Context = Context<Self>;
}

impl Handler<Commands> for Partition {
    type Result = ();

    fn handle(&mut self, msg: Commands, _ctx: &mut Self::Context) {
        for command in msg.commands {
            let text = match command {
                Command::OperatorDrain { nodes, drained } => format!("{} {drained} {}", msg.epoch, nodes.join(",")),
                Command::HoldHosts { hosts, held } => format!("{} {held} hosts {}", msg.epoch, hosts.join(",")),
                Command::DrainOverdue(nodes) => format!("{} overdue {}", msg.epoch, nodes.join(",")),
                // What is said goes with the hold.
                Command::NoteDrains(_) => continue,
                Command::OrderQueues(orders) => {
                    let path = |(path, order): &(Arc<str>, Option<_>)| {
                        format!("{} {path}", if order.is_some() { "stopped" } else { "resumed" })
                    };
                    format!("{} {}", msg.epoch, orders.iter().map(path).collect::<Vec<_>>().join(","))
                }
                other => panic!("{other:?}"),
            };
            self.seen.lock().unwrap().push(text);
        }
    }
}

struct Rig {
    journal: Addr<JournalActor>,
    partition: Addr<Partition>,
    seen: Arc<Mutex<Vec<String>>>,
    faults: Arc<Faults>,
}

impl Rig {
    fn start(dir: Option<&Path>, limit: usize) -> Rig {
        let faults = Arc::<Faults>::default();
        let setup = JournalSetup {
            partition: "[rm]default".into(),
            dir: dir.map(Path::to_owned),
            settings: Settings::default(),
            limit,
            faults: faults.clone(),
            held: Arc::default(),
        };
        let journal = JournalActor::start_on(&Arbiter::current(), setup);
        let partition = Partition::default();
        let seen = partition.seen.clone();
        Rig { journal, partition: partition.start(), seen, faults }
    }

    /// Gives the hosts to hold.
    async fn begin(&self, epoch: u64) -> Vec<Arc<str>> {
        self.go_on(epoch, None).await.hosts
    }

    /// The session was there before, and knows this. Gives what holds.
    async fn go_on(&self, epoch: u64, own: Option<Standing>) -> Standing {
        self.journal.send(Begin { epoch, partition: self.partition.clone().recipient(), own }).await.unwrap()
    }

    async fn register(&self, epoch: u64, hosts: &[&str]) {
        let capacity = Arc::new(Resource::of(&[("vcore", 2000)]));
        let fact = |host: &&str| {
            Fact::Node(NodeEffect::Registered {
                node: format!("node-{host}").into(),
                host: (*host).into(),
                capacity: capacity.clone(),
                schedulable: true,
            })
        };
        self.journal.send(Post { epoch, facts: hosts.iter().map(fact).collect() }).await.unwrap();
    }

    async fn post(&self, facts: Vec<Fact>) {
        self.journal.send(Post { epoch: 1, facts }).await.unwrap();
    }

    async fn expires(&self, at: i64) {
        self.journal.send(SetExpiration(at)).await.unwrap().unwrap();
    }

    async fn attach(&self, historical: bool, follow: bool) -> Attached {
        self.journal.send(Attach { historical, follow }).await.unwrap()
    }

    async fn drain(&self, targets: &str) -> Result<(), DrainRefusal> {
        let request =
            DrainRequest { targets: targets.to_owned(), reason: Some("why".into()), ..DrainRequest::default() };
        self.journal.send(Drain(request)).await.unwrap()
    }

    async fn history(&self) -> Vec<String> {
        self.attach(true, false).await.history.iter().map(|piece| show(&piece.event)).collect()
    }

    fn told(&self) -> Vec<String> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

/// `name key=value …`, keys in order of the alphabet.
fn show(event: &str) -> String {
    let event: Value = serde_json::from_str(event).unwrap();
    let mut text = event["name"].as_str().unwrap().to_owned();
    for (key, value) in event["context"].as_object().into_iter().flatten() {
        text.push_str(&format!(" {key}={}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)));
    }
    text
}

fn live(attached: &mut Attached) -> Vec<String> {
    let mut seen = Vec::new();
    while let Some(line) = attached.live.as_mut().unwrap().recv().now_or_never().flatten() {
        let response: Value = serde_json::from_slice(&line).unwrap();
        let events = response["events"].as_array().unwrap();
        assert_eq!(events.len(), 1, "live: one event for each response");
        let event = show(&events[0].to_string());
        assert_eq!(response.get("R").is_some(), event.starts_with("resource-define"));
        seen.push(event);
    }
    seen
}

/// Lets the paused clock run.
async fn pass(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

const FOUR: [&str; 4] = ["n0", "n1", "n2", "n3"];

#[actix::test]
async fn every_reader_gets_every_event_once() {
    tokio::time::pause();
    let rig = Rig::start(None, 100);
    let mut first = rig.attach(true, true).await;
    assert!(first.history.is_empty());
    rig.begin(1).await;
    rig.register(1, &FOUR).await;
    let mut second = rig.attach(true, true).await;
    assert!(second.history.is_empty(), "facts are collected for 100 ms");
    pass(150).await;
    let all =
        ["restart nodelist=n[0-3] online= ranks=0-3", "resource-define method=dynamic-discovery", "online idset=0-3"];
    assert_eq!(live(&mut first), all);
    assert_eq!(live(&mut second), all);
    let mut third = rig.attach(true, true).await;
    let mut fourth = rig.attach(false, true).await;
    assert_eq!(rig.history().await, all);
    rig.drain("2").await.unwrap();
    let drain = ["drain idset=2 nodelist=n2 nodes=node-n2 overwrite=0 reason=why"];
    for reader in [&mut first, &mut second, &mut third, &mut fourth] {
        assert_eq!(live(reader), drain);
    }
    assert_eq!((third.history.len(), fourth.history.len()), (3, 0));
}

#[actix::test]
async fn resource_define_is_alone_in_its_response_with_r() {
    // RFC 44 journal response; J8
    tokio::time::pause();
    let rig = Rig::start(None, 1000);
    rig.begin(1).await;
    rig.register(1, &FOUR).await;
    pass(150).await;
    for at in 0..150 {
        rig.expires(at + 1).await;
    }
    let lines: Vec<Bytes> = responses(rig.attach(true, false).await.history).collect();
    let lines: Vec<Value> = lines.iter().map(|line| serde_json::from_slice(line).unwrap()).collect();
    let sizes: Vec<_> = lines.iter().map(|line| line["events"].as_array().unwrap().len()).collect();
    assert_eq!(sizes, [1, 1, 100, 51], "up to 100 in one response");
    assert_eq!(lines[1]["events"][0]["name"], "resource-define");
    let r = r#"{"version":1,"execution":{"R_lite":[{"rank":"0-3","children":{"core":"0-1"}}],"starttime":0,"expiration":150,"nodelist":["n[0-3]"]}}"#;
    assert_eq!(lines[1]["R"], serde_json::from_str::<Value>(r).unwrap());
    assert!([0, 2, 3].iter().all(|at| lines[*at].get("R").is_none()));
    assert_eq!(SENTINEL, "{\"events\":[]}\n");
}

#[actix::test]
async fn what_was_truncated_leaves_the_map_and_the_resource_set() {
    // RFC 44 truncate; SEEDS S20
    tokio::time::pause();
    let rig = Rig::start(None, 3);
    rig.begin(1).await;
    rig.register(1, &FOUR).await;
    pass(150).await;
    let mut reader = rig.attach(true, true).await;
    for at in 0..5 {
        rig.expires(at + 1).await;
    }
    let expected = [
        "truncate",
        "restart nodelist=n[0-3] online=0-3 ranks=0-3",
        "resource-define method=dynamic-discovery",
        "resource-update expiration=4",
        "resource-update expiration=5",
    ];
    assert_eq!(rig.history().await, expected);
    assert!(rig.attach(true, false).await.history[2].r.is_some());
    assert_eq!(live(&mut reader).len(), 5, "who is attached sees every event, and no truncate");
}

#[actix::test]
async fn silence_and_signs_of_life_are_told_together() {
    // RFC 44 torpid, lively
    tokio::time::pause();
    let rig = Rig::start(None, 100);
    rig.begin(1).await;
    rig.register(1, &FOUR).await;
    let mut reader = rig.attach(false, true).await;
    pass(20_000).await;
    live(&mut reader);
    let torpid = |node: &str, torpid| Fact::Torpid { node: node.into(), torpid };
    // Each conversation says so for itself.
    for node in ["node-n0", "node-n2", "node-n3"] {
        rig.post(vec![torpid(node, true)]).await;
    }
    assert!(live(&mut reader).is_empty());
    pass(150).await;
    assert_eq!(live(&mut reader), ["torpid idset=0,2-3"]);
    rig.post(vec![torpid("node-n3", false)]).await;
    pass(150).await;
    assert_eq!(live(&mut reader), ["lively idset=3"]);
    let status = rig.journal.send(GetStatus).await.unwrap();
    assert_eq!(status.targets.iter().map(|target| target.torpid).collect::<Vec<_>>(), [true, false, true, false]);
}

#[actix::test]
async fn drains_reach_the_partition_of_the_present_session() {
    tokio::time::pause();
    let rig = Rig::start(None, 100);
    rig.begin(1).await;
    rig.register(1, &FOUR).await;
    // Still in the batch: the request sees the nodes nevertheless.
    rig.drain("n[1-2]").await.unwrap();
    assert_eq!(rig.told(), ["1 true hosts n1,n2", "1 true node-n1,node-n2"]);
    assert!(matches!(rig.drain("2").await, Err(DrainRefusal::Drained(_))));
    assert!(rig.told().is_empty());

    assert_eq!(rig.begin(2).await, ["n1".into(), "n2".into()] as [Arc<str>; 2], "known before any node comes");
    rig.register(1, &["late"]).await;
    rig.register(2, &FOUR).await;
    assert_eq!(rig.told(), ["2 true node-n1,node-n2"], "in memory, drains outlive the session");
    let undrain = UndrainRequest { targets: "1".to_owned(), reason: None, lenient: false };
    rig.journal.send(Undrain(undrain)).await.unwrap().unwrap();
    assert_eq!(rig.told(), ["2 false hosts n1", "2 false node-n1"]);
    let hosts: Vec<_> = rig.journal.send(GetStatus).await.unwrap().targets.iter().map(|t| t.host.to_string()).collect();
    assert_eq!(hosts, FOUR, "facts of another session are dropped");
    rig.journal.send(End { epoch: 1 }).await.unwrap();
    rig.journal.send(End { epoch: 2 }).await.unwrap();
    assert_eq!(rig.history().await.last().unwrap(), "offline idset=0-3");
}

#[actix::test]
async fn streams_end_when_cancelled_or_too_slow() {
    // RFC 44 cancellation
    tokio::time::pause();
    let rig = Rig::start(None, 100);
    let mut cancelled = rig.attach(true, true).await;
    let slow = rig.attach(true, true).await;
    drop(rig.attach(true, true).await);
    assert_eq!(rig.journal.send(GetStatus).await.unwrap().streams, 2);
    assert!(!rig.journal.send(Cancel(99)).await.unwrap());
    assert!(rig.journal.send(Cancel(cancelled.stream)).await.unwrap());
    assert!(cancelled.live.as_mut().unwrap().recv().await.is_none());
    assert_eq!(cancelled.ended.get(), None);
    rig.begin(1).await;
    for at in 0..=MAX_WAITING as i64 {
        rig.expires(at + 1).await;
    }
    assert_eq!(slow.ended.get(), Some(&Ended::Lagged));
    assert_eq!(rig.journal.send(GetStatus).await.unwrap().streams, 0);
}

#[actix::test]
async fn what_waits_for_a_reader_is_bounded_in_bytes() {
    // J8: each resource-define brings the whole resource set
    tokio::time::pause();
    let rig = Rig::start(None, 100);
    rig.begin(1).await;
    let long = "x".repeat(1 << 20);
    rig.register(1, &[&long]).await;
    pass(150).await;
    let (mut reader, slow) = (rig.attach(false, true).await, rig.attach(false, true).await);
    for round in 0..20 {
        let name = format!("n{round}");
        rig.register(1, &[&name]).await;
        pass(150).await;
        assert_eq!(live(&mut reader).len(), 2, "resource-define and online");
    }
    assert_eq!((reader.ended.get(), slow.ended.get()), (None, Some(&Ended::Lagged)));
}

#[actix::test]
async fn readers_are_told_that_another_server_leads_and_nothing_of_the_end_here() {
    tokio::time::pause();
    let rig = Rig::start(None, 100);
    rig.begin(1).await;
    rig.register(1, &FOUR).await;
    pass(150).await;
    let mut reader = rig.attach(true, true).await;
    let closing = Closing { kind: ClosingKind::Moved, detail: "it is led by another".into(), leader: None };
    rig.journal.send(Moved(closing.clone())).await.unwrap();
    rig.journal.send(End { epoch: 1 }).await.unwrap();
    rig.post(vec![Fact::Node(NodeEffect::Removed { node: "node-n0".into() })]).await;
    pass(150).await;
    assert!(reader.live.as_mut().unwrap().recv().await.is_none());
    assert_eq!(reader.ended.get(), Some(&Ended::Moved(closing.clone())));
    let mut late = rig.attach(true, true).await;
    assert!(late.live.as_mut().unwrap().recv().await.is_none());
    assert_eq!(late.ended.get(), Some(&Ended::Moved(closing)));
    assert_eq!(rig.history().await.last().unwrap(), "online idset=0-3");
    // It leads again, and one of the nodes went meanwhile.
    rig.begin(2).await;
    rig.register(2, &FOUR[1..]).await;
    let mut reader = rig.attach(false, true).await;
    pass(150).await;
    assert_eq!(live(&mut reader), ["offline idset=0"]);
    assert_eq!(reader.ended.get(), None);
}

#[actix::test]
async fn drains_and_ranks_outlive_the_process() {
    tokio::time::pause();
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    {
        let rig = Rig::start(Some(dir), 100);
        rig.begin(1).await;
        rig.register(1, &FOUR).await;
        pass(150).await;
        rig.drain("1,3").await.unwrap();
        // Acknowledged is on disk.
        let log = std::fs::read_to_string(dir.join("resource.eventlog")).unwrap();
        let names: Vec<_> = log.lines().map(|line| show(line).split(' ').next().unwrap().to_owned()).collect();
        assert_eq!(names, ["resource-define", "drain"], "what RFC 44 says SHALL be posted, no more");
        let undrain = UndrainRequest { targets: "3".to_owned(), reason: None, lenient: false };
        rig.journal.send(Undrain(undrain)).await.unwrap().unwrap();
    }
    // A crash tore the last line.
    let path = dir.join("resource.eventlog");
    let mut log = std::fs::read_to_string(&path).unwrap();
    log.push_str("{\"timestamp\":1.5,\"name\":\"undr");
    std::fs::write(&path, log).unwrap();

    let rig = Rig::start(Some(dir), 100);
    assert_eq!(rig.begin(7).await, ["n1".into()] as [Arc<str>; 1], "from the disk");
    rig.register(7, &["n3", "n1", "n0", "n4"]).await;
    assert_eq!(rig.told(), ["7 true node-n1"]);
    pass(150).await;
    let expected = [
        // SEEDS S38: also what was defined before.
        "resource-define method=dynamic-discovery",
        "drain idset=1,3 nodelist=n[1,3] nodes=node-n[1,3] overwrite=0 reason=why",
        "undrain idset=3 nodelist=n3 nodes=node-n3",
        "restart nodelist=n[0-4] online= ranks=0-4",
        "resource-define method=dynamic-discovery",
        "online idset=0-1,3-4",
    ];
    assert_eq!(rig.history().await, expected);
    assert!(rig.journal.send(GetStatus).await.unwrap().faults.is_empty());
    // The next session, with one host more: no restart.
    rig.begin(8).await;
    rig.register(8, &["n3", "n1", "n0", "n4", "n5"]).await;
    pass(150).await;
    let after = rig.history().await;
    assert_eq!(after[6..], ["resource-define method=dynamic-discovery", "online idset=5"]);
    // RFC 44: by the most recent restart a reader knows which hosts ranks name.
    assert_eq!(after[3], "restart nodelist=n[0-5] online= ranks=0-5");
}

#[actix::test]
async fn deadlines_of_drains_outlive_the_process() {
    tokio::time::pause();
    let dir = tempfile::tempdir().unwrap();
    let passed = Nanos::from_secs(1_700_000_000);
    {
        let rig = Rig::start(Some(dir.path()), 100);
        rig.begin(1).await;
        rig.register(1, &FOUR).await;
        pass(150).await;
        let request = DrainRequest { targets: "1,3".to_owned(), deadline: Some(passed), ..DrainRequest::default() };
        rig.journal.send(Drain(request)).await.unwrap().unwrap();
        pass(1).await;
        assert_eq!(
            rig.told(),
            ["1 true hosts n1,n3", "1 true node-n1,node-n3", "1 overdue node-n1,node-n3"],
            "at once, where it has passed already"
        );
        pass(100_000).await;
        assert!(rig.told().is_empty(), "once");
    }
    let rig = Rig::start(Some(dir.path()), 100);
    rig.begin(7).await;
    pass(150).await;
    assert!(rig.told().is_empty(), "nobody is there");
    rig.register(7, &["n1"]).await;
    assert_eq!(rig.told(), ["7 true node-n1", "7 overdue node-n1"]);
    let overdue = rig.journal.send(GetOverdue).await.unwrap();
    let overdue: Vec<_> = overdue.iter().map(|one| (&*one.node, one.deadline)).collect();
    assert_eq!(overdue, [("node-n1", passed)]);
}

#[actix::test]
async fn bad_lines_are_named_and_stop_nothing() {
    tokio::time::pause();
    let dir = tempfile::tempdir().unwrap();
    let log = concat!(
        "{\"timestamp\":1.5,\"name\":\"drain\",\"context\":{\"idset\":\"0\",\"nodelist\":\"n0\",\"overwrite\":0}}\n",
        "garbage\n",
        "{\"timestamp\":2.5,\"name\":\"drain\",\"context\":{\"idset\":\"1\"}}\n",
        "{\"timestamp\":3.5,\"name\":\"drain\",\"context\":{\"idset\":\"9\",\"nodelist\":\"\"}}\n",
    );
    std::fs::write(dir.path().join("resource.eventlog"), log).unwrap();
    std::fs::write(dir.path().join("resource.R"), "{}").unwrap();
    let place = dir.path().display().to_string();
    for start in 1..=2 {
        let rig = Rig::start(Some(dir.path()), 100);
        rig.begin(1).await;
        let status = rig.journal.send(GetStatus).await.unwrap();
        let without_time = |fault: &String| match fault.split_once("Z ") {
            Some((time, rest)) if time.starts_with("20") => rest.replace(&place, "DIR"),
            _ => fault.replace(&place, "DIR"),
        };
        let faults: Vec<_> = status.faults.iter().map(without_time).collect();
        let found = [
            "resource.eventlog.copy: missing; made anew from resource.eventlog",
            "resource.R: damaged: missing field `version` at line 1 column 2, and resource.R.copy: missing; ranks are given anew",
            "resource.eventlog: lines 2-3 cannot be read in either file",
            "a drain or undrain may be lost, and all others are in force: compare `callboard resource drain` with what has \
             to be drained, drain what is missing, then remove DIR/resource.damage",
        ];
        assert_eq!(faults[..4], found);
        assert!(faults[4].starts_with("kept to be looked at: resource.R.damaged-20"), "{faults:?}");
        // They are in the report, and found again at each start.
        let line =
            "DIR/resource.eventlog line 2: drain: ranks 9 have no host in this event and do not exist (any more)";
        assert_eq!(faults[5..], [line, line], "start {start}");
        assert_eq!(status.targets.len(), 1);
        assert!(status.targets[0].drain.is_some());
        assert_eq!(rig.faults.count(), 7);
        if start == 2 {
            // An operator has settled it.
            std::fs::remove_file(dir.path().join("resource.damage")).unwrap();
            rig.faults.look();
            assert_eq!(rig.faults.count(), 1, "the line is found again at each start");
            assert_eq!(rig.journal.send(GetStatus).await.unwrap().faults.len(), 1);
        }
    }
}

#[actix::test]
async fn a_drain_that_cannot_be_written_does_not_happen() {
    tokio::time::pause();
    let dir = tempfile::tempdir().unwrap();
    for (name, fault) in [("comes", "resource.eventlog cannot be written"), ("is-a-file", "cannot be read")] {
        let place = dir.path().join(name);
        if name == "is-a-file" {
            std::fs::write(&place, "in the way").unwrap();
        }
        let rig = Rig::start(Some(&place), 100);
        rig.begin(1).await;
        rig.journal.send(GetStatus).await.unwrap();
        if name == "comes" {
            std::fs::write(&place, "in the way").unwrap();
        }
        rig.register(1, &FOUR).await;
        pass(150).await;
        let before = rig.history().await;
        assert_eq!(before.len(), 3, "the journal in memory goes on");
        let refusal = rig.drain("1").await.unwrap_err().to_string();
        assert!(refusal.contains(fault) && refusal.ends_with("; nothing was changed"), "{refusal}");
        assert!(rig.told().is_empty());
        assert_eq!(rig.history().await, before);
        let status = rig.journal.send(GetStatus).await.unwrap();
        assert!(status.targets.iter().all(|target| target.drain.is_none()));
        assert!(status.faults.iter().any(|known| known.contains(fault)), "{:?}", status.faults);
        assert_eq!(rig.faults.count(), 1);
        if name == "comes" {
            // What was not written is made up for with the next that is, and the fault is over.
            std::fs::remove_file(&place).unwrap();
            rig.drain("1").await.unwrap();
            assert!(rig.journal.send(GetStatus).await.unwrap().faults.is_empty());
            let log = std::fs::read_to_string(place.join("resource.eventlog")).unwrap();
            let names: Vec<_> = log.lines().map(|line| show(line).split(' ').next().unwrap().to_owned()).collect();
            assert_eq!(names, ["resource-define", "drain"]);
        }
    }
}

#[actix::test]
async fn a_journal_that_knows_of_no_drain_is_not_kept() {
    tokio::time::pause();
    for keep in ["operator drains", "rm drains", "expires"] {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("journal/of-rm");
        let rig = Rig::start(Some(&dir), 100);
        for session in 1..4 {
            rig.begin(session).await;
            rig.register(session, &FOUR[..session as usize]).await;
            pass(150).await;
            rig.journal.send(End { epoch: session }).await.unwrap();
        }
        assert!(std::fs::read_dir(base.path()).unwrap().next().is_none(), "nothing is made");
        rig.begin(4).await;
        rig.register(4, &FOUR).await;
        match keep {
            "operator drains" => rig.drain("1").await.unwrap(),
            "expires" => rig.expires(1_900_000_000).await,
            _ => {
                let fact = Fact::Node(NodeEffect::Schedulable { node: "node-n1".into(), schedulable: false });
                rig.journal.send(Post { epoch: 4, facts: vec![fact] }).await.unwrap();
                pass(150).await;
            }
        }
        // With all that was defined before.
        let log = std::fs::read_to_string(dir.join("resource.eventlog")).unwrap();
        let names: Vec<_> = log.lines().map(|line| show(line).split(' ').next().unwrap().to_owned()).collect();
        assert_eq!(names[..4], ["resource-define"; 4], "{keep}");
        assert!(names.len() == 5 && ["drain", "resource-update"].contains(&&*names[4]), "{keep}: {names:?}");
        let (hosts, _) = resource_set::decode(&std::fs::read_to_string(dir.join("resource.R")).unwrap()).unwrap();
        assert_eq!(hosts.len(), 4, "{keep}");
    }
}

#[actix::test]
async fn an_expiration_outlives_the_process() {
    // SEEDS S38; RFC 44 resource-update
    tokio::time::pause();
    let dir = tempfile::tempdir().unwrap();
    {
        let rig = Rig::start(Some(dir.path()), 100);
        rig.begin(1).await;
        rig.register(1, &FOUR).await;
        pass(150).await;
        let mut reader = rig.attach(false, true).await;
        rig.expires(1_738_009_133).await;
        rig.expires(1_738_009_133).await;
        assert_eq!(live(&mut reader), ["resource-update expiration=1738009133"], "once");
    }
    let rig = Rig::start(Some(dir.path()), 100);
    let status = rig.journal.send(GetStatus).await.unwrap();
    assert!(status.r.contains("\"expiration\":1738009133"), "{}", status.r);
    assert_eq!(rig.history().await.last().unwrap(), "resource-update expiration=1738009133");
    let r = std::fs::read_to_string(dir.path().join("resource.R")).unwrap();
    assert!(r.contains("\"expiration\":1738009133"), "{r}");
}

#[actix::test]
async fn journals_are_started_once_and_those_on_disk_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let base = || Some(dir.path().to_owned());
    let journals = Journals::new(Arbiter::current(), base(), Settings::default());
    let addr = journals.of("[rm]default");
    assert!(journals.of("[rm]default") == addr && journals.of("[rm]other") != addr);
    assert!(addr.send(GetStatus).await.unwrap().targets.is_empty());
    addr.send(SetExpiration(7)).await.unwrap().unwrap();
    assert!(journals.are_kept() && journals.faults().len() == 2);
    let names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["%5Brm%5Ddefault"]);
    std::fs::remove_file(dir.path().join("%5Brm%5Ddefault/resource.eventlog")).unwrap();

    let journals = Journals::new(Arbiter::current(), base(), Settings::default());
    journals.start_kept().await;
    let (name, faults) = journals.faults().pop().unwrap();
    assert_eq!(&*name, "[rm]default");
    assert!(faults.all().iter().any(|fault| fault.contains("resource.eventlog: missing")), "{:?}", faults.all());
    assert!(journals.faults_of("[rm]default").is_some() && journals.faults_of("[rm]other").is_none());
}

#[actix::test]
async fn of_a_forgotten_resource_manager_only_what_operators_told_is_kept() {
    tokio::time::pause();
    let journals = Journals::new(Arbiter::current(), None, Settings::default());
    let partition = Partition::default().start();
    let session = async |journal: &Addr<JournalActor>| {
        journal.send(Begin { epoch: 1, partition: partition.clone().recipient(), own: None }).await.unwrap();
        let nodes = Fact::Node(NodeEffect::Registered {
            node: "n1".into(),
            host: "n1".into(),
            capacity: Arc::new(Resource::of(&[("vcore", 1)])),
            schedulable: true,
        });
        journal.send(Post { epoch: 1, facts: vec![nodes] }).await.unwrap();
        pass(1_000).await;
    };
    let there = |partition: &str| journals.faults_of(partition).is_some();
    let (blank, drained) = (journals.of("[rm]blank"), journals.of("[rm]drained"));
    for journal in [&blank, &drained, &journals.of("[other]blank")] {
        session(journal).await;
    }
    let request = DrainRequest { targets: "n1".to_owned(), ..DrainRequest::default() };
    drained.send(Drain(request)).await.unwrap().unwrap();
    journals.forget("rm");
    assert!(there("[rm]blank"), "its session goes on");
    let reader = blank.send(Attach { historical: false, follow: true }).await.unwrap();
    for journal in [&blank, &drained, &journals.of("[other]blank")] {
        journal.send(End { epoch: 1 }).await.unwrap();
    }
    journals.forget("rm");
    assert!(there("[rm]blank"), "somebody reads it");
    blank.send(Cancel(reader.stream)).await.unwrap();
    journals.forget("rm");
    assert!(!there("[rm]blank") && there("[rm]drained") && there("[other]blank"));
    assert!(journals.of("[rm]drained") == drained);
}
