//! What was used over a while is told by whoever leads, also of the time when another server did.

use serde_json::{Value, json};

use crate::{
    cluster::rig::{self, NEVER, ask, follows, leads, said_to_follow, session, start},
    common,
    shim::server::Server,
};

/// The history by users: shares and gaps, and the last line.
async fn history(server: &Server, window: &str) -> (Vec<Value>, Value) {
    let path = format!("/api/v1/partition/default/usage/history?by=user&{window}");
    let answer = server.http.get(server.url(&path)).send().await.expect("an answer");
    assert_eq!(answer.status(), 200);
    let text = answer.text().await.expect("a body");
    let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let last = lines.pop().expect("a last line");
    (lines, last)
}

fn memory(lines: &[Value]) -> f64 {
    let of = |line: &Value| line["resourceSeconds"]["memory"].as_str()?.parse::<f64>().ok();
    lines.iter().filter(|line| line["user"] == "u").filter_map(of).sum()
}

/// Waits until so many resource-seconds more are told; gives the times between which they were used.
async fn grows(server: &Server, since: &str, more: f64) -> String {
    let before = memory(&history(server, since).await.0);
    let asked = async || history(server, since).await;
    let (_, last) = common::answer("usage", asked, |(lines, _)| memory(lines) > before + more).await;
    format!("since={}&until={}", last["since"].as_str().expect("a time"), last["until"].as_str().expect("a time"))
}

#[tokio::test]
async fn a_new_leader_tells_what_was_used_while_another_one_led() {
    let Some(etcd) = rig::etcd("a_new_leader_tells_what_was_used_while_another_one_led") else { return };
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let (mut leader, other) = (start(&etcd, one.path(), NEVER), start(&etcd, two.path(), NEVER));
    session(&leader).await;
    follows(&other).await;
    let callbacks = leader.stream("?after=0").await;
    ask(&leader, &["k1", "k2"]).await;
    let window = grows(&leader, "since=1h", 0.2).await;
    ask(&leader, &["k3"]).await;
    let (told, last) = history(&leader, &window).await;
    assert_eq!((memory(&told) > 0.2, &last["complete"]), (true, &json!(true)), "{told:?}");
    leader.program.kill();
    drop(callbacks);
    leads(&other).await;
    assert_eq!(history(&other, &window).await.0, told, "the same, to the last digit");
    // It is used on without a pause, and told without a gap.
    let _callbacks = other.stream("?after=0").await;
    ask(&other, &["k4"]).await;
    let window = grows(&other, "since=1h", 0.2).await;
    let (told, last) = history(&other, &window).await;
    assert_eq!((told.len(), &last["complete"]), (1, &json!(true)), "{told:?}");
    // The first one reads again what it had, and what came meanwhile.
    let again = start(&etcd, one.path(), NEVER);
    follows(&again).await;
    said_to_follow(&other, &again).await;
    other.program.signal("TERM");
    assert_eq!(other.program.ended().await, Some(0));
    leads(&again).await;
    assert_eq!(history(&again, &window).await.0, told, "none of it twice");
    // With its session ends what it had.
    assert_eq!(again.delete("/si/v1/rm/rm-1").await.0, 200);
    let window = "since=1h";
    let path = "%5Brm-1%5Ddefault/usage/history?by=user";
    let of = async || {
        let answer = again.get(&format!("/api/v1/partition/{path}&{window}")).await.1;
        let text = answer.as_str().expect("lines").to_owned();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        memory(&lines)
    };
    let ended = async || (of().await, of().await);
    common::answer("an end", ended, |(one, two)| one == two && *one > memory(&told)).await;
}

#[tokio::test]
async fn what_was_used_before_a_server_joined_is_a_gap() {
    let Some(etcd) = rig::etcd("what_was_used_before_a_server_joined_is_a_gap") else { return };
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let mut leader = start(&etcd, one.path(), "4000");
    session(&leader).await;
    let callbacks = leader.stream("?after=0").await;
    for nth in 0..40 {
        ask(&leader, &[&*format!("a-{nth}")]).await;
    }
    common::until(async || etcd.keys().iter().any(|key| key.contains("/snap/"))).await;
    let other = start(&etcd, two.path(), "4000");
    follows(&other).await;
    said_to_follow(&leader, &other).await;
    let first = grows(&leader, "since=1h", 5.0).await;
    let window = grows(&leader, "since=1h", 5.0).await;
    let (told, _) = history(&leader, &window).await;
    leader.program.kill();
    drop(callbacks);
    leads(&other).await;
    let (joined, last) = history(&other, &window).await;
    let gaps: Vec<_> = joined.iter().filter(|line| line["gap"].is_object()).collect();
    assert_eq!((gaps.len(), &last["complete"]), (1, &json!(false)), "{joined:?}");
    assert_eq!(gaps[0]["gap"]["reason"], "led-elsewhere");
    assert!(memory(&joined) < memory(&told), "{joined:?} {told:?}");
    // From there on it is the same.
    let (from, to) =
        (&first[first.find("until=").expect("an end") + 6..], &window[window.find("until=").expect("an end")..]);
    let both = format!("since={from}&{to}");
    let (joined, last) = history(&other, &both).await;
    assert!(last["complete"] == true && memory(&joined) >= 5.0, "{joined:?}");
}
