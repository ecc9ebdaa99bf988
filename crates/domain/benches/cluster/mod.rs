//! The cluster of the figures.

use std::sync::Arc;

use callboard_domain::command::{AddApplication, Command};

pub const CONFIG: &str = "
partitions:
  - name: default
    queues:
      - name: root
        submitacl: '*'
        queues: [{name: a}, {name: b, resources: {guaranteed: {vcore: 100}}}, {name: c}]
";
pub const NODES: usize = 10_000;
pub const APPS: usize = 1_000;

/// The id of an application.
pub fn id(n: usize) -> Arc<str> {
    format!("spark-{:016x}", n % APPS).into()
}

pub fn applications() -> Command {
    let item = |n: usize| AddApplication {
        id: id(n),
        queue: format!("root.{}", ["a", "b", "c"][n % 3]).into(),
        user: format!("user-{}", n % 50).into(),
        groups: Some(Arc::from([Arc::from("staff")])),
        ..AddApplication::default()
    };
    Command::Applications { new: (0..APPS).map(item).collect(), remove: Vec::new() }
}
