//! Which rank a node has, and which one a name means.

use super::*;
use crate::idset::IdSet;

/// A node that registered without a host name, and then got one.
fn renamed() -> Script {
    let mut script = Script::new("");
    script.begin();
    script.register_as("n0", "", true);
    script.wait(100);
    script.fact(Fact::Node(NodeEffect::Renamed { node: "n0".into(), host: "host-a".into() }));
    script.wait(100);
    assert_eq!(script.hosts(), "n0,host-a");
    script
}

#[test]
fn a_node_that_got_a_host_name_is_meant_by_its_id_and_not_the_host_that_it_was() {
    let mut script = renamed();
    assert_eq!(script.drain("n0", "smoke", None), ["drain 1 host-a <smoke> 0", "hold n0"]);
    assert_eq!(script.undrain("n0", false), ["undrain 1 host-a", "release n0"]);
    // The host of that name is meant where it is the one that is drained, and neither where both are.
    script.drain("0", "old", None);
    assert_eq!(script.undrain("n0", false), ["undrain 0 n0"]);
    script.drain("0-1", "both", None);
    let both =
        "'n0' may be host n0 (rank 0), which is away, or node n0 on host host-a (rank 1): name the rank that is meant";
    assert_eq!(script.undrain("n0", false), [format!("refused: {both}")]);
    assert_eq!(script.drain("n0", "again", Some(1)), [format!("refused: {both}")]);
    // What works at a host of that name is what is meant.
    script.undrain("0-1", false);
    script.register_as("other", "n0", true);
    assert_eq!(script.drain("n0", "host", None), ["drain 0 n0 <host> 0", "hold other"]);
}

#[test]
fn a_host_that_is_away_and_a_node_elsewhere_of_that_name_are_told_apart_by_rank() {
    let mut script = Script::new("");
    script.begin();
    script.register_as("other", "n0", true);
    script.register_as("n0", "host-a", true);
    script.remove("other");
    script.wait(100);
    let refused = script.drain("n0", "smoke", None).remove(0);
    assert!(refused.contains("host n0 (rank 0), which is away, or node n0 on host host-a (rank 1)"), "{refused}");
    // Its node is known to be somewhere else: nobody waits for it at this host.
    script.register_as("other", "host-b", true);
    assert_eq!(script.drain("n0", "smoke", None), ["drain 1 host-a <smoke> 0", "hold n0"]);
}

#[test]
fn nodes_that_get_ever_new_host_names_do_not_make_the_list_grow() {
    let mut script = Script::new("");
    script.begin();
    script.register("kept,gone,n[0-9]");
    script.wait(100);
    script.drain("gone", "broken", None);
    script.remove("gone");
    for round in 0..3_000 {
        for node in 0..10 {
            let (node, host) = (format!("n{node}").into(), format!("x{round}-{node}").into());
            script.fact(Fact::Node(NodeEffect::Renamed { node, host }));
        }
        // A while goes by without an event as well.
        if round % 500 == 499 {
            script.wait(100);
        }
    }
    script.wait(100);
    let ranks = script.journal.size() as usize;
    assert!(ranks <= 2 * 12 + SPARE + 1, "{ranks}");
    assert_eq!(script.drained(), ["gone 1 broken"]);
    // Those that went last have their ranks still.
    let hosts: Vec<_> = script.journal.nodelist().iter().collect();
    assert!(["kept", "gone", "x2999-9", "x2500-0"].iter().all(|host| hosts.iter().any(|known| known == host)));
    assert_eq!(hosts.iter().filter(|host| host.starts_with('x')).count(), ranks - 2);
}

#[test]
fn as_many_ranks_as_were_registered_may_be_away() {
    let mut script = Script::new("n[1-30000]");
    script.begin();
    script.wait(100);
    script.register("x");
    assert_eq!(script.journal.size(), 30_001, "those of a stored set come back");
    script.register("n1");
    assert_eq!(&*script.journal.status()[0].host, "n1");
}

