//! Where traces are sent: a collector of OpenTelemetry, over OTLP (HTTP with protobuf).

mod environment;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use clap::Args;

use self::environment::Environment;
use crate::{actors::topology::Topology, cli::url, config::extra::Settings, trace::Sampling};

/// The setting that says which requests are traced.
const ONE_IN: &str = "traces.oneIn";

/// Where traces are sent.
#[derive(Args, Clone, Debug, Default)]
pub struct TraceArgs {
    /// Collector of OpenTelemetry that gets traces over OTLP/HTTP, such as http://127.0.0.1:4318; without one nothing is traced
    #[arg(long, value_name = "URL", value_parser = url::option, env = "OTEL_EXPORTER_OTLP_ENDPOINT")]
    pub otlp_endpoint: Option<String>,
    /// The whole address that traces are sent to, instead of /v1/traces below --otlp-endpoint
    #[arg(long, value_name = "URL", value_parser = url::option, env = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")]
    pub otlp_traces_endpoint: Option<String>,
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
        let given = |url: &Option<String>| url.clone().filter(|url| !url.is_empty());
        let (named, url) = match (given(&self.otlp_traces_endpoint), given(&self.otlp_endpoint)) {
            (Some(url), _) => (format!("--otlp-traces-endpoint {url}"), url),
            (None, Some(base)) => {
                (format!("--otlp-endpoint {base}"), format!("{}/v1/traces", base.trim_end_matches('/')))
            }
            (None, None) => return Ok(()),
        };
        let environment = Environment::of_process();
        if let Some(off) = environment.off {
            tracing::info!("no traces are sent: {off}");
            return Ok(());
        }
        send(&named, &url, self, &environment, topology)?;
        if !environment.in_vain.is_empty() {
            tracing::warn!(
                code = "otel-in-vain",
                "variables of OpenTelemetry are set in vain: {}",
                environment.in_vain.join(", ")
            );
        }
        let traces = topology.traces.clone();
        let follow = move |settings: &BTreeMap<String, String>| {
            // What is said to this server counts over what is said to all programs.
            let said = environment.sampling.filter(|_| !settings.contains_key(ONE_IN));
            traces.sample(said.unwrap_or_else(|| Sampling::one_in(Settings::read(settings).traces_one_in)));
        };
        follow(&topology.process.get());
        topology.process.listen(follow);
        Ok(())
    }
}

#[cfg(not(feature = "otlp"))]
fn send(named: &str, _: &str, _: &TraceArgs, _: &Environment, _: &Topology) -> anyhow::Result<()> {
    anyhow::bail!("{named}: this program was built without the feature otlp, it cannot send traces")
}

#[cfg(feature = "otlp")]
fn send(
    named: &str,
    url: &str,
    args: &TraceArgs,
    environment: &Environment,
    topology: &Topology,
) -> anyhow::Result<()> {
    use anyhow::Context as _;
    use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
    use opentelemetry_sdk::trace::BatchSpanProcessor;

    use crate::cli::client::{net::Client, trust::Trust};

    let named = || named.to_owned();
    let trust = Trust { ca: args.otlp_ca.clone(), ..Trust::default() };
    // Without the token that commands send.
    let client = Client::without_token(url, &trust).map_err(|why| anyhow::anyhow!(why)).with_context(named)?;
    let sender = sender::Sender::new(client, url, environment.patience);
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(sender)
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(url)
        .build()
        .with_context(named)?;
    topology.traces.start(BatchSpanProcessor::builder(exporter).build());
    tracing::info!(endpoint = url, "traces are sent");
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

    /// A collector has to answer by then, if the environment does not say otherwise.
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
        patience: Duration,
        told: Mutex<Option<Instant>>,
    }

    impl std::fmt::Debug for Sender {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "Sender({})", self.endpoint)
        }
    }

    impl Sender {
        /// Within a runtime.
        pub fn new(client: Client, endpoint: &str, patience: Option<Duration>) -> Sender {
            let (endpoint, patience) = (endpoint.to_owned(), patience.unwrap_or(PATIENCE));
            Sender { client, runtime: Handle::current(), endpoint, patience, told: Mutex::default() }
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
            let (client, patience) = (self.client.clone(), self.patience);
            let sent = self.runtime.spawn(async move {
                timeout(patience, send(client, request)).await.unwrap_or_else(|_| Err(Failed::late(patience)))
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
