//! REST section 8, "what the handlers do on bad input", row by row.

use callboard::{
    actors::directory::Listing,
    domain::{event_settings::EventSettings, types::Termination},
    http::ws_v1::{applications, checks::AppList},
    messages::event::ApplyEventSettings,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use super::{
    cluster,
    requests::{Captured, REQUESTS},
    scenario::World,
    server::Server,
};

/// Row, status, and the requests of the captured run (counted from 0) that `requests::all_of_them` sends again. Rows
/// without any have a test that is named.
const ROWS: [(u8, u16, &[usize]); 48] = [
    (1, 404, &[0, 1, 3, 18, 19, 36]),
    (2, 404, &[2]),
    (3, 404, &[97, 98]),
    (4, 404, &[4, 5]),
    (5, 200, &[6]),
    (6, 400, &[7, 8, 17, 100]),
    (7, 400, &[9]),
    (8, 400, &[10]),
    (9, 200, &[11, 12]),
    (10, 404, &[14, 15, 16]),
    (11, 404, &[44, 99]),
    (12, 400, &[23]),
    (13, 404, &[27]),
    (13, 400, &[28]),
    (14, 404, &[31]),
    (15, 200, &[32]),
    // Completed: `completed_applications_are_not_found`.
    (16, 404, &[33, 34]),
    (17, 404, &[20, 21]),
    (18, 400, &[37]),
    (19, 200, &[38]),
    (20, 400, &[39]),
    (21, 200, &[40]),
    (22, 200, &[41]),
    (23, 400, &[47, 48, 102]),
    (24, 400, &[49]),
    (25, 400, &[45]),
    (25, 404, &[46]),
    // Here 404 (SEEDS S22): `requests::rows_of_the_table`.
    (26, 200, &[52, 53, 61, 62]),
    (27, 404, &[54, 63]),
    (28, 400, &[55, 64, 65]),
    (29, 400, &[56, 66]),
    (30, 400, &[67, 68, 70]),
    (31, 400, &[69]),
    (31, 200, &[71]),
    (32, 400, &[72, 73, 74]),
    // `requests::rows_of_the_table`, and `batch_parameters` of the events.
    (33, 200, &[]),
    (34, 200, &[107]),
    // A count of 0: `streams_and_their_limit`.
    (35, 400, &[76, 77]),
    // `streams_and_their_limit`
    (36, 503, &[]),
    // `tracking_off`
    (37, 500, &[]),
    // `before_the_first_check_and_sample`
    (38, 404, &[]),
    (39, 500, &[]),
    // What is not allowed: `what_is_not_allowed_says_why`, `transport::validates_configurations`.
    (40, 200, &[113]),
    (41, 405, &[82, 86, 88, 89, 90, 94, 96]),
    (42, 200, &[106]),
    (43, 200, &[105]),
    (44, 200, &[110, 111]),
    (44, 400, &[108, 109]),
];

#[test]
fn every_row_is_tried() {
    let captured: Vec<Captured> = REQUESTS.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut rows: Vec<u8> = ROWS.iter().map(|(row, ..)| *row).collect();
    rows.dedup();
    assert_eq!(rows, (1..=44).collect::<Vec<_>>());
    for (row, status, requests) in ROWS {
        for request in requests {
            let Captured { method, path, status: seen, .. } = &captured[*request];
            assert_eq!(*seen, status, "row {row}: {method} {path}");
        }
    }
}

#[test]
fn completed_applications_are_not_found() {
    // Row 16
    let mut world = World::captured();
    world.release("app-done", "done-1", Termination::StoppedByRm);
    world.pass(100);
    assert!(applications::find(&world.view(), None, "app-done").is_some(), "Completing is alive");
    world.pass(31_000);
    let view = world.view();
    assert!(applications::find(&view, None, "app-done").is_none());
    assert_eq!(applications::each(&view, AppList::Completed, None).count(), 1);
}

/// A stream that was opened, with the first line that it sent.
async fn opened(server: &Server, path: &str) -> (TcpStream, String) {
    let mut socket = TcpStream::connect(server.address).await.unwrap();
    socket.write_all(format!("GET {path} HTTP/1.1\r\nHost: board\r\n\r\n").as_bytes()).await.unwrap();
    let mut seen = Vec::new();
    while !seen.ends_with(b"}\n\r\n") {
        assert!(socket.read_buf(&mut seen).await.unwrap() > 0, "{}", String::from_utf8_lossy(&seen));
    }
    (socket, String::from_utf8(seen).unwrap())
}

fn apply(server: &Server, settings: EventSettings) {
    server.state.topology.events.do_send(ApplyEventSettings(settings));
}

#[actix::test]
async fn streams_and_their_limit() {
    // Row 35: a count of 0 is none; row 36: the limit comes before the count.
    let server = cluster::start().await;
    apply(&server, EventSettings { max_streams_per_host: 1, ..EventSettings::default() });
    let (_stream, text) = opened(&server, "/ws/v1/events/stream?count=0").await;
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.contains("{\"InstanceUUID\":\""), "{text}");
    for query in ["", "?count=1", "?count=abc", "?count=-1"] {
        let refused = server.get(&format!("/ws/v1/events/stream{query}")).await;
        let text = "Too many streaming connections";
        let body = format!("{{\"status_code\":503,\"message\":\"{text}\",\"description\":\"{text}\"}}\n");
        assert_eq!((refused.status, refused.text()), (503, &*body), "{query}");
        assert_eq!(refused.header("content-type"), Some("application/json; charset=UTF-8"));
        assert_eq!(refused.header("access-control-allow-origin"), Some("*"));
    }
    apply(&server, EventSettings { max_streams: 0, ..EventSettings::default() });
    assert_eq!(server.get("/ws/v1/events/stream").await.status, 503);
    server.stop().await;
}

