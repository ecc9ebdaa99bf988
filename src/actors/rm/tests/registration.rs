//! R1.1–R1.15, SEEDS S21 and S23, names with several resource managers.

use super::*;
use crate::messages::rm::RefusalKind;

fn text(partitions: &[&str], preemption: bool) -> String {
    let partition = |name: &&str| {
        format!(
            "  - name: {name}\n    preemption:\n      enabled: {preemption}\n    queues:\n      - name: root\n        submitacl: '*'\n"
        )
    };
    format!("partitions:\n{}", partitions.iter().map(partition).collect::<String>())
}

async fn with_partitions(partitions: &[&str]) -> Env {
    let env = Env::new();
    let registration = Registration { rm: "rm-1".into(), config: text(partitions, true), ..Default::default() };
    env.try_register(registration).await.expect("registered");
    env.told();
    env
}

async fn configure(env: &Env, text: String) -> Result<(), String> {
    let done =
        env.topology.configure("rm-1", None, "", text, map(&[("rm.gracePeriod", "77s")]), Sender::default()).await;
    done.map(drop).map_err(|refusals| match refusals {
        Refusals::Config(refused) => refused.message,
        Refusals::Other(refusal) => refusal.detail,
    })
}

fn listed(env: &Env) -> Vec<String> {
    env.topology.directory.get().partitions.iter().map(|entry| entry.shown.to_string()).collect()
}

#[actix::test]
async fn a_refused_registration_leaves_nothing() {
    // R1.5, R1.11, CFG-090a
    let env = Env::new();
    let bad = Registration { rm: "rm-1".into(), config: "partitions: 7".into(), ..Default::default() };
    let refused = env.try_register(bad.clone()).await.expect_err("refused");
    assert!(matches!(refused, Refusals::Config(refused) if refused.message.starts_with("registration of RM failed: ")));
    assert!(env.topology.find("rm-1").is_none());
    let odd = Registration { rm: "rm-1".into(), extra: map(&[("rm.gracePeriod", "soon")]), ..Default::default() };
    assert!(env.try_register(odd).await.is_err());
    for rm in ["", "a]b", "a\nb"] {
        assert!(env.try_register(Registration { rm: rm.into(), ..Default::default() }).await.is_err(), "{rm:?}");
    }
    assert!(env.told().is_empty());
    // Nor does it touch a session that runs.
    env.register("rm-1", &[]).await;
    env.try_register(bad).await.expect_err("refused");
    assert_eq!(env.info().await.epoch, 1);
}

#[actix::test]
async fn an_update_is_tried_on_all_partitions_and_then_applied_to_all() {
    // R1.14, R1.15
    let env = with_partitions(&["a", "b", "c"]).await;
    configure(&env, text(&["d", "b", "a"], false)).await.expect("accepted");
    assert_eq!(
        env.told(),
        [
            "[rm-1]b#1 snapshot",
            "[rm-1]a#1 snapshot",
            "[rm-1]c#1 snapshot",
            "[rm-1]b#1 configure false",
            "[rm-1]a#1 configure false",
            "[rm-1]c#1 stop",
            "[rm-1]d#1 start"
        ]
    );
    assert_eq!(listed(&env), ["d", "b", "a"]);
    let listing = env.topology.directory.get();
    assert_eq!(listing.rms[0].extra.get("rm.gracePeriod").map(String::as_str), Some("77s"));
}

#[actix::test]
async fn a_request_that_went_by_an_earlier_view_comes_before_the_end_of_its_partition() {
    let env = with_partitions(&["a", "c"]).await;
    let rm = env.rm();
    // A door looks, and another change of what is shown comes in between.
    let seen = rm.view.load();
    let stream = env.stream(0).await;
    stream.lose().await;
    let update = actix::spawn({
        let topology = env.topology.clone();
        async move { topology.configure("rm-1", None, "", text(&["a"], true), map(&[]), Sender::default()).await.is_ok() }
    });
    env.pass(Duration::from_secs(1)).await;
    assert!(!env.told().contains(&"[rm-1]c#1 stop".to_owned()), "a request for it may be on its way");
    assert!(rm.view.load().partitions.iter().all(|(name, ..)| &**name == "[rm-1]a"), "new ones wait for the outcome");
    let (.., partition) = seen.partitions.iter().find(|(name, ..)| &**name == "[rm-1]c").expect("seen");
    partition.do_send(Commands { epoch: 1, commands: vec![Command::Nodes(Vec::new())], permit: None });
    drop(seen);
    assert!(update.await.expect("no panic"));
    assert_eq!(env.told(), ["[rm-1]c#1 nodes 0", "[rm-1]a#1 configure true", "[rm-1]c#1 stop"]);
}

