//! Logs go to stderr, as text or as JSON; an operator decides what, else `RUST_LOG`, else `log.level` and the levels of subsystems
//! (CFG-113–CFG-115).

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, OnceLock},
};

use clap::ValueEnum;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::{
    EnvFilter, Layer, Registry, filter::Targets, layer::SubscriberExt as _, reload, util::SubscriberInitExt as _,
};

use super::ServeArgs;
use crate::{
    actors::topology::{Topology, process::LOG_LEVEL},
    cli::out,
    config::extra::{LogLevel, LogLevels, SUBSYSTEMS, Settings},
};

static FILTER: OnceLock<reload::Handle<Filter, Registry>> = OnceLock::new();

/// Which parts of the program belong to which subsystem.
const PARTS: &[(&str, &str)] = &[
    ("callboard::access", "core.security"),
    ("callboard::actors::application", "core.scheduler.application"),
    ("callboard::actors::event", "core.events"),
    ("callboard::actors::journal", "core.scheduler.node"),
    ("callboard::actors::node", "core.scheduler.node"),
    ("callboard::actors::partition", "core.scheduler.partition"),
    ("callboard::actors::queue", "core.scheduler.queue"),
    ("callboard::actors::resolvers", "core.scheduler.ugm"),
    ("callboard::actors::rm", "core.rmproxy"),
    ("callboard::actors::topology", "core.rmproxy"),
    ("callboard::actors::topology::defaults", "core.config"),
    ("callboard::actors::topology::registration", "core.config"),
    ("callboard::actors::ugm", "core.scheduler.ugm"),
    ("callboard::actors::unconfirmed", "core.scheduler.application"),
    ("callboard::cli::serve", "core.entrypoint"),
    ("callboard::cli::serve::access", "core.security"),
    ("callboard::grpc", "core.rpc"),
    ("callboard::http", "core.rest"),
    ("callboard::http::api::queue", "core.scheduler.queue"),
    ("callboard::http::api::trends", "core.metrics"),
    ("callboard::http::shim", "core.rmproxy"),
    ("callboard::http::ws_v1::health", "core.scheduler.health"),
    ("callboard::metrics", "core.metrics"),
    ("callboard_si", "core.rmproxy"),
    ("callboard::store::events", "core.events"),
    ("callboard::store::journal", "core.scheduler.node"),
    ("callboard::store::log", "core.rmproxy"),
];

/// How a line is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// A JSON object in a line, for programs.
    Json,
}

/// What the libraries of the doors say of themselves, and only they need: less than the level.
const QUIET: [&str; 8] = ["actix_server", "actix_http", "actix_web", "h2", "hyper", "hyper_util", "rustls", "tonic"];

/// This target logs an error where a stream ends on purpose: when its token expires, or the session.
const SILENT: &str = "actix_http::h1::dispatcher";

/// What decides which lines are written: words of the environment, or levels of the settings.
type Filter = Box<dyn Layer<Registry> + Send + Sync>;

/// The filter that `RUST_LOG` describes, where it is set and understood.
fn of_environment() -> Option<Filter> {
    EnvFilter::try_new(std::env::var("RUST_LOG").ok()?).ok().map(Layer::boxed)
}

fn of_settings(levels: &LogLevels) -> Filter {
    targets(levels).boxed()
}

/// Starts logging. A second call in the same process changes nothing.
pub fn start(format: Format) {
    let (filter, handle) = reload::Layer::new(of_environment().unwrap_or_else(|| of_settings(&LogLevels::default())));
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).log_internal_errors(false);
    let lines = match format {
        Format::Text => lines.with_writer(|| OneLine(io::stderr())).boxed(),
        Format::Json => lines
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .with_writer(io::stderr)
            .boxed(),
    };
    if tracing_subscriber::registry().with(filter).with(lines).try_init().is_ok() {
        let _ = FILTER.set(handle);
    }
}

/// Each event is written at once, as one line: names and reasons may come from anybody, who must not write lines of his own with
/// them, nor commands to a terminal.
struct OneLine<W>(W);

