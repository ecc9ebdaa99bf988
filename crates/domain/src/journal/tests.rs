//! The rules of RFC 44 on the state machine, without actors.

mod ranks;

use super::*;
use crate::{hostlist::HostList, resources::Resource};

/// A journal on a clock of its own. Events read like a script: `online 0-3`, `drain 1 n1 reason overwrite`.
struct Script {
    journal: Journal,
    now: Nanos,
}

fn show(output: &Output) -> String {
    let event = match output {
        Output::Event(event) => event,
        Output::Tell(Command::OperatorDrain { nodes, drained }) => {
            return format!("{} {}", if *drained { "hold" } else { "release" }, nodes.join(","));
        }
        Output::Tell(Command::DrainOverdue(nodes)) => return format!("overdue {}", nodes.join(",")),
        Output::Tell(Command::HoldHosts { hosts, held }) => {
            return format!("{} hosts {}", if *held { "hold" } else { "release" }, hosts.join(","));
        }
        Output::Tell(Command::NoteDrains(notes)) => {
            let note =
                |(host, note): &(Arc<str>, DrainNote)| format!("{host} <{}>", note.reason.as_deref().unwrap_or("-"));
            return format!("note {}", notes.iter().map(note).collect::<Vec<_>>().join(","));
        }
        Output::Tell(other) => return format!("{other:?}"),
    };
    let name = event.kind.name();
    let by = |origin: &Origin| if *origin == Origin::ResourceManager { " (rm)" } else { "" };
    match &event.kind {
        Kind::Restart { ranks, online, nodelist } => format!("{name} {ranks} <{online}> {nodelist}"),
        Kind::Define(method) => format!("{name} {}", method.name()),
        Kind::Update { expiration } => format!("{name} {expiration}"),
        Kind::Drain { targets, reason, overwrite, origin, .. } => {
            let reason = reason.as_deref().unwrap_or("-");
            format!("{name} {} {} <{reason}> {}{}", targets.idset, targets.nodelist, overwrite.number(), by(origin))
        }
        Kind::Undrain { targets, reason, origin } => {
            let reason = reason.as_deref().map(|reason| format!(" <{reason}>")).unwrap_or_default();
            format!("{name} {} {}{reason}{}", targets.idset, targets.nodelist, by(origin))
        }
        Kind::Online(set) | Kind::Offline(set) | Kind::Torpid(set) | Kind::Lively(set) => format!("{name} {set}"),
    }
}

/// All but what is said of hosts, which has a test of its own.
fn shown(out: &[Output]) -> Vec<String> {
    let of_hosts =
        |output: &&Output| matches!(output, Output::Tell(Command::HoldHosts { .. } | Command::NoteDrains(_)));
    out.iter().filter(|output| !of_hosts(output)).map(show).collect()
}

impl Script {
    fn new(known: &str) -> Script {
        let known = HostList::parse(known).unwrap();
        let capacity = Capacity { cores: 4, gpus: 0 };
        let known = known.iter().map(|host| Known { host: host.into(), capacity }).collect();
        Script { journal: Journal::new(Settings::default(), known, 0), now: Nanos::from_secs(1) }
    }

    fn moment(&self) -> Moment {
        Moment { wall: Nanos::from_secs(1_700_000_000).plus(self.now), steady: self.now }
    }

    fn collect(&mut self, act: impl FnOnce(&mut Journal, Moment, &mut Vec<Output>)) -> Vec<String> {
        let (now, mut out) = (self.moment(), Vec::new());
        act(&mut self.journal, now, &mut out);
        shown(&out)
    }

    fn begin(&mut self) -> Vec<String> {
        self.collect(|journal, now, _| journal.begin(now))
    }

    fn fact(&mut self, fact: Fact) -> Vec<String> {
        self.collect(|journal, now, out| journal.apply(fact, now, out))
    }

    /// Registers hosts; each is its own node and offers 4 cores.
    fn register(&mut self, hosts: &str) -> Vec<String> {
        let hosts = HostList::parse(hosts).unwrap();
        hosts.iter().flat_map(|host| self.register_as(&host, &host, true)).collect()
    }

    fn register_as(&mut self, node: &str, host: &str, schedulable: bool) -> Vec<String> {
        let capacity = Arc::new(Resource::of(&[("vcore", 4000)]));
        self.fact(Fact::Node(NodeEffect::Registered { node: node.into(), host: host.into(), capacity, schedulable }))
    }

