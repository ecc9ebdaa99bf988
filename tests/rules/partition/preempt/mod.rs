//! Preemption (section 7 of the scheduling rules).

mod changes;
mod claims;
mod closed;
mod demand;
mod explore;
mod fences;
mod gangs;
mod guarantees;
mod harm;
mod loops;
mod model;
mod quota;
mod required;
mod shim;
mod speed;

use super::env::{Ask, Env};

/// A partition with these queues below root.
fn tree(queues: &str) -> String {
    format!(
        "partitions:\n  - name: default\n    queues:\n      - name: root\n        submitacl: '*'\n        queues: [{queues}]\n"
    )
}

/// Queue a with a guarantee of 50, and b with none.
const A_AND_B: &str = "{name: a, resources: {guaranteed: {memory: 50}}, properties: {preemption.delay: 1s}}, {name: b}";

/// Applications app-a in root.a and app-b in root.b, of which the second fills n1 with v0 to v4.
fn full(queues: &str) -> Env {
    let mut env = Env::calm(&tree(queues));
    env.node("n1", 100);
    env.app("app-a", "root.a");
    env.app("app-b", "root.b");
    for n in 0..5 {
        env.ask(vec![Ask::new("app-b", &format!("v{n}"), 20).preempts()]);
    }
    env.heard();
    env
}
