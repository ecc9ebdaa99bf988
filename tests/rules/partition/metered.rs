//! Which queues have metrics of their own.

use callboard::{
    config::extra::Settings,
    http::ws_v1::{chosen::Chosen, scrape},
};

use super::env::{Ask, Env};

const QUEUES: &str = "
partitions:
  - name: default
    queues:
      - name: root
        submitacl: '*'
        queues:
          - name: a
            queues: [{name: x}, {name: y}]
          - name: b
          - name: ab
";

#[test]
fn queues_are_chosen_by_path_and_by_share() {
    let mut env = Env::new(QUEUES);
    env.node("n1", 100);
    env.app("app-1", "root.a.x");
    env.app("app-2", "root.b");
    env.ask(vec![Ask::new("app-1", "k1", 60), Ask::new("app-2", "k2", 30), Ask::new("app-2", "k3", 70)]);
    env.run();
    let tables = std::sync::Arc::new(env.partition.tables());
    let chosen = |settings: &[(&str, &str)]| -> Vec<String> {
        let map = settings.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let gauges = scrape::gauges(std::slice::from_ref(&tables), &Chosen::of(&Settings::read(&map)));
        assert_eq!(gauges.applications.values().sum::<i64>(), 2, "sums are over all queues");
        gauges.queues.into_iter().map(|queue| queue.path).collect()
    };
    let all = chosen(&[]);
    assert_eq!(all.len(), 6, "{all:?}");
    assert_eq!(chosen(&[("metrics.queues", "root.a")]), ["root.a"]);
    assert_eq!(chosen(&[("metrics.queues", "root.a.*, root.B")]), ["root.a.x", "root.a.y", "root.b"]);
    assert_eq!(chosen(&[("metrics.queues", "root.nothing")]), [""; 0]);
    assert_eq!(chosen(&[("metrics.topQueues", "1")]), ["root.b"], "what waits counts too");
    assert_eq!(chosen(&[("metrics.topQueues", "2")]), ["root.a.x", "root.b"], "not their parents, which have as much");
    let leaves = chosen(&[("metrics.topQueues", "5")]);
    assert!(leaves.len() >= 4 && leaves.iter().all(|leaf| leaf != "root" && leaf != "root.a"), "{leaves:?}");
    assert_eq!(chosen(&[("metrics.topQueues", "6")]), all, "where all have a place parents do too");
    assert_eq!(chosen(&[("metrics.queues", "root.a,root.a.*"), ("metrics.topQueues", "1")]), ["root.a.x"]);
    assert_eq!(chosen(&[("metrics.queues", "root.a,root.b"), ("metrics.topQueues", "1")]), ["root.b"]);
    assert_eq!(chosen(&[("metrics.queues", "root,root.a.y"), ("metrics.topQueues", "1")]), ["root.a.y"]);
    assert_eq!(chosen(&[("metrics.queues", "a b")]), all, "what cannot be read counts as all");
}
