//! Logs go to stderr, as text or as JSON; an operator decides what, else `RUST_LOG`, else `log.level` of the settings.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, OnceLock},
};

use clap::ValueEnum;
use tracing_subscriber::{
    EnvFilter, Layer as _, Registry, layer::SubscriberExt as _, reload, util::SubscriberInitExt as _,
};

use super::ServeArgs;
use crate::{
    actors::topology::{Topology, process::LOG_LEVEL},
    config::extra::{LogLevel, Settings},
};

static FILTER: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();

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

fn filter(level: &str) -> EnvFilter {
    let quieter = match level {
        "debug" => "info",
        "error" => "error",
        _ => "warn",
    };
    let quiet: String = QUIET.iter().map(|name| format!(",{name}={quieter}")).collect();
    EnvFilter::new(format!("{level}{quiet}"))
}

/// Starts logging. A second call in the same process changes nothing.
pub fn start(format: Format) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| filter("info"));
    let (filter, handle) = reload::Layer::new(filter);
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(false).log_internal_errors(false);
    let lines = match format {
        Format::Text => lines.boxed(),
        Format::Json => lines.json().flatten_event(true).with_current_span(false).with_span_list(false).boxed(),
    };
    if tracing_subscriber::registry().with(filter).with(lines).try_init().is_ok() {
        let _ = FILTER.set(handle);
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
        version = env!("CARGO_PKG_VERSION"),
        build,
        target = %format_args!("{}-{}", std::env::consts::ARCH, std::env::consts::OS),
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

/// Follows `log.level`. Where the environment decides, only what an operator says of it.
pub fn follow(settings: &Arc<Topology>) {
    let environment = std::env::var("RUST_LOG").ok();
    let topology = Arc::downgrade(settings);
    settings.process.listen(move |present| {
        let said = topology.upgrade().is_some_and(|topology| topology.process.said(LOG_LEVEL).is_some());
        match &environment {
            Some(words) if !said => set(EnvFilter::try_new(words).unwrap_or_else(|_| filter("info"))),
            _ => set(filter(level(present))),
        }
    });
}

fn level(settings: &BTreeMap<String, String>) -> &'static str {
    match Settings::read(settings).log.of("") {
        LogLevel::Debug => "debug",
        LogLevel::Info => "info",
        LogLevel::Warn => "warn",
        LogLevel::Error | LogLevel::DPanic | LogLevel::Panic | LogLevel::Fatal => "error",
    }
}

fn set(filter: EnvFilter) {
    if let Some(handle) = FILTER.get() {
        let _ = handle.reload(filter);
    }
}