impl<W: io::Write> io::Write for OneLine<W> {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let Ok(text) = std::str::from_utf8(event) else { return self.0.write(event) };
        let line = text.strip_suffix('\n').unwrap_or(text);
        if !line.contains(out::is_obeyed) {
            self.0.write_all(event)?;
            return Ok(event.len());
        }
        let mut shown = String::with_capacity(text.len() + 16);
        for of in line.chars() {
            if out::is_obeyed(of) { shown.extend(of.escape_default()) } else { shown.push(of) }
        }
        shown.push_str(&text[line.len()..]);
        self.0.write_all(shown.as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The first line: which program this is, and how it was started. No secret is among it: files are named, not shown.
pub fn first_line(args: &ServeArgs) {
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    let door = |door: Option<super::Door>| match door {
        None => "default".to_owned(),
        Some(super::Door::Off) => "off".to_owned(),
        Some(super::Door::At(addr)) => addr.to_string(),
    };
    let data = if args.ephemeral { "memory".to_owned() } else { args.data.display().to_string() };
    let config = args.config.as_ref().map_or("built-in".to_owned(), |file| file.display().to_string());
    tracing::info!(
        version = env!("CALLBOARD_BUILD"),
        build,
        platform = %format_args!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
        http = door(args.http),
        grpc = door(args.grpc),
        data,
        config,
        settings = ?args.settings.iter().cloned().collect::<BTreeMap<_, _>>(),
        tokens = args.access.tokens.is_some(),
        tls = args.access.tls_cert.is_some(),
        "callboard starts"
    );
}

/// Follows the levels of the settings. Where the environment decides, only what an operator says of them.
pub fn follow(settings: &Arc<Topology>) {
    let topology = Arc::downgrade(settings);
    settings.process.listen(move |present| {
        let said = topology.upgrade().is_some_and(|topology| topology.process.said(LOG_LEVEL).is_some());
        let environment = if said { None } else { of_environment() };
        set(environment.unwrap_or_else(|| of_settings(&Settings::read(present).log)));
    });
}

fn set(filter: Filter) {
    if let Some(handle) = FILTER.get() {
        let _ = handle.reload(filter);
    }
}

/// What a line needs to be written, by the part of the program or the library that it comes from, or the subsystem that it names.
fn targets(levels: &LogLevels) -> Targets {
    let parts = PARTS.iter().map(|(part, subsystem)| (*part, level(levels.of(subsystem))));
    let subsystems = SUBSYSTEMS.iter().map(|subsystem| (*subsystem, level(levels.of(subsystem))));
    let default = level(levels.of(""));
    let quieter = match default {
        LevelFilter::DEBUG => LevelFilter::INFO,
        LevelFilter::ERROR => LevelFilter::ERROR,
        _ => LevelFilter::WARN,
    };
    let quiet = QUIET.iter().map(|library| (*library, quieter));
    let silent = [(SILENT, LevelFilter::OFF)];
    Targets::new().with_default(default).with_targets(parts.chain(subsystems).chain(quiet).chain(silent))
}

fn level(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Error | LogLevel::DPanic | LogLevel::Panic | LogLevel::Fatal => LevelFilter::ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_holds_for_its_subsystem_and_those_below() {
        // CFG-114, CFG-115
        let of = |pairs: &[(&str, &str)]| {
            let map = pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
            targets(&Settings::read(&map).log)
        };
        let levels =
            of(&[("log.level", "warn"), ("log.core.scheduler.level", "debug"), ("log.core.rest.level", "error")]);
        let would = |target: &str, level: tracing::Level| levels.would_enable(target, &level);
        assert!(would("callboard::actors::partition::waits", tracing::Level::DEBUG));
        assert!(would("core.scheduler.application.usage", tracing::Level::DEBUG));
        assert!(!would("callboard::http::guard", tracing::Level::WARN));
        assert!(would("callboard::http::shim::stream", tracing::Level::WARN), "core.rmproxy is not core.rest");
        assert!(!would("callboard::actors::rm", tracing::Level::INFO) && !would("actix_server", tracing::Level::INFO));
        let usual = of(&[]);
        assert!(usual.would_enable("callboard::actors::rm", &tracing::Level::INFO));
        assert!(usual.would_enable("h2::codec", &tracing::Level::WARN));
        assert!(!usual.would_enable("h2::codec", &tracing::Level::INFO));
        assert!(!usual.would_enable("actix_http::h1::dispatcher", &tracing::Level::ERROR));
        assert!(usual.would_enable("actix_http::h1", &tracing::Level::ERROR));
        assert!(PARTS.iter().all(|(_, subsystem)| SUBSYSTEMS.contains(subsystem)));
        let quiet = of(&[("log.core.config.level", "error")]);
        assert!(!quiet.would_enable("callboard::actors::topology::registration", &tracing::Level::WARN));
        for (part, _) in PARTS.iter().filter(|(part, _)| *part != "callboard_si") {
            let path = part.trim_start_matches("callboard").replace("::", "/");
            let file = format!("{}/src{path}", env!("CARGO_MANIFEST_DIR"));
            let is = |rest: &str| std::path::Path::new(&format!("{file}{rest}")).exists();
            assert!(is(".rs") || is("/mod.rs"), "{part} is a module");
        }
    }

    #[test]
    fn what_anybody_names_writes_no_lines_of_its_own() {
        let written = |event: &str| {
            let mut out = Vec::new();
            let mut line = OneLine(&mut out);
            io::Write::write_all(&mut line, event.as_bytes()).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written("INFO ask größer k1\n"), "INFO ask größer k1\n");
        assert_eq!(
            written("INFO rejected=[\"k1: no\n2026 ERROR all is lost\u{1b}[2J\0\u{2028}\u{202e}\"]\n"),
            "INFO rejected=[\"k1: no\\n2026 ERROR all is lost\\u{1b}[2J\\u{0}\\u{2028}\\u{202e}\"]\n"
        );
    }
}
