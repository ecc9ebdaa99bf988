//! The list of nodes of `/ws/v1`, of which what has not changed is not written anew.

use std::sync::Arc;

use callboard::{
    domain::{Partition, resources::Types},
    http::ws_v1::{View, json, nodes},
    messages::partition::Snapshot,
};
use proptest::prelude::*;

use super::{
    env::Env,
    random::{self, YAML},
};

fn view(env: &Env) -> View {
    let snapshot = Arc::new(Snapshot { epoch: 1, partition: env.partition.clone() });
    View { rm: "rm".into(), internal: "[rm]default".into(), shown: "default".into(), snapshot }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    // REST 5.8
    #[test]
    fn a_list_that_was_read_before_says_what_one_that_is_written_anew_says(
        steps in prop::collection::vec((random::step(), 0u8..4), 20..80), asks in any::<bool>(),
    ) {
        let (mut env, lists) = (Env::new(YAML), nodes::Lists::default());
        random::begin(&mut env, asks);
        for (step, then) in steps {
            random::run(&mut env, step);
            match then {
                0 if asks => env.answer_all(),
                // As another server does that goes on with it.
                1 => env.partition = Partition::load(&env.partition.save(), &Types::default()).expect("what was saved is read"),
                2 => continue,
                _ => {}
            }
            let view = view(&env);
            let anew = json::list(nodes::each(&view));
            // Read twice, it is all from before.
            for listed in [lists.of(&view), lists.of(&view)] {
                prop_assert_eq!(String::from_utf8_lossy(&listed), String::from_utf8_lossy(&anew));
            }
        }
    }
}
