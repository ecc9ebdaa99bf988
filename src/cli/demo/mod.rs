//! `callboard demo`: a server with a believable cluster that lives, to be looked at, asked and played with.

mod cluster;
mod shim;
mod teams;

use std::{env, net::SocketAddr, process::ExitCode, time::Duration};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use tokio::time::{Instant, MissedTickBehavior, interval};

use self::{
    shim::{Outbox, Shop},
    teams::LIMITED,
};
use super::{
    client::{Callbacks, DoorKind, Incoming, Message, Shim, server::Server, trust::Trust},
    out,
};
use crate::{http::api::board::advice::quoted, si::v1::RegisterResourceManagerRequest};

/// How often the shim looks what has ended and what begins.
const TICK: Duration = Duration::from_millis(200);
/// When, in real time, a rack is drained: after work has begun on it.
const DRAIN: Duration = Duration::from_secs(5);
/// How long the cluster has lived when it is first shown.
const HISTORY: Duration = Duration::from_secs(3600);
/// Id of the resource manager of the demo.
const RM: &str = "demo";

/// Run a server with a cluster that lives, and say what to try
#[derive(Args, Clone, Debug)]
pub struct DemoArgs {
    /// How many times faster than real time the cluster lives: at 60 a second is a minute
    #[arg(long, default_value = "60", value_parser = speed, value_name = "N")]
    pub speed: f64,
    /// Address of the page and the HTTP doors, on the loopback; port 0 takes any free one
    #[arg(long, default_value = "127.0.0.1:9080", value_parser = loopback, value_name = "ADDR")]
    pub http: SocketAddr,
    /// Makes other applications, the same ones each time
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// End after so many seconds instead of with Ctrl-C
    #[arg(long, value_name = "SECONDS")]
    pub seconds: Option<u64>,
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if (0.1..=3600.0).contains(&speed) => Ok(speed),
        _ => Err(format!("\"{text}\" is not a number from 0.1 to 3600")),
    }
}

/// Nobody is asked for a token here.
fn loopback(text: &str) -> Result<SocketAddr, String> {
    match text.parse::<SocketAddr>() {
        Ok(addr) if addr.ip().to_canonical().is_loopback() => Ok(addr),
        _ => Err(format!("\"{text}\" is no address of this machine alone with a port, such as 127.0.0.1:9080")),
    }
}

/// Runs the demo until Ctrl-C, or the request to end.
///
/// # Errors
/// Its server does not start, or ends.
pub async fn run(args: &DemoArgs) -> Result<ExitCode> {
    let http = args.http.to_string();
    let server = Server::start(&["--http", &http]).await.with_context(|| {
        format!("the server of the demo did not start; if something else listens on {http}, choose another with --http")
    })?;
    let lived = live(args, &server).await;
    let stopped = server.stop().await;
    lived?;
    stopped?;
    Ok(ExitCode::SUCCESS)
}

async fn live(args: &DemoArgs, server: &Server) -> Result<()> {
    let request = RegisterResourceManagerRequest {
        rm_id: RM.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        policy_group: "queues".to_owned(),
        config: cluster::QUEUES.to_owned(),
        ..Default::default()
    };
    let (shim, mut callbacks) = Shim::register(DoorKind::Http, &server.http, &Trust::default(), request).await?;
    shim.nodes(cluster::nodes(RM)).await?;
    let mut shop = Shop::new(RM, args.seed);
    shop.furnish();
    // Before anybody is told how to end it.
    let interrupted = super::interrupted();
    out::print(format_args!("{}\n", welcome(&program(), &server.http, args.speed)))?;
    let begin = Instant::now();
    // One that is too far away to be counted never comes.
    let end = args.seconds.and_then(|seconds| begin.checked_add(Duration::from_secs(seconds)));
    let lived = tokio::select! {
        lived = follow(&shim, &mut callbacks, &mut shop, begin, args.speed) => lived,
        () = interrupted => Ok(()),
        () = until(end) => Ok(()),
    };
    // Nothing is written any more: a server that ended first has said why.
    let _ = shim.unregister().await;
    lived.and_then(|()| Ok(out::print(format_args!("\n{}\n", shop.counts()))?))
}

async fn until(end: Option<Instant>) {
    match end {
        Some(end) => tokio::time::sleep_until(end).await,
        None => std::future::pending().await,
    }
}

/// The life of the cluster: what the teams submit, what the scheduler answers, what ends.
async fn follow(shim: &Shim, callbacks: &mut Callbacks, shop: &mut Shop, begin: Instant, speed: f64) -> Result<()> {
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut drained = false;
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                let lived = begin.elapsed().as_secs_f64() * speed;
                shop.advance(((HISTORY.as_secs_f64() + lived) * 1000.0) as u64);
                if !drained && begin.elapsed() >= DRAIN {
                    drained = true;
                    shim.nodes(cluster::drain(RM)).await?;
                }
            }
            incoming = callbacks.recv() => match incoming {
                Some(Incoming::Message { message: Message::Allocation(response), .. }) => shop.allocations(response),
                Some(Incoming::Message { message: Message::Application(response), .. }) => shop.applications(response),
                Some(Incoming::Message { .. } | Incoming::Resumed) => {}
                Some(Incoming::Ended(error)) => return Err(error).context("the session with the scheduler ended"),
                None => bail!("the session with the scheduler ended"),
            },
        }
        let Outbox { applications, allocations, removals } = shop.take_outbox();
        if let Some(request) = applications {
            shim.applications(request).await?;
        }
        if let Some(request) = allocations {
            shim.allocations(request).await?;
        }
        if let Some(request) = removals {
            shim.applications(request).await?;
        }
    }
}

/// This program as it was called, for a shell.
fn program() -> String {
    let called = env::args().next().filter(|called| !called.is_empty());
    called.map_or_else(|| "callboard".to_owned(), |called| quoted(&called))
}

/// What there is, and what to try: a test runs each line that is further in than the others.
fn welcome(program: &str, http: &str, speed: f64) -> String {
    let drain = DRAIN.as_secs();
    format!(
        "\
A cluster of 200 nodes in 10 racks, 320 GPUs and four teams; a second is {speed} seconds there.

  page    {http}/

Five things to try, on the page or in another terminal:

  1. Why does it wait?   adhoc-giant asks for more than any node has:
       {program} why adhoc-giant --server {http}
  2. Who is at a limit?   {LIMITED}'s jobs are held back while his colleagues' run:
       {program} apps --user {LIMITED} --server {http}
  3. What happens to a drained rack?   In {drain} s rack-07 is drained: nothing new starts there, and it empties as its jobs end:
       {program} nodes --state drained --server {http}
  4. What happens right now?
       {program} events --server {http} -f
  5. What would a change do?   Save the configuration, edit it, and ask before it is applied:
       curl -s {http}/ws/v1/config > queues.yaml
       {program} plan --server {http} --config queues.yaml

Ctrl-C ends it."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demo_is_for_this_machine_alone() {
        assert!(loopback("127.0.0.1:0").is_ok() && loopback("[::1]:9080").is_ok());
        for other in ["0.0.0.0:9080", "[::]:9080", "10.0.0.1:9080", "9080", "localhost"] {
            assert!(loopback(other).unwrap_err().contains("such as 127.0.0.1:9080"), "{other}");
        }
    }
}
