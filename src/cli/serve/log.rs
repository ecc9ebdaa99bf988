//! Logs go to stderr; `RUST_LOG` decides what, else `log.level` of the settings.

use std::{collections::BTreeMap, io, sync::OnceLock};

use tracing_subscriber::{EnvFilter, Registry, layer::SubscriberExt as _, reload, util::SubscriberInitExt as _};

use crate::{
    actors::topology::ProcessSettings,
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

/// Follows `log.level`, unless the environment decides.
pub fn follow(settings: &ProcessSettings) {
    if std::env::var_os("RUST_LOG").is_none() {
        settings.listen(apply);
    }
}

fn apply(settings: &BTreeMap<String, String>) {
    let level = match Settings::read(settings).log.of("") {
        LogLevel::Debug => "debug",
        LogLevel::Info => "info",
        LogLevel::Warn => "warn",
        LogLevel::Error | LogLevel::DPanic | LogLevel::Panic | LogLevel::Fatal => "error",
    };
    if let Some(handle) = FILTER.get() {
        let _ = handle.reload(EnvFilter::new(level));
    }
}
