//! Where traces are sent: a collector of OpenTelemetry, over OTLP (HTTP with protobuf).

use std::{path::PathBuf, sync::Arc};

use clap::Args;

use crate::{actors::topology::Topology, cli::url, config::extra::Settings};

/// Where traces are sent.
#[derive(Args, Clone, Debug, Default)]
pub struct TraceArgs {
    /// Collector of OpenTelemetry that gets traces over OTLP/HTTP, such as http://127.0.0.1:4318; without one nothing is traced
    #[arg(long, value_name = "URL", value_parser = url::option, env = "OTEL_EXPORTER_OTLP_ENDPOINT")]
    pub otlp_endpoint: Option<String>,
    /// Certificates to believe of the collector instead of those of the system (PEM)
    #[arg(long, value_name = "FILE", env = "OTEL_EXPORTER_OTLP_CERTIFICATE")]
    pub otlp_ca: Option<PathBuf>,
}

impl TraceArgs {
    /// Begins to send, where a collector is named, and follows `traces.oneIn`.
    ///
    /// # Errors
    /// Its address is none, or a file is wrong.
    pub fn start(&self, topology: &Arc<Topology>) -> anyhow::Result<()> {
        let Some(endpoint) = self.otlp_endpoint.as_deref().filter(|endpoint| !endpoint.is_empty()) else {
            return Ok(());
        };
        send(endpoint, self, topology)?;
        let traces = topology.traces.clone();
        let follow = move |settings: &_| traces.sample(Settings::read(settings).traces_one_in);
        follow(&topology.process.get());
        topology.process.listen(follow);
        Ok(())
    }
}

#[cfg(not(feature = "otlp"))]
fn send(_endpoint: &str, _args: &TraceArgs, _topology: &Topology) -> anyhow::Result<()> {
    anyhow::bail!("--otlp-endpoint: this program was built without the feature otlp, it cannot send traces")
}

#[cfg(feature = "otlp")]
fn send(endpoint: &str, args: &TraceArgs, topology: &Topology) -> anyhow::Result<()> {
    use anyhow::Context as _;
    use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
    use opentelemetry_sdk::trace::BatchSpanProcessor;

    use crate::cli::client::{net::Client, trust::Trust};

    let named = || format!("--otlp-endpoint {endpoint}");
    let trust = Trust { ca: args.otlp_ca.clone(), ..Trust::default() };
    // Without the token that commands send.
    let client = Client::without_token(endpoint, &trust).map_err(|why| anyhow::anyhow!(why)).with_context(named)?;
    let sender = sender::Sender::new(client, endpoint);
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(sender)
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(format!("{}/v1/traces", endpoint.trim_end_matches('/')))
        .build()
        .with_context(named)?;
    topology.traces.start(BatchSpanProcessor::builder(exporter).build());
    tracing::info!(endpoint, "traces are sent");
    Ok(())
}

#[cfg(feature = "otlp")]
mod sender {
    use std::{
        sync::{Mutex, PoisonError},
        time::Duration,
    };

    use http_body_util::Full;
    use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
    use tokio::{
        runtime::Handle,
        time::{Instant, timeout},
    };

    use crate::cli::client::net::{Client, Failed};

    /// A collector has to answer by then.
    const PATIENCE: Duration = Duration::from_secs(10);
    /// What it answers is read up to here.
    const ANSWER: usize = 64 << 10;
    /// Between two lines of the log that say that it does not take them.
    const TELL: Duration = Duration::from_secs(60);

    /// Sends spans from the runtime that made it, whichever thread asks.
    pub struct Sender {
        client: Client,
        runtime: Handle,
        endpoint: String,
        told: Mutex<Option<Instant>>,
    }

    impl std::fmt::Debug for Sender {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "Sender({})", self.endpoint)
        }
    }

    impl Sender {
        /// Within a runtime.
        pub fn new(client: Client, endpoint: &str) -> Sender {
            let endpoint = endpoint.to_owned();
            Sender { client, runtime: Handle::current(), endpoint, told: Mutex::default() }
        }

        fn tell(&self, why: &str) {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            if told.is_none_or(|at| at.elapsed() >= TELL) {
                *told = Some(Instant::now());
                tracing::warn!(
                    code = "traces-not-sent",
                    endpoint = self.endpoint,
                    "the collector did not take spans: {why}"
                );
            }
        }
    }

    #[tonic::async_trait]
    impl HttpClient for Sender {
        async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
            let client = self.client.clone();
            let sent = self.runtime.spawn(async move {
                timeout(PATIENCE, send(client, request)).await.unwrap_or_else(|_| Err(Failed::late(PATIENCE)))
            });
            let ends = |_| Err(Failed { text: "the server ends".to_owned(), was_there: false });
            let answer = sent.await.unwrap_or_else(ends);
            match &answer {
                Ok(answer) if !answer.status().is_success() => self.tell(answer.status().as_str()),
                Ok(_) => {}
                Err(failed) => self.tell(&failed.text),
            }
            answer.map_err(Into::into)
        }
    }

    async fn send(client: Client, request: Request<Bytes>) -> Result<Response<Bytes>, Failed> {
        let mut answer = client.pass(request.map(Full::new)).await?;
        let mut body = Vec::new();
        while body.len() < ANSWER
            && let Some(chunk) = answer.chunk().await?
        {
            body.extend_from_slice(&chunk);
        }
        let mut response = Response::new(Bytes::from(body));
        *response.status_mut() = answer.status;
        *response.headers_mut() = answer.headers;
        Ok(response)
    }
}
