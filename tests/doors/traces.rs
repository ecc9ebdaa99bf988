//! Traces, as a collector gets them over OTLP.

use std::{
    collections::BTreeMap,
    io::Read as _,
    sync::{Arc, Mutex},
};

use callboard::si::{
    ext::{self, request::Request as Kind, scheduler_extension_client::SchedulerExtensionClient},
    v1::{NodeInfo, NodeRequest},
};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest,
    common::v1::any_value::Value as Any,
    trace::v1::{Span, span::SpanKind},
};
use prost::Message as _;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use crate::{
    common::{Program, serve, until},
    shim::{
        server::{CONFIG, Lines, Server},
        ws,
    },
};

/// A collector: it keeps the spans that it gets, and what else was sent with them.
#[derive(Clone, Default)]
struct Collector {
    spans: Arc<Mutex<Vec<Span>>>,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Collector {
    /// Gives its address too.
    async fn start() -> (Collector, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let address = format!("http://{}", listener.local_addr().expect("bound"));
        let collector = Collector::default();
        let shared = collector.clone();
        tokio::spawn(async move {
            while let Ok((peer, _)) = listener.accept().await {
                let shared = shared.clone();
                tokio::spawn(async move { shared.take(peer).await });
            }
        });
        (collector, address)
    }

    /// Requests of a connection, up to its end.
    async fn take(&self, peer: TcpStream) -> Option<()> {
        let mut peer = BufReader::new(peer);
        loop {
            let (mut head, mut length) = (String::new(), 0);
            while !head.ends_with("\r\n\r\n") {
                let from = head.len();
                if peer.read_line(&mut head).await.ok()? == 0 {
                    return None;
                }
                if let Some(given) = head[from..].to_lowercase().strip_prefix("content-length:") {
                    length = given.trim().parse().expect("a number");
                }
            }
            let mut body = vec![0; length];
            peer.read_exact(&mut body).await.ok()?;
            if head.to_lowercase().contains("content-encoding: gzip") {
                let packed = std::mem::take(&mut body);
                flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut body).expect("packed");
            }
            let request = ExportTraceServiceRequest::decode(&body[..]).expect("spans");
            let resources = request.resource_spans;
            let text = format!("{head}{:?}", resources.iter().map(|of| &of.resource).collect::<Vec<_>>());
            self.heads.lock().expect("no panic").push(text);
            let spans = resources.into_iter().flat_map(|of| of.scope_spans).flat_map(|of| of.spans);
            self.spans.lock().expect("no panic").extend(spans);
            peer.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.ok()?;
        }
    }

    fn of(&self, trace: &str) -> Vec<Span> {
        let spans = self.spans.lock().expect("no panic");
        spans.iter().filter(|span| hex(&span.trace_id) == trace).cloned().collect()
    }

