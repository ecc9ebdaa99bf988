//! Gangs while the shim is asked about a part of them, which it may refuse (R5.27, SEEDS S7).

use callboard::domain::{command::Command, types::AppState};

use super::env::{Ask, Env, QUEUES};

fn placeholders(app: &str) -> Vec<Ask> {
    (0..2).map(|n| Ask::new(app, &format!("{app}-{n}"), 10).placeholder("tg")).collect()
}

/// What was told of room that there is not.
fn held(env: &mut Env) -> Vec<String> {
    let skipped = env.heard().into_iter().filter(|told| told.ends_with("Skipped"));
    let messages = std::mem::take(&mut env.events).into_iter().map(|event| event.message.to_string());
    skipped.chain(messages.filter(|text| text.contains("all of its gang"))).collect()
}

#[test]
fn what_only_questions_take_of_the_room_for_a_gang_is_told_when_they_are_answered() {
    // SEEDS S7, S11: the first fills its queue exactly, and only the second has none.
    for atomic in [false, true] {
        let mode = if atomic { "            properties: {gang.admission: atomic}\n" } else { "" };
        let queue = format!("- name: a\n            resources: {{max: {{memory: 20}}}}\n{mode}");
        let mut env = Env::new(&QUEUES.replace("- name: a\n", &queue));
        env.apply(Command::AskPredicates(true));
        env.node("n1", 100);
        for app in ["g", "h"] {
            env.gang(app, "root.a", 20, "Soft");
            env.ask(placeholders(app));
        }
        assert_eq!(held(&mut env), [""; 0], "{atomic}");
        env.refuse("h-0", "n1");
        env.answer_all();
        let told = held(&mut env);
        assert!(told.len() == 4 && told[..2] == ["h-0 Skipped", "h-1 Skipped"], "{atomic}: {told:?}");
        env.remove_app("g");
        assert_eq!(held(&mut env), [""; 0], "{atomic}");
        env.remove_app("h");
        env.answer_all();
        env.assert_empty();
    }
}

#[test]
fn a_part_that_the_shim_is_asked_about_once_more_does_not_run() {
    // R6.15, R6.19: a third placeholder never came, and the time is over.
    for (style, over) in [("Soft", AppState::Resuming), ("Hard", AppState::Failing)] {
        let mut env = Env::calm(QUEUES);
        env.apply(Command::AskPredicates(true));
        env.node("n1", 20);
        env.gang("g", "root.a", 30, style);
        env.ask(placeholders("g"));
        env.answer_all();
        env.ask(vec![Ask::new("g", "r", 10).group("tg")]);
        env.answer_all();
        env.confirm_all();
        assert_eq!((env.state("g"), env.questions.len()), (Some(AppState::Accepted), 1));
        env.pass(61);
        assert_eq!(env.state("g"), Some(over));
        env.answer_all();
        env.confirm_all();
        if style == "Soft" {
            assert_eq!(env.state("g"), Some(AppState::Running));
            env.remove_app("g");
        }
        env.assert_empty();
    }
}
