//! The past: the log of events read backwards, in parts, and when nobody is registered any more.

use serde_json::Value;

use super::{chromium::Browser, cluster::busy, server::Server};

const ROWS: &str = "document.querySelectorAll('tbody tr[data-key]').length";

async fn lines(server: &Server, query: &str) -> Vec<Value> {
    let answer = server.get(&format!("/api/v1/events?{query}")).await;
    assert_eq!(answer.status(), 200, "{query}");
    let text = answer.text().await.unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn ids(lines: &[Value]) -> Vec<u64> {
    lines.iter().filter_map(|line| line["id"].as_u64()).collect()
}

#[tokio::test]
async fn the_log_is_read_backwards() {
    let mut server = Server::start();
    busy(&mut server).await;
    for filter in ["", "&object=full", "&type=node"] {
        let all = ids(&lines(&server, filter.trim_start_matches('&')).await);
        assert!(all.len() > 25, "{filter}: {}", all.len());
        // Page by page from the end to the beginning: each exactly once.
        let (mut before, mut found) = (String::new(), Vec::new());
        loop {
            let page = lines(&server, &format!("last=10{before}{filter}")).await;
            let (end, events) = page.split_last().unwrap();
            found.splice(0..0, ids(events));
            assert!(events.len() <= 10 && end["next"].is_u64(), "{end}");
            match end["previous"].as_u64() {
                Some(id) => before = format!("&before={id}"),
                None => break,
            }
        }
        assert_eq!(found, all, "{filter}");
    }
    // Up to a time: to the event.
    let all = lines(&server, "").await;
    let middle = &all[all.len() / 2];
    let nanos: i64 = middle["timestampNano"].as_str().unwrap().parse().unwrap();
    let until = jiff::Timestamp::from_nanosecond(nanos.into()).unwrap();
    let wanted: Vec<u64> = all
        .iter()
        .filter(|line| line["timestampNano"].as_str().is_some_and(|at| at.parse::<i64>().unwrap() <= nanos))
        .filter_map(|line| line["id"].as_u64())
        .collect();
    assert_eq!(ids(&lines(&server, &format!("until={until}")).await), wanted);
    assert_eq!(ids(&lines(&server, &format!("until={until}&last=10000")).await), wanted);
    let since = ids(&lines(&server, &format!("since={until}&last=10000")).await);
    assert!(since.len() + wanted.len() >= ids(&all).len() && since.last() == ids(&all).last());
    for bad in ["last=0", "before=3", "last=3&from=1", "follow=true&until=1m"] {
        assert_eq!(server.get(&format!("/api/v1/events?{bad}")).await.status(), 400, "{bad}");
    }
}

#[tokio::test]
async fn events_are_searched_and_stay_when_nobody_is_registered() {
    let Some(browser) = Browser::start("events_are_searched_and_stay_when_nobody_is_registered").await else { return };
    let mut server = Server::start();
    busy(&mut server).await;
    // More than a page.
    server.asks("calm", "b", 400, [1, 1], serde_json::json!({})).await;
    browser.open(&format!("{}/#/default/events", server.url)).await;
    browser
        .until(&format!(
            "{ROWS} > 10 && document.querySelector('.tools [role=status]').innerText.match(/^(\\d+) event/)?.[1] >= 500"
        ))
        .await;
    let count = "Number(document.querySelector('.tools [role=status]').innerText.replace(',', '').match(/^\\d+/)[0])";
    let before = browser.run(&format!("return {count}")).await.as_u64().unwrap();
    let older = "[...document.querySelectorAll('.tools button')].find((one) => one.innerText === 'Older')";
    browser.run(&format!("{older}.click()")).await;
    browser.until(&format!("{count} > {before}")).await;
    // Those of one object, from its beginning.
    browser.run("const field = document.querySelector('input[aria-label=\"Events of this object\"]'); field.value = 'huge'; field.dispatchEvent(new Event('change'))").await;
    browser.until("location.hash.includes('object=huge') && [...document.querySelectorAll('tbody tr[data-key]')].every((row) => row.innerText.includes('huge'))").await;
    browser.until(&format!("{ROWS} > 3 && {older}.disabled")).await;
    browser.shows("from the oldest that is kept").await;

    // The resource manager ends its session: that is told with its reason, and what was can still be read.
    server.leave();
    let gone = reqwest::Client::new().delete(format!("{}/si/v1/rm/rm-1", server.url)).send().await.unwrap();
    assert!(gone.status().is_success(), "{}", gone.status());
    browser.shows("Resource manager rm-1 stopped").await;
    browser.until(&format!("{ROWS} > 3")).await;
    browser.run("location.hash = '#/default/applications'").await;
    browser.shows("No resource manager is registered").await;
    let why = server.json("/api/v1/overview").await["resourceManagers"][0].clone();
    assert_eq!(why["state"], "Stopped");
    browser.shows(why["why"].as_str().expect("a reason")).await;
    browser
        .run("[...document.querySelectorAll('a')].find((one) => one.innerText === 'Events of the past').click()")
        .await;
    browser.until(&format!("{ROWS} > 10")).await;
    assert_eq!(browser.faults().await, Vec::<String>::new());
    browser.close().await;
}