#[actix::test]
async fn a_refused_update_changes_nothing() {
    // SEEDS S23
    let env = with_partitions(&["a", "b"]).await;
    *env.broken.lock().expect("no panic") = "[rm-1]b".into();
    let refused = configure(&env, text(&["a", "b", "c"], false)).await.expect_err("refused");
    let what = "its trial on a clone of [rm-1]b broke down, see the log; nothing was changed";
    assert_eq!(refused, format!("update of configuration failed: {what}"));
    assert_eq!(env.told(), ["[rm-1]a#1 snapshot", "[rm-1]b#1 snapshot"]);
    let refused = configure(&env, "partitions: 7".into()).await.expect_err("refused");
    assert!(refused.starts_with("update of configuration failed: "), "{refused}");
    assert!(env.topology.directory.get().rms[0].extra.is_empty());
    assert!(env.topology.process.get().is_empty());
}

#[actix::test]
async fn the_same_text_changes_the_extra_configuration_only() {
    // CFG-093
    let env = with_partitions(&["a"]).await;
    configure(&env, text(&["a"], true)).await.expect("accepted");
    assert!(env.told().is_empty());
    let listing = env.topology.directory.get();
    assert_eq!(listing.rms[0].extra.get("rm.gracePeriod").map(String::as_str), Some("77s"));
}

#[actix::test]
async fn an_update_of_an_unknown_one_is_refused() {
    // R1.12
    let env = Env::new();
    let refused = configure(&env, String::new()).await.expect_err("unknown");
    assert_eq!(refused, "update of configuration failed: RM rm-1 has no active partitions, make sure it is registered");
    assert!(env.topology.find("rm-1").is_none());
}

#[actix::test]
async fn the_servers_own_configuration_follows_its_reload() {
    let env = Env::registered(&[]).await;
    env.try_register(Registration { rm: "rm-2".into(), config: text(&["x"], true), ..Default::default() })
        .await
        .expect("registered");
    env.told();
    let (_, refused) = env.topology.reload_default(config::load(&text(&["default"], false)).expect("valid")).await;
    assert!(refused.is_empty());
    assert_eq!(env.told(), ["[rm-1]default#1 snapshot", "[rm-1]default#1 configure false"]);
    env.register("rm-3", &[]).await;
    assert!(!env.topology.directory.get().rms[2].config.partitions[0].preemption);
}

#[actix::test]
async fn a_reload_waits_for_none_that_hangs() {
    let env = Env::registered(&[]).await;
    env.register("rm-2", &[]).await;
    env.told();
    // A door looks at it while it takes one without the partition, so that the next has to wait.
    let seen = env.rm().view.load();
    let reload = |name: &str| {
        let (topology, config) = (env.topology.clone(), config::load(&text(&[name], true)).expect("valid"));
        actix::spawn(async move { topology.reload_default(config).await.1 })
    };
    let first = reload("a");
    let refused = first.await.expect("no panic");
    let [(rm, refusal)] = &refused[..] else { panic!("{refused:?}") };
    assert!(
        &**rm == "rm-1" && refusal.detail.starts_with("resource manager \"rm-1\" has not answered within 10s"),
        "{refusal:?}"
    );
    let partitions = |rm: &str| env.topology.find(rm).expect("there").view.load().partitions.clone();
    assert_eq!(&*partitions("rm-2")[0].0, "[rm-2]a", "it did not wait for the other");
    drop(seen);
    env.pass(Duration::from_secs(1)).await;
    assert_eq!(&*partitions("rm-1")[0].0, "[rm-1]a", "it takes it when it goes on");
}

#[actix::test]
async fn who_has_a_configuration_read_leaves_a_turn_to_others() {
    let env = Env::registered(&[]).await;
    let of = |rm: &str, name: &str| Registration {
        rm: rm.into(),
        config: text(&["a"], true),
        sender: Sender { name: name.to_owned(), tenant: false },
        ..Default::default()
    };
    let _held = env.topology.loads.take("token op".to_owned()).await.expect("a turn");
    let refused = env.try_register(of("rm-2", "token op")).await.expect_err("no turn is left for it");
    let Refusals::Other(refusal) = refused else { panic!("{refused:?}") };
    assert!(refusal.detail.contains("too many requests of token op have configurations read: 1 at"), "{refusal:?}");
    env.try_register(of("rm-1", "token shim")).await.expect("another has one");
}