#[test]
fn a_drain_waits_for_its_node_in_whichever_order_those_of_a_host_come_back() {
    for (drained, second) in [("n2", "n1"), ("n1", "n2")] {
        for order in [["n1", "n2"], ["n2", "n1"]] {
            let mut script = Script::new("");
            script.begin();
            script.register_as("n1", "h", true);
            script.register_as("n2", "h", true);
            script.wait(100);
            let request = DrainRequest { targets: drained.to_owned(), ..DrainRequest::default() };
            let events = script.journal.plan_drain(&request, script.moment()).unwrap();
            let Kind::Drain { targets, .. } = &events[0].kind else { panic!("no drain") };
            assert_eq!(targets.nodes.as_ref().unwrap().to_string(), drained);
            // Another process: only what is stored is known.
            let (at, targets) = (events[0].at, targets.clone());
            let (reason, overwrite, origin) = (None, Overwrite::Nothing, Origin::Operator);
            let mut script = Script::new("h,h");
            let kind = Kind::Drain { targets, reason, overwrite, origin, deadline: None };
            script.journal.replay(&ResourceEvent { at, kind }).unwrap();
            script.begin();
            let held: Vec<_> = order.iter().flat_map(|node| script.register_as(node, "h", true)).collect();
            assert_eq!(held, [format!("hold {drained}")], "{order:?}");
            assert_eq!(
                script.undrain(second, false).remove(0),
                format!("refused: rank {} not drained", u8::from(drained == "n1"))
            );
        }
    }
}

#[test]
fn a_drained_host_stays_so_when_another_node_comes_in_the_place_of_its_own() {
    let mut script = Script::new("");
    script.begin();
    script.register_as("i-1", "h", true);
    script.wait(100);
    script.drain("i-1", "disk", None);
    script.remove("i-1");
    script.wait(100);
    assert_eq!(script.register_as("i-2", "h", true), ["hold i-2"]);
}

#[test]
fn ids_of_nodes_come_back_as_they_are() {
    let mut script = Script::new("");
    script.begin();
    script.register_as("a,b", "h", true);
    script.register_as("c", "h", true);
    let targets = script.journal.targets(IdSet::first(1));
    assert_eq!(targets.nodes.as_ref().unwrap().to_string(), "a%2Cb");
    // The host says which node it is, where it has its name and no other is there.
    let mut plain = Script::new("");
    plain.begin();
    plain.register("n0,n1");
    plain.register_as("a", "n2", true);
    assert!(plain.journal.targets(IdSet::first(2)).nodes.is_none());
    assert_eq!(plain.journal.targets(IdSet::first(3)).nodes.unwrap().to_string(), "n[0-1],a");
    let mut script = Script::new("h,h");
    let (reason, overwrite, origin) = (None, Overwrite::Nothing, Origin::Operator);
    let kind = Kind::Drain { targets, reason, overwrite, origin, deadline: None };
    script.journal.replay(&ResourceEvent { at: Nanos::from_secs(1), kind }).unwrap();
    assert_eq!(script.journal.status()[0].node.as_deref(), Some("a,b"));
}

/// What is stored of a journal: the hosts by rank, and the drains and undrains that were told.
struct Stored {
    script: Script,
    past: Vec<ResourceEvent>,
}

impl Stored {
    fn begin() -> Stored {
        let mut script = Script::new("");
        script.begin();
        Stored { script, past: Vec::new() }
    }

    fn keep(&mut self, out: &[Output]) {
        for output in out {
            if let Output::Event(event) = output
                && let Kind::Drain { .. } | Kind::Undrain { .. } = event.kind
            {
                self.past.push(event.clone());
            }
        }
    }

    fn operate(&mut self, targets: &str, drained: bool) {
        let (targets, now) = (targets.to_owned(), self.script.moment());
        let journal = &mut self.script.journal;
        let events = if drained {
            journal.plan_drain(&DrainRequest { targets, ..DrainRequest::default() }, now)
        } else {
            journal.plan_undrain(&UndrainRequest { targets, ..UndrainRequest::default() }, now)
        };
        let (events, mut out) = (events.unwrap(), Vec::new());
        out.extend(events.iter().cloned().map(Output::Event));
        journal.carry_out(&events, &mut out);
        self.keep(&out);
    }

