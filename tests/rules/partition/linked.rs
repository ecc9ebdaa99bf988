//! What events tell of users and groups adds up to what they are shown to use, whatever the shim is asked about meanwhile.

use std::{collections::BTreeMap, sync::Arc};

use callboard::domain::{
    Partition,
    command::{Command, PredicateTerms},
    event::{Change, Detail, Event},
    resources::Resource,
    types::Termination,
    ugm::Who,
};

use super::env::{Ask, Env, QUEUES};

/// Who reads all events, and nothing else (EVT-050 to EVT-052).
#[derive(Default)]
pub struct Reader {
    /// The groups of applications.
    links: BTreeMap<Arc<str>, Arc<str>>,
    /// By user or group, and leaf.
    used: BTreeMap<(Who, Arc<str>, Arc<str>), Resource>,
}

impl Reader {
    pub fn note(&mut self, event: &Event) {
        let (object, reference) = (event.object.clone(), event.reference.clone());
        let who = match event.detail {
            Detail::UserResource => Who::User,
            Detail::GroupResource => Who::Group,
            Detail::AppLink => {
                let (before, now) = match event.change {
                    Change::Set => (None, self.links.insert(reference, object)),
                    _ => (Some(object), self.links.remove(&reference)),
                };
                return assert_eq!(now, before, "{event:?}");
            }
            _ => return,
        };
        let used = self.used.entry((who, object.clone(), reference)).or_default();
        let amount = event.resource.as_ref().expect("an amount");
        if event.change == Change::Add {
            used.add(amount);
            assert!(who == Who::User || self.links.values().any(|group| *group == object), "no link yet: {event:?}");
        } else {
            used.sub(amount);
        }
        used.prune();
        self.used.retain(|_, used| !used.is_empty());
    }

    pub fn check(&self, partition: &Partition) {
        let usage = partition.usage();
        let mut used: BTreeMap<(Who, Arc<str>, Arc<str>), Resource> = BTreeMap::new();
        for (who, name, leaf, amount) in usage.charges() {
            used.entry((who, name.clone(), leaf)).or_default().add(amount);
        }
        used.values_mut().for_each(Resource::prune);
        used.retain(|_, used| !used.is_empty());
        assert_eq!(self.used, used);
        let links: BTreeMap<_, _> = usage.users().flat_map(|user| user.groups).collect();
        assert_eq!(self.links, links);
    }
}

/// `root.a` has a limit for the group of everybody, and the shim is asked about several asks side by side.
fn asked() -> Env {
    let limit = "limits: [{limit: few, groups: [staff], maxresources: {memory: 1000}}]";
    let mut env = Env::new(&QUEUES.replace("- name: a\n", &format!("- name: a\n            {limit}\n")));
    env.apply(Command::PredicateTerms(PredicateTerms { constrained: false, ..PredicateTerms::default() }));
    env.apply(Command::AskPredicates(true));
    env.node("n1", 100);
    env.app("app-1", "root.a");
    env
}

/// Links and usage that events told of since the last call.
fn told(env: &mut Env) -> Vec<String> {
    let events = std::mem::take(&mut env.events);
    let told = |event: &Event| match event.detail {
        Detail::AppLink => Some(format!("{:?} {} to {}", event.change, event.reference, event.object)),
        Detail::UserResource | Detail::GroupResource => {
            Some(format!("{:?} {} {}", event.change, event.object, event.resource.as_ref()?.iter().next()?.1))
        }
        _ => None,
    };
    events.iter().filter_map(told).collect()
}