    fn remove(&mut self, node: &str) -> Vec<String> {
        self.fact(Fact::Node(NodeEffect::Removed { node: node.into() }))
    }

    fn schedulable(&mut self, node: &str, schedulable: bool) -> Vec<String> {
        self.fact(Fact::Node(NodeEffect::Schedulable { node: node.into(), schedulable }))
    }

    /// Lets time pass, stopping at every deadline.
    fn wait(&mut self, millis: i64) -> Vec<String> {
        let until = self.now.plus(Nanos::from_millis(millis));
        let mut seen = Vec::new();
        while let Some(next) = self.journal.next_deadline(self.moment()).filter(|next| *next <= until) {
            self.now = self.now.max(next);
            seen.extend(self.collect(|journal, now, out| journal.tick(now, out)));
        }
        self.now = until;
        seen
    }

    fn operate(&mut self, events: Result<Vec<ResourceEvent>, DrainRefusal>) -> Vec<String> {
        let events = match events {
            Ok(events) => events,
            Err(refusal) => return vec![format!("refused: {refusal}")],
        };
        let mut out: Vec<Output> = events.iter().cloned().map(Output::Event).collect();
        self.journal.carry_out(&events, &mut out);
        shown(&out)
    }

    fn drain(&mut self, targets: &str, reason: &str, overwrite: Option<i64>) -> Vec<String> {
        let overwrite = overwrite.map(|number| Overwrite::from_number(number).unwrap());
        let reason = (!reason.is_empty()).then(|| reason.into());
        let request = DrainRequest { targets: targets.to_owned(), reason, overwrite, deadline: None };
        let planned = self.journal.plan_drain(&request, self.moment());
        self.operate(planned)
    }

    fn undrain(&mut self, targets: &str, lenient: bool) -> Vec<String> {
        let request = UndrainRequest { targets: targets.to_owned(), reason: None, lenient };
        let planned = self.journal.plan_undrain(&request, self.moment());
        self.operate(planned)
    }

    /// Hosts by rank, as the resource set has them.
    fn hosts(&self) -> String {
        self.journal.resource_set().nodelist.to_string()
    }

    /// Drained ranks with the second since the start of the script, and the reason.
    fn drained(&self) -> Vec<String> {
        let drained = |target: Target| {
            let drain = target.drain?;
            let since = drain.since.minus(Nanos::from_secs(1_700_000_000)).as_secs();
            Some(format!("{} {since} {}", target.host, drain.reason.as_deref().unwrap_or("-")))
        };
        self.journal.status().into_iter().filter_map(drained).collect()
    }
}

/// Four hosts, known and registered.
fn four() -> Script {
    let mut script = Script::new("n[0-3]");
    script.begin();
    script.register("n[0-3]");
    script.wait(100);
    script
}

#[test]
fn registrations_leave_as_one_event_of_each_kind() {
    // RFC 44 restart, resource-define, online; J5.3
    let mut script = Script::new("");
    assert!(script.begin().is_empty(), "nothing is known yet");
    assert!(script.register("n[0-3]").is_empty());
    let expected = ["restart 0-3 <> n[0-3]", "resource-define dynamic-discovery", "online 0-3"];
    assert_eq!(script.wait(100), expected);
    assert!(script.wait(1000).is_empty());

    script.register("n4");
    // The service has not started again: R tells of the new map (SEEDS S38).
    assert_eq!(script.wait(100), ["resource-define dynamic-discovery", "online 4"]);
    assert_eq!(script.hosts(), "n[0-4]");
}

#[test]
fn known_hosts_come_back_at_their_ranks() {
    let mut script = Script::new("n[0-3]");
    assert!(script.begin().is_empty());
    script.register("n[2,0]");
    assert_eq!(script.wait(100), ["restart 0-3 <> n[0-3]", "resource-define kvs", "online 0,2"]);
    script.register("n3");
    script.remove("n0");
    assert_eq!(script.wait(100), ["online 3", "offline 0"], "online comes first (J5.3)");
    script.remove("n3");
    script.register("n3");
    assert!(script.wait(100).is_empty(), "no difference, no event");
}

