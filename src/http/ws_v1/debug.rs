//! `/debug`: threads and the few profiles that make sense for a native program (REST 4, routes 26 and 28).

use std::{fmt::Write, fs};

use actix_web::http::StatusCode;
use callboard_client::secret::without_user;

use super::reply::Reply;

const TEXT: &str = "text/plain; charset=utf-8";

/// The profiles that have an answer here, with what they show.
const PROFILES: [(&str, &str); 3] = [
    ("cmdline", "the command line of this process, separated by NUL"),
    ("goroutine", "the threads of this process, as /debug/stack"),
    ("threadcreate", "the threads of this process, as /debug/stack"),
];

/// The threads of this process: id, name, state, CPU time, and what they wait for where the system tells.
pub fn stack() -> Reply {
    Reply::data(TEXT, threads().into_bytes())
}

/// The list of profiles.
pub fn profiles() -> Reply {
    let mut html = String::from("<html><head><title>/debug/pprof/</title></head><body><ul>\n");
    for (name, about) in PROFILES {
        let _ = writeln!(html, "<li><a href='{name}'>{name}</a>: {about}</li>");
    }
    html.push_str("</ul></body></html>\n");
    Reply { cors: false, ..Reply::data("text/html; charset=utf-8", html.into_bytes()) }
}

/// One profile; those of the Go runtime have no counterpart here.
pub fn profile(path: &str) -> Reply {
    let name = path.rsplit('/').next().unwrap_or_default();
    match name {
        "cmdline" => {
            let arguments: Vec<String> = std::env::args_os().map(|a| shown(&a.to_string_lossy())).collect();
            Reply::plain(StatusCode::OK, &arguments.join("\0"))
        }
        "goroutine" | "threadcreate" => Reply::plain(StatusCode::OK, &threads()),
        _ => {
            let names: Vec<&str> = PROFILES.iter().map(|(name, _)| *name).collect();
            let text = format!(
                "profile {name:?} belongs to the Go runtime and does not exist here; available: {}\n",
                names.join(", ")
            );
            Reply::plain(StatusCode::NOT_FOUND, &text)
        }
    }
}

/// An argument as every other place shows the option: without the user and the password of an address.
fn shown(argument: &str) -> String {
    let at = if argument.starts_with("--") { argument.find('=').map_or(0, |at| at + 1) } else { 0 };
    let (option, value) = argument.split_at(at);
    // What has no password is no such address.
    let has = value.split_once('@').is_some_and(|(user, _)| user.contains(':'));
    if has { format!("{option}{}", without_user(value)) } else { argument.to_owned() }
}

fn threads() -> String {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else {
        return "the threads of a process can be listed on Linux only\n".to_owned();
    };
    let mut ids: Vec<u32> = tasks.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    ids.sort_unstable();
    let mut text = String::new();
    for id in ids {
        let read = |file: &str| fs::read_to_string(format!("/proc/self/task/{id}/{file}")).unwrap_or_default();
        let stat = read("stat");
        let fields: Vec<&str> =
            stat.rsplit_once(')').map(|(_, fields)| fields.split_whitespace().collect()).unwrap_or_default();
        let ticks = |at: usize| fields.get(at).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
        let _ = writeln!(text, "thread {id} {:?} [{}]", read("comm").trim_end(), fields.first().unwrap_or(&"gone"));
        // Clock ticks are hundredths of a second on Linux.
        let _ = writeln!(text, "    cpu {} ms", (ticks(11) + ticks(12)) * 10);
        let waits_for = read("wchan");
        if !waits_for.is_empty() && waits_for != "0" {
            let _ = writeln!(text, "    waits in {waits_for}");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn lists_threads() {
        let (ready, wait) = std::sync::mpsc::channel::<()>();
        let (done, end) = std::sync::mpsc::channel::<()>();
        let named = std::thread::Builder::new().name("called-thread".into()).spawn(move || {
            ready.send(()).unwrap();
            end.recv().ok()
        });
        wait.recv_timeout(std::time::Duration::from_secs(10)).ok();
        drop(wait);
        let text = String::from_utf8(stack().body.to_vec()).unwrap();
        drop(done);
        named.unwrap().join().unwrap();
        assert!(text.contains("\"called-thread\" ["), "{text}");
    }

    #[test]
    fn arguments_have_no_passwords() {
        for (given, told) in [
            ("http://u:SECRET@127.0.0.1:4318", "http://127.0.0.1:4318"),
            ("--cluster=http://a:1,u:SECRET@b:2", "--cluster=http://a:1,b:2"),
            ("--otlp-endpoint", "--otlp-endpoint"),
            ("/data/a@b", "/data/a@b"),
            ("--set=log.level=debug", "--set=log.level=debug"),
            ("[::1]:9080", "[::1]:9080"),
        ] {
            assert_eq!(shown(given), told);
        }
    }

    // REST 3, route 28: what has no counterpart says so.
    #[test]
    fn profiles_of_go() {
        assert_eq!(profile("/debug/pprof/cmdline").status, StatusCode::OK);
        let heap = profile("/debug/pprof/heap");
        assert_eq!(heap.status, StatusCode::NOT_FOUND);
        assert!(String::from_utf8(heap.body.to_vec()).unwrap().contains("cmdline, goroutine, threadcreate"));
        assert!(String::from_utf8(profiles().body.to_vec()).unwrap().contains("<a href='cmdline'>"));
    }
}
