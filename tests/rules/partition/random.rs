//! Random lives, for tests that look at what becomes of one partition. Rules that hold in every life are those of `callboard simulate`.

use callboard::domain::{
    command::{Command, NodeAction},
    types::Termination,
};
use proptest::prelude::*;

use super::env::{Ask, Env, res};

pub const YAML: &str = "
partitions:
  - name: default
    preemption: {quotapreemptionenabled: true}
    queues:
      - name: root
        submitacl: '*'
        properties: {preemption.delay: 1s, quota.preemption.delay: 3s}
        limits:
          - limit: all
            users: ['*']
            maxresources: {memory: 120}
        queues:
          - name: a
            resources: {max: {memory: 60}, guaranteed: {memory: 20}}
            maxapplications: 2
          - name: b
            resources: {guaranteed: {memory: 15}}
            properties: {application.sort.priority: disabled, priority.policy: fence, priority.offset: '2'}
          - name: p
            parent: true
            queues:
              - name: f
                resources: {guaranteed: {memory: 25}}
                properties: {application.sort.policy: fair}
";

#[derive(Clone, Debug)]
pub enum Step {
    Node(u8, NodeAction, i64),
    App(u8, u8, bool),
    Gang(u8, u8, i64, bool),
    Remove(u8),
    Ask { app: u8, key: u8, size: i64, kind: u8, node: Option<u8> },
    Release(u8, u8, u8),
    ReleaseAll(u8, u8),
    Confirm(bool),
    Pass(i64),
    Foreign(u8, u8, i64),
    Reload(bool),
    Drain(u8, bool),
    Predicates(bool),
    Answer(bool, i32),
    Unanswered,
}

pub fn step() -> impl Strategy<Value = Step> {
    let action = prop_oneof![
        4 => Just(NodeAction::Create),
        1 => Just(NodeAction::CreateDrain),
        2 => Just(NodeAction::Update),
        1 => Just(NodeAction::Drain),
        1 => Just(NodeAction::DrainToSchedulable),
        1 => Just(NodeAction::Decommission),
    ];
    prop_oneof![
        3 => (0u8..4, action, 5i64..60).prop_map(|(n, a, s)| Step::Node(n, a, s)),
        2 => (0u8..4, 0u8..3, any::<bool>()).prop_map(|(a, q, u)| Step::App(a, q, u)),
        2 => (0u8..4, 0u8..2, 1i64..4, any::<bool>()).prop_map(|(a, q, n, h)| Step::Gang(a, q, n * 10, h)),
        1 => (0u8..4).prop_map(Step::Remove),
        8 => (0u8..4, 0u8..8, 1i64..20, 0u8..10, prop::option::weighted(0.15, 0u8..4))
            .prop_map(|(app, key, size, kind, node)| Step::Ask { app, key, size, kind, node }),
        4 => (0u8..4, 0u8..8, 0u8..6).prop_map(|(a, k, t)| Step::Release(a, k, t)),
        1 => (0u8..4, 0u8..6).prop_map(|(a, t)| Step::ReleaseAll(a, t)),
        4 => any::<bool>().prop_map(Step::Confirm),
        2 => (1i64..70).prop_map(Step::Pass),
        1 => (0u8..3, 0u8..4, 0i64..15).prop_map(|(k, n, s)| Step::Foreign(k, n, s)),
        1 => any::<bool>().prop_map(Step::Reload),
        1 => (0u8..4, any::<bool>()).prop_map(|(n, d)| Step::Drain(n, d)),
        1 => any::<bool>().prop_map(Step::Predicates),
        3 => (any::<bool>(), 0i32..4).prop_map(|(fits, index)| Step::Answer(fits, index)),
        1 => Just(Step::Unanswered),
    ]
}

fn termination(number: u8) -> Termination {
    match number {
        0 => Termination::Unknown,
        1 => Termination::StoppedByRm,
        2 => Termination::Timeout,
        3 => Termination::Preempted,
        4 => Termination::PlaceholderReplaced,
        _ => Termination::FailedOnRm,
    }
}

