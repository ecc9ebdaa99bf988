use super::*;

fn text(metrics: &Metrics, gauges: &Gauges) -> String {
    String::from_utf8(metrics.text(gauges).unwrap()).unwrap()
}

fn queue(path: &str) -> QueueGauges {
    QueueGauges { path: path.to_owned(), ..QueueGauges::default() }
}

#[track_caller]
fn has(text: &str, line: &str) {
    assert!(text.lines().any(|l| l == line), "no line {line:?} in\n{text}");
}

// REST 7: a vector without a label value is absent, plain histograms and `error` are always there.
#[test]
fn at_the_start() {
    let text = text(&Metrics::new().unwrap(), &Gauges::default());
    has(&text, "# TYPE yunikorn_scheduler_container_allocation_attempt_total counter");
    has(&text, "yunikorn_scheduler_container_allocation_attempt_total{state=\"error\"} 0");
    has(&text, "yunikorn_scheduler_node{state=\"failed\"} 0");
    has(&text, "# TYPE yunikorn_scheduler_scheduling_latency_milliseconds histogram");
    has(&text, "yunikorn_scheduler_trypreemption_latency_milliseconds_bucket{le=\"0.0001\"} 0");
    has(&text, "yunikorn_scheduler_trypreemption_latency_milliseconds_bucket{le=\"+Inf\"} 0");
    has(&text, "callboard_requests_refused_total{door=\"grpc\",reason=\"resource_manager\"} 0");
    has(&text, "yunikorn_scheduler_node_sorting_latency_milliseconds_bucket{level=\"app\",le=\"0.0001\"} 0");
    for absent in ["yunikorn_queue_", "application_submission", "node_usage"] {
        assert!(!text.contains(absent), "{absent}");
    }
}

// REST 7.1: types, labels and buckets.
#[test]
fn counts_and_times() {
    let metrics = Metrics::new().unwrap();
    metrics.containers(Containers::Allocated, 9);
    metrics.submissions(Submissions::Accepted, 6);
    metrics.took(Timed::Cycle, Duration::from_millis(5));
    metrics.node_failed();
    let gauges = Gauges {
        nodes: 3,
        draining_nodes: 1,
        applications: [("running", 3), ("new", 2)].into(),
        node_usage: [("nvidia.com/gpu".to_owned(), [2, 0, 1, 0, 0, 0, 0, 0, 0, 0])].into(),
        ..Gauges::default()
    };
    let text = text(&metrics, &gauges);
    has(&text, "yunikorn_scheduler_container_allocation_attempt_total{state=\"allocated\"} 9");
    has(&text, "yunikorn_scheduler_application_submission_total{result=\"accepted\"} 6");
    has(&text, "# TYPE yunikorn_scheduler_application_total gauge");
    has(&text, "yunikorn_scheduler_application_total{state=\"running\"} 3");
    has(&text, "yunikorn_scheduler_node{state=\"active\"} 3");
    has(&text, "yunikorn_scheduler_node{state=\"draining\"} 1");
    has(&text, "yunikorn_scheduler_node{state=\"failed\"} 1");
    has(&text, "yunikorn_scheduler_scheduling_cycle_milliseconds_bucket{le=\"0.001\"} 0");
    has(&text, "yunikorn_scheduler_scheduling_cycle_milliseconds_bucket{le=\"0.01\"} 1");
    has(&text, "yunikorn_scheduler_nvidia_com_gpu_node_usage_total{range=\"[0,10%]\"} 2");
    has(&text, "yunikorn_scheduler_nvidia_com_gpu_node_usage_total{range=\"(90%,100%]\"} 0");
    assert_eq!(metrics.failed_nodes(), 1);
}

