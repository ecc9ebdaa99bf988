//! The manager without an etcd: what it makes of what it is told.

use std::{sync::Arc, time::Duration};

use tokio::sync::{mpsc::unbounded_channel, oneshot};

use super::{Known, Manager, Role, spread::SETTLED};
use crate::{
    actors::rm::tests,
    cluster::{
        Options, Shown,
        etcd::Access,
        group::Group,
        keys::{Head, Server},
        presence::Held,
        take::Taken,
    },
    domain::DOMAIN_VERSION,
    messages::{
        leaders::FollowStatus,
        rm::{Attach, Info, Predicates, RefusalKind, ToStream, Want},
    },
};

/// One whose etcd is not there, and that has a lease all the same.
fn manager() -> Manager {
    let options = Options {
        access: Access { members: vec!["http://127.0.0.1:1".to_owned()], ..Access::default() },
        prefix: "/callboard".to_owned(),
        me: Server { id: "me".to_owned(), ..Server::default() },
        lease: Duration::from_secs(2),
        compact: false,
        max_bytes: 1 << 20,
    };
    let manager = Manager::new(options, tests::topology(), Arc::<Shown>::default()).expect("sound options");
    Manager { held: Arc::new(Held::with(1)), ..manager }
}

fn head(server: &str) -> Head {
    let (rm, server) = ("rm-1".to_owned(), server.to_owned());
    Head { domain: DOMAIN_VERSION, rm, server, epoch: 1, first: 1, ..Head::default() }
}

#[actix::test]
async fn a_shim_that_waits_while_its_resource_manager_is_taken_is_not_sent_away() {
    let mut manager = manager();
    let (to, mut messages) = unbounded_channel();
    let attach =
        Attach { door: "grpc", want: Want::Next { predicates: Predicates::Batch }, to, progress: Arc::default() };
    let handle = manager.topology.find_or_create("rm-1").expect("an id");
    handle.addr.send(attach).await.expect("alive").expect("waits");
    let ((first, mut done), (second, mut as_well)) = (oneshot::channel(), oneshot::channel());
    manager.wanted("rm-1".to_owned(), first);
    manager.wanted("rm-1".to_owned(), second);
    // The watch tells of the head that was put here, and only then comes the answer.
    manager.head("rm-1".to_owned(), &head("me").json().into(), (7, 1), 7);
    assert!(done.try_recv().is_err() && as_well.try_recv().is_err(), "both wait");
    manager.began("rm-1", Ok(Taken::Leads(head("me"), 7)));
    for answer in [done.try_recv(), as_well.try_recv()] {
        assert!(answer.expect("an answer").is_ok());
    }
    assert!(matches!(manager.known["rm-1"].role, Role::Leads(_)));
    // Everything that its actor was told has been heard when it answers.
    handle.addr.send(Info).await.expect("alive");
    assert!(handle.is_here().is_ok());
    assert!(!matches!(messages.try_recv(), Ok(ToStream::Close(_))), "the stream that waits goes on waiting");
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
            manager.head("rm-1".to_owned(), &other, (7, 1), 7);
        }
        manager.began("rm-1", Ok(Taken::Other));
        assert!(done.try_recv().expect("an answer").is_err());
        assert_eq!(of(&manager), watch_comes_first.then_some(true));
        manager.head("rm-1".to_owned(), &other, (7, 1), 7);
        assert_eq!(of(&manager), Some(true));
    }
}

#[actix::test]
async fn a_server_that_is_not_there_leads_nothing_new() {
    let mut manager = manager();
    manager.held.let_go();
    let (reply, mut done) = oneshot::channel();
    manager.wanted("rm-1".to_owned(), reply);
    let refused = done.try_recv().expect("an answer").expect_err("refused");
    assert_eq!(refused.kind, RefusalKind::Closing);
    assert!(refused.detail.contains("leads nothing at present"), "{refused:?}");
    assert!(manager.known.is_empty() && manager.beginning.is_empty());
    // Nor what it cannot read: another process with its id may lead that.
    manager.connected = Some(tokio::time::Instant::now());
    manager.known.insert("rm-1".to_owned(), Known::new(head("me"), 7, Role::Broken("bad".to_owned())));
    let (reply, mut done) = oneshot::channel();
    manager.wanted("rm-1".to_owned(), reply);
    assert_eq!(done.try_recv().expect("an answer").expect_err("refused").kind, RefusalKind::Closing);
    assert!(matches!(manager.known["rm-1"].role, Role::Broken(_)));
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
    manager.head("rm-1".to_owned(), &Head { index: 3, ..head("me") }.json().into(), (8, 1), 8);
    assert!(matches!(manager.known["rm-1"].role, Role::Leads(_)) && !group.is_deposed());
    manager.head("rm-1".to_owned(), &Head { epoch: 2, ..head("me") }.json().into(), (9, 1), 9);
    assert!(matches!(manager.known["rm-1"].role, Role::Follows(_)) && group.is_deposed());
}

