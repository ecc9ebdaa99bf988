//! The gRPC listener, on a runtime thread of its own.

use std::{io, net::SocketAddr, sync::Arc, thread, time::Duration};

use rustls::ServerConfig;
use tokio::{
    net::TcpListener,
    sync::{oneshot, watch},
};
use tonic::{server::NamedService as _, transport::Server};
use tonic_health::{ServingStatus, server::HealthReporter};

use super::{arrival::Arrivals, extension::Extension, guard::Guard, incoming, scheduler::SchedulerDoor};
use crate::{
    access::{Audit, Rates, Tokens},
    actors::topology::Topology,
    messages::limits,
    metrics::Refused,
    si::{
        DESCRIPTORS,
        service::{SchedulerExtensionServer, SchedulerServer},
    },
};

/// A peer that does not answer pings for so long is gone.
const SILENCE: Duration = Duration::from_secs(20);

/// A running listener.
pub struct GrpcServer {
    /// The address that was bound.
    pub addr: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// Calls that may be open on one connection at a time. A shim needs four; what comes beyond waits at the peer.
const CALLS: u32 = 256;

/// Bytes that a peer may send over one call ahead of what is read. What it may over all calls of its connection says also how
/// much small frames may cost that wait to be read, and ends a connection that goes beyond: half of it, where a frame of less
/// than 256 bytes costs what it lacks of them. So it is enough for a call full of the smallest requests.
const WINDOW: u32 = 512 << 10;

/// How the listener is set up.
#[derive(Clone, Debug)]
pub struct Listen {
    /// Address; port 0 takes any that is free.
    pub addr: SocketAddr,
    /// A connection that has not asked for anything by then is closed.
    pub patience: Duration,
    /// Who is let in; `None`: everybody.
    pub tokens: Option<Arc<Tokens>>,
    /// Counts those who are refused.
    pub refused: Refused,
    /// How connections are encrypted; without it they are not.
    pub tls: Option<ServerConfig>,
    /// Who changed what.
    pub audit: Arc<Audit>,
    /// How many calls a caller may make.
    pub rates: Arc<Rates>,
}

/// Binds the listener and serves on a thread of its own.
pub fn start(listen: Listen, topology: Arc<Topology>) -> io::Result<GrpcServer> {
    let listener = std::net::TcpListener::bind(listen.addr)?;
    listener.set_nonblocking(true)?;
    let addr = listener.local_addr()?;
    // What other threads woke comes first: streams that got lines together are written together.
    let runtime = tokio::runtime::Builder::new_current_thread().global_queue_interval(1).enable_all().build()?;
    let (stop, stopped) = oneshot::channel();
    let thread = thread::Builder::new().name("grpc".to_owned()).spawn(move || {
        if let Err(error) = runtime.block_on(serve(listener, listen, topology, stopped)) {
            tracing::error!(code = "grpc-ended", %error, "the gRPC listener ended");
        }
    })?;
    Ok(GrpcServer { addr, stop: Some(stop), thread: Some(thread) })
}

impl GrpcServer {
    /// No new calls; ends when the open ones have, or at once with the process.
    pub fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }

    /// Every call has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(thread::JoinHandle::is_finished)
    }
}

/// Whose health is told: each service's, and that of the server as a whole.
const SERVICES: [&str; 3] = [SchedulerServer::<SchedulerDoor>::NAME, SchedulerExtensionServer::<Extension>::NAME, ""];

/// Says whether calls are welcome, as `/readyz` does; gives that.
async fn tell(health: &HealthReporter, topology: &Topology) -> bool {
    let serving = topology.ready.look(topology.is_closing()).ready;
    let status = if serving { ServingStatus::Serving } else { ServingStatus::NotServing };
    for service in SERVICES {
        health.set_service_status(service, status).await;
    }
    serving
}

/// Says it again whenever it changes.
async fn follow(health: HealthReporter, topology: Arc<Topology>, mut changes: watch::Receiver<()>, mut serving: bool) {
    while changes.changed().await.is_ok() {
        if serving != topology.ready.look(topology.is_closing()).ready {
            serving = tell(&health, &topology).await;
        }
    }
}

async fn serve(
    listener: std::net::TcpListener,
    listen: Listen,
    topology: Arc<Topology>,
    stopped: oneshot::Receiver<()>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let listener = TcpListener::from_std(listener)?;
    let Listen { patience, tokens, refused, tls, audit, rates, .. } = listen;
    let (_, room) = limits::connections();
    // How large a message may be is told where it arrives: that changes.
    let arrivals = Arrivals { limits: topology.limits.clone() };
    let for_guard = topology.clone();
    let scheduler = SchedulerServer::new(SchedulerDoor { topology: topology.clone() });
    let scheduler = scheduler.max_decoding_message_size(usize::MAX);
    let extension = SchedulerExtensionServer::new(Extension::new(topology)).max_decoding_message_size(usize::MAX);
    let (mut health, health_service) = tonic_health::server::health_reporter();
    let changes = for_guard.ready.changes();
    let serving = tell(&health, &for_guard).await;
    tokio::spawn(follow(health.clone(), for_guard.clone(), changes, serving));
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let router = Server::builder()
        .layer(Guard { tokens, refused, audit, topology: for_guard, rates })
        .layer(arrivals)
        .http2_keepalive_interval(Some(Duration::from_secs(10)))
        .http2_keepalive_timeout(Some(SILENCE))
        .max_concurrent_streams(CALLS)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(32 * WINDOW)
        .add_service(scheduler)
        .add_service(extension)
        .add_service(health_service)
        .add_service(reflection().build_v1()?)
        .add_service(reflection().build_v1alpha()?);
    let stopped = async {
        let _ = stopped.await;
        // Who watches a service is told that it goes, and that is all: the end waits for calls that are open.
        for service in SERVICES {
            health.clear_service_status(service).await;
        }
    };
    match tls {
        None => router.serve_with_incoming_shutdown(incoming::plain(listener, room, patience), stopped).await?,
        Some(tls) => {
            router.serve_with_incoming_shutdown(incoming::encrypted(listener, room, tls, patience), stopped).await?
        }
    }
    Ok(())
}
