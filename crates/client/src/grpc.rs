//! The gRPC shim: the three streams of plain `si.v1.Scheduler`, so that it can talk to any server of that interface.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use callboard_si::{
    ext::{UnregisterRequest, scheduler_extension_client::SchedulerExtensionClient},
    v1::{
        AllocationRequest, ApplicationRequest, NodeRequest, RegisterResourceManagerRequest,
        scheduler_client::SchedulerClient,
    },
};
use tokio::{
    sync::mpsc::{self, UnboundedSender},
    task::JoinHandle,
};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Code, Request, Status, Streaming,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint},
};

use super::{
    Callbacks, Error, Incoming, Message, Result,
    extension::{self, Answers},
    net::innermost,
    trust::Trust,
};

/// Requests on their way per stream; a server that stops reading stops the sender here.
const IN_FLIGHT: usize = 16;

/// How long it is tried to find the leader, where there are several servers.
const FAIL_OVER: Duration = Duration::from_secs(30);
/// Until it is tried again.
const AGAIN: Duration = Duration::from_millis(50);

/// A server that is silent for so long is asked whether it is there, and has as long to say so: a process that hangs keeps its
/// connections.
const SILENCE: Duration = Duration::from_millis(if cfg!(test) { 100 } else { 10_000 });

/// A connection whose every call carries the token.
pub(super) type Connection = InterceptedService<Channel, Bearer>;

/// The token, where there is one.
#[derive(Clone)]
pub(super) struct Bearer(Option<MetadataValue<Ascii>>);

impl Interceptor for Bearer {
    fn call(&mut self, mut request: Request<()>) -> std::result::Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.clone());
        }
        Ok(request)
    }
}

fn bearer(trust: &Trust) -> Result<Option<MetadataValue<Ascii>>> {
    let Some(token) = trust.token().map_err(Error::Server)? else { return Ok(None) };
    // Not the reason: it might show the token.
    let value = format!("Bearer {}", token.reveal()).parse::<MetadataValue<Ascii>>();
    value.map(Some).map_err(|_| Error::Server("the token does not fit into a header".into()))
}

fn encrypted(endpoint: Endpoint, trust: &Trust) -> Result<Endpoint> {
    let config = match &trust.ca {
        Some(file) => {
            let pem = std::fs::read(file);
            let pem = pem.map_err(|e| Error::Server(format!("certificate file {}: {e}", file.display())))?;
            ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem))
        }
        None => ClientTlsConfig::new().with_native_roots(),
    };
    endpoint.tls_config(config).map_err(|e| Error::Server(format!("no TLS can be spoken: {}", innermost(&e))))
}

/// A resource manager that talks gRPC.
pub struct GrpcShim {
    rm: String,
    channel: Connection,
    nodes: mpsc::Sender<NodeRequest>,
    applications: mpsc::Sender<ApplicationRequest>,
    allocations: mpsc::Sender<AllocationRequest>,
    readers: Vec<JoinHandle<()>>,
}

impl GrpcShim {
    /// Registers and attaches the three streams.
    pub async fn register(
        url: &str,
        trust: &Trust,
        request: RegisterResourceManagerRequest,
    ) -> Result<(GrpcShim, Callbacks)> {
        let urls: Vec<&str> = url.split(',').map(str::trim).collect();
        let end = Instant::now() + FAIL_OVER;
        // Of several servers the one that leads takes it; plain streams end with it.
        for turn in 0.. {
            let (out, callbacks) = mpsc::unbounded_channel();
            let registered = async {
                let channel = connect(urls[turn % urls.len()], trust).await?;
                GrpcShim::start(channel, request.clone(), out).await
            };
            match registered.await {
                Err(error) if urls.len() > 1 && error.may_pass() && Instant::now() < end => {
                    if (turn + 1) % urls.len() == 0 {
                        tokio::time::sleep(AGAIN).await;
                    }
                }
                done => return Ok((done?, callbacks)),
            }
        }
        Err(Error::Server("no address is named".to_owned()))
    }

    /// As [`GrpcShim::register`], for a shim that wants to be asked whether asks fit nodes: callbacks come over the
    /// extension stream, and answers go back that way.
    pub async fn register_to_be_asked(
        url: &str,
        trust: &Trust,
        request: RegisterResourceManagerRequest,
    ) -> Result<(GrpcShim, Callbacks, Answers)> {
        let channel = connect(url, trust).await?;
        let (out, callbacks) = mpsc::unbounded_channel();
        // Before the registration, so that it is asked from the first placement on.
        let (answers, reader) = extension::open(channel.clone(), &request.rm_id, out.clone()).await?;
        let mut shim = GrpcShim::start(channel, request, out).await?;
        shim.readers.push(reader);
        Ok((shim, callbacks, answers))
    }

