//! The manager without an etcd: what it makes of what it is told.

use std::{sync::Arc, time::Duration};

use tokio::sync::{mpsc::unbounded_channel, oneshot};

use super::{Known, Manager, Role};
use crate::{
    actors::rm::tests,
    cluster::{
        Options, Shown,
        etcd::Access,
        group::Group,
        keys::{Head, Server},
        take::Taken,
    },
    domain::DOMAIN_VERSION,
    messages::{
        leaders::FollowStatus,
        rm::{Attach, Info, Predicates, RefusalKind, ToStream, Want},
    },
};

/// One whose etcd is not there.
fn manager() -> Manager {
    let options = Options {
        access: Access { members: vec!["http://127.0.0.1:1".to_owned()], ..Access::default() },
        prefix: "/callboard".to_owned(),
        me: Server { id: "me".to_owned(), ..Server::default() },
        lease: Duration::from_secs(2),
        compact: false,
        max_bytes: 1 << 20,
    };
    Manager::new(options, tests::topology(), Arc::<Shown>::default()).expect("sound options")
}

fn head(server: &str) -> Head {
    let (rm, server) = ("rm-1".to_owned(), server.to_owned());
    Head { domain: DOMAIN_VERSION, rm, server, epoch: 1, first: 1, ..Head::default() }
}

#[actix::test]
async fn a_shim_that_waits_while_its_resource_manager_is_taken_is_not_sent_away() {
    let mut manager = manager();
    let (to, mut words) = unbounded_channel();
    let attach =
        Attach { door: "grpc", want: Want::Next { predicates: Predicates::Batch }, to, progress: Arc::default() };
    let handle = manager.topology.find_or_create("rm-1").expect("an id");
    handle.addr.send(attach).await.expect("alive").expect("waits");
    let ((first, mut done), (second, mut as_well)) = (oneshot::channel(), oneshot::channel());
    manager.wanted("rm-1".to_owned(), first);
    manager.wanted("rm-1".to_owned(), second);
    // The watch tells of the head that was put here, and only then comes the answer.
    manager.head("rm-1".to_owned(), &head("me").json().into(), 7, 7);
    assert!(done.try_recv().is_err() && as_well.try_recv().is_err(), "both wait");
    manager.began("rm-1", Ok(Taken::Leads(head("me"), 7)));
    for answer in [done.try_recv(), as_well.try_recv()] {
        assert!(answer.expect("an answer").is_ok());
    }
    assert!(matches!(manager.known["rm-1"].role, Role::Leads(_)));
    // Everything that its actor was told has been heard when it answers.
    handle.addr.send(Info).await.expect("alive");
    assert!(handle.is_here().is_ok());
    assert!(!matches!(words.try_recv(), Ok(ToStream::Close(_))), "the stream that waits goes on waiting");
}

#[actix::test]
async fn what_another_server_took_meanwhile_is_followed() {
    let mut manager = manager();
    let of = |manager: &Manager| manager.known.get("rm-1").map(|known| matches!(known.role, Role::Follows(_)));
    for watch_comes_first in [true, false] {
        manager.known.clear();
        let (reply, mut done) = oneshot::channel();
        manager.wanted("rm-1".to_owned(), reply);
        let other = head("other").json().into();
        if watch_comes_first {
            manager.head("rm-1".to_owned(), &other, 7, 7);
        }
        manager.began("rm-1", Ok(Taken::Other));
        assert!(done.try_recv().expect("an answer").is_err());
        assert_eq!(of(&manager), watch_comes_first.then_some(true));
        manager.head("rm-1".to_owned(), &other, 7, 7);
        assert_eq!(of(&manager), Some(true));
    }
}

#[actix::test]
async fn who_cannot_follow_is_not_moved_to() {
    let mut manager = manager();
    let group = Group::new(manager.setup(), head("me"), 7, Default::default());
    manager.known.insert("rm-1".to_owned(), Known::new(head("me"), 7, Role::Leads(group)));
    let other = Server { id: "other".to_owned(), http: "http://other:9080".to_owned(), ..Server::default() };
    manager.servers.insert(other.id.clone(), other);
    let fault = Some("its records are of a later release".to_owned());
    manager.loads.insert("other".to_owned(), vec![FollowStatus { rm: "rm-1".to_owned(), applied: 3, fault }]);
    let (reply, mut done) = oneshot::channel();
    manager.hand("rm-1", "http://other:9080", reply);
    let refused = done.try_recv().expect("an answer").expect_err("refused");
    assert_eq!(refused.kind, RefusalKind::State);
    assert!(refused.detail.contains("cannot follow") && refused.detail.contains("a later release"), "{refused:?}");
    assert!(matches!(manager.known["rm-1"].role, Role::Leads(_)), "it leads on");
}

#[actix::test]
async fn who_still_reads_is_not_moved_to() {
    let mut manager = manager();
    let group = Group::new(manager.setup(), head("me"), 7, Default::default());
    manager.known.insert("rm-1".to_owned(), Known::new(head("me"), 7, Role::Leads(group)));
    let other = Server { id: "other".to_owned(), http: "http://other:9080".to_owned(), ..Server::default() };
    manager.servers.insert(other.id.clone(), other);
    let (reply, mut done) = oneshot::channel();
    manager.hand("rm-1", "other", reply);
    let refused = done.try_recv().expect("an answer").expect_err("refused");
    assert_eq!(refused.kind, RefusalKind::Closing);
    assert!(refused.detail.contains("still reads its log"), "{refused:?}");
    assert!(matches!(manager.known["rm-1"].role, Role::Leads(_)), "it leads on");
    manager.loads.insert("other".to_owned(), vec![FollowStatus { rm: "rm-1".to_owned(), applied: 3, fault: None }]);
    manager.hand("rm-1", "other", oneshot::channel().0);
    assert!(matches!(manager.known["rm-1"].role, Role::Changes), "it is handed over");
}

#[actix::test]
async fn a_copy_of_this_server_that_took_over_is_another_leader() {
    let mut manager = manager();
    let group = Group::new(manager.setup(), head("me"), 7, Default::default());
    manager.known.insert("rm-1".to_owned(), Known::new(head("me"), 7, Role::Leads(group.clone())));
    // What this server wrote itself.
    manager.head("rm-1".to_owned(), &Head { index: 3, ..head("me") }.json().into(), 8, 8);
    assert!(matches!(manager.known["rm-1"].role, Role::Leads(_)) && !group.is_deposed());
    manager.head("rm-1".to_owned(), &Head { epoch: 2, ..head("me") }.json().into(), 9, 9);
    assert!(matches!(manager.known["rm-1"].role, Role::Follows(_)) && group.is_deposed());
}

#[actix::test]
async fn one_whose_log_is_gone_has_no_actor_any_more() {
    let mut manager = manager();
    manager.head("rm-1".to_owned(), &head("other").json().into(), 7, 7);
    let handle = manager.topology.find("rm-1").expect("it is followed");
    manager.removed("rm-1");
    for _ in 0..1_000 {
        if handle.addr.send(Info).await.is_err() {
            break;
        }
    }
    assert!(!handle.addr.connected());
    assert!(manager.topology.find("rm-1").is_none());
    // One that comes again has another.
    manager.head("rm-1".to_owned(), &head("other").json().into(), 9, 9);
    let again = manager.topology.find("rm-1").expect("it is followed");
    again.addr.send(Info).await.expect("alive");
}