#[test]
fn an_application_is_linked_to_its_group_with_the_first_of_it_that_the_shim_agrees_to() {
    // EVT-052, EVT-055, UGM-020, seed 002: "a group is selected when the first usage is registered".
    let mut env = asked();
    env.ask(vec![Ask::new("app-1", "k1", 1), Ask::new("app-1", "k2", 2), Ask::new("app-1", "k3", 3)]);
    assert_eq!((env.questions.len(), told(&mut env)), (3, vec![]));
    env.refuse("k1", "n1");
    env.answer_one();
    assert_eq!(told(&mut env), [""; 0], "nothing of it counts yet");
    env.answer_one();
    assert_eq!(told(&mut env), ["Set app-1 to staff", "Add alice 2", "Add staff 2"]);
    env.answer_one();
    assert_eq!(told(&mut env), ["Add alice 3", "Add staff 3"], "once");
    for key in ["k1", "k2", "k3"] {
        env.release("app-1", key, Termination::StoppedByRm);
    }
    let ends = ["Remove alice 2", "Remove staff 2", "Remove alice 3", "Remove app-1 to staff", "Remove staff 3"];
    assert_eq!(told(&mut env), ends);
    // It comes back, and is linked anew.
    env.ask(vec![Ask::new("app-1", "k4", 4)]);
    assert_eq!(told(&mut env), [""; 0]);
    env.answer_one();
    assert_eq!(told(&mut env), ["Set app-1 to staff", "Add alice 4", "Add staff 4"]);
}

#[test]
fn whichever_is_answered_first() {
    // EVT-052: the second of two questions, on the node that was asked about or on another, or what the shim reports meanwhile.
    for how in 0..3 {
        let mut env = asked();
        env.node("n2", 50);
        env.ask(vec![Ask::new("app-1", "k1", 1), Ask::new("app-1", "k2", 2)]);
        match how {
            0 => env.questions.swap(0, 1),
            1 => {
                env.refuse("k1", "n1");
                env.refuse("k2", "n1");
            }
            _ => env.ask(vec![Ask::new("app-1", "k3", 2).on("n1")]),
        }
        if how == 1 {
            env.answer_all();
            assert_eq!(told(&mut env).iter().filter(|told| told.starts_with("Set")).count(), 1);
            continue;
        }
        if how == 0 {
            env.answer_one();
        }
        assert_eq!(told(&mut env), ["Set app-1 to staff", "Add alice 2", "Add staff 2"], "{how}");
        env.answer_all();
        assert!(!told(&mut env).iter().any(|told| told.starts_with("Set")), "{how}");
    }
}

#[test]
fn one_of_which_the_shim_agrees_to_nothing_is_linked_to_nobody() {
    // SEEDS S28: it is asked about and refused, withdrawn, not answered, or asked about under other limits.
    for how in 0..5 {
        let mut env = asked();
        env.ask(vec![Ask::new("app-1", "k1", 1), Ask::new("app-1", "k2", 2)]);
        match how {
            0 => {
                env.refuse("k1", "n1");
                env.refuse("k2", "n1");
                env.answer_all();
            }
            1 => {
                env.release("app-1", "k2", Termination::StoppedByRm);
                env.release("app-1", "k1", Termination::StoppedByRm);
            }
            2 => env.remove_app("app-1"),
            3 => env.reload(QUEUES),
            _ => {
                let open = env.questions.len();
                for _ in 0..open {
                    env.unanswered();
                }
            }
        }
        assert_eq!(told(&mut env), [""; 0], "{how}");
        if how == 3 {
            env.answer_all();
            assert_eq!(told(&mut env), ["Add alice 1", "Add alice 2"], "no limit is about groups now");
        }
    }
}

#[test]
fn a_gang_is_linked_with_its_first_placeholder_or_all_of_them() {
    // EVT-052, UGM-040: the originator is refused, the gang beside it is not.
    for atomic in [false, true] {
        let mut env = asked();
        if atomic {
            env.reload(
                &QUEUES
                    .replace("- name: a\n", "- name: a\n            properties: {gang.admission: atomic}\n            limits: [{limit: few, groups: [staff], maxresources: {memory: 1000}}]\n"),
            );
        }
        env.gang("g", "root.a", 4, "Soft");
        let driver = Ask::new("g", "driver", 1).originator();
        env.ask(vec![driver, Ask::new("g", "p1", 2).placeholder("tg"), Ask::new("g", "p2", 2).placeholder("tg")]);
        told(&mut env);
        env.refuse("driver", "n1");
        env.answer_all();
        let all = ["Set g to staff", "Add alice 2", "Add staff 2", "Add alice 2", "Add staff 2"];
        assert_eq!(told(&mut env), all, "{atomic}");
        env.end(&["g"]);
    }
}