// REST 7.2: what is gone is 0; a max shows a guaranteed; of a removed queue nothing is shown.
#[test]
fn queues() {
    let metrics = Metrics::new().unwrap();
    metrics.queue_added("root.a-b");
    let mut leaf = queue("root.a-b");
    leaf.applications = [("accepted", 1)].into();
    leaf.resources = [("max", vec![("memory".into(), 5)]), ("pending", vec![("vcore".into(), 7)])].into();
    metrics.application_ended("root.a-b", AppEnd::Completed);
    metrics.application_ended("", AppEnd::Rejected);
    metrics.queue_containers("root.a-b", Containers::Released, 2);
    let first = text(&metrics, &Gauges { queues: vec![queue("root"), leaf], ..Gauges::default() });
    has(&first, "yunikorn_queue_app{queue=\"root.a-b\",state=\"accepted\"} 1");
    has(&first, "yunikorn_queue_app{queue=\"root.a-b\",state=\"completed\"} 1");
    has(&first, "yunikorn_queue_app{queue=\"\",state=\"rejected\"} 1");
    has(&first, "yunikorn_queue_resource{queue=\"root.a-b\",resource=\"memory\",state=\"max\"} 5");
    has(&first, "yunikorn_queue_resource{queue=\"root.a-b\",resource=\"memory\",state=\"guaranteed\"} 0");
    has(&first, "yunikorn_queue_resource{queue=\"root.a-b\",resource=\"apps\",state=\"maxRunningApps\"} 0");
    has(&first, "yunikorn_root_a_b_queue_container{state=\"released\"} 2");
    has(&first, "yunikorn_scheduler_application_total{state=\"completed\"} 1");

    let second = text(&metrics, &Gauges { queues: vec![queue("root.a-b")], ..Gauges::default() });
    has(&second, "yunikorn_queue_app{queue=\"root.a-b\",state=\"accepted\"} 0");
    has(&second, "yunikorn_queue_resource{queue=\"root.a-b\",resource=\"vcore\",state=\"pending\"} 0");

    let third = text(&metrics, &Gauges { queues: vec![queue("root")], ..Gauges::default() });
    for absent in
        ["yunikorn_queue_app{queue=\"root.a-b\"", "yunikorn_queue_resource{queue=\"root.a-b\"", "queue_container"]
    {
        assert!(!third.contains(absent), "{absent}");
    }
}

// What two partitions have under one path is shown together.
#[test]
fn a_path_of_two_partitions() {
    let metrics = Metrics::new().unwrap();
    let mut leaf = queue("root.a");
    leaf.applications = [("running", 2)].into();
    leaf.resources = [("max", vec![("memory".into(), 5)])].into();
    leaf.max_running = 3;
    let shown = text(&metrics, &Gauges { queues: vec![leaf.clone(), leaf], ..Gauges::default() });
    has(&shown, "yunikorn_queue_app{queue=\"root.a\",state=\"running\"} 4");
    has(&shown, "yunikorn_queue_resource{queue=\"root.a\",resource=\"memory\",state=\"max\"} 10");
    has(&shown, "yunikorn_queue_resource{queue=\"root.a\",resource=\"apps\",state=\"maxRunningApps\"} 6");
}

// A queue that is gone leaves nothing behind, however many come and go; what two partitions have goes with the last.
#[test]
fn series_of_removed_queues_go() {
    let metrics = Metrics::new().unwrap();
    let shown_now = || text(&metrics, &Gauges { queues: vec![queue("root")], ..Gauges::default() });
    metrics.queue_added("root");
    // The first scrape has no scrapes to tell of.
    shown_now();
    let before = shown_now();
    for round in 0..8 {
        let path = format!("root.ns-{round}");
        for _ in 0..2 {
            metrics.queue_added(&path);
        }
        metrics.queue_containers(&path, Containers::Allocated, 1);
        metrics.application_ended(&path, AppEnd::Completed);
        metrics.application_ended(&path, AppEnd::Failed);
        let shown = text(&metrics, &Gauges { queues: vec![queue(&path)], ..Gauges::default() });
        has(&shown, &format!("yunikorn_queue_app{{queue=\"{path}\",state=\"completed\"}} 1"));
        metrics.queue_removed(&path);
        assert!(shown_now().contains(&path), "another partition has it");
        metrics.queue_removed(&path);
        assert!(!shown_now().contains("ns-") && !shown_now().contains("ns_"));
    }
    let after = shown_now();
    has(&after, "yunikorn_scheduler_application_total{state=\"completed\"} 8");
    has(&after, "yunikorn_scheduler_application_total{state=\"failed\"} 8");
    // What all queues together had stays.
    let series = |text: &str| text.lines().filter(|line| !line.starts_with("process_")).count();
    assert_eq!(series(&after), series(&before));
    let queues = metrics.queues();
    assert_eq!((metrics.seen.lock().unwrap().len(), queues.containers.len(), queues.live.len()), (1, 0, 1));
}

