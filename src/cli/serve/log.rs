//! Logs go to stderr; an operator decides what, else `RUST_LOG`, else `log.level` of the settings.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, OnceLock},
};

use tracing_subscriber::{EnvFilter, Registry, layer::SubscriberExt as _, reload, util::SubscriberInitExt as _};

use crate::{
    actors::topology::{Topology, process::LOG_LEVEL},
    config::extra::{LogLevel, Settings},
};

static FILTER: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();

/// Starts logging. A second call in the same process changes nothing.
pub fn start() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let (filter, handle) = reload::Layer::new(filter);
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_ansi(false).log_internal_errors(false);
    if tracing_subscriber::registry().with(filter).with(lines).try_init().is_ok() {
        let _ = FILTER.set(handle);
    }
}

/// Follows `log.level`. Where the environment decides, only what an operator says of it.
pub fn follow(settings: &Arc<Topology>) {
    let environment = std::env::var("RUST_LOG").ok();
    let topology = Arc::downgrade(settings);
    settings.process.listen(move |present| {
        let said = topology.upgrade().is_some_and(|topology| topology.process.said(LOG_LEVEL).is_some());
        match &environment {
            Some(filter) if !said => set(filter),
            _ => set(level(present)),
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

fn set(filter: &str) {
    if let Some(handle) = FILTER.get() {
        let _ = handle.reload(EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info")));
    }
}
