//! `callboard replay` and `callboard bench` as clients: against a fake scheduler that misbehaves where a client must
//! cope, and against the real server through both of its doors.

mod fake;

use std::{path::Path, sync::atomic::Ordering::SeqCst, time::Duration};

use callboard::cli::{
    bench::{
        beside, doors, drive,
        shapes::{Beside, Shape, ShapeId},
        workload::Workload,
    },
    client::{DoorKind, server::Server, trust::Trust},
    replay::{ReplayArgs, Replayed, load, native::COLUMNS, replay, shipped},
};
use clap::Parser;
use fake::{Fake, Faults};

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: ReplayArgs,
}

fn args(more: &[&str]) -> ReplayArgs {
    Command::parse_from(["replay"].iter().chain(more)).args
}

async fn played(fake: &Fake, more: &[&str]) -> Replayed {
    let url = format!("http://{}", fake.address);
    let args = args(&[&["--server", &url], more].concat());
    replay(&args, &load(&args).unwrap()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_shipped_trace_is_played_to_its_end() {
    let fake = Fake::start(Faults::default());
    let replayed = played(&fake, &[]).await;
    assert!(replayed.error.is_none(), "{:?}", replayed.error);
    let summary = replayed.summary;
    let trace = shipped().unwrap();
    assert!(summary.complete && summary.disagreement.is_none(), "{summary}");
    assert_eq!((summary.asks, summary.nodes), (trace.asks.len(), trace.nodes.len()));
    assert_eq!(summary.applications, trace.apps.len());
    assert_eq!(summary.placed + summary.withdrawn + summary.waiting, summary.asks);
    assert!(summary.waited > 0 && summary.wait_ms[2] > 0, "{summary}");
    assert!(summary.had_to_wait.keys().any(|reason| reason.contains("out of vcore")), "{summary}");
    // Every ask that never got a place has its reason.
    assert_eq!(summary.never_placed.values().sum::<usize>(), summary.withdrawn + summary.waiting);
    let html = replayed.html;
    assert!(html.contains("<svg") && html.contains("root.batch") && html.ends_with("</html>\n"));
    assert!(!html.contains("http://") || !html.contains("src="), "an outside resource");
    assert_eq!((fake.streams.load(SeqCst), fake.unregistered.load(SeqCst)), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_streams_are_resumed_and_busy_answers_honoured() {
    let steady = Fake::start(Faults::default());
    let expected = played(&steady, &[]).await.summary;
    let fake = Fake::start(Faults { break_after: Some(100), busy_every: Some(5), ..Faults::default() });
    let summary = played(&fake, &[]).await.summary;
    assert!(summary.complete, "{summary}");
    assert_eq!((summary.asks, summary.placed, summary.withdrawn), (expected.asks, expected.placed, expected.withdrawn));
    assert!(summary.resumed >= 3 && fake.streams.load(SeqCst) == summary.resumed + 1, "{summary}");
    assert!(fake.refused.load(SeqCst) > 50);
}

/// Writes a trace in which there is room for every ask when it comes.
fn roomy(dir: &Path) -> String {
    let mut trace = format!("{}\nnode,n,,,,10000,1024,,,,\n", COLUMNS.join(","));
    for at in 0..20 {
        trace += &format!("ask,a-{at},app-{at},q,u,5000,1,,,{at},{}\n", at + 1);
    }
    let file = dir.join("trace.csv");
    std::fs::write(&file, trace).unwrap();
    file.to_str().unwrap().to_owned()
}

/// The clock must not run away from a server that is slow: nothing waits on a cluster that has room for all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_server_is_not_taken_for_a_full_one() {
    let dir = tempfile::tempdir().unwrap();
    let file = roomy(dir.path());
    let fake = Fake::start(Faults { slow: Some(Duration::from_millis(30)), ..Faults::default() });
    let summary = played(&fake, &["--file", &file]).await.summary;
    assert_eq!((summary.placed, summary.withdrawn, summary.waited), (20, 0, 0), "{summary}");
    assert!(summary.had_to_wait.is_empty() && summary.never_placed.is_empty(), "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn books_that_disagree_are_told() {
    let fake = Fake::start(Faults { wrong_usage: true, ..Faults::default() });
    let summary = played(&fake, &[]).await.summary;
    assert!(summary.disagreement.is_some_and(|text| text.contains("the server {")));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_named() {
    let args = args(&["--server", "http://127.0.0.1:1"]);
    let error = replay(&args, &shipped().unwrap()).await.err().unwrap();
    assert!(format!("{error:#}").contains("POST /si/v1/rm: no answer from http://127.0.0.1:1"), "{error:#}");
}

/// The program itself as a server.
async fn real() -> Server {
    Server::start_program(Path::new(env!("CARGO_BIN_EXE_callboard")), &[]).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_real_server_plays_the_shipped_trace_the_same_through_both_doors() {
    let server = real().await;
    let mut placed = Vec::new();
    for door in ["http", "grpc"] {
        let args = args(&["--server", &server.http, "--grpc", &server.grpc, "--door", door]);
        let replayed = replay(&args, &shipped().unwrap()).await.unwrap();
        assert!(replayed.error.is_none(), "{:?}", replayed.error);
        let summary = replayed.summary;
        assert!(summary.complete && summary.refused.is_empty(), "{summary}");
        assert_eq!((&summary.disagreement, &summary.not_compared), (&None, &None), "{summary}");
        assert_eq!(summary.placed + summary.withdrawn + summary.waiting, shipped().unwrap().asks.len());
        assert!(!summary.had_to_wait.keys().any(|reason| reason.starts_with("unknown")), "{summary}");
        placed.push(summary.placed);
    }
    // Behind a door the core reserves a node for an ask that has waited 2 s of real time, whatever the trace time; where a run
    // is slow enough for that, a few asks end up elsewhere.
    assert!(placed[0].abs_diff(placed[1]) <= 12, "{placed:?}");
    server.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_waits_on_the_real_server_where_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    let file = roomy(dir.path());
    let server = real().await;
    for door in ["http", "grpc"] {
        let args = args(&["--server", &server.http, "--grpc", &server.grpc, "--door", door, "--file", &file]);
        let summary = replay(&args, &load(&args).unwrap()).await.unwrap().summary;
        assert_eq!((summary.placed, summary.withdrawn, summary.waited), (20, 0, 0), "{door}: {summary}");
    }
    server.stop().await.unwrap();
}

#[test]
fn the_program_replays_and_leaves_its_report() {
    let dir = tempfile::tempdir().unwrap();
    let report = dir.path().join("report.html");
    let program = std::process::Command::new(env!("CARGO_BIN_EXE_callboard"))
        .args(["replay", "--json", "--door", "http", "--report"])
        .arg(&report)
        // What the environment says of another server does not count for the one of the replay.
        .env("CALLBOARD_HTTP", "192.0.2.1:1")
        .env("CALLBOARD_RM_MAX_ITEMS", "10")
        .env("CALLBOARD_TLS_CLIENT_CA", "/nonexistent")
        .output()
        .unwrap();
    assert!(program.status.success(), "{}", String::from_utf8_lossy(&program.stderr));
    let summary: serde_json::Value = serde_json::from_slice(&program.stdout).unwrap();
    assert_eq!((&summary["complete"], &summary["disagreement"]), (&true.into(), &serde_json::Value::Null));
    assert!(std::fs::read_to_string(report).unwrap().contains("<svg"));
}

#[test]
fn a_report_that_has_no_place_hides_no_result() {
    let dir = tempfile::tempdir().unwrap();
    let program = std::process::Command::new(env!("CARGO_BIN_EXE_callboard"))
        .args(["replay", "--json", "--report"])
        .arg(dir.path())
        .output()
        .unwrap();
    let summary: serde_json::Value = serde_json::from_slice(&program.stdout).unwrap();
    assert_eq!((&summary["complete"], program.status.code()), (&true.into(), Some(1)));
    assert!(String::from_utf8_lossy(&program.stderr).contains("cannot be written"));
}

/// In process a trace takes its time from the trace: the result is the same to the byte each time, however busy the machine
/// is, and no reason why an ask waits is missing.
#[test]
fn a_replay_in_process_gives_the_same_bytes_each_time() {
    let dir = tempfile::tempdir().unwrap();
    let run = |name: &str| {
        let report = dir.path().join(name);
        let program = std::process::Command::new(env!("CARGO_BIN_EXE_callboard"))
            .args(["replay", "--json", "--report"])
            .arg(&report)
            .output()
            .unwrap();
        assert!(program.status.success(), "{}", String::from_utf8_lossy(&program.stderr));
        (program.stdout, std::fs::read(report).unwrap())
    };
    let busy = std::sync::atomic::AtomicBool::new(true);
    let (first, second) = std::thread::scope(|scope| {
        let first = run("first.html");
        // Something else wants the processor, too.
        for _ in 0..4 {
            scope.spawn(|| {
                while busy.load(SeqCst) {
                    std::hint::spin_loop();
                }
            });
        }
        let second = run("second.html");
        busy.store(false, SeqCst);
        (first, second)
    });
    assert!(first == second);
    let summary: serde_json::Value = serde_json::from_slice(&first.0).unwrap();
    assert_eq!(
        (&summary["door"], &summary["complete"], &summary["left_over"]),
        (&"none".into(), &true.into(), &[0; 0].into())
    );
    assert_eq!(summary["disagreement"], serde_json::Value::Null);
    let count = |field: &str| summary[field].as_u64().unwrap();
    assert_eq!(count("placed") + count("withdrawn") + count("waiting"), count("asks"));
    let reasons = summary["never_placed"].as_object().unwrap();
    assert_eq!(reasons.values().map(|n| n.as_u64().unwrap()).sum::<u64>(), count("withdrawn") + count("waiting"));
    assert!(reasons.keys().all(|reason| !reason.contains("next in turn") && !reason.contains("unknown")), "{summary}");
}

/// Delays of the scheduler run in trace time: an ask that has waited 2 s of it reserves a node, and is placed there as soon
/// as there is room, before a smaller one that comes later (R5.37).
#[tokio::test]
async fn reservations_of_a_replay_in_process_take_their_time_from_the_trace() {
    let dir = tempfile::tempdir().unwrap();
    let mut trace = format!("{}\nnode,n,,,,4000,1024,,,,\n", COLUMNS.join(","));
    // Node n is full of four asks that end one by one; a large ask waits for all of it. Of eight late ones four go to other
    // nodes, which are too small for the rest; the other four would take each place on n as it comes.
    for at in 0..4 {
        trace += &format!("node,m-{at},,,,1000,10,,,,\nask,a-{at},first,q,u,1000,100,,,0,{}\n", 10 + at);
    }
    trace += "ask,large,large,q,u,4000,100,,,1,100\n";
    for at in 0..8 {
        trace += &format!("ask,c-{at},late,q,u,1000,1,,,9,{}\n", 200 + at);
    }
    let file = dir.path().join("trace.csv");
    std::fs::write(&file, trace).unwrap();
    let file = file.to_str().unwrap();
    let without = args(&["--file", file, "--no-reservations"]);
    let summary = replay(&without, &load(&without).unwrap()).await.unwrap().summary;
    assert_eq!((summary.placed, summary.withdrawn), (12, 1), "the large one gets no place: {summary}");
    assert_eq!(summary.wait_large_ms, 99_000, "from 1 s until it ended at 100 s: {summary}");
    let args = args(&["--file", file]);
    let summary = replay(&args, &load(&args).unwrap()).await.unwrap().summary;
    assert_eq!((summary.placed, summary.withdrawn, summary.door), (13, 0, "none"), "{summary}");
    // The large one waited from 1 s to 13 s, four late ones from 9 s to 100 s.
    assert_eq!((summary.waited, summary.wait_ms), (5, [0, 91_000, 91_000]), "{summary}");
    assert_eq!(summary.wait_large_ms, 12_000, "{summary}");
    assert_eq!(summary.had_to_wait.values().sum::<usize>(), 5, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shapes_run_through_both_doors() {
    let server = real().await;
    for (door, address) in [(DoorKind::Http, &server.http), (DoorKind::Grpc, &server.grpc)] {
        let some =
            [ShapeId::S0, ShapeId::S1, ShapeId::S5, ShapeId::S6, ShapeId::S8, ShapeId::S10, ShapeId::S14, ShapeId::S15];
        for shape in some.into_iter().flat_map(ShapeId::shapes) {
            let (queues, apps) = (shape.queues.min(5), shape.apps.min(2));
            let (running, lines) = (shape.running.min(300), shape.lines.min(500));
            let shape =
                Shape { nodes: 20, asks: 200, queues, apps, running, lines, types: 3, queue_limits: true, ..shape };
            let name = format!("{} {}", shape.name, shape.about);
            let work = Workload::of(&shape);
            let pid = Some(server.pid());
            let mut rig = doors::start(&work, door, address, &Trust::default(), pid, "bench".into()).await.unwrap();
            let outcomes = drive::run(&work, &mut rig, Duration::from_secs(1)).await;
            rig.target.stop().await.unwrap();
            for outcome in outcomes.unwrap_or_else(|e| panic!("{name} through {door:?}: {e:#}")) {
                assert_eq!(outcome.allocations, outcome.asks, "{name}");
                assert!(outcome.peak_rss_bytes.is_some_and(|bytes| bytes > 1 << 20));
            }
        }
    }
    server.stop().await.unwrap();
}

/// What goes on beside a shape reads the same server; its figures come with those of the shape.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shape_runs_while_others_read() {
    let program = Path::new(env!("CARGO_BIN_EXE_callboard"));
    let server = Server::start_program(program, &beside::STREAMS_ALLOWED).await.unwrap();
    let shape = Shape { nodes: 20, asks: 200, ..ShapeId::S16.shapes().pop().unwrap() };
    let work = Workload::of(&shape);
    let here = tokio::task::LocalSet::new();
    // On a busy machine a scrape takes longer than the shape: then it goes on for longer.
    let mut seconds = [8, 32, 128].into_iter();
    let read = loop {
        let time = Duration::from_secs(seconds.next().expect("each is answered once in the longest run"));
        let (outcome, read) = here
            .run_until(async {
                let trust = Trust::default();
                let mut rig =
                    doors::start(&work, DoorKind::Grpc, &server.grpc, &trust, None, "bench".into()).await.unwrap();
                let load = beside::start(&shape, &server.http, &trust).unwrap();
                let outcomes = drive::run(&work, &mut rig, time).await.unwrap();
                let read = load.stop().await.unwrap();
                rig.target.stop().await.unwrap();
                (outcomes.into_iter().next().unwrap(), read)
            })
            .await;
        assert!(outcome.allocations > 0 && outcome.allocations == outcome.asks, "{outcome:?}");
        // Another resource manager may not have come to its first end.
        if read[..4].iter().all(|read| read.answers > 0) {
            break read;
        }
    };
    assert_eq!(read.iter().map(|read| read.what.as_str()).collect::<Vec<_>>(), Beside::ALL.map(Beside::name));
    server.stop().await.unwrap();
}

/// Two models in two roles: one gang that has room, one that must wait for the first to end, one member that is
/// withdrawn before its gang is there, and one that comes alone later.
const MODELS: &str = "\
instance_sn,role,app_name,cpu_request,cpu_limit,gpu_request,gpu_limit,rdma_request,rdma_limit,memory_request,memory_limit,disk_request,disk_limit,max_instance_per_node,creation_time,scheduled_time,deletion_time
i0,HN,one,24,24,1,1,0,0,64.0,64.0,10.0,10.0,-1,,,
i1,HN,one,24,24,1,1,0,0,64.0,64.0,10.0,10.0,-1,,,
i2,CN,one,64,64,0,0,0,0,128.0,128.0,10.0,10.0,-1,,,100
i3,CN,one,64,64,0,0,0,0,128.0,128.0,10.0,10.0,-1,,,100
i4,CN,two,64,64,0,0,0,0,128.0,128.0,10.0,10.0,-1,50,,
i5,CN,two,64,64,0,0,0,0,128.0,128.0,10.0,10.0,-1,50,,
i6,HN,two,24,24,1,1,0,0,64.0,64.0,10.0,10.0,-1,50,,70
i7,CN,one,64,64,0,0,0,0,128.0,128.0,10.0,10.0,-1,200,,300
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn models_are_played_as_gangs_and_nothing_is_left_over() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("models.csv");
    std::fs::write(&file, MODELS).unwrap();
    let server = real().await;
    for door in ["http", "grpc"] {
        let line = ["--server", &server.http, "--grpc", &server.grpc, "--door", door, "--trace", "dlrm", "--gangs"];
        let args = args(&[&line[..], &["--share", "0.75", "--pods", file.to_str().unwrap()]].concat());
        let trace = load(&args).unwrap();
        let replayed = replay(&args, &trace).await.unwrap();
        assert!(replayed.error.is_none(), "{door}: {:?}", replayed.error);
        let summary = replayed.summary;
        assert!(summary.complete && summary.refused.is_empty(), "{door}: {summary}");
        assert_eq!((&summary.disagreement, &summary.not_compared), (&None, &None), "{door}: {summary}");
        assert_eq!(summary.left_over, Vec::<String>::new(), "{door}");
        assert_eq!((summary.applications, summary.asks), (3, 8), "{door}: {summary}");
        assert_eq!((summary.placed, summary.withdrawn, summary.waiting), (7, 1, 0), "{door}: {summary}");
        let gangs = summary.gangs.unwrap();
        assert_eq!((gangs.complete, gangs.replaced), (3, 7), "{door}: {summary}");
        assert!(summary.waited >= 2, "{door}: {summary}");
    }
    server.stop().await.unwrap();
}

#[test]
fn gangs_go_with_traces_that_have_them() {
    let told = |line: &[&str]| load(&args(line)).err().map(|e| e.to_string()).unwrap_or_default();
    let line = ["--trace", "openb", "--nodes", "n.csv", "--pods", "p.csv", "--gangs"];
    assert_eq!(told(&line), "every pod of an openb trace is an application of its own: leave out --gangs");
    assert!(Command::try_parse_from(["replay", "--gangs"]).is_err());
}