    /// The spans of a trace, as soon as this one is among them.
    async fn until(&self, trace: &str, name: &str) -> Vec<Span> {
        until(async || self.of(trace).iter().any(|span| span.name == name)).await;
        self.of(trace)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn attributes(span: &Span) -> BTreeMap<&str, String> {
    let text = |value: &Any| match value {
        Any::StringValue(text) => text.clone(),
        Any::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    let of = |value: &Option<opentelemetry_proto::tonic::common::v1::AnyValue>| {
        value.as_ref().and_then(|value| value.value.as_ref()).map(text).unwrap_or_default()
    };
    span.attributes.iter().map(|pair| (&*pair.key, of(&pair.value))).collect()
}

/// The one span of this name.
fn one<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let found: Vec<_> = spans.iter().filter(|span| span.name == name).collect();
    assert_eq!(found.len(), 1, "{name} of {:?}", spans.iter().map(|span| &span.name).collect::<Vec<_>>());
    found[0]
}

async fn start(collector: &str, more: &[&str]) -> Server {
    let mut command = serve(&[&["--otlp-endpoint", collector], more].concat());
    command.env("OTEL_BSP_SCHEDULE_DELAY", "20").env("OTEL_EXPORTER_OTLP_HEADERS", "x-team=board");
    Server { program: Program::try_start(command).unwrap_or_else(|why| panic!("{why}")), http: Default::default() }
}

/// A trace of the caller's, by its number.
fn trace(n: u32) -> (String, String) {
    let id = format!("4bf92f3577b34da6a3ce929d{n:08x}");
    (format!("00-{id}-00f067aa0ba902b7-01"), id)
}

/// Sends a request in a trace; gives the part of it that the answer names.
async fn send(server: &Server, path: &str, body: Value, trace: &str) -> String {
    let url = server.url(&format!("/si/v1/rm{path}"));
    let answer = server.http.post(url).header("traceparent", trace).json(&body).send().await.expect("an answer");
    assert!(answer.status().is_success(), "{}", answer.status());
    let came = answer.headers()["traceparent"].to_str().expect("text").to_owned();
    came.split('-').nth(2).expect("a part").to_owned()
}

async fn line(stream: &mut Lines, list: &str) -> Value {
    loop {
        let line = stream.next().await;
        if let Some(found) = line["allocation"][list].as_array().and_then(|list| list.first()) {
            return found.clone();
        }
    }
}

fn ask(key: &str, placeholder: bool) -> Value {
    let resource = json!({"resources": {"memory": {"value": "10"}}});
    let ask = json!({"allocationKey": key, "applicationID": "app", "resourcePerAlloc": resource,
                     "placeholder": placeholder, "taskGroupName": "tg"});
    json!({"allocations": [ask]})
}

async fn swapped_in_one_trace(more: &[&str]) {
    let (collector, address) = Collector::start().await;
    let server = start(&address, more).await;
    let (register, _) = trace(1);
    send(&server, "", json!({"rmID": "rm-1", "config": CONFIG}), &register).await;
    let mut stream = server.stream("?after=0").await;
    server.nodes(&["n1"]).await;
    let gang = json!({"applicationID": "app", "queueName": "root.a", "ugi": {"user": "u"},
                      "placeholderAsk": {"resources": {"memory": {"value": "10"}}}});
    let (submit, submitted) = trace(2);
    send(&server, "/rm-1/applications", json!({"new": [gang]}), &submit).await;
    send(&server, "/rm-1/allocations", ask("ph", true), &trace(3).0).await;
    assert_eq!(line(&mut stream, "new").await["allocationKey"], "ph");
    let (real, traced) = trace(4);
    let answered = send(&server, "/rm-1/allocations", ask("real", false), &real).await;
    assert_eq!(line(&mut stream, "released").await["terminationType"], "PLACEHOLDER_REPLACED");
    let release = json!({"applicationID": "app", "allocationKey": "ph", "terminationType": "PLACEHOLDER_REPLACED"});
    let (confirm, confirmed) = trace(5);
    send(&server, "/rm-1/allocations", json!({"releases": {"allocationsToRelease": [release]}}), &confirm).await;
    assert_eq!(line(&mut stream, "new").await["allocationKey"], "real");

    // The request, from its door to the decision.
    let spans = collector.until(&traced, "callback: new allocation").await;
    let door = one(&spans, "POST /si/v1/rm/{rm}/allocations");
    assert_eq!((hex(&door.parent_span_id), hex(&door.span_id)), ("00f067aa0ba902b7".to_owned(), answered));
    assert_eq!((door.kind, &*attributes(door)["http.response.status_code"]), (SpanKind::Server as i32, "202"));
    let (session, partition) = (one(&spans, "session"), one(&spans, "partition"));
    assert_eq!((&session.parent_span_id, &partition.parent_span_id), (&door.span_id, &session.span_id));
    assert_eq!((&*attributes(session)["callboard.rm"], &*attributes(session)["callboard.items"]), ("rm-1", "1"));
    assert_eq!(attributes(partition)["callboard.partition"], "[rm-1]default");
    // The replacement, in the same trace, from the release over the confirmation to the swap.
    let swap = one(&spans, "gang swap");
    assert_eq!(swap.parent_span_id, partition.span_id);
    let said = attributes(swap);
    assert_eq!(
        ["callboard.placeholder", "callboard.ask", "callboard.application", "callboard.outcome"].map(|key| &*said[key]),
        ["ph", "real", "app", "replaced"]
    );
    let parts = ["callback: released placeholder", "confirmation", "callback: new allocation"];
    let [released, confirmation, new] = parts.map(|name| one(&spans, name));
    for part in [released, confirmation, new] {
        assert_eq!(part.parent_span_id, swap.span_id, "{}", part.name);
        assert!(part.start_time_unix_nano >= swap.start_time_unix_nano, "{}", part.name);
    }
    assert!(released.start_time_unix_nano <= confirmation.start_time_unix_nano, "it was said before it was confirmed");
    assert_eq!(attributes(new)["callboard.node"], "n1");
    // The request that confirmed it has a trace of its own, to which there is a link.
    let confirming = collector.until(&confirmed, "session").await;
    for linked in [swap, confirmation] {
        let link = linked.links.first().expect("a link");
        assert_eq!((hex(&link.trace_id), &link.span_id), (confirmed.clone(), &one(&confirming, "session").span_id));
    }
    // Events, by their numbers.
    let events = spans.iter().filter(|span| span.name == "events");
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    let ids = |span: &Span| attributes(span)["callboard.event.ids"].split("IntValue").skip(1).map(digits).collect();
    let ids: Vec<Vec<String>> = events.map(ids).collect();
    assert_eq!(ids.len(), 2, "of the ask, and of the swap: {ids:?}");
    let ids = ids.concat();
    for id in &ids {
        let (_, page) = server.get(&format!("/api/v1/events?from={id}&count=1")).await;
        assert!(page.to_string().contains("real"), "{id}: {page}");
    }
    // Submitting, registering, and who sends it all.
    let spans = collector.until(&submitted, "callback: accepted application").await;
    assert_eq!(one(&spans, "callback: accepted application").parent_span_id, one(&spans, "partition").span_id);
    assert_eq!(collector.until(&trace(1).1, "POST /si/v1/rm").await.len(), 1);
    let head = collector.heads.lock().expect("no panic")[0].clone();
    assert!(head.starts_with("POST /v1/traces ") && head.contains("x-team: board"), "{head}");
    assert!(head.contains("service.name") && head.contains("callboard"), "{head}");
}

#[tokio::test]
async fn a_password_in_the_collectors_address_is_shown_nowhere() {
    let (collector, address) = Collector::start().await;
    let server = start(&address.replace("http://", "http://user:hunter2@"), &[]).await;
    let (register, traced) = trace(1);
    send(&server, "", json!({"rmID": "rm-1", "config": CONFIG}), &register).await;
    collector.until(&traced, "POST /si/v1/rm").await;
    let settings = server.http.get(server.url("/api/v1/settings")).send().await.expect("an answer").text().await;
    for shown in [settings.expect("text"), server.program.log()] {
        assert!(shown.contains(&address) && !shown.contains("hunter2"), "{shown}");
    }
}

/// A server that the environment alone tells about the collector.
fn told(more: &[(&str, &str)]) -> Server {
    let mut command = serve(&[]);
    command.env("OTEL_BSP_SCHEDULE_DELAY", "20").envs(more.iter().copied());
    Server { program: Program::try_start(command).unwrap_or_else(|why| panic!("{why}")), http: Default::default() }
}

#[tokio::test]
async fn the_environment_says_where_spans_go_and_which_there_are() {
    let (collector, address) = Collector::start().await;
    let server = told(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &format!("{address}/of/traces")),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-team=all"),
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "x-team=traces"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
        ("OTEL_SERVICE_NAME", "night-shift"),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=stage,service.name=day-shift"),
        ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "1"),
    ]);
    let answer = server.http.get(server.url("/ws/v1/partitions")).send().await.expect("an answer");
    let given = answer.headers()["traceparent"].to_str().expect("text").to_owned();
    collector.until(given.split('-').nth(1).expect("a trace"), "GET /ws/v1/partitions").await;
    let head = collector.heads.lock().expect("no panic")[0].clone();
    assert!(head.starts_with("POST /of/traces "), "{head}");
    for said in ["x-team: traces", "content-encoding: gzip", "night-shift", "deployment.environment.name"] {
        assert!(head.contains(said), "{said}: {head}");
    }
    assert!(!head.contains("day-shift"), "{head}");
    assert!(!server.program.log().contains("otel-in-vain"), "{}", server.program.log());
    // A setting of the server counts over what is said to all programs.
    let extra = json!({"rmID": "rm-1", "config": CONFIG, "extraConfig": {"traces.oneIn": "0"}});
    let (status, _) = server.send("POST", "/si/v1/rm", &extra).await;
    assert_eq!(status, 200);
    let answer = server.http.get(server.url("/ws/v1/partitions")).send().await.expect("an answer");
    assert!(answer.headers().get("traceparent").is_none(), "{answer:?}");
}

