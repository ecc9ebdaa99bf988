//! From one server to several and back: sessions go on, and no shim registers again.

use std::{path::Path, process::Stdio};

use serde_json::json;

use crate::{
    cluster::rig::{self, Etcd, NEVER, allocated, ask, follows, leader_of, leads, run, sees, start},
    common,
    shim::server::Server,
    wired::rig as alone,
};

/// Asks for one more, and reads all lines from this one on; gives the number of the last.
async fn goes_on(server: &Server, after: u64, key: &str) -> u64 {
    let info = leads(server).await;
    assert_eq!(info["epoch"], 1, "{info}");
    // Events may have come since.
    assert!(info["lastSequence"].as_u64() >= Some(after), "{info}");
    let mut lines = server.stream(&format!("?after={after}")).await;
    ask(server, &[key]).await;
    let line = loop {
        let line = lines.next().await;
        if !allocated(std::slice::from_ref(&line)).is_empty() {
            break line;
        }
    };
    assert_eq!(allocated(std::slice::from_ref(&line)), [key]);
    let (_, app) = server.get("/ws/v1/partition/default/application/app").await;
    assert!(
        app["allocations"].as_array().is_some_and(|all| all.iter().any(|one| one["allocationKey"] == "k1")),
        "{app}"
    );
    line["seq"].as_u64().expect("a number")
}

/// A session in which something is placed; gives the number of its last line.
async fn begun(server: &Server) -> u64 {
    rig::session(server).await;
    let mut lines = server.stream("?after=0").await;
    ask(server, &["k1"]).await;
    let mut seen = Vec::new();
    while allocated(&seen).is_empty() {
        seen.push(lines.next().await);
    }
    seen.len() as u64
}

#[tokio::test]
async fn sessions_go_from_one_server_to_several_and_back() {
    let Some(etcd) = rig::etcd("sessions_go_from_one_server_to_several_and_back") else { return };
    let dirs: Vec<_> = (0..3).map(|_| tempfile::tempdir().expect("a directory")).collect();
    let data: Vec<String> = dirs.iter().map(|dir| dir.path().display().to_string()).collect();
    // Killed at first: no snapshot was taken.
    let mut server = alone::with_data(dirs[0].path());
    let mut last = begun(&server).await;
    let carry = |what: &str, data: &str| {
        common::command(&["cluster", what, "--data", data, "--cluster", &etcd.url()]).output().expect("runs")
    };
    // Not while it runs.
    let refused = carry("import", &data[0]);
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("uses it"), "{refused:?}");
    server.program.kill();
    for round in 0..2 {
        let told = run(&["cluster", "import", "--data", &data[round], "--cluster", &etcd.url()]);
        assert!(told.starts_with("rm-1 imported: session, up to record "), "{told}");
        let (mut first, second) = (start(&etcd, dirs[0].path(), NEVER), start(&etcd, dirs[1].path(), NEVER));
        let at = async || (first.get("/si/v1/rm/rm-1").await.0, second.get("/si/v1/rm/rm-1").await.0);
        let led = common::answer("who leads", at, |led| led.0 == 200 || led.1 == 200).await;
        if led.0 == 200 {
            last = goes_on(&first, last, &format!("several{round}")).await;
            // And at the other one of them.
            follows(&second).await;
            first.program.kill();
            last = goes_on(&second, last, &format!("other{round}")).await;
        } else {
            last = goes_on(&second, last, &format!("several{round}")).await;
        }
        // Back, to a third directory or the second.
        let to = 2 - round;
        first.program.kill();
        assert_eq!(alone::end(second).await, Some(0));
        let told = run(&["cluster", "export", "--data", &data[to], "--cluster", &etcd.url()]);
        assert!(told.starts_with("rm-1 exported: session, up to record "), "{told}");
        assert!(etcd.keys().iter().all(|key| !key.contains("rm-1")), "{:?}", etcd.keys());
        let server = alone::with_data(dirs[to].path());
        last = goes_on(&server, last, &format!("alone{round}")).await;
        // With a snapshot, this time.
        assert_eq!(alone::end(server).await, Some(0));
        if round == 0 {
            // Where the next round looks for it.
            std::fs::remove_dir_all(dirs[1].path().join("log")).expect("removed");
            std::fs::rename(dirs[2].path().join("log"), dirs[1].path().join("log")).expect("moved");
        }
    }
    let told = String::from_utf8(carry("export", &data[0]).stdout).expect("text");
    assert_eq!(told, "nothing exported: there is no log\n");
    // As an export leaves it that is killed when etcd has nothing of it any more.
    let (log, left) = (dirs[1].path().join("log/rm-1"), dirs[1].path().join("log.exporting/rm-1"));
    std::fs::create_dir(dirs[1].path().join("log.exporting")).expect("made");
    std::fs::rename(&log, &left).expect("moved");
    let refused = carry("export", &data[1]);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && told.contains(&format!("{} is not in etcd", left.display())), "{told}");
    let server = alone::with_data(dirs[1].path());
    assert!(server.program.log().contains("log-left-by-export"), "{}", server.program.log());
    assert_eq!(alone::end(server).await, Some(0));
    std::fs::rename(&left, &log).expect("moved");
    goes_on(&alone::with_data(dirs[1].path()), last, "found").await;
}