#[test]
fn a_rank_goes_to_another_host_only_after_its_own_stayed_away() {
    let mut script = four();
    script.remove("n1");
    script.remove("n3");
    script.wait(100);
    script.register("x0");
    assert_eq!(script.wait(100), ["resource-define dynamic-discovery", "online 4"]);
    assert_eq!(script.hosts(), "n[0-3],x0");
    script.drain("3", "", None);
    script.wait(3_600_000);
    // n3 is drained and keeps its rank.
    script.register("x[1-2]");
    assert_eq!(script.wait(100), ["resource-define dynamic-discovery", "online 1,5"]);
    assert_eq!(script.hosts(), "n0,x1,n[2-3],x[0,2]");
}

#[test]
fn ranks_at_the_end_are_given_up() {
    let mut script = four();
    script.remove("n2");
    script.remove("n3");
    script.wait(100);
    script.now = script.now.plus(Nanos::from_secs(3600));
    script.remove("n0");
    script.register("n1");
    script.register("x0");
    script.register("n0");
    script.remove("x0");
    assert_eq!(script.wait(100), ["resource-define dynamic-discovery"]);
    assert_eq!(script.hosts(), "n[0-1],x0");
}

#[test]
fn several_nodes_may_share_a_host() {
    // J5.1: a host with several ranks drains all of them
    let mut script = Script::new("");
    script.begin();
    for node in ["a", "b", "c"] {
        script.register_as(node, if node == "a" { "x" } else { "y" }, true);
    }
    assert_eq!(script.wait(100)[0], "restart 0-2 <> x,y,y");
    assert_eq!(script.drain("y", "multi", None), ["drain 1-2 y,y <multi> 0", "hold b,c"]);
    script.remove("b");
    script.remove("c");
    script.register_as("c", "y", true);
    assert_eq!(script.wait(100), ["offline 1"], "c has the rank that it had");
}

#[test]
fn a_rank_that_a_node_left_does_not_keep_its_host_drained() {
    let mut script = Script::new("");
    script.begin();
    script.register_as("a", "x", true);
    script.register_as("b", "x", true);
    script.wait(100);
    script.remove("b");
    script.wait(100);
    assert_eq!(script.drain("0", "ram", None)[0], "drain 0 x <ram> 0");
    assert_eq!(script.undrain("x", false)[0], "undrain 0 x");
}

#[test]
fn a_node_id_stands_for_its_rank_where_no_host_is_called_so() {
    let mut script = Script::new("");
    script.begin();
    for (node, host) in [("i-1", "x"), ("i-2", "x"), ("i-3", "y"), ("y", "z")] {
        script.register_as(node, host, true);
    }
    script.wait(100);
    assert_eq!(script.drain("i-[2-3]", "multi", None), ["drain 1-2 x,y <multi> 0", "hold i-2,i-3"]);
    assert_eq!(script.drain("y", "host", Some(1))[0], "drain 2 y <host> 1", "the host before the node");
    // Also when it is away.
    script.remove("i-2");
    script.wait(100);
    assert_eq!(script.undrain("i-2", false)[0], "undrain 1 x");
    assert_eq!(script.undrain("i-9,i-2", true), ["refused: invalid targets: invalid hosts: i-9"]);
}

#[test]
fn host_names_that_no_list_can_hold_are_escaped() {
    let mut script = Script::new("");
    script.begin();
    script.register_as("node one", "", true);
    assert_eq!(script.wait(100)[0], "restart 0 <> node%20one");
    // Of a node whose host has another name, its own is known as well; alone both are taken as they are.
    script.register_as("a,b", "host ü", true);
    script.wait(100);
    for (targets, rank) in
        [("node one", 0), ("node%20one", 0), ("host ü", 1), ("a,b", 1), ("a%2Cb", 1), ("node%20one,a%2Cb", 0)]
    {
        let told = &script.drain(targets, "", Some(0))[0];
        assert!(told.starts_with(&format!("drain {rank}")), "{targets}: {told}");
    }
    assert!(script.drain("node two", "", None)[0].contains("Hostlist cannot be decoded"));
}

#[test]
fn changed_offers_define_the_set_anew() {
    // RFC 44 resource-define: reload
    let mut script = four();
    let capacity = Arc::new(Resource::of(&[("vcore", 8500), ("nvidia.com/gpu", 2), ("memory", 5)]));
    script.fact(Fact::Node(NodeEffect::Capacity { node: "n1".into(), capacity }));
    assert_eq!(script.wait(100), ["resource-define reload"]);
    let set = script.journal.resource_set();
    let groups: Vec<_> = set.groups.iter().map(|(ranks, c)| (ranks.to_string(), c.cores, c.gpus)).collect();
    assert_eq!(groups, [("0,2-3".to_owned(), 4, 0), ("1".to_owned(), 8, 2)]);
    assert_eq!(set.nodelist.to_string(), "n[0-3]");
}