#[tokio::test]
async fn what_the_environment_says_in_vain_is_told_without_secrets() {
    let (_, address) = Collector::start().await;
    let server = told(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &address),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "key=hunter2"),
        ("OTEL_TRACES_SAMPLER", "jaeger_remote"),
        ("OTEL_LOGS_EXPORTER", "none"),
    ]);
    let log = server.program.log();
    let line = log.lines().find(|line| line.contains("otel-in-vain")).unwrap_or_else(|| panic!("{log}"));
    for said in ["OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_EXPORTER_OTLP_METRICS_HEADERS", "OTEL_TRACES_SAMPLER=jaeger"]
    {
        assert!(line.contains(said), "{said}: {line}");
    }
    assert!(!log.contains("hunter2") && !line.contains("OTEL_LOGS_EXPORTER"), "{log}");
}

#[tokio::test]
async fn the_environment_turns_traces_off() {
    let (_, address) = Collector::start().await;
    let server = told(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &address), ("OTEL_SDK_DISABLED", "true")]);
    let (traced, _) = trace(1);
    send(&server, "", json!({"rmID": "rm-1", "config": CONFIG}), &traced).await;
    assert!(server.program.log().contains("OTEL_SDK_DISABLED=true"), "{}", server.program.log());
}

#[tokio::test]
async fn asks_of_two_applications_with_one_key_are_told_apart() {
    let (collector, address) = Collector::start().await;
    let server = start(&address, &[]).await;
    let (register, _) = trace(1);
    send(&server, "", json!({"rmID": "rm-1", "config": CONFIG}), &register).await;
    let mut stream = server.stream("?after=0").await;
    let both = [(2, "first"), (3, "second")];
    for (n, app) in both {
        let new = json!({"applicationID": app, "queueName": "root.a", "ugi": {"user": "u"}});
        send(&server, "/rm-1/applications", json!({"new": [new]}), &register).await;
        let mut asked = ask("k", false);
        asked["allocations"][0]["applicationID"] = app.into();
        asked["allocations"][0]["taskGroupName"] = "".into();
        send(&server, "/rm-1/allocations", asked, &trace(n).0).await;
    }
    server.nodes(&["n1"]).await;
    line(&mut stream, "new").await;
    for (n, app) in both {
        let spans = collector.until(&trace(n).1, "callback: new allocation").await;
        assert_eq!(attributes(one(&spans, "callback: new allocation"))["callboard.application"], app);
    }
}