#[tokio::test]
async fn what_operators_said_comes_along() {
    let Some(etcd) = rig::etcd("what_operators_said_comes_along") else { return };
    let dirs: Vec<_> = (0..2).map(|_| tempfile::tempdir().expect("a directory")).collect();
    let data: Vec<String> = dirs.iter().map(|dir| dir.path().display().to_string()).collect();
    let server = start(&etcd, dirs[0].path(), NEVER);
    rig::session(&server).await;
    let path = "/api/v1/partition/default/resource";
    let status = format!("{path}/status");
    alone::until(&server, &status, |status| status["online"]["nodelist"] == "n[1-2]").await;
    let drain = json!({"targets": "n1", "reason": "disk", "deadline": "2h"});
    assert_eq!(server.send("POST", &format!("{path}/drain"), &drain).await.0, 200);
    let stop = "/api/v1/partition/default/queue/root.a";
    assert_eq!(server.send("POST", &format!("{stop}/stop"), &json!({"reason": "rack"})).await.0, 200);
    let told = server.get(&status).await.1["drained"].clone();
    assert_eq!(alone::end(server).await, Some(0));
    // Into a directory whose journals have not heard of it.
    run(&["cluster", "export", "--data", &data[1], "--cluster", &etcd.url()]);
    let server = alone::with_data(dirs[1].path());
    let row =
        alone::until(&server, &status, |status| status["online"]["nodelist"] == "n[1-2]").await["drained"].clone();
    for part in ["nodelist", "reason", "timestamp", "deadline", "by"] {
        assert_eq!(row[0][part], told[0][part], "{part}: {row}");
    }
    assert_eq!(server.get(stop).await.1["order"]["reason"], "rack");
    let nodes = server.get("/ws/v1/partition/default/nodes").await.1;
    let open = nodes.as_array().expect("nodes").iter().filter(|node| node["schedulable"] == true);
    assert_eq!(open.map(|node| &node["nodeID"]).collect::<Vec<_>>(), ["n2"], "{nodes}");
}

/// Servers of a cluster run while a log is put into etcd; `more`: its newest snapshot has records behind it.
async fn goes_on_beside_servers_that_run(test: &str, more: bool) {
    let Some(etcd) = rig::etcd(test) else { return };
    let dirs: Vec<_> = (0..3).map(|_| tempfile::tempdir().expect("a directory")).collect();
    let servers = [start(&etcd, dirs[0].path(), NEVER), start(&etcd, dirs[1].path(), NEVER)];
    sees(&servers[0], 2).await;
    let server = alone::with_data(dirs[2].path());
    let mut last = begun(&server).await;
    assert_eq!(alone::end(server).await, Some(0));
    if more {
        let mut server = alone::with_data(dirs[2].path());
        last = goes_on(&server, last, "k2").await;
        server.program.kill();
    }
    let told = run(&["cluster", "import", "--data", &dirs[2].path().display().to_string(), "--cluster", &etcd.url()]);
    assert!(told.starts_with("rm-1 imported: session, up to record "), "{told}");
    let leader = leader_of(&servers).await;
    goes_on(leader, last, "several").await;
    for server in &servers {
        let log = server.program.log();
        assert!(!log.contains("cluster-cannot-follow"), "{log}");
    }
    assert!(etcd.keys().iter().all(|key| !key.contains("/carries/")), "{:?}", etcd.keys());
}

#[tokio::test]
async fn a_snapshot_goes_into_etcd_while_servers_run() {
    goes_on_beside_servers_that_run("a_snapshot_goes_into_etcd_while_servers_run", false).await;
}