    /// Of host `h`.
    fn register(&mut self, node: &str) {
        self.script.register_as(node, "h", true);
        self.flush();
    }

    fn remove(&mut self, node: &str) {
        self.script.remove(node);
        self.flush();
    }

    fn flush(&mut self) {
        let (now, mut out) = (self.script.moment(), Vec::new());
        self.script.journal.flush(now, &mut out);
        self.keep(&out);
    }

    /// Another process, which knows no nodes yet.
    fn restart(&mut self) {
        self.script = Script::new(&self.script.journal.nodelist().to_string());
        self.past.iter().for_each(|past| self.script.journal.replay(past).unwrap());
        self.script.begin();
    }

    fn drained(&self) -> Vec<String> {
        let drained = self.script.journal.status().into_iter().filter(|target| target.drain.is_some());
        let mut nodes: Vec<_> = drained.map(|target| target.node.unwrap().to_string()).collect();
        nodes.sort();
        nodes
    }
}

#[test]
fn a_drain_is_of_its_node_when_another_came_to_the_host_later() {
    // The drained one is called as its host is, or not.
    for node in ["n5", "h"] {
        for order in [[node, "n6"], ["n6", node]] {
            let mut stored = Stored::begin();
            stored.register(node);
            stored.operate(node, true);
            stored.register("n6");
            stored.remove(node);
            stored.restart();
            order.iter().for_each(|node| stored.register(node));
            assert_eq!(stored.drained(), [node], "{order:?}");
            assert_eq!(stored.past.len(), 1);
        }
    }
}

#[test]
fn nodes_that_come_to_drains_of_their_host_are_told_apart_from_then_on() {
    let mut stored = Stored::begin();
    stored.register("n5");
    stored.register("n6");
    stored.restart();
    stored.operate("h", true);
    stored.register("n5");
    stored.register("n6");
    stored.operate("n5", false);
    assert_eq!(stored.drained(), ["n6"]);
    for order in [["n6", "n5"], ["n5", "n6"]] {
        stored.restart();
        order.iter().for_each(|node| stored.register(node));
        assert_eq!(stored.drained(), ["n6"], "{order:?}");
    }
    // Each was told once: restarts alone add nothing.
    let told = stored.past.len();
    stored.restart();
    ["n6", "n5"].iter().for_each(|node| stored.register(node));
    assert_eq!(stored.past.len(), told);
    // Nor does another one get the drain.
    stored.remove("n6");
    stored.restart();
    ["n5", "n7", "n6"].iter().for_each(|node| stored.register(node));
    assert_eq!(stored.drained(), ["n6"]);
}

#[test]
fn a_node_in_the_place_of_a_drained_one_keeps_its_drain() {
    let mut stored = Stored::begin();
    stored.register("n5");
    stored.operate("n5", true);
    stored.remove("n5");
    stored.register("n6");
    stored.register("n5");
    for order in [["n5", "n6"], ["n6", "n5"]] {
        assert_eq!(stored.drained(), ["n6"], "{order:?}");
        stored.restart();
        order.iter().for_each(|node| stored.register(node));
    }
}

#[test]
fn an_undrain_is_of_its_node_where_the_ranks_of_its_host_are_others() {
    let mut stored = Stored::begin();
    stored.register("x");
    ["n5", "n6"].iter().for_each(|node| stored.register(node));
    stored.operate("1-2", true);
    stored.operate("n6", false);
    // The resource set is lost: ranks are given anew.
    let past = std::mem::take(&mut stored.past);
    stored = Stored { past, ..Stored::begin() };
    stored.restart();
    ["n6", "x", "n5"].iter().for_each(|node| stored.register(node));
    assert_eq!(stored.drained(), ["n5"]);
}
