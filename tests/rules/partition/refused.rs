//! What a refusal of the shim, or a drain while it thinks, does to reservations and questions.

use callboard::domain::command::{Command, NodeAction};

use super::env::{Ask, Env, QUEUES, res};

fn keys(env: &Env) -> Vec<String> {
    env.questions.iter().map(|question| format!("{} on {}", question.key, question.node)).collect()
}

#[test]
fn a_reservation_of_a_node_that_the_shim_refuses_ends() {
    // R5.31, R5.38
    let mut env = Env::calm(QUEUES);
    env.apply(Command::AskPredicates(true));
    env.app("app-1", "root.a");
    env.app("app-2", "root.b");
    env.node("n1", 10);
    env.ask(vec![Ask::new("app-1", "s1", 6)]);
    env.answer_all();
    env.node("n2", 7);
    env.ask(vec![Ask::new("app-2", "big", 9)]);
    env.pass(5);
    env.answer_all();
    assert_eq!(env.partition.reservations, 1);
    env.refuse("big", "n1");
    env.release("app-1", "s1", callboard::domain::types::Termination::StoppedByRm);
    assert_eq!(keys(&env), ["big on n1"]);
    env.answer_all();
    assert_eq!(env.partition.reservations, 0, "it does not help");
    env.ask(vec![Ask::new("app-1", "other", 8)]);
    env.answer_all();
    assert!(env.heard().contains(&"new other on n1".to_owned()));
    env.pass(7200);
    env.answer_all();
    assert_eq!(env.partition.reservations, 0);
}

#[test]
fn a_required_node_that_the_shim_refuses_is_open_to_others() {
    // R5.42, R5.43
    for full_at_first in [false, true] {
        let mut env = Env::calm(QUEUES);
        env.apply(Command::AskPredicates(true));
        env.app("app-1", "root.a");
        env.app("app-2", "root.b");
        env.node("n1", 10);
        env.refuse("daemon", "n1");
        if full_at_first {
            env.ask(vec![Ask::new("app-2", "full", 10)]);
            env.answer_all();
        }
        env.ask(vec![Ask::new("app-1", "daemon", 2).requires("n1")]);
        assert_eq!(env.partition.reservations, u64::from(full_at_first));
        if full_at_first {
            env.release("app-2", "full", callboard::domain::types::Termination::StoppedByRm);
        }
        env.answer_all();
        assert_eq!(env.partition.reservations, 0);
        env.ask(vec![Ask::new("app-2", "other", 3)]);
        env.answer_all();
        assert!(env.heard().contains(&"new other on n1".to_owned()), "{:?}", env.told);
        // Something came there: it is asked about again, and refused again.
        env.pass(40);
        env.answer_all();
        assert_eq!(env.partition.reservations, 0);
        // The node changes, and the shim agrees.
        env.refusals.clear();
        env.node_action("n1", NodeAction::Update, Some(res(10, 10)));
        env.answer_all();
        assert!(env.heard().contains(&"new daemon on n1".to_owned()), "{:?}", env.told);
    }
}

#[test]
fn a_shim_that_changes_its_mind_is_asked_again_about_a_required_node() {
    // R5.27: without a word of the node.
    let mut env = Env::calm(QUEUES);
    env.apply(Command::AskPredicates(true));
    env.app("app-1", "root.a");
    env.node("n1", 10);
    env.refuse("daemon", "n1");
    env.ask(vec![Ask::new("app-1", "daemon", 2).requires("n1")]);
    env.answer_all();
    env.refusals.clear();
    env.pass(31);
    env.answer_all();
    assert!(env.heard().contains(&"new daemon on n1".to_owned()), "{:?}", env.told);
}
