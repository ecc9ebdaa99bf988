//! What a running server is told by signals, and by the end of its standard input: to end, to read files again.

use std::{convert::Infallible, io, path::Path, sync::Arc, thread};

use anyhow::{bail, ensure};
use nix::sys::signal::SIGXFSZ;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::spawn_blocking,
};

use super::{
    access::{self, Access},
    default_config,
};
use crate::{access::Audit, actors::topology::Topology, config, domain::words::plural};

/// Faults of a configuration that a log tells one by one.
const FAULTS: usize = 20;

/// When nothing more comes from standard input.
async fn stdin_ended() {
    let (ended, waits) = tokio::sync::oneshot::channel::<()>();
    // A thread of its own: one of the runtime's would be waited for at the end.
    let reader = thread::Builder::new().name("stdin".to_owned()).spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        drop(ended);
    });
    match reader {
        Ok(_) => drop(waits.await),
        Err(error) => {
            tracing::warn!(code = "stdin-not-read", %error, "--end-with-stdin: standard input cannot be read; a signal ends the server");
            std::future::pending().await
        }
    }
}

/// What a server is told by signals: to end, to read files again.
pub struct Signals {
    pub ends: Ends,
    hangup: Signal,
}

/// Those that end it.
pub struct Ends {
    term: Signal,
    int: Signal,
}

impl Signals {
    pub fn new() -> io::Result<Signals> {
        // A file that may not grow (`ulimit -f`) is a full disk: unhandled, the signal ends the process without a word.
        drop(signal(SignalKind::from_raw(SIGXFSZ as i32))?);
        let ends = Ends { term: signal(SignalKind::terminate())?, int: signal(SignalKind::interrupt())? };
        Ok(Signals { ends, hangup: signal(SignalKind::hangup())? })
    }
}

impl Ends {
    /// Until one of them comes; gives which.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.term.recv() => "SIGTERM",
            _ = self.int.recv() => "SIGINT",
        }
    }
}

/// Until a signal, or the end of standard input, ends the server; gives which.
pub async fn wait(
    Signals { mut ends, mut hangup }: Signals,
    topology: &Arc<Topology>,
    config: Option<&Path>,
    end_with_stdin: bool,
    access: &Access,
    audit: &Audit,
) -> anyhow::Result<&'static str> {
    // Beside what is read again: a file, or a resource manager, may hang.
    tokio::select! {
        cause = ends.next() => Ok(cause),
        () = stdin_ended(), if end_with_stdin => Ok("the end of standard input"),
        never = read_again(&mut hangup, topology, config, access, audit) => match never {},
    }
}

/// Reads files again whenever a signal says so.
async fn read_again(
    hangup: &mut Signal,
    topology: &Arc<Topology>,
    config: Option<&Path>,
    access: &Access,
    audit: &Audit,
) -> Infallible {
    loop {
        hangup.recv().await;
        let files = access.clone();
        let read = spawn_blocking(move || files.reload()).await.unwrap_or_else(|error| vec![Err(error.to_string())]);
        let mut came = Vec::new();
        if let Some(file) = config {
            let read = reload(topology, file).await;
            came.push(
                read.map(|told| format!("--config {}: {told}", file.display())).map_err(|error| format!("{error:#}")),
            );
        }
        came.extend(read);
        if came.is_empty() {
            tracing::warn!(code = "nothing-to-reload", "SIGHUP: started without --config, nothing to read again");
        }
        access::note(audit, ("signal", "SIGHUP"), came);
    }
}

/// Gives what is in force from then on.
///
/// # Errors
/// It is not in force, or not everywhere.
async fn reload(topology: &Arc<Topology>, file: &Path) -> anyhow::Result<String> {
    let path = file.to_owned();
    match spawn_blocking(move || default_config(Some(&path), true)).await? {
        Ok(config) => {
            let checksum = config.checksum.clone();
            tracing::info!(file = %file.display(), checksum, "configuration read again");
            let (in_force, refused) = topology.reload_default(config).await;
            if !in_force {
                tracing::warn!(
                    code = "configuration-shared",
                    "SIGHUP: {} is read, and not in force: another configuration holds for all servers of the cluster (callboard cluster config get)",
                    file.display()
                );
            }
            for (rm, refusal) in &refused {
                tracing::error!(code = "configuration-refused", rm = &**rm, "{}", refusal.detail);
            }
            ensure!(
                in_force,
                "--config {}: another configuration holds for all servers of the cluster",
                file.display()
            );
            if let Some((rm, refusal)) = refused.first() {
                bail!("--config {}: checksum {checksum}; resource manager {rm}: {}", file.display(), refusal.detail);
            }
            Ok(format!("checksum {checksum}"))
        }
        Err(error) => {
            tell_faults(file, &error);
            tracing::error!(code = "configuration-refused", "SIGHUP: {error:#}; the configuration stays as it is");
            Err(error)
        }
    }
}

/// What `callboard validate` says of the file, as far as a log is the place for it.
pub fn tell_faults(file: &Path, error: &anyhow::Error) {
    let Some(refused) = error.downcast_ref::<config::Refused>() else { return };
    for fault in refused.faults.iter().take(FAULTS) {
        tracing::error!(code = "configuration-refused", "{}:{fault}", file.display());
    }
    if let more @ 1.. = refused.faults.len().saturating_sub(FAULTS) {
        let file = file.display();
        tracing::error!(
            code = "configuration-refused",
            "{}: callboard validate {file} lists all",
            plural(more, "more fault")
        );
    }
}