#[test]
fn an_expiration_is_an_update() {
    // RFC 44 resource-update; SEEDS S19, S38
    let mut script = four();
    let set = |script: &mut Script, expiration| {
        let planned = script.journal.plan_expiration(expiration, script.moment());
        script.operate(Ok(planned))
    };
    assert_eq!(set(&mut script, 1_900_000_000), ["resource-update 1900000000"]);
    assert!(set(&mut script, 1_900_000_000).is_empty());
    assert_eq!(script.journal.resource_set().expiration, 1_900_000_000);
    assert_eq!(set(&mut script, 0), ["resource-update 0"], "none any more");
    assert_eq!(script.journal.resource_set().expiration, 0);
}

#[test]
fn overwrite_decides_what_changes_on_drained_targets() {
    // RFC 44 drain; SEEDS S18
    let mut script = four();
    assert_eq!(script.drain("1", "", Some(0)), ["drain 1 n1 <-> 0", "hold n1"]);
    let start = script.now.as_secs();
    script.wait(10_000);
    script.drain("1", "late", Some(0));
    assert_eq!(script.drained(), [format!("n1 {start} -")], "0: nothing, not even a missing reason");
    script.drain("1", "why", Some(1));
    assert_eq!(script.drained(), [format!("n1 {start} why")], "1: the reason");
    script.drain("1", "again", Some(2));
    let later = script.now.as_secs();
    assert_eq!(script.drained(), [format!("n1 {later} again")], "2: reason and time");
    script.wait(1000);
    script.drain("1", "", Some(1));
    assert_eq!(script.drained(), [format!("n1 {later} -")], "1 without reason clears it");
    // One event with all targets, whatever changes on each.
    assert_eq!(script.drain("0-1", "both", Some(0))[0], "drain 0-1 n[0-1] <both> 0");
    assert_eq!(script.drained(), [format!("n0 {} both", later + 1), format!("n1 {later} -")]);
}

#[test]
fn a_drain_that_says_nothing_of_overwriting_wants_undrained_targets() {
    // J5.1, mode absent
    let mut script = four();
    script.drain("1-2", "", None);
    let before = script.drained();
    let refused = "already drained; overwrite 0 leaves them as they are, 1 replaces their reason, 2 reason and time";
    assert_eq!(script.drain("0-1", "x", None), [format!("refused: rank 1 {refused}")]);
    assert_eq!(script.drain("0-3", "x", None), [format!("refused: ranks 1-2 {refused}")]);
    assert_eq!(script.drained(), before, "all or nothing");
}

#[test]
fn hosts_are_written_so_that_they_are_not_taken_for_ranks() {
    // J5.1
    let mut script = Script::new("");
    script.begin();
    let hosts = ["1", "0-2", "n[2-3]", "a,b", "n4"];
    hosts.iter().for_each(|host| drop(script.register_as(host, "", true)));
    let targets = |hosts: &[&str]| targets_of(hosts.iter().map(|host| Arc::from(*host)));
    assert_eq!(hosts.map(|host| targets(&[host])), ["1,", "0-2,", "n%5B2-3%5D", "a%2Cb", "n4"]);
    for (rank, host) in hosts.iter().enumerate() {
        assert!(script.drain(&targets(&[host]), "", None)[0].starts_with(&format!("drain {rank} ")), "{host}");
    }
    assert!(script.undrain(&targets(&hosts[..2]), false)[0].starts_with("undrain 0-1 "));
}