/// Nodes and applications with which a life begins of which much is to be allocated; with predicates, if they are asked for.
pub fn begin(env: &mut Env, asks: bool) {
    for n in 0..4 {
        env.node(&format!("n{n}"), 60);
    }
    env.app("app0", "root.a");
    env.app("app1", "root.p.f");
    env.gang("app2", "root.b", 20, "Soft");
    if asks {
        env.apply(Command::AskPredicates(true));
    }
}

pub fn run(env: &mut Env, step: Step) {
    match step {
        Step::Node(n, action, size) => env.node_action(&format!("n{n}"), action, Some(res(size, size))),
        Step::App(a, q, u) => {
            let mut item = env.by(if u { "alice" } else { "bob" });
            item.id = format!("app{a}").into();
            item.queue = ["root.a", "root.b", "root.p.f"][usize::from(q)].into();
            item.timeout_millis = if u { 40_000 } else { 0 };
            env.add_app(item);
        }
        Step::Gang(a, q, total, hard) => {
            let queue = ["root.a", "root.b"][usize::from(q)];
            env.gang(&format!("app{a}"), queue, total, if hard { "Hard" } else { "Soft" });
        }
        Step::Remove(a) => env.remove_app(&format!("app{a}")),
        Step::Ask { app, key, size, kind, node } => {
            let mut ask = Ask::new(&format!("app{app}"), &format!("k{key}"), size);
            ask = match kind {
                0 | 1 => ask.placeholder("tg"),
                2 => ask.group("tg"),
                3 => ask.priority(5),
                4 => ask.requires("n1").priority(1),
                5 | 6 => ask.preempts(),
                7 => ask.preempts().priority(3),
                8 => ask.opted_out(),
                9 => ask.preempts().originator(),
                _ => ask,
            };
            if let Some(node) = node {
                ask = ask.on(&format!("n{node}"));
            }
            env.ask(vec![ask]);
        }
        Step::Release(a, k, t) => env.release(&format!("app{a}"), &format!("k{k}"), termination(t)),
        Step::ReleaseAll(a, t) => env.release(&format!("app{a}"), "", termination(t)),
        Step::Confirm(all) => {
            if all {
                env.confirm_all();
            } else if !env.unconfirmed.is_empty() {
                let release = env.unconfirmed.remove(0);
                env.release(&release.app.clone(), &release.key.clone(), release.termination);
            }
        }
        Step::Pass(seconds) => env.pass(seconds),
        Step::Foreign(k, n, size) => {
            let mut ask = Ask::new("", &format!("foreign{k}"), size).on(&format!("n{n}"));
            ask.spec.foreign = Some(callboard::domain::alloc::Foreign::Default);
            if size == 0 {
                env.release("", &format!("foreign{k}"), Termination::StoppedByRm);
            } else {
                env.ask(vec![ask]);
            }
        }
        Step::Reload(smaller) => {
            let text = if smaller {
                YAML.replace("memory: 60", "memory: 30").replace("name: b", "name: c")
            } else {
                YAML.into()
            };
            let conf = callboard::config::load(&text).expect("valid").partitions[0].clone();
            env.apply(Command::Configure(conf));
            env.run();
        }
        Step::Drain(n, drained) => {
            env.apply(Command::OperatorDrain { nodes: vec![format!("n{n}").into()], drained });
            env.run();
        }
        Step::Predicates(on) => {
            env.apply(Command::AskPredicates(on));
            env.run();
        }
        Step::Unanswered => {
            if !env.questions.is_empty() {
                env.unanswered();
            }
        }
        Step::Answer(fits, index) => {
            if !env.questions.is_empty() {
                let result = if fits { Ok(()) } else { Err("no".into()) };
                env.answer(result, index);
            }
        }
    }
}