#[actix::test]
async fn tracking_off() {
    // Row 37 and SEEDS S16: what was recorded stays readable, a stream may wait for tracking to come back; bad numbers are
    // told as ever.
    let server = cluster::start().await;
    apply(&server, EventSettings { tracking: false, ..EventSettings::default() });
    let page = server.get("/ws/v1/events/batch").await;
    assert_eq!((page.status, page.json()["LowestID"].clone()), (200, 0.into()));
    assert_eq!(server.get("/ws/v1/events/batch?count=0").await.status, 400);
    assert_eq!(server.get("/ws/v1/events/stream?count=abc").await.status, 400);
    let (_stream, text) = opened(&server, "/ws/v1/events/stream").await;
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    server.stop().await;
}

#[actix::test]
async fn before_the_first_check_and_sample() {
    // Row 38; row 39: a history is always kept here, and has nothing in it at first.
    let server = Server::start(Listing::default());
    let health = server.get("/ws/v1/scheduler/healthcheck").await;
    assert_eq!((health.status, &health.json()["message"]), (404, &"Health check is not available".into()));
    for path in ["/ws/v1/history/apps", "/ws/v1/history/containers"] {
        let history = server.get(path).await;
        assert_eq!((history.status, history.text()), (200, "[]\n"));
    }
    server.stop().await;
}

#[actix::test]
async fn what_is_not_allowed_says_why() {
    // Row 40: always 200.
    let server = Server::start(Listing::default());
    let partition = "partitions:\n  - name: default\n    queues:\n      - name: root\n";
    for (body, reason) in [
        ("partitions: [".to_owned(), "yaml: "),
        ("\u{1}".to_owned(), "yaml: "),
        (format!("{partition}        bogus: 1\n"), "yaml: unmarshal errors:\n  line 5: field bogus not found"),
        (format!("{partition}        queues:\n          - name: a!\n"), "invalid queue name"),
        (
            format!("{partition}        queues:\n          - name: a\n          - name: A\n"),
            "duplicate child name found",
        ),
    ] {
        let answer = server.request("POST", "/ws/v1/validate-conf", &[], &body).await;
        let verdict = answer.json();
        assert_eq!((answer.status, &verdict["allowed"]), (200, &false.into()), "{body}");
        assert!(verdict["reason"].as_str().unwrap().starts_with(reason), "{body}: {verdict}");
    }
    server.stop().await;
}