#[test]
fn targets_are_ranks_or_hosts() {
    // J5.1
    let mut script = four();
    assert_eq!(script.drain("n[2-3]", "by host", None)[0], "drain 2-3 n[2-3] <by host> 0");
    for (targets, fault) in [
        ("", "idset is empty: name at least one rank or host"),
        ("[]", "idset is empty: name at least one rank or host"),
        (",", "hostlist is empty: name at least one rank or host"),
        ("2-9", "idset is out of range: '4-9' (ranks are 0-3)"),
        ("0-2147483647", "idset is out of range: '4-2147483647' (ranks are 0-3)"),
        ("3,2", "invalid targets: invalid hosts: [3,2]"),
        ("01", "invalid targets: invalid hosts: 01"),
        ("n1,nosuch", "invalid targets: invalid hosts: nosuch"),
        (
            "x[",
            "invalid targets: Hostlist cannot be decoded: 'x[', character 2: brackets are not balanced (nor is it an idset)",
        ),
    ] {
        assert_eq!(script.drain(targets, "", None), [format!("refused: {fault}")]);
        assert_eq!(script.undrain(targets, true), [format!("refused: {fault}")]);
    }
    let unknown: Vec<String> = (0..20).map(|n| format!("z{n}")).collect();
    let expected = unknown.iter().collect::<HostList>();
    assert_eq!(
        script.drain("z[0-1048575]", "", None),
        [format!("refused: invalid targets: invalid hosts: {expected}")]
    );
}

#[test]
fn undrain_wants_drained_targets_unless_told_otherwise() {
    // RFC 44 undrain; J5.2
    let mut script = four();
    script.drain("2-3", "", None);
    assert_eq!(script.undrain("0-2", false), ["refused: ranks 0-1 not drained"]);
    assert_eq!(script.drained().len(), 2);
    assert_eq!(script.undrain("n2", false), ["undrain 2 n2", "release n2"]);
    assert_eq!(script.undrain("2-3", true), ["undrain 2-3 n[2-3]", "release n2,n3"]);
    assert!(script.drained().is_empty());
}

#[test]
fn operator_drains_outlive_sessions_and_registrations() {
    let mut script = four();
    script.drain("1", "disk", None);
    script.remove("n1");
    script.wait(100);
    assert_eq!(script.register("n1"), ["hold n1"]);
    script.wait(100);
    script.collect(|journal, now, out| journal.end(now, out));
    assert!(script.begin().is_empty(), "the service goes on: no restart (SEEDS S38)");
    assert_eq!(script.register("n[0-3]"), ["hold n1"]);
    assert_eq!(script.wait(100), ["online 0-3"]);
    assert_eq!(script.undrain("1", false)[1], "release n1");
    assert!(script.register("n1").is_empty());
}

#[test]
fn the_drain_of_the_resource_manager_follows_it() {
    let mut script = four();
    script.schedulable("n1", false);
    script.schedulable("n2", false);
    assert_eq!(script.wait(100), ["drain 1-2 n[1-2] <drained by the resource manager> 0 (rm)"]);
    assert_eq!(
        script.undrain("1", true),
        ["refused: rank 1 drained by the resource manager, which has to undrain them"]
    );
    script.schedulable("n1", true);
    assert_eq!(script.wait(100), ["undrain 1 n1 (rm)"]);
    script.remove("n2");
    assert_eq!(script.wait(100), ["offline 2", "undrain 2 n2 (rm)"], "it does not outlive the node");
    script.register_as("n2", "n2", false);
    assert_eq!(script.wait(100)[0], "online 2");
    // Nor the session, even where nobody said that it ended.
    assert!(script.begin().is_empty());
    assert_eq!(script.wait(100), ["offline 0-3", "undrain 2 n2 (rm)"]);
}

#[test]
fn the_drain_of_the_resource_manager_stays_where_its_session_goes_on_after_a_restart() {
    let mut script = four();
    script.schedulable("n1", false);
    script.schedulable("n2", false);
    script.wait(100);
    script.wait(5000);
    script.begin();
    for node in ["n0", "n1", "n2", "n3"] {
        script.register_as(node, node, node != "n1");
    }
    assert_eq!(script.wait(100), ["undrain 2 n2 (rm)"], "that of n1 is as old as it was");
}

/// 004: drained nodes remain so, over restarts, too; 000: attributes of a node replace the earlier ones.
#[test]
fn a_drain_goes_with_a_node_that_has_another_host_name() {
    let rename = |script: &mut Script, node: &str, host: &str| {
        script.fact(Fact::Node(NodeEffect::Renamed { node: node.into(), host: host.into() }))
    };
    let mut script = four();
    assert!(rename(&mut script, "n0", "x").is_empty());
    assert_eq!(script.wait(100), ["resource-define dynamic-discovery", "online 4", "offline 0"]);
    script.drain("4", "disk", None);
    assert_eq!(
        rename(&mut script, "n0", "y"),
        [
            "resource-define dynamic-discovery",
            "online 5",
            "offline 4",
            "drain 5 y <disk> 0",
            "undrain 4 x <its node is y now>",
            "hold n0"
        ]
    );
    assert_eq!(script.undrain("4", false), ["refused: rank 4 not drained"]);
    // Back to a rank that is drained already.
    script.drain("1", "power", None);
    script.remove("n1");
    assert_eq!(
        rename(&mut script, "n0", "n1"),
        ["hold n0", "offline 5", "undrain 5 y <its node is n1 now>"].map(str::to_owned)
    );
    assert!(rename(&mut script, "nobody", "z").is_empty());
}

