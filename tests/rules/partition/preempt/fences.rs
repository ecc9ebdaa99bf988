//! Fences, policies and priorities (R7.6–R7.9, R7.31).

use super::super::env::{Ask, Env};
use super::tree;

/// An ask of 20 with this priority in one queue, and a node full of victims of another priority; who has to go?
fn victims(queues: &str, from: &str, of: &str, ask: i32, victim: i32) -> Vec<String> {
    let mut env = Env::calm(&tree(queues));
    env.node("n1", 40);
    env.app("app-a", from);
    env.app("app-b", of);
    env.ask((0..2).map(|n| Ask::new("app-b", &format!("v{n}"), 20).preempts().priority(victim)).collect());
    env.ask(vec![Ask::new("app-a", "k1", 20).preempts().priority(ask)]);
    env.heard();
    env.pass(3);
    env.heard()
}

const TWO: &str = "{name: a, resources: {guaranteed: {memory: 40}}, properties: {preemption.delay: 1s}}, {name: b}";

#[test]
fn priorities_rule_victims_out() {
    // R7.9, idea 177
    assert_eq!(victims(TWO, "root.a", "root.b", 5, 5), ["released v1 Preempted"]);
    assert_eq!(victims(TWO, "root.a", "root.b", 5, 6), Vec::<String>::new());
    assert_eq!(victims(TWO, "root.a", "root.b", 5, 4), ["released v1 Preempted"]);
}

#[test]
fn priority_fences() {
    // R7.9, idea 178
    let fence = |offset: i32| {
        TWO.replace(
            "{name: b}",
            &format!("{{name: b, properties: {{priority.policy: fence, priority.offset: '{offset}'}}}}"),
        )
    };
    assert_eq!(victims(&fence(6), "root.a", "root.b", 5, 0), Vec::<String>::new());
    assert_eq!(victims(&fence(5), "root.a", "root.b", 5, 100), ["released v1 Preempted"]);
    let offset = TWO.replace("{name: b}", "{name: b, properties: {priority.offset: '3'}}");
    assert_eq!(victims(&offset, "root.a", "root.b", 5, 2), ["released v1 Preempted"]);
    assert_eq!(victims(&offset, "root.a", "root.b", 5, 3), Vec::<String>::new());
}

#[test]
fn never_inside_one_queue() {
    // R7.7, idea 173
    assert_eq!(victims(TWO, "root.a", "root.a", 5, 0), Vec::<String>::new());
}

#[test]
fn preemption_fences() {
    // R7.6, idea 174
    let inside = |policy: &str| {
        format!(
            "{{name: p, parent: true, properties: {{preemption.policy: {policy}, preemption.delay: 1s}}, queues: [\
             {{name: a, resources: {{guaranteed: {{memory: 40}}}}}}, {{name: c}}]}}, {{name: b}}"
        )
    };
    assert_eq!(victims(&inside("fence"), "root.p.a", "root.b", 0, 0), Vec::<String>::new());
    assert_eq!(victims(&inside("default"), "root.p.a", "root.b", 0, 0), ["released v1 Preempted"]);
    assert_eq!(victims(&inside("fence"), "root.p.a", "root.p.c", 0, 0), ["released v1 Preempted"]);
    // A fence on the victims' side protects nobody, one on the own leaf leaves no victims.
    let theirs = TWO.replace("{name: b}", "{name: b, properties: {preemption.policy: fence}}");
    assert_eq!(victims(&theirs, "root.a", "root.b", 0, 0), ["released v1 Preempted"]);
    let own = TWO.replace("delay: 1s", "delay: 1s, preemption.policy: fence");
    assert_eq!(victims(&own, "root.a", "root.b", 0, 0), Vec::<String>::new());
}

#[test]
fn a_disabled_queue_loses_nothing_and_may_still_preempt() {
    // R7.8, R7.31, idea 176
    let theirs = "{name: a, resources: {guaranteed: {memory: 40}}, properties: {preemption.delay: 1s}}, \
                  {name: p, parent: true, properties: {preemption.policy: disabled}, queues: [{name: b}]}";
    assert_eq!(victims(theirs, "root.a", "root.p.b", 0, 0), Vec::<String>::new());
    let own = TWO.replace("delay: 1s", "delay: 1s, preemption.policy: disabled");
    assert_eq!(victims(&own, "root.a", "root.b", 0, 0), ["released v1 Preempted"]);
}

#[test]
fn a_max_that_the_ask_would_exceed_is_a_fence() {
    // R7.6, idea 175
    let with_max = |max: i32| {
        format!(
            "{{name: p, parent: true, resources: {{max: {{memory: {max}}}}}, queues: [{{name: a, \
             resources: {{guaranteed: {{memory: 20}}}}, properties: {{preemption.delay: 1s}}}}, {{name: c}}]}}, {{name: b}}"
        )
    };
    let run = |max: i32| {
        let mut env = Env::calm(&tree(&with_max(max)));
        env.node("n1", 60);
        for (app, queue) in [("app-a", "root.p.a"), ("app-c", "root.p.c"), ("app-b", "root.b")] {
            env.app(app, queue);
        }
        env.ask(vec![Ask::new("app-c", "c0", 20).preempts()]);
        env.ask((0..2).map(|n| Ask::new("app-b", &format!("b{n}"), 20).preempts()).collect());
        env.ask(vec![Ask::new("app-a", "k1", 20).preempts()]);
        env.heard();
        env.pass(3);
        env.heard()
    };
    assert_eq!(run(40), ["released b1 Preempted"], "the youngest of all, as the max is just reached");
    assert_eq!(run(30), ["released c0 Preempted"]);
}