#[tokio::test]
async fn a_snapshot_and_records_behind_it_go_into_etcd_while_servers_run() {
    goes_on_beside_servers_that_run("a_snapshot_and_records_behind_it_go_into_etcd_while_servers_run", true).await;
}

/// Takes what servers that run lead out of etcd into a directory. `meanwhile`: before it goes from etcd, when servers know.
async fn export_beside(etcd: &Etcd, servers: &[Server], data: &Path, meanwhile: impl AsyncFnOnce()) -> (bool, String) {
    let waits = data.join("waits");
    std::fs::write(&waits, "").expect("written");
    let data = data.display().to_string();
    let mut command = common::command(&["cluster", "export", "--data", &data, "--cluster", &etcd.url()]);
    command.env("CALLBOARD_TEST_CARRY_WAITS", &waits).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("runs");
    for server in servers {
        let led = async || server.get("/api/v1/cluster").await.1["resourceManagers"][0]["leader"].clone();
        common::answer("who leads", led, |led| led.as_str().is_some_and(|led| led.ends_with("-carries"))).await;
    }
    meanwhile().await;
    std::fs::remove_file(&waits).expect("removed");
    let told = child.wait_with_output().expect("ends");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (told.status.success(), text(&told.stdout) + &text(&told.stderr))
}

#[tokio::test]
async fn what_is_taken_out_of_etcd_is_not_taken_over_meanwhile_and_not_known_any_more() {
    let test = "what_is_taken_out_of_etcd_is_not_taken_over_meanwhile_and_not_known_any_more";
    let Some(etcd) = rig::etcd(test) else { return };
    let dirs: Vec<_> = (0..3).map(|_| tempfile::tempdir().expect("a directory")).collect();
    let lease = ["--cluster-lease", "2s"];
    let servers = [0, 1].map(|at: usize| rig::start_with(&etcd.url(), dirs[at].path(), NEVER, &lease));
    let last = begun(&servers[0]).await;
    follows(&servers[1]).await;
    // Longer than servers wait before they take over from one that is gone.
    let wait = async || tokio::time::sleep(std::time::Duration::from_secs(4)).await;
    let (done, told) = export_beside(&etcd, &servers, dirs[2].path(), wait).await;
    assert!(done && told.starts_with("rm-1 exported: session, up to record "), "{told}");
    assert!(etcd.keys().iter().all(|key| !key.contains("rm-1") && !key.contains("carries")), "{:?}", etcd.keys());
    assert!(!dirs[2].path().join("log.exporting").exists());
    // Servers that had it say that there is none.
    for server in &servers {
        for path in ["/si/v1/rm/rm-1", "/si/v1/rm/rm-1/stream?after=0"] {
            let status = async || {
                let answer = server.http.get(server.url(path)).send().await;
                answer.map_or(0, |answer| answer.status().as_u16())
            };
            common::answer(path, status, |status| *status == 404).await;
        }
    }
    goes_on(&alone::with_data(dirs[2].path()), last, "alone").await;
    // And lead it once it registers there.
    rig::session(&servers[1]).await;
    leads(&servers[1]).await;
}

#[tokio::test]
async fn what_servers_take_over_while_it_is_taken_out_stays_with_them() {
    let Some(etcd) = rig::etcd("what_servers_take_over_while_it_is_taken_out_stays_with_them") else { return };
    let dirs: Vec<_> = (0..3).map(|_| tempfile::tempdir().expect("a directory")).collect();
    let servers = [start(&etcd, dirs[0].path(), NEVER), start(&etcd, dirs[1].path(), NEVER)];
    let last = begun(&servers[0]).await;
    follows(&servers[1]).await;
    let forgotten = async || {
        // As when its lease had run out.
        let keys = etcd.keys();
        let key = keys.iter().find(|key| key.contains("/servers/") && key.ends_with("-carries")).expect("it is there");
        etcd.ctl(&["del", key]);
        leader_of(&servers).await;
    };
    let (done, told) = export_beside(&etcd, &servers, dirs[2].path(), forgotten).await;
    assert!(!done && told.contains("leads it"), "{told}");
    for place in ["log/rm-1", "log.exporting/rm-1"] {
        assert!(!dirs[2].path().join(place).exists(), "{place}: {told}");
    }
    goes_on(leader_of(&servers).await, last, "several").await;
}
