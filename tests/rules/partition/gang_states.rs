//! Every state that a replacement can be in, and whatever may happen in it in any order: nothing is charged at the end.

use callboard::domain::{
    command::{Command, NodeAction},
    types::Termination,
};
use proptest::prelude::*;

use super::env::{Ask, Env, QUEUES, res};

/// How far the replacement is, and where the real ask is to go.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    elsewhere: bool,
    hard: bool,
}

#[derive(Clone, Debug)]
enum Happening {
    Node(u8, NodeAction, i64),
    Placeholder(u8, Termination),
    Real(Termination),
    Everything(Termination),
    Remove,
    Pass(i64),
    Confirm(usize),
    Answer,
    AskAgain(i64, Option<u8>),
    AnotherReal(i64),
    AnotherPlaceholder,
    Reload(bool),
}

fn termination() -> impl Strategy<Value = Termination> {
    use Termination::*;
    prop_oneof![
        Just(Unknown),
        Just(StoppedByRm),
        Just(Timeout),
        Just(Preempted),
        Just(PlaceholderReplaced),
        Just(FailedOnRm)
    ]
}

fn happening() -> impl Strategy<Value = Happening> {
    use Happening::*;
    let action = prop_oneof![
        Just(NodeAction::Decommission),
        Just(NodeAction::Drain),
        Just(NodeAction::DrainToSchedulable),
        Just(NodeAction::Update),
        Just(NodeAction::Create),
    ];
    prop_oneof![
        4 => (1u8..3, action, 5i64..40).prop_map(|(n, a, s)| Node(n, a, s)),
        4 => (1u8..4, termination()).prop_map(|(n, t)| Placeholder(n, t)),
        3 => termination().prop_map(Real),
        1 => termination().prop_map(Everything),
        1 => Just(Remove),
        2 => (1i64..70).prop_map(Pass),
        3 => (0usize..4).prop_map(Confirm),
        2 => Just(Answer),
        2 => (5i64..15, prop::option::of(1u8..3)).prop_map(|(s, n)| AskAgain(s, n)),
        2 => (5i64..15).prop_map(AnotherReal),
        1 => Just(AnotherPlaceholder),
        1 => any::<bool>().prop_map(Reload),
    ]
}

/// A replacement of ph1 by r1 in this state; ph2 is there too.
fn begin(state: InFlight) -> Env {
    let mut env = Env::new(QUEUES);
    env.node("n1", 20);
    env.node("n2", 20);
    env.node_action("n2", NodeAction::Drain, None);
    env.gang("app-1", "root.a", 20, if state.hard { "Hard" } else { "Soft" });
    env.ask((1..=2).map(|n| Ask::new("app-1", &format!("ph{n}"), 10).placeholder("tg")).collect());
    env.node_action("n2", NodeAction::DrainToSchedulable, None);
    if state.elsewhere {
        env.apply(Command::AskPredicates(true));
        env.refuse("r1", "n1");
    }
    env.ask(vec![Ask::new("app-1", "r1", 10).group("tg")]);
    env.answer_all();
    let node = env.partition.node_by_id["n2"];
    assert_eq!(!env.partition.nodes[node.ix()].allocs.is_empty(), state.elsewhere);
    assert_eq!(env.unconfirmed.len(), 1);
    env
}

fn happen(env: &mut Env, happening: Happening) {
    match happening {
        Happening::Node(n, action, size) => env.node_action(&format!("n{n}"), action, Some(res(size, size))),
        Happening::Placeholder(n, t) => env.release("app-1", &format!("ph{n}"), t),
        Happening::Real(t) => env.release("app-1", "r1", t),
        Happening::Everything(t) => env.release("app-1", "", t),
        Happening::Remove => env.remove_app("app-1"),
        Happening::Pass(seconds) => env.pass(seconds),
        Happening::Confirm(at) => {
            // Confirmed, and once more: the second is stale.
            if let Some(release) = env.unconfirmed.get(at).cloned() {
                env.unconfirmed.remove(at);
                for _ in 0..2 {
                    env.release(&release.app, &release.key, release.termination);
                }
            }
        }
        Happening::Answer => {
            if !env.questions.is_empty() {
                env.answer_one();
            }
        }
        Happening::AskAgain(size, node) => {
            let ask = Ask::new("app-1", "r1", size).group("tg");
            let ask = if let Some(node) = node { ask.on(&format!("n{node}")) } else { ask };
            env.ask(vec![ask]);
        }
        Happening::AnotherReal(size) => env.ask(vec![Ask::new("app-1", "r2", size).group("tg")]),
        Happening::AnotherPlaceholder => env.ask(vec![Ask::new("app-1", "ph3", 10).placeholder("tg")]),
        Happening::Reload(atomic) => {
            let text = match atomic {
                true => QUEUES.replace("- name: a\n", "- name: a\n            properties: {gang.admission: atomic}\n"),
                false => QUEUES.to_owned(),
            };
            let conf = callboard::config::load(&text).expect("valid").partitions[0].clone();
            env.apply(Command::Configure(conf));
            env.run();
        }
    }
}

fn ends_empty(state: InFlight, happenings: Vec<Happening>) {
    let mut env = begin(state);
    for next in happenings {
        happen(&mut env, next);
    }
    env.answer_all();
    env.confirm_all();
    env.remove_app("app-1");
    env.assert_empty();
}

macro_rules! states {
    ($($name:ident: $elsewhere:literal, $hard:literal;)*) => {
        proptest! {
            #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]
            // R6.13–R6.31, R2.22–R2.27, R4.27, R3.44a
            $(#[test]
            fn $name(happenings in prop::collection::vec(happening(), 1..14)) {
                ends_empty(InFlight { elsewhere: $elsewhere, hard: $hard }, happenings);
            })*
        }
    };
}

states! {
    on_the_same_node: false, false;
    on_another_node: true, false;
    on_the_same_node_hard: false, true;
    on_another_node_hard: true, true;
}