// A queue that came after one of its path had gone begins anew, and a scrape that is under way holds up no partition.
#[test]
fn a_partition_waits_for_no_scrape() {
    let metrics = Metrics::new().unwrap();
    let mut leaf = queue("root.a");
    leaf.applications = [("running", 2)].into();
    metrics.queue_added("root.a");
    text(&metrics, &Gauges { queues: vec![leaf], ..Gauges::default() });
    {
        let _scrape = metrics.seen.lock().unwrap();
        metrics.queue_removed("root.a");
        metrics.queue_added("root.a");
        metrics.queue_containers("root.a", Containers::Allocated, 1);
    }
    let shown = text(&metrics, &Gauges { queues: vec![queue("root.a")], ..Gauges::default() });
    assert!(!shown.contains("yunikorn_queue_app{queue=\"root.a\""), "{shown}");
    // Nor is anything kept of those that go while they are scraped.
    text(&metrics, &Gauges { queues: vec![queue("root.gone")], ..Gauges::default() });
    text(&metrics, &Gauges::default());
    assert!(!metrics.seen.lock().unwrap().contains_key("root.gone"));
}

// REST 7, quirk J: paths that clean to the same name share one counter.
#[test]
fn clean_names() {
    assert_eq!(clean("root.a-b"), "root_a_b");
    assert_eq!(clean("9x"), "_9x");
    assert_eq!(clean("ü"), "__");
    let metrics = Metrics::new().unwrap();
    metrics.queue_containers("root.a-b", Containers::Allocated, 1);
    metrics.queue_containers("root.a.b", Containers::Allocated, 1);
    let text = text(&metrics, &Gauges { queues: vec![queue("root.a.b")], ..Gauges::default() });
    has(&text, "yunikorn_root_a_b_queue_container{state=\"allocated\"} 2");
}

// REST 7.5: the process metrics of the library that dashboards use.
#[cfg(target_os = "linux")]
#[test]
fn process() {
    let text = text(&Metrics::new().unwrap(), &Gauges::default());
    for name in ["process_resident_memory_bytes", "process_open_fds", "process_start_time_seconds", "process_max_fds"] {
        let line = text.lines().find(|l| l.starts_with(&format!("{name} "))).unwrap();
        assert!(line.split(' ').next_back().unwrap().parse::<f64>().unwrap() > 0.0, "{line}");
    }
}

// R4.30, the other way round
#[test]
fn unconfirmed_releases() {
    let metrics = Metrics::new().unwrap();
    let none = text(&metrics, &Gauges::default());
    has(&none, "callboard_unconfirmed_releases{type=\"TIMEOUT\"} 0");
    has(&none, "callboard_unconfirmed_release_oldest_seconds 0");
    let unconfirmed = [("TIMEOUT", 2), ("PREEMPTED_BY_SCHEDULER", 1)].into();
    let some = text(&metrics, &Gauges { unconfirmed, oldest_unconfirmed: 1.5, ..Gauges::default() });
    has(&some, "callboard_unconfirmed_releases{type=\"TIMEOUT\"} 2");
    has(&some, "callboard_unconfirmed_releases{type=\"PREEMPTED_BY_SCHEDULER\"} 1");
    has(&some, "callboard_unconfirmed_releases{type=\"PLACEHOLDER_REPLACED\"} 0");
    has(&some, "callboard_unconfirmed_release_oldest_seconds 1.5");
}

#[test]
fn the_audit_log() {
    let metrics = Metrics::new().unwrap();
    let shown = |audit_failing| {
        let extensions = ExtensionGauges { audit_failing, ..ExtensionGauges::default() };
        text(&metrics, &Gauges { extensions: Some(extensions), ..Gauges::default() })
    };
    has(&shown(Some(true)), "callboard_audit_failing 1");
    has(&shown(Some(false)), "callboard_audit_failing 0");
    assert!(!shown(None).contains("callboard_audit"));
}

// EVT-062
#[test]
fn the_event_system() {
    let metrics = Metrics::new().unwrap();
    let events = EventGauges { created: 9, processed: 7, streams: 2, ..EventGauges::default() };
    let without = text(&metrics, &Gauges { events: Some(events), ..Gauges::default() });
    has(&without, "# TYPE yunikorn_event_total_created gauge");
    has(&without, "yunikorn_event_total_created 9");
    has(&without, "yunikorn_event_total_processed 7");
    has(&without, "callboard_event_streams 2");
    assert!(!without.contains("event_store"));
    let store = EventStoreGauges { lost: 3, failing: true, ..EventStoreGauges::default() };
    let with =
        text(&metrics, &Gauges { events: Some(EventGauges { store: Some(store), ..events }), ..Gauges::default() });
    has(&with, "callboard_event_store_lost_total 3");
    has(&with, "callboard_event_store_failing 1");
}