#[tokio::test]
async fn a_request_and_the_replacement_that_it_leads_to_are_one_trace() {
    swapped_in_one_trace(&[]).await;
}

#[tokio::test]
async fn what_is_recorded_before_it_counts_is_traced_in_the_same_way() {
    let dir = tempfile::tempdir().expect("a folder");
    swapped_in_one_trace(&["--data", dir.path().to_str().expect("text"), "--log-sync", "batch"]).await;
}

#[tokio::test]
async fn requests_begin_traces_as_often_as_the_setting_says() {
    let (collector, address) = Collector::start().await;
    let server = start(&address, &["--set", "traces.oneIn=0"]).await;
    let (status, _) = server.send("POST", "/si/v1/rm", &json!({"rmID": "rm-1", "config": CONFIG})).await;
    assert_eq!(status, 200);
    let unwanted = "00-4bf92f3577b34da6a3ce929d00000009-00f067aa0ba902b7-00";
    send(&server, "/rm-1/applications", json!({}), unwanted).await;
    // From now on each; signs of life never.
    let extra = json!({"rmID": "rm-1", "config": CONFIG, "extraConfig": {"traces.oneIn": "1"}});
    let (status, body) = server.send("PUT", "/si/v1/rm/rm-1/configuration", &extra).await;
    assert_eq!(status, 200, "{body}");
    server.get("/livez").await;
    let answer = server.http.get(server.url("/ws/v1/partitions")).send().await.expect("an answer");
    let given = answer.headers()["traceparent"].to_str().expect("text").to_owned();
    let name = "GET /ws/v1/partitions";
    let spans = collector.until(given.split('-').nth(1).expect("a trace"), name).await;
    assert!(spans[0].parent_span_id.is_empty() && attributes(&spans[0])["url.path"] == "/ws/v1/partitions");
    let all = collector.spans.lock().expect("no panic").clone();
    assert!(all.iter().all(|span| span.name == name), "{all:?}");
    // What stands in a path makes no kind of its own; what leads nowhere has none.
    let url = server.url("/ws/v1/partition/default/queue/root.a/applications");
    for (path, route) in [
        (&*url, Some("/ws/v1/partition/{partition}/queue/{queue}/applications")),
        (&*server.url("/si/v1/rm/rm-1"), Some("/si/v1/rm/{rm}")),
        (&*server.url("/ws/v1/nothing/of/this"), None),
    ] {
        let answer = server.http.get(path).send().await.expect("an answer");
        let given = answer.headers()["traceparent"].to_str().expect("text").to_owned();
        let name = route.map_or_else(|| "GET".to_owned(), |route| format!("GET {route}"));
        let spans = collector.until(given.split('-').nth(1).expect("a trace"), &name).await;
        assert_eq!(attributes(&spans[0]).get("http.route").map(String::as_str), route);
    }
    // What is measured in a trace shows it.
    server.nodes(&["n1"]).await;
    let scrape = || server.http.get(server.url("/metrics")).header("accept", "application/openmetrics-text");
    until(async || {
        let text = scrape().send().await.expect("an answer").text().await.expect("text");
        text.lines().any(|line| line.starts_with("callboard_slice_seconds_bucket") && line.contains("# {trace_id=\""))
    })
    .await;
}

