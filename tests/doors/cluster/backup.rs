//! A backup of etcd, restored as the manual says, while servers run and after they were started again.

use serde_json::json;

use crate::{
    cluster::rig::{self, NEVER, allocated, ask, session, start},
    common,
    shim::server::Server,
};

/// Number of the last line at whichever server leads.
async fn last(servers: &[&Server]) -> Option<u64> {
    for server in servers {
        let (status, info) = server.get("/si/v1/rm/rm-1").await;
        if status == 200 {
            return info["lastSequence"].as_u64();
        }
    }
    None
}

async fn leader<'a>(servers: &[&'a Server]) -> &'a Server {
    let ask = async || {
        for server in servers {
            if server.get("/si/v1/rm/rm-1").await.0 == 200 {
                return Some(server.url(""));
            }
        }
        None
    };
    let url = common::answer("who leads", ask, Option::is_some).await;
    servers.iter().find(|server| Some(server.url("")) == url).expect("one of them")
}

#[tokio::test]
async fn a_restored_backup_is_gone_on_from_and_shims_that_saw_more_register_again() {
    let test = "a_restored_backup_is_gone_on_from_and_shims_that_saw_more_register_again";
    let Some(mut etcd) = rig::etcd(test) else { return };
    let dirs: Vec<_> = (0..3).map(|_| tempfile::tempdir().expect("a directory")).collect();
    let file = dirs[2].path().join("backup");
    let (first, second) = (start(&etcd, dirs[0].path(), NEVER), start(&etcd, dirs[1].path(), NEVER));
    session(&first).await;
    let mut lines = first.stream("?after=0").await;
    let mut seen = Vec::new();
    ask(&first, &["k1"]).await;
    while allocated(&seen).is_empty() {
        seen.push(lines.next().await);
    }
    etcd.back_up(&file);
    let saved = seen.len() as u64;
    ask(&first, &["k2"]).await;
    while allocated(&seen).len() < 2 {
        seen.push(lines.next().await);
    }
    etcd.restore(&file);
    // Servers that run notice it.
    let both = [&first, &second];
    let after = seen.last().expect("a line")["seq"].as_u64().expect("a number");
    let less = |last: &Option<u64>| last.is_some_and(|last| (saved..after).contains(&last));
    common::answer("the last line", async || last(&both).await, less).await;
    let at = leader(&both).await;
    let info = at.get("/si/v1/rm/rm-1").await.1;
    assert_eq!(info["epoch"], 1, "{info}");
    // The shim has seen more: also when there are as many lines again, which are others.
    assert!(after > saved);
    for node in 0..=after - saved {
        at.nodes(&[&format!("m{node}")]).await;
    }
    at.until(|info| info["lastSequence"].as_u64() > Some(after)).await;
    let url = at.url(&format!("/si/v1/rm/rm-1/stream?after={after}"));
    let stream = async || at.http.get(&url).send().await.expect("an answer").status().as_u16();
    // It looks whether it leads before it says so.
    assert_eq!(common::answer("the stream", stream, |status| *status != 503).await, 410);
    let (_, app) = at.get("/ws/v1/partition/default/application/app").await;
    assert!(app.to_string().contains("k1") && !app.to_string().contains("k2"), "{app}");
    assert!(first.program.log().contains("etcd-restored"), "{}", first.program.log());
    assert!(at.program.log().contains("log-behind-shim"), "{}", at.program.log());
    let metrics = at.http.get(at.url("/metrics")).send().await.expect("an answer").text().await.expect("text");
    assert!(metrics.contains("\ncallboard_log_lost_total 1"), "{metrics}");
    // Who has not seen more goes on, and the other server follows.
    let mut lines = at.stream(&format!("?after={saved}")).await;
    ask(at, &["k3"]).await;
    while allocated(&[lines.next().await]).is_empty() {}
    let other = if at.url("") == first.url("") { &second } else { &first };
    let behind = async || other.get("/api/v1/cluster").await.1["resourceManagers"][0].clone();
    common::answer("the other server", behind, |group| {
        group["role"] == "follows" && group["applied"] == group["index"]
    })
    .await;
    assert_eq!(at.send("POST", "/si/v1/rm", &json!({"rmID": "rm-1"})).await.0, 200, "registered again");
}

#[tokio::test]
async fn a_log_that_is_removed_under_its_leader_is_told() {
    let Some(etcd) = rig::etcd("a_log_that_is_removed_under_its_leader_is_told") else { return };
    let (_dirs, leader, other) = rig::two(&etcd).await;
    let log = async || {
        let health = leader.get("/ws/v1/scheduler/healthcheck").await.1;
        let mut checks = health["HealthChecks"].as_array().into_iter().flatten();
        checks.find(|check| check["Name"] == "Log").map(|check| check["Succeeded"] == true)
    };
    assert_eq!(common::answer("the check", log, Option::is_some).await, Some(true));
    etcd.ctl(&["del", "--prefix", "/callboard/"]);
    common::answer("the check", log, |green| *green == Some(false)).await;
    let told = leader.program.log();
    assert_eq!(told.matches("cluster-log-gone").count(), 1, "{told}");
    assert!(!other.program.log().contains("cluster-log-gone"), "{}", other.program.log());
    let metrics = leader.http.get(leader.url("/metrics")).send().await.expect("an answer").text().await.expect("text");
    assert!(metrics.contains("\ncallboard_log_lost_total 1"), "{metrics}");
    // It may begin anew, at any server.
    let registered = async || other.send("POST", "/si/v1/rm", &json!({"rmID": "rm-1"})).await.0;
    common::answer("a registration", registered, |status| *status == 200).await;
    common::answer("the check", log, |green| *green == Some(true)).await;
    // One that ends and is removed by the server itself is no loss.
    assert_eq!(other.delete("/si/v1/rm/rm-1").await.0, 200);
    assert!(!other.program.log().contains("cluster-log-gone"), "{}", other.program.log());
}