/// As above, for a shim that names the hosts of its nodes from some day on.
#[test]
fn a_drain_goes_with_a_node_that_comes_again_with_a_host_name() {
    let mut script = four();
    script.drain("1", "disk", None);
    script.remove("n1");
    script.remove("n2");
    assert!(script.register_as("n2", "x", true).is_empty());
    let told = script.register_as("n1", "y", true);
    for expected in ["drain 5 y <disk> 0", "undrain 1 n1 <its node is y now>", "hold n1"] {
        assert!(told.iter().any(|line| line == expected), "{expected}: {told:?}");
    }
    // Another machine of that name is none of the node's.
    script.register_as("other", "n1", true);
    assert_eq!(script.undrain("1", false), ["refused: rank 1 not drained"]);
}

#[test]
fn both_may_drain_a_target() {
    let mut script = four();
    script.schedulable("n1", false);
    script.wait(100);
    // The operator's drain is accepted: for an operator the target is not drained yet.
    assert_eq!(script.drain("1", "disk", None), ["drain 1 n1 <disk> 0", "hold n1"]);
    script.schedulable("n1", true);
    assert_eq!(script.wait(100), ["drain 1 n1 <disk> 1"], "it stays drained, with the operator's reason");
    script.schedulable("n1", false);
    assert!(script.wait(100).is_empty());
    // The operator lets go, the resource manager does not.
    let expected = ["undrain 1 n1", "drain 1 n1 <drained by the resource manager> 0 (rm)", "release n1"];
    let mut events = script.undrain("1", false);
    events.sort_by_key(|event| event.starts_with("release"));
    assert_eq!(events, expected);
    script.schedulable("n1", true);
    assert_eq!(script.wait(100), ["undrain 1 n1 (rm)"]);
    assert!(script.drained().is_empty());
}

#[test]
fn what_is_silent_is_told_together_and_lively_when_it_is_heard_of() {
    // RFC 44 torpid, lively; J5.4
    let mut script = four();
    script.wait(100);
    let torpid = |script: &mut Script, node: &str, torpid| script.fact(Fact::Torpid { node: node.into(), torpid });
    for node in ["n1", "n2", "n3"] {
        torpid(&mut script, node, true);
    }
    assert_eq!(script.wait(100), ["torpid 1-3"]);
    // Twice, and of one that nobody knows: nothing is told.
    torpid(&mut script, "n1", true);
    torpid(&mut script, "nobody", true);
    assert!(script.wait(1_000).is_empty());
    torpid(&mut script, "n2", false);
    assert_eq!(script.wait(100), ["lively 2"]);
    // Torpid, then offline: it is lively when it is heard of again.
    script.remove("n3");
    assert_eq!(script.wait(100), ["offline 3"]);
    script.register("n3");
    assert_eq!(script.wait(100), ["online 3", "lively 3"]);
    // Silent and heard of within one batch.
    torpid(&mut script, "n0", true);
    torpid(&mut script, "n0", false);
    assert!(script.wait(1_000).is_empty());
}

#[test]
fn a_rank_that_another_host_gets_is_lively() {
    let mut script = four();
    script.fact(Fact::Torpid { node: "n3".into(), torpid: true });
    script.fact(Fact::Torpid { node: "n1".into(), torpid: true });
    assert_eq!(script.wait(100), ["torpid 1,3"]);
    script.remove("n1");
    script.remove("n3");
    script.wait(100);
    script.now = script.now.plus(Nanos::from_secs(3600));
    script.register("other");
    let events = script.wait(100);
    assert_eq!(events, ["lively 3", "resource-define dynamic-discovery", "online 1", "lively 1"]);
    script.register("another");
    assert_eq!(script.wait(100), ["resource-define dynamic-discovery", "online 3"]);
}