#[tokio::test]
async fn a_message_on_a_stream_names_the_trace_that_it_is_part_of() {
    let (collector, address) = Collector::start().await;
    let server = start(&address, &["--set", "traces.oneIn=0"]).await;
    let (status, _) = server.send("POST", "/si/v1/rm", &json!({"rmID": "rm-1", "config": CONFIG})).await;
    assert_eq!(status, 200);
    let whole = async |traced: &str| {
        let spans = collector.until(traced, "partition").await;
        let (message, session) = (one(&spans, "NodeRequest"), one(&spans, "session"));
        assert_eq!(
            (hex(&message.parent_span_id), &session.parent_span_id),
            ("00f067aa0ba902b7".into(), &message.span_id)
        );
    };

    let mut socket = ws::open(&server, "").await;
    let ((header, of_socket), (other, of_other)) = (trace(2), trace(3));
    let nodes = |id: &str| json!({"nodes": [{"nodeID": id, "action": "CREATE"}]});
    ws::send(&mut socket, json!({"traceparent": &header, "seq": 1, "nodes": nodes("n1")})).await;
    // What is no header counts as missing.
    ws::send(&mut socket, json!({"traceparent": 7, "seq": 2, "nodes": nodes("n2")})).await;
    whole(&of_socket).await;

    let (to, outgoing) = tokio::sync::mpsc::channel(4);
    let channel = Channel::from_shared(server.grpc()).expect("an address").connect().await.expect("a server");
    let mut door = SchedulerExtensionClient::new(channel);
    to.send(ext::Request { rm_id: "rm-1".into(), ..Default::default() }).await.expect("open");
    let _acks = door.requests(ReceiverStream::new(outgoing)).await.expect("a stream");
    let node = NodeInfo { node_id: "n3".into(), action: 1, ..Default::default() };
    let request = Some(Kind::Node(NodeRequest { nodes: vec![node], ..Default::default() }));
    to.send(ext::Request { sequence: 3, request, traceparent: other, ..Default::default() }).await.expect("open");
    whole(&of_other).await;
}

#[tokio::test]
async fn what_waits_is_sent_at_the_end_and_a_collector_that_is_gone_holds_nothing_up() {
    let (collector, address) = Collector::start().await;
    let server = start(&address, &["--set", "traces.oneIn=1"]).await;
    server.get("/ws/v1/partitions").await;
    server.program.signal("TERM");
    assert_eq!(server.program.ended().await, Some(0));
    assert!(!collector.spans.lock().expect("no panic").is_empty());

    let nobody = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
    let gone = format!("http://{}", nobody.local_addr().expect("bound"));
    drop(nobody);
    let server = start(&gone, &["--set", "traces.oneIn=1"]).await;
    until(async || server.get("/ws/v1/partitions").await.0 == 200 && server.program.log().contains("traces-not-sent"))
        .await;
    server.program.signal("TERM");
    assert_eq!(server.program.ended().await, Some(0));
    let refused = Program::try_start(serve(&["--otlp-endpoint", "nowhere at all"])).unwrap_err();
    assert!(refused.contains("--otlp-endpoint nowhere at all"), "{refused}");
}
