//! The conversation with the directory on a paused clock: commands in, the same commands with groups out.

use super::*;

fn rig() -> Addr<UgmActor> {
    tokio::time::pause();
    UgmActor::new(Clock::default(), Resolver::Test, Path::new("/nowhere").into()).start()
}

fn of(user: &str, groups: Option<&[&str]>) -> AddApplication {
    let groups = groups.map(|groups| groups.iter().map(|group| Arc::from(*group)).collect());
    AddApplication { id: format!("app of {user}").into(), user: user.into(), groups, ..AddApplication::default() }
}

/// What became of each user: its groups, or why there are none; other commands by name.
async fn resolve(actor: &Addr<UgmActor>, commands: Vec<Command>) -> Vec<String> {
    let mut all = Vec::new();
    for command in actor.send(Resolve(commands)).await.unwrap() {
        let Command::Applications { new, .. } = command else {
            all.push("other".to_owned());
            continue;
        };
        all.extend(new.into_iter().map(|item| match (item.groups, item.unresolved) {
            (Some(groups), None) => format!("{}: {}", item.user, groups.join(" ")),
            (None, Some(why)) => format!("{}: {why}", item.user),
            neither => panic!("{neither:?}"),
        }));
    }
    all
}

fn submitted(new: Vec<AddApplication>) -> Command {
    Command::Applications { new, remove: Vec::new() }
}

#[actix::test]
async fn commands_come_back_in_order_with_the_groups_that_were_missing() {
    // ACL-044
    let actor = rig();
    let commands = vec![
        submitted(vec![of("testuser1", None), of("nobody", None)]),
        Command::Tick,
        submitted(vec![of("testuser1", Some(&["own"])), of("testuser3", None)]),
    ];
    let answers = resolve(&actor, commands).await;
    assert_eq!(answers[0], "testuser1: group1000 group1001");
    assert!(answers[1].starts_with("nobody: user 'nobody' not found"), "{}", answers[1]);
    assert_eq!(answers[2..], ["other", "testuser1: own", "testuser3: group1001 group1002 group1003"]);
}

#[actix::test]
async fn an_answer_is_kept_for_a_while_and_not_over_another_resolver() {
    // ACL-042
    let actor = rig();
    let ask = async || resolve(&actor, vec![submitted(vec![of("nobody", None)])]).await.remove(0);
    assert!(ask().await.contains("not found"));
    assert!(ask().await.contains("cached data returned"), "the directory is not asked again");
    for _ in 0..91 {
        tokio::time::advance(Duration::from_secs(1)).await;
        tokio::task::yield_now().await;
    }
    assert!(ask().await.contains("not found"), "the cleaner has dropped the failure");
    actor.send(UseResolver(Resolver::None)).await.unwrap();
    assert_eq!(ask().await, "nobody: nobody");
    // The same again changes nothing.
    actor.send(UseResolver(Resolver::None)).await.unwrap();
    assert_eq!(ask().await, "nobody: nobody");
}

#[actix::test]
async fn what_one_directory_said_is_not_kept_for_another() {
    let actor = rig();
    let ask = async || resolve(&actor, vec![submitted(vec![of("testuser1", None)])]).await.remove(0);
    let under_way = actor.send(Resolve(vec![submitted(vec![of("testuser1", None)])]));
    actor.do_send(UseResolver(Resolver::None));
    under_way.await.unwrap();
    assert_eq!(ask().await, "testuser1: testuser1");
}