#[test]
fn the_end_of_a_session_takes_its_nodes_offline() {
    let mut script = four();
    assert_eq!(script.collect(|journal, now, out| journal.end(now, out)), ["offline 0-3"]);
    assert!(script.fact(Fact::Torpid { node: "n0".into(), torpid: true }).is_empty());
    assert!(script.wait(100_000).is_empty());
}

fn past(idset: &str, nodelist: &str, origin: Origin) -> ResourceEvent {
    let targets = Targets::parse(idset, nodelist).unwrap();
    let at = Nanos::from_secs(1_700_000_001);
    let kind = Kind::Drain { targets, reason: None, overwrite: Overwrite::Nothing, origin, deadline: None };
    ResourceEvent { at, kind }
}

#[test]
fn a_drained_host_that_is_not_known_waits_for_its_return() {
    // J6.3: keep unknown hosts
    let mut script = Script::new("n[0-1]");
    script.journal.replay(&past("2-3", "n[8-9]", Origin::Operator)).unwrap();
    script.journal.replay(&past("2", "n7", Origin::ResourceManager)).unwrap();
    script.begin();
    assert_eq!(script.wait(100)[0], "restart 0-3 <> n[0-1,8-9]");
    assert_eq!(script.undrain("n8", false), ["undrain 2 n8"]);
    assert_eq!(script.register("n9"), ["hold n9"]);
    assert_eq!(script.wait(100), ["resource-define reload", "online 3"]);
}

#[test]
fn ranks_without_host_count_as_they_are_or_are_named() {
    // J6.2, rules 4 and 5
    let mut script = Script::new("n[0-3]");
    script.journal.replay(&past("0-2", "n0", Origin::Operator)).unwrap();
    assert_eq!(script.drained(), ["n0 1 -", "n1 1 -", "n2 1 -"]);
    let lost = script.journal.replay(&past("3-2147483647", "", Origin::Operator)).unwrap_err();
    assert_eq!(lost, "ranks 4-2147483647 have no host in this event and do not exist (any more)");
    assert_eq!(script.drained().len(), 4);
}

#[test]
fn the_partition_knows_the_hosts_to_hold_before_their_nodes_come() {
    let mut script = four();
    let operate = |script: &mut Script, targets: &str, drained: bool| -> Vec<String> {
        let events = if drained {
            let request = DrainRequest { targets: targets.to_owned(), ..DrainRequest::default() };
            script.journal.plan_drain(&request, script.moment()).unwrap()
        } else {
            let request = UndrainRequest { targets: targets.to_owned(), reason: None, lenient: false };
            script.journal.plan_undrain(&request, script.moment()).unwrap()
        };
        let mut out = Vec::new();
        script.journal.carry_out(&events, &mut out);
        out.iter().filter(|output| !matches!(output, Output::Tell(Command::NoteDrains(_)))).map(show).collect()
    };
    // Two nodes of one host, rank 1 and rank 4.
    script.register_as("twin", "n1", true);
    assert_eq!(operate(&mut script, "1-2", true), ["hold hosts n1,n2", "hold n1,n2"]);
    assert_eq!(script.journal.held_hosts(), ["n1".into(), "n2".into()] as [Arc<str>; 2]);
    assert_eq!(operate(&mut script, "4", true), ["hold hosts n1", "hold twin"]);
    assert_eq!(operate(&mut script, "1", false), ["release n1"], "the other node of the host is drained still");
    assert_eq!(operate(&mut script, "4", false), ["release hosts n1", "release twin"]);
    // Also of what is away: the partition may remember it.
    script.remove("n2");
    assert_eq!(operate(&mut script, "2", false), ["release hosts n2", "release n2"]);
    assert_eq!(operate(&mut script, "2", true), ["hold hosts n2"]);
    // A node that the partition held back for its host is let go where that was wrong.
    assert_eq!(script.fact(Fact::Node(NodeEffect::Held { node: "n3".into() })), ["release n3"]);
    assert_eq!(script.register("n2"), ["hold n2"]);
    assert!(script.fact(Fact::Node(NodeEffect::Held { node: "n2".into() })).is_empty());
    assert!(script.fact(Fact::Node(NodeEffect::Held { node: "nobody".into() })).is_empty());
}