    async fn start(
        channel: Connection,
        request: RegisterResourceManagerRequest,
        out: UnboundedSender<Incoming>,
    ) -> Result<GrpcShim> {
        let client = SchedulerClient::new(channel.clone())
            .max_decoding_message_size(usize::MAX)
            .max_encoding_message_size(usize::MAX);
        let rm = request.rm_id.clone();
        client.clone().register_resource_manager(request).await.map_err(|e| refused("RegisterResourceManager", &e))?;

        let (nodes, requests) = mpsc::channel(IN_FLIGHT);
        attach(&nodes, NodeRequest { rm_id: rm.clone(), ..Default::default() });
        let mut opened = client.clone();
        let nodes_reader = reader(
            "UpdateNode",
            async move { opened.update_node(ReceiverStream::new(requests)).await },
            Message::Node,
            out.clone(),
        );
        let (applications, requests) = mpsc::channel(IN_FLIGHT);
        attach(&applications, ApplicationRequest { rm_id: rm.clone(), ..Default::default() });
        let mut opened = client.clone();
        let applications_reader = reader(
            "UpdateApplication",
            async move { opened.update_application(ReceiverStream::new(requests)).await },
            Message::Application,
            out.clone(),
        );
        let (allocations, requests) = mpsc::channel(IN_FLIGHT);
        attach(&allocations, AllocationRequest { rm_id: rm.clone(), ..Default::default() });
        let mut opened = client;
        let allocations_reader = reader(
            "UpdateAllocation",
            async move { opened.update_allocation(ReceiverStream::new(requests)).await },
            Message::Allocation,
            out,
        );
        let readers = vec![nodes_reader, applications_reader, allocations_reader];
        Ok(GrpcShim { rm, channel, nodes, applications, allocations, readers })
    }

    /// Sends a node request.
    pub async fn nodes(&self, request: NodeRequest) -> Result<()> {
        self.nodes.send(request).await.map_err(|_| closed("UpdateNode"))
    }

    /// Sends an application request.
    pub async fn applications(&self, request: ApplicationRequest) -> Result<()> {
        self.applications.send(request).await.map_err(|_| closed("UpdateApplication"))
    }

    /// Sends an allocation request.
    pub async fn allocations(&self, request: AllocationRequest) -> Result<()> {
        self.allocations.send(request).await.map_err(|_| closed("UpdateAllocation"))
    }

    /// Ends the session, where the server has the extension for it; another server sees the streams end.
    pub async fn unregister(&self) -> Result<()> {
        self.readers.iter().for_each(JoinHandle::abort);
        let request = UnregisterRequest { rm_id: self.rm.clone() };
        match SchedulerExtensionClient::new(self.channel.clone()).unregister(request).await {
            Ok(_) => Ok(()),
            Err(status) if status.code() == Code::Unimplemented => Ok(()),
            Err(status) => Err(refused("Unregister", &status)),
        }
    }
}

impl Drop for GrpcShim {
    fn drop(&mut self) {
        self.readers.iter().for_each(JoinHandle::abort);
    }
}

async fn connect(url: &str, trust: &Trust) -> Result<Connection> {
    let url = if url.contains("://") { url.to_owned() } else { format!("http://{url}") };
    let unreachable = |e: tonic::transport::Error| Error::Unreachable {
        request: "gRPC connection".into(),
        url: url.clone(),
        reason: innermost(&e),
    };
    let endpoint = Channel::from_shared(url.clone())
        .map_err(|e| Error::Server(format!("{url} is not an address for gRPC: {e}")))?;
    let endpoint = if url.starts_with("https://") { encrypted(endpoint, trust)? } else { endpoint };
    let endpoint = endpoint.http2_keep_alive_interval(SILENCE).keep_alive_timeout(SILENCE).keep_alive_while_idle(true);
    // Half of it is what small frames may cost that wait to be read (see the server's); the streams' own windows stay as they are.
    let endpoint = endpoint.initial_connection_window_size(4 << 20);
    let channel = endpoint.tcp_nodelay(true).connect().await.map_err(unreachable)?;
    Ok(InterceptedService::new(channel, Bearer(bearer(trust)?)))
}

/// Queues the first message of a stream: it names the resource manager and carries nothing else.
fn attach<T>(requests: &mpsc::Sender<T>, first: T) {
    // A new channel has room for it.
    let _ = requests.try_send(first);
}

fn reader<T: Send + 'static>(
    rpc: &'static str,
    open: impl Future<Output = std::result::Result<tonic::Response<Streaming<T>>, Status>> + Send + 'static,
    kind: fn(T) -> Message,
    out: UnboundedSender<Incoming>,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        let end = match open.await {
            Err(status) => refused(rpc, &status),
            Ok(response) => {
                let mut responses = response.into_inner();
                loop {
                    match responses.message().await {
                        Ok(Some(message)) => {
                            if out
                                .send(Incoming::Message { seq: 0, at: Instant::now(), message: kind(message) })
                                .is_err()
                            {
                                return;
                            }
                        }
                        Ok(None) => break closed(rpc),
                        Err(status) => break refused(rpc, &status),
                    }
                }
            }
        };
        // Nobody listens any more: nothing to tell.
        let _ = out.send(Incoming::Ended(end));
    })
}

pub(super) fn closed(rpc: &str) -> Error {
    Error::Refused { request: rpc.to_owned(), status: "closed".into(), detail: "the server ended the stream".into() }
}

pub(super) fn refused(rpc: &str, status: &Status) -> Error {
    Error::Refused {
        request: rpc.to_owned(),
        status: format!("{:?}", status.code()),
        detail: status.message().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_that_hangs_is_not_waited_for() {
        // The system takes its connections, as for a process that is stopped.
        let hangs = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = hangs.local_addr().unwrap().to_string();
        let (trust, request) = (Trust::default(), RegisterResourceManagerRequest::default());
        let error = GrpcShim::register(&url, &trust, request).await.err().unwrap();
        assert!(error.may_pass(), "{error}");
    }
}