#[actix::test]
async fn the_first_owner_of_a_name_is_shown_by_it() {
    // SEEDS S21
    let env = Env::registered(&[]).await;
    assert_eq!(env.register("rm-2", &[]).await, 1);
    assert_eq!(listed(&env), ["default", "[rm-2]default"]);
    assert_eq!(env.register("rm-1", &[]).await, 2);
    assert_eq!(listed(&env), ["default", "[rm-2]default"], "others are untouched");
    let listing = env.topology.directory.get();
    assert_eq!(listing.rms.iter().map(|rm| &*rm.id).collect::<Vec<_>>(), ["rm-1", "rm-2"]);
    env.rm().addr.send(crate::messages::rm::Unregister::default()).await.expect("alive").expect("done");
    assert_eq!(listed(&env), ["[rm-2]default"], "a name once given stays");
    env.register("rm-1", &[]).await;
    assert_eq!(listed(&env), ["default", "[rm-2]default"], "in the order of their first registration");
}

#[actix::test]
async fn of_process_wide_settings_each_has_the_value_of_the_last_writer() {
    let env = Env::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let listener = seen.clone();
    env.topology.process.listen(move |settings| listener.lock().expect("no panic").push(settings.clone()));
    env.register("rm-1", &[("log.level", "debug"), ("rm.gracePeriod", "1s")]).await;
    env.register("rm-2", &[("event.trackingEnabled", "false")]).await;
    env.register("rm-3", &[]).await;
    let mut want =
        vec![map(&[("log.level", "debug")]), map(&[("event.trackingEnabled", "false"), ("log.level", "debug")])];
    assert_eq!(*seen.lock().expect("no panic"), want, "who sends none changes nothing");
    let unregister = async |rm: &str| {
        let rm = env.topology.find(rm).expect("known");
        rm.addr.send(crate::messages::rm::Unregister::default()).await.expect("alive").expect("done");
    };
    // A registration in the place of the session before leaves nothing out in between.
    env.register("rm-1", &[("log.level", "debug")]).await;
    unregister("rm-2").await;
    unregister("rm-3").await;
    want.extend([want[1].clone(), want[0].clone()]);
    assert_eq!(*seen.lock().expect("no panic"), want);
}

#[actix::test]
async fn the_epoch_of_an_answer_is_that_of_the_session() {
    let env = Env::registered(&[]).await;
    let gate = env.rm().gate("NodeRequest").expect("Running");
    env.register("rm-1", &[]).await;
    let receipts = &gate.shared.receipts;
    let permit = gate.shared.budget.take(1).expect("room").with(receipts.take(1, 1));
    let part = crate::messages::rm::Part { partition: "[rm-1]default".into(), command: Command::Nodes(vec![]) };
    let refused = env.rm().submit(&gate, vec![part], vec![], permit).expect_err("another session");
    assert_eq!(refused.kind, RefusalKind::State);
    assert!(refused.detail.contains("registered again"), "{refused:?}");
    // What was refused is not told as applied.
    assert_eq!((receipts.applied(), receipts.position().taken), (0, 0));
}

#[actix::test]
async fn reservations_are_as_the_manager_says_else_as_the_server_was_started() {
    // R5.37, CFG-116
    let told = |env: &Env| env.told().into_iter().filter(|text| text.contains("Reservations")).collect::<Vec<_>>();
    let update = async |env: &Env, extra: &[(&str, &str)]| {
        env.topology
            .configure("rm-1", None, "", text(&["a"], true), map(extra), Sender::default())
            .await
            .expect("accepted");
        told(env)
    };
    let env = with_partitions(&["a"]).await;
    assert_eq!(update(&env, &[("rm.reservations", "true")]).await, [""; 0]);
    assert_eq!(update(&env, &[("rm.reservations", "false")]).await, ["[rm-1]a#1 Reservations(false)"]);
    assert_eq!(update(&env, &[]).await, ["[rm-1]a#1 Reservations(true)"]);
    env.topology.without_reservations();
    env.register("rm-1", &[]).await;
    assert_eq!(told(&env), ["[rm-1]default#2 Reservations(false)"]);
    let done = env
        .topology
        .configure("rm-1", None, "", text(&["default", "b"], true), map(&[("x", "y")]), Sender::default())
        .await;
    done.expect("accepted");
    assert_eq!(told(&env), ["[rm-1]b#2 Reservations(false)"], "a partition that comes later");
}

#[actix::test]
async fn a_configuration_is_for_the_session_that_it_names() {
    let env = with_partitions(&["a"]).await;
    let registration = Registration { rm: "rm-1".into(), config: text(&["a"], true), ..Default::default() };
    env.try_register(registration).await.expect("registered again");
    let configure =
        |epoch| env.topology.configure("rm-1", epoch, "", text(&["a", "b"], true), map(&[]), Sender::default());
    match configure(Some(1)).await {
        Err(Refusals::Other(refusal)) => assert_eq!(refusal.kind, RefusalKind::Epoch, "{}", refusal.detail),
        other => panic!("{other:?}"),
    }
    assert_eq!(listed(&env).len(), 1);
    assert!(configure(Some(2)).await.is_ok());
    assert_eq!(listed(&env).len(), 2);
}