#[test]
fn a_deadline_that_passed_is_told_once_and_to_whoever_comes_back() {
    let mut script = four();
    let drain = |script: &mut Script, targets: &str, seconds: i64, overwrite: Option<Overwrite>| {
        let deadline = Some(script.moment().wall.plus(Nanos::from_secs(seconds))).filter(|_| seconds > 0);
        let request = DrainRequest { targets: targets.to_owned(), deadline, overwrite, ..DrainRequest::default() };
        let events = script.journal.plan_drain(&request, script.moment());
        script.operate(events)
    };
    let overdue = |script: &Script| -> Vec<String> {
        let found = script.journal.overdue(script.moment());
        found.iter().map(|one| format!("{} on {}", one.node, one.host)).collect()
    };
    drain(&mut script, "0-1", 60, None);
    drain(&mut script, "2", 90, None);
    assert!(script.wait(59_999).is_empty() && overdue(&script).is_empty());
    assert_eq!(script.wait(1), ["overdue n0,n1"]);
    assert_eq!(overdue(&script), ["n0 on n0", "n1 on n1"]);
    assert!(script.wait(29_000).is_empty(), "once");
    // A new reason leaves the deadline; a new time without one takes it away, and so does the end of the drain.
    drain(&mut script, "2", 0, Some(Overwrite::Reason));
    assert_eq!(script.wait(1_000), ["overdue n2"]);
    drain(&mut script, "2", 0, Some(Overwrite::ReasonAndTime));
    script.undrain("1", false);
    assert_eq!(overdue(&script), ["n0 on n0"]);
    drain(&mut script, "0", 5, Some(Overwrite::Nothing));
    assert_eq!(overdue(&script), ["n0 on n0"], "what is drained stays as it is");
    // Gone, it is nobody's; when it is back, it is told of again.
    script.remove("n0");
    script.wait(100);
    assert!(overdue(&script).is_empty());
    assert_eq!(script.register("n0"), ["hold n0", "overdue n0"]);
    drain(&mut script, "0", 30, Some(Overwrite::Reason));
    assert!(overdue(&script).is_empty());
    assert!(script.wait(29_999).iter().all(|told| !told.starts_with("overdue")));
    assert_eq!(script.wait(1), ["overdue n0"]);
}

/// What another server was told, of a host that this journal has never heard of, too.
#[test]
fn a_journal_agrees_with_what_another_server_was_told() {
    let mut script = Script::new("n[0-2]");
    script.begin();
    let note = |seconds: i64, reason: &str, deadline: Option<i64>| DrainNote {
        since: Nanos::from_secs(seconds),
        reason: Some(reason.into()),
        deadline: deadline.map(Nanos::from_secs),
    };
    // It drained n0 and n1 itself, n0 for another reason.
    let now = script.moment();
    for (targets, reason) in [("0", "old"), ("1", "own")] {
        let (targets, reason) = (targets.to_owned(), Some(reason.into()));
        let request = DrainRequest { targets, reason, ..DrainRequest::default() };
        let events = script.journal.plan_drain(&request, now).unwrap();
        script.journal.carry_out(&events, &mut Vec::new());
    }
    let hosts: BTreeSet<Arc<str>> = ["n0".into(), "away".into()].into();
    let notes: BTreeMap<Arc<str>, DrainNote> =
        [("n0".into(), note(7, "new", Some(9))), ("away".into(), note(8, "fan", None))].into();
    let agree = |journal: &mut Journal, now| {
        journal.meet(&hosts, now);
        let mut out = Vec::new();
        journal.flush(now, &mut out);
        let events = journal.plan_agreement(&BTreeSet::new(), &hosts, &notes, now).unwrap();
        journal.carry_out(&events, &mut out);
        out.iter().map(show).collect::<Vec<_>>()
    };
    let out = agree(&mut script.journal, now);
    assert!(out.contains(&"note n0 <new>".to_owned()) && out.contains(&"note away <fan>".to_owned()), "{out:?}");
    let all = script.journal.status();
    let drains = all.iter().filter_map(|target| Some((&*target.host, target.drain.clone()?)));
    let drains: Vec<_> = drains.map(|(host, drain)| (host, drain.since, drain.reason, drain.deadline)).collect();
    let secs = Nanos::from_secs;
    assert_eq!(
        drains,
        [("n0", secs(7), Some("new".into()), Some(secs(9))), ("away", secs(8), Some("fan".into()), None)]
    );
    assert_eq!(script.journal.drain_notes().into_iter().collect::<BTreeMap<_, _>>(), notes);
    // Nothing more is to be said.
    assert_eq!(agree(&mut script.journal, now), Vec::<String>::new());
}