#[actix::test]
async fn what_this_server_led_counts_as_unread_until_it_has_read_it() {
    let mut manager = manager();
    let group = Group::new(manager.setup(), head("me"), 7, Default::default());
    manager.known.insert("rm-1".to_owned(), Known::new(head("me"), 7, Role::Leads(group)));
    assert_eq!(manager.shown.reads.get(), None);
    manager.head("rm-1".to_owned(), &Head { epoch: 2, ..head("other") }.json().into(), (9, 1), 9);
    assert_eq!(manager.shown.reads.get(), Some((0, 1)));
    // One that is gone is not waited for.
    manager.removed("rm-1");
    manager.see_unread();
    assert_eq!(manager.shown.reads.get(), None);
}

#[actix::test]
async fn one_whose_log_is_gone_has_no_actor_any_more() {
    let mut manager = manager();
    manager.head("rm-1".to_owned(), &head("other").json().into(), (7, 1), 7);
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
    manager.head("rm-1".to_owned(), &head("other").json().into(), (9, 1), 9);
    let again = manager.topology.find("rm-1").expect("it is followed");
    again.addr.send(Info).await.expect("alive");
}

#[actix::test]
async fn a_server_that_joins_gets_its_share_one_by_one() {
    let mut manager = manager();
    let names = ["rm-1", "rm-2", "rm-3", "rm-4"];
    for rm in names {
        let head = Head { rm: rm.to_owned(), ..head("me") };
        let group = Group::new(manager.setup(), head.clone(), 7, Default::default());
        manager.known.insert(rm.to_owned(), Known::new(head, 7, Role::Leads(group)));
    }
    let follow = |rm: &str| FollowStatus { rm: rm.to_owned(), applied: 3, fault: None };
    let http = "http://other:9080".to_owned();
    let other = Server { id: "other".to_owned(), http, version: "2".to_owned(), ..Server::default() };
    let me = manager.options.me.clone();
    manager.servers.insert(me.id.clone(), me);
    manager.server("other".to_owned(), Some(&serde_json::to_vec(&other).expect("JSON").into()));
    manager.loads.insert("other".to_owned(), names.map(follow).to_vec());
    let changing = |manager: &Manager| {
        let of = |known: &&Known| matches!(known.role, Role::Changes);
        manager.known.values().filter(of).map(|known| known.head.rm.clone()).collect::<Vec<_>>()
    };
    // Not at once: it may be gone again. And not one of another release.
    manager.spread();
    tokio::time::advance(SETTLED).await;
    manager.spread();
    assert!(changing(&manager).is_empty());
    manager.options.me.version = "2".to_owned();
    manager.spread();
    assert_eq!(changing(&manager), ["rm-1"]);
    // One at a time.
    tokio::time::advance(SETTLED).await;
    manager.spread();
    assert_eq!(changing(&manager), ["rm-1"]);
    let taken = |manager: &mut Manager, rm: &str| {
        let known = manager.known.get_mut(rm).expect("known");
        (known.heir, known.head.server) = (None, "other".to_owned());
        let (head, at) = (known.head.clone(), manager.seen);
        let role = manager.role_of(&head, at);
        manager.become_role(rm, role);
    };
    taken(&mut manager, "rm-1");
    manager.spread();
    assert_eq!(changing(&manager), ["rm-2"]);
    taken(&mut manager, "rm-2");
    tokio::time::advance(2 * SETTLED).await;
    manager.spread();
    assert!(changing(&manager).is_empty(), "two each");
    // What an operator moves here stays, until a server or a resource manager comes.
    let leads = |manager: &mut Manager, rm: &str| {
        let head = Head { rm: rm.to_owned(), ..head("me") };
        let group = Group::new(manager.setup(), head.clone(), 8, Default::default());
        manager.known.insert(rm.to_owned(), Known::new(head, 8, Role::Leads(group)));
    };
    leads(&mut manager, "rm-1");
    tokio::time::advance(2 * SETTLED).await;
    manager.spread();
    assert!(changing(&manager).is_empty(), "moved by an operator");
    manager.head("rm-5".to_owned(), &Head { rm: "rm-5".to_owned(), ..head("other") }.json().into(), (9, 1), 9);
    manager.spread();
    assert!(changing(&manager).is_empty(), "three and two");
    leads(&mut manager, "rm-6");
    manager.head("rm-7".to_owned(), &Head { rm: "rm-7".to_owned(), ..head("other") }.json().into(), (10, 1), 10);
    leads(&mut manager, "rm-8");
    manager.spread();
    assert_eq!(changing(&manager), ["rm-1"], "five and three");
}
