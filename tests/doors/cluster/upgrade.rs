//! A rolling upgrade with two builds whose rules have different versions, while a shim asks and releases: servers are replaced one after
//! the other, and its session goes on. The second build is `CALLBOARD_TEST_LATER`: made by
//! `CALLBOARD_TEST_DOMAIN_VERSION=3 cargo build`, which `.ci/nightly` does; without it the test says that it is skipped.

use std::{env, path::Path, process::Command, sync::Arc};

use serde_json::Value;

use crate::{
    cluster::{
        rig::{self, Etcd, NEVER},
        shims::{self, Shim},
    },
    common,
    shim::server::Server,
};

struct Place<'a> {
    etcd: &'a Etcd,
    data: &'a Path,
    later: &'a str,
}

impl Place<'_> {
    fn start(&self, is_later: bool) -> Server {
        let command = rig::serve(&self.etcd.url(), self.data, NEVER, &[]);
        if !is_later {
            return rig::started(command);
        }
        let mut other = Command::new(self.later);
        other.args(command.get_args()).stdin(std::process::Stdio::null());
        rig::started(other)
    }
}

async fn group(server: &Server) -> Value {
    server.get("/api/v1/cluster").await.1["resourceManagers"][0].clone()
}

async fn follows(server: &Server) {
    let ask = async || group(server).await;
    common::answer("the resource manager", ask, |group| {
        group["role"] == "follows" && group["lag"].as_f64() < Some(0.5)
    })
    .await;
}

async fn end(server: Server) {
    server.program.signal("TERM");
    assert_eq!(server.program.ended().await, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_are_upgraded_one_after_the_other_and_the_session_goes_on() {
    let test = "servers_are_upgraded_one_after_the_other_and_the_session_goes_on";
    let Some(etcd) = rig::etcd(test) else { return };
    let Ok(later) = env::var("CALLBOARD_TEST_LATER") else {
        eprintln!("SKIPPED {test}: CALLBOARD_TEST_LATER names no build whose rules have a later version");
        return;
    };
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let place = |data| Place { etcd: &etcd, data, later: &later };
    let (one, two) = (place(one.path()), place(two.path()));
    let (first, second) = (one.start(false), two.start(false));
    super::faults::session(&first, "rm-1").await;
    let at = |servers: &[&Server]| servers.iter().map(|server| (server.url(""), server.grpc())).collect();
    let shim = Arc::new(Shim::new("rm-1", at(&[&first, &second])));
    let talks = shim.clone();
    let talking = tokio::spawn(async move { shims::over_grpc(&talks, || false, || ()).await });
    let lines = async || {
        let last = shim.last();
        common::answer("the last line", async || shim.last(), |now| *now > last + 20).await;
    };
    follows(&second).await;
    lines().await;
    // The one that follows goes first.
    end(second).await;
    let second = two.start(true);
    shim.find(at(&[&first, &second]));
    follows(&second).await;
    end(first).await;
    lines().await;
    // One that is not upgraded cannot follow what the later one writes; it says so, and does not take it over.
    let first = one.start(false);
    shim.find(at(&[&first, &second]));
    let behind = async || group(&first).await;
    let told = common::answer("the resource manager", behind, |group| group["role"] == "cannot follow").await;
    let why = told["fault"].as_str().expect("why").to_owned();
    assert!(why.contains("its records have version") && why.contains("follows after an upgrade"), "{why}");
    lines().await;
    end(first).await;
    let first = one.start(true);
    shim.find(at(&[&first, &second]));
    follows(&first).await;
    end(second).await;
    lines().await;
    let info = rig::leads(&first).await;
    assert_eq!(info["epoch"], 1, "{info}");
    assert!(!talking.is_finished());
    talking.abort();
}
