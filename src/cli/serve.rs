//! `callboard serve`: the server.

pub mod access;
mod audit;
pub(in crate::cli) mod cluster;
pub(in crate::cli) mod data;
pub mod log;
pub mod oidc;
pub mod options;
mod panics;
mod service;
mod signals;
pub mod traces;

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    net::{Ipv4Addr, SocketAddr},
    num::NonZeroUsize,
    path::{Path, PathBuf},
    process::ExitCode,
    str::FromStr,
    sync::Arc,
    time::{Duration, Instant},
};

use self::{
    access::{Access, AccessArgs},
    cluster::ClusterArgs,
    log::Format,
    signals::{Signals, tell_faults, wait},
    traces::TraceArgs,
};
use actix::{Actor as _, Addr, Arbiter};
use actix_web::{dev::ServerHandle, web::ServiceConfig};
use anyhow::{Context as _, bail};
use clap::Args;
use tokio::task::spawn_blocking;

use super::{out, process::cores, validate};
use crate::{
    access::Rates,
    actors::{
        event::EventActor,
        journal::Journals,
        resolvers::ldap::SECRETS,
        rm::log::{LogSync, Logs, SNAPSHOT},
        topology::Topology,
    },
    config::{
        self, LoadedConfig,
        extra::{SUBSYSTEMS, Settings},
        table::{self, Scope, bytes_from},
    },
    domain::{DOMAIN_VERSION, duration, event_settings::EventSettings, journal},
    grpc,
    http::{
        api,
        doors::Doors,
        server::{self as http, Listen},
        ws_v1::{self, RestState},
    },
    messages::{
        event::{EndStreams, StopEvents},
        limits,
    },
    metrics::Metrics,
    store::log::{
        self as logs,
        mark::{Before, Mark},
    },
};

/// Everything has ended by then.
const SHUTDOWN: Duration = Duration::from_millis(4_500);

/// How the server is started.
#[derive(Args, Clone, Debug)]
pub struct ServeArgs {
    /// Address of the HTTP doors, or `off` [default: 127.0.0.1:9080, any free port with --ephemeral]
    #[arg(long, value_name = "ADDR|off", env = "CALLBOARD_HTTP")]
    pub http: Option<Door>,
    /// Address of the gRPC door, or `off` [default: 127.0.0.1:9090, any free port with --ephemeral]
    #[arg(long, value_name = "ADDR|off", env = "CALLBOARD_GRPC")]
    pub grpc: Option<Door>,
    /// Directory of everything that outlives the process
    #[arg(long, value_name = "DIR", env = "CALLBOARD_DATA", default_value = "./callboard-data")]
    pub data: PathBuf,
    /// Nothing on disk; doors without an address take any free port
    #[arg(long, env = "CALLBOARD_EPHEMERAL")]
    pub ephemeral: bool,
    /// When what goes in counts as recorded: once the kernel has it (interval), once it is on the disk (batch); off records
    /// nothing. A resource manager may say otherwise (`log.sync`)
    #[arg(long, value_name = "MODE", env = "CALLBOARD_LOG_SYNC", default_value = "interval")]
    pub log_sync: LogSync,
    /// The clock is right, although it is further ahead of the newest stored event than events are kept: those that are too
    /// old by it are deleted, which may be all
    #[arg(long, env = "CALLBOARD_TRUST_CLOCK")]
    pub trust_clock: bool,
    /// Configuration where a registration brings none; SIGHUP reads it again
    #[arg(long, value_name = "FILE", env = "CALLBOARD_CONFIG")]
    pub config: Option<PathBuf>,
    /// Directory of the settings of the group resolver `ldap`, one file each
    #[arg(long, value_name = "DIR", env = "CALLBOARD_LDAP_SECRETS", default_value = SECRETS)]
    pub ldap_secrets: PathBuf,
    /// Asks that no node takes reserve none, as DISABLE_RESERVATION=true does; a resource manager may say otherwise
    /// (`rm.reservations`)
    #[arg(long, env = "CALLBOARD_NO_RESERVATIONS")]
    pub no_reservations: bool,
    /// Largest request of the HTTP and gRPC doors in bytes, such as 8Mi
    #[arg(long, value_name = "BYTES", env = "CALLBOARD_HTTP_MAX_BODY_BYTES", default_value_t = at_least_one(limits::BODY), value_parser = size)]
    pub http_max_body_bytes: NonZeroUsize,
    /// A connection that has not made a request by then is closed, at the HTTP and gRPC doors
    #[arg(long, value_name = "TIME", env = "CALLBOARD_FIRST_REQUEST_TIMEOUT", default_value = "10s", value_parser = patience)]
    pub first_request_timeout: Duration,
    /// Most items of a request, which a resource manager may lower for itself (`rm.maxItems`)
    #[arg(long, value_name = "COUNT", env = "CALLBOARD_RM_MAX_ITEMS", default_value_t = at_least_one(limits::ITEMS))]
    pub rm_max_items: NonZeroUsize,
    /// How lines of the log are written
    #[arg(long, value_name = "FORMAT", env = "CALLBOARD_LOG_FORMAT", default_value = "text")]
    pub log_format: log::Format,
    /// A setting of the whole process (event.*, health.*, http.*, log.*, metrics.*, traces.*), where no resource manager that may do so sets another; several with a semicolon between them
    #[arg(long = "set", value_name = "KEY=VALUE", env = "CALLBOARD_SET", value_parser = setting, value_delimiter = ';')]
    pub settings: Vec<(String, String)>,
    /// End when standard input ends, as it does when the program that holds its other end is gone
    #[arg(long)]
    pub end_with_stdin: bool,
    #[command(flatten)]
    pub access: AccessArgs,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    #[command(flatten)]
    pub traces: TraceArgs,
}

fn patience(text: &str) -> Result<Duration, String> {
    let nanos = duration::parse(text).map_or(0, |time| u64::try_from(time.0).unwrap_or(0));
    if nanos == 0 {
        Err("expected a duration above zero, such as 10s".to_owned())
    } else {
        Ok(Duration::from_nanos(nanos))
    }
}

fn setting(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("\"{text}\" is not KEY=VALUE"))?;
    let row = table::find(key).filter(|row| row.scope() == Scope::Server).ok_or_else(|| {
        let known = table::TABLE.iter().filter(|row| row.scope() == Scope::Server).map(|row| row.key);
        format!("\"{key}\" is no setting of the whole server: there are {}", known.collect::<Vec<_>>().join(", "))
    })?;
    row.read(value).map_err(|want| format!("{key}: \"{value}\" is not {want}"))?;
    // A shim may send levels of its own subsystems; whoever starts the server means one of its.
    let subsystem = key.strip_prefix("log.").and_then(|key| key.strip_suffix(".level"));
    if let Some(subsystem) = subsystem.filter(|name| !SUBSYSTEMS.contains(name)) {
        return Err(format!("{key}: \"{subsystem}\" is none of the subsystems: {}", SUBSYSTEMS.join(", ")));
    }
    Ok((key.to_owned(), value.to_owned()))
}

fn size(text: &str) -> Result<NonZeroUsize, String> {
    bytes_from(1, text).map(|bytes| at_least_one(usize::try_from(bytes).unwrap_or(usize::MAX)))
}

fn at_least_one(limit: usize) -> NonZeroUsize {
    NonZeroUsize::new(limit).unwrap_or(NonZeroUsize::MIN)
}

impl std::fmt::Display for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Door::At(addr) => write!(f, "{addr}"),
            Door::Off => f.write_str("off"),
        }
    }
}

/// Where a door listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// At this address.
    At(SocketAddr),
    /// Not at all.
    Off,
}

impl FromStr for Door {
    type Err = String;

    fn from_str(text: &str) -> Result<Door, String> {
        if text == "off" {
            return Ok(Door::Off);
        }
        text.parse()
            .map(Door::At)
            .map_err(|_| format!("\"{text}\" is neither an address such as 127.0.0.1:9080 nor off"))
    }
}

impl Door {
    fn or_default(door: Option<Door>, port: u16, ephemeral: bool) -> Option<SocketAddr> {
        match door {
            Some(Door::At(addr)) => Some(addr),
            Some(Door::Off) => None,
            None => Some((Ipv4Addr::LOCALHOST, if ephemeral { 0 } else { port }).into()),
        }
    }
}

/// Serves until SIGTERM or SIGINT. Whatever keeps it from starting is one line on stderr, as those of the log are.
pub fn run(args: ServeArgs) -> ExitCode {
    let format = args.log_format;
    log::start(format);
    // Before anything asks how many connections there may be.
    limits::raise_descriptors();
    panics::install(format);
    // Not dropped: that would wait for whatever still reads or writes a file, which may hang.
    let system = actix::System::new();
    match system.block_on(serve(args)) {
        Ok(()) => {
            let _ = io::stdout().flush();
            // Arbiters hold nothing that has to be written: they end with the process.
            std::process::exit(0)
        }
        Err(error) => {
            if format == Format::Json && tracing::enabled!(tracing::Level::ERROR) {
                tracing::error!(code = "not-served", "{error:#}");
            } else {
                out::note(format_args!("callboard: {error:#}"));
            }
            std::process::exit(1)
        }
    }
}

async fn serve(args: ServeArgs) -> anyhow::Result<()> {
    let mut open = None;
    let served = serve_with(args, &mut open).await;
    // A start that fails, for a port in use for example, lost no event: left open, the stores would say so at the next start, and
    // a million ids would be passed over.
    if let Some(topology) = open {
        close_events(&topology).await;
    }
    served
}

/// See [`serve`]. `open` has what is there as long as its events are not closed.
async fn serve_with(args: ServeArgs, open: &mut Option<Arc<Topology>>) -> anyhow::Result<()> {
    let options = options::of(&args);
    let http_addr = Door::or_default(args.http, 9080, args.ephemeral);
    let grpc_addr = Door::or_default(args.grpc, 9090, args.ephemeral);
    if http_addr.is_none() && grpc_addr.is_none() {
        bail!("--http off and --grpc off leave no door open");
    }
    // From here on, as reading logs takes its time: a process that is the first of a container ignores what it does not handle.
    let mut signals = Signals::new()?;
    let mut access = Access::open(&args.access, &[("--http", http_addr), ("--grpc", grpc_addr)])?;
    if let Some(url) = &args.cluster.advertise {
        access.answer_to(url);
    }
    let faults = |error: &anyhow::Error| args.config.iter().for_each(|file| tell_faults(file, error));
    let default_config = default_config(args.config.as_deref(), false).inspect_err(faults)?;
    let lock = if args.ephemeral { None } else { Some(data::lock(&args.data)?) };
    let data = (!args.ephemeral).then_some(args.data.as_path());
    // Before anything is opened: a later release goes on with all of it.
    let base = data.filter(|_| !args.cluster.is_on()).map(|data| data.join("log"));
    if let Some(later) = base.and_then(|base| logs::of_a_later_release(&base, DOMAIN_VERSION)) {
        bail!("--data {}: {later}", args.data.display());
    }
    let audit = audit::open(data)?;
    audit.follow();

    let events = event_system(&args, "events")?;
    let of_logs = args.cluster.is_on().then(|| event_system(&args, "events-of-logs")).transpose()?;
    let Wiring { topology, journals, metrics } = wire(default_config, (events, of_logs), data, &args.ldap_secrets)?;
    *open = Some(topology.clone());
    log::follow(&topology);
    // Set once, here.
    let _ = topology.process.options.set(options);
    let mut mark = match data {
        Some(data) if args.cluster.is_on() => Some(cluster::keep_logs(&topology, &metrics, data, &args.cluster)?),
        Some(data) => Some(keep_logs(&topology, &metrics, data, args.log_sync)?),
        None => {
            cluster::keep_elsewhere(&topology, &metrics, &args.cluster);
            None
        }
    };
    let id = mark.as_ref().map(|(mark, ..)| mark.server.clone());
    // What keeps it from starting is a line of its own, and has been told by now.
    log::first_line(&args);
    args.traces.start(&topology)?;
    topology.ready.waits("doors", "the doors are being opened");
    // The name that deployments of the reference set (CFG-116).
    if args.no_reservations || std::env::var_os("DISABLE_RESERVATION").is_some_and(|value| value == "true") {
        topology.without_reservations();
    }
    topology.limits.start(args.http_max_body_bytes.get(), args.rm_max_items.get());
    let patience = args.first_request_timeout;
    let refused = metrics.refused();
    journals.start_kept().await;
    let rest = RestState::new(topology.clone(), metrics).with_journals(journals.clone());
    let rest = Arc::new(rest.with_data(lock.as_ref().map(|lock| (lock.look(), audit.audit.clone()))));
    let _watch = ws_v1::watch::start(rest.clone()).await;
    // Whoever follows them does so by now.
    topology.process.start(args.settings.into_iter().collect());
    let rates = Arc::<Rates>::default();
    follow_rates(&rates, &topology);
    access.follow_issuer().await;
    let mut http_door = None;
    if let Some(addr) = http_addr {
        let (tokens, refused) = (access.tokens.clone(), refused.clone());
        let doors = Arc::new(Doors {
            topology: topology.clone(),
            tokens,
            origins: access.origins(addr),
            refused,
            audit: audit.audit.clone(),
            rates: rates.clone(),
            forward: args.cluster.forward()?,
        });
        let listen = Listen { addr, workers: cores(), patience, tls: access.tls(&[b"http/1.1"])? };
        let (data, others) = (api::data(&topology, journals), ws_v1::services(rest));
        let services = move |config: &mut ServiceConfig| {
            data(config);
            others(config);
        };
        let (server, bound) = http::bind(listen, doors, services)
            .with_context(|| format!("cannot listen on {addr} for HTTP; choose another with --http"))?;
        let handle = server.handle();
        actix::spawn(server);
        http_door = Some((handle, bound));
    }
    let mut grpc_door = None;
    if let Some(addr) = grpc_addr {
        let (tokens, tls) = (access.tokens.clone(), access.tls(&[b"h2"])?);
        let listen = grpc::server::Listen { addr, patience, tokens, refused, tls, audit: audit.audit.clone(), rates };
        let started = grpc::server::start(listen, topology.clone())
            .with_context(|| format!("cannot listen on {addr} for gRPC; choose another with --grpc"))?;
        grpc_door = Some(started);
    }
    let scheme = access.scheme();
    let doors = (http_door.as_ref().map(|(_, addr)| *addr), grpc_door.as_ref().map(|door| door.addr));
    let begin = async {
        let cluster = args.cluster.start(id, doors, !scheme.is_empty(), &topology).await?;
        if let Some((mark, base, before)) = mark.as_mut().filter(|_| cluster.is_none()) {
            topology.restore(*before).await;
            settle(&topology, mark, base, *before).await?;
            if args.config.is_some() {
                topology.renew_all().await;
            }
        }
        anyhow::Ok(cluster)
    };
    let cluster = tokio::select! {
        begun = begin => begun?,
        cause = signals.ends.next() => {
            tracing::info!(cause, "shutting down before everything was read");
            service::stopping();
            *open = None;
            shut_down(&topology, http_door.map(|(handle, _)| handle), grpc_door).await;
            audit.close();
            return Ok(());
        }
    };
    let shown = |addr: Option<SocketAddr>| addr.map_or("off".to_owned(), |addr| format!("{scheme}{addr}"));
    if access.has_files() {
        actix::spawn(access.clone().follow(audit.audit.clone()));
    }
    let data = if args.ephemeral { "memory".to_owned() } else { args.data.display().to_string() };
    let ready = format!(
        "callboard ready http={} grpc={} data={data}",
        shown(http_door.as_ref().map(|(_, addr)| *addr)),
        shown(grpc_door.as_ref().map(|door| door.addr)),
    );
    topology.ready.done("doors");
    service::ready(topology.events.clone());
    // A server serves, whether anybody reads that or not.
    if writeln!(io::stdout(), "{ready}").and_then(|()| io::stdout().flush()).is_err() {
        tracing::info!("{ready}");
    }

    let ended = wait(signals, &topology, args.config.as_deref(), args.end_with_stdin, &access, &audit.audit).await?;
    tracing::info!(cause = ended, "shutting down");
    service::stopping();
    if let Some(cluster) = &cluster {
        cluster.leave().await;
    }
    *open = None;
    let closed = shut_down(&topology, http_door.map(|(handle, _)| handle), grpc_door).await;
    if let Some((mark, base, _)) = mark.filter(|_| closed)
        && let Err(error) = mark.close(&base)
    {
        tracing::error!(code = "log-end-not-noted", %error, base = %base.display(), "the end cannot be noted: the next start takes it for a kill");
    }
    audit.close();
    // On another thread: they are sent from this one.
    let _ = spawn_blocking(move || topology.traces.end()).await;
    if !closed {
        bail!("not all logs are on the disk: what is missing was told to nobody, and a start goes on without it");
    }
    Ok(())
}

/// Keeps events in a directory of this name, or in memory.
fn event_system(args: &ServeArgs, name: &str) -> anyhow::Result<EventActor> {
    if args.ephemeral {
        return Ok(EventActor::default());
    }
    let (directory, beside) = (args.data.join(name), args.data.join(format!("{name}.mark")));
    Ok(EventActor::durable(EventSettings::default(), (&directory, Some(&beside)), args.trust_clock)?)
}

/// All logs were read: what was in doubt of them is recorded, so that a later start need not find it out again.
async fn settle(topology: &Topology, mark: &mut Mark, base: &Path, before: Before) -> anyhow::Result<()> {
    let is_settled = before.is_whole()
        || topology.close_logs(false).await && topology.logs().is_none_or(|logs| logs.faults().is_empty());
    if is_settled && mark.doubt.is_some() {
        mark.settle(base).with_context(|| format!("{}: the mark of the logs cannot be written", base.display()))?;
    }
    Ok(())
}

/// `http.requestsPerSecond`, as it is now and from now on.
fn follow_rates(rates: &Arc<Rates>, topology: &Topology) {
    let limit = |settings: &BTreeMap<String, String>, rates: &Rates| {
        rates.limit(Settings::read(settings).requests_per_second);
    };
    limit(&topology.process.get(), rates);
    let rates = rates.clone();
    topology.process.listen(move |settings| limit(settings, &rates));
}

/// Has logs kept in the data directory. Gives their mark and their directory, and whether nothing can have been lost of what
/// the process before wrote.
fn keep_logs(
    topology: &Topology,
    metrics: &Metrics,
    data: &Path,
    sync: LogSync,
) -> anyhow::Result<(Mark, PathBuf, Before)> {
    let base = data.join("log");
    for left in logs::left_by_exports(&base) {
        tracing::warn!(
            code = "log-left-by-export",
            "{}: an export that did not come to its end left a log there, and it is not read: where it is not in etcd any more \
             (callboard cluster status), end this server and move it into {}",
            left.display(),
            base.display()
        );
    }
    let (mark, before) =
        Mark::open(&base).with_context(|| format!("--data {}: the log cannot be opened", data.display()))?;
    if mark.boot.is_empty() {
        tracing::warn!(
            code = "boot-id-hidden",
            "this system does not tell its boot id (/proc/sys/kernel/random/boot_id), so a start after a kill cannot be told from one \
             after the machine stopped: with log.sync interval resource managers then register again"
        );
    }
    match before {
        Before::Crashed => tracing::warn!(
            code = "machine-stopped",
            "the machine stopped while a server ran: with log.sync interval the end of the log may be missing, so resource \
             managers register again"
        ),
        Before::Copied => tracing::warn!(
            code = "data-copied",
            "the data directory is a copy: a server may have gone on with what was copied, so resource managers register again"
        ),
        Before::Unknown if mark.doubt.is_some() => tracing::error!(
            code = "log-mark-lost",
            "{} is missing or damaged: which server wrote the logs, and how it ended, is not known, so resource managers register again",
            base.join("mark").display()
        ),
        Before::Closed | Before::Killed | Before::Unknown => {}
    }
    let logs = Logs {
        base: base.clone(),
        server: mark.server.clone(),
        sync,
        snapshot: snapshot_after(SNAPSHOT),
        metrics: Some(metrics.log()),
        unread: Default::default(),
        gone: Default::default(),
        shared: false,
    };
    topology.keep_logs(logs);
    Ok((mark, base, before))
}

/// What was wired.
struct Wiring {
    topology: Arc<Topology>,
    journals: Arc<Journals>,
    metrics: Arc<Metrics>,
}

/// Actors on their arbiters: one for control, the others for partitions. `data` is the directory of what outlives the
/// process, `None` for nothing at all; beside the event system that of logs that are shared; `ldap_secrets` that of the LDAP settings.
fn wire(
    default_config: LoadedConfig,
    (events, of_logs): (EventActor, Option<EventActor>),
    data: Option<&Path>,
    ldap_secrets: &Path,
) -> anyhow::Result<Wiring> {
    let arbiter = || {
        let arbiter = Arbiter::new().handle();
        arbiter.spawn_fn(panics::critical);
        arbiter
    };
    let control = arbiter();
    let pool = (0..cores()).map(|_| arbiter()).collect();
    let events = EventActor::start_in_arbiter(&control, |_| events);
    let kept = data.map(|data| data.join("journal"));
    let journals = Arc::new(Journals::new(control.clone(), kept, journal::Settings::default()));
    let metrics = Arc::new(Metrics::new()?);
    let links = (journals.clone(), metrics.clone(), ldap_secrets.into());
    let topology = Topology::linked(pool, links, events, default_config);
    if let Some(of_logs) = of_logs {
        topology.keep_events_of_logs(EventActor::start_in_arbiter(&control, |_| of_logs.of_logs()));
    }
    Ok(Wiring { topology, journals, metrics })
}

/// Bytes of log after which a snapshot is taken; tests cannot write as many.
fn snapshot_after(bytes: u64) -> u64 {
    let wanted = cfg!(debug_assertions).then(|| std::env::var("CALLBOARD_TEST_SNAPSHOT_BYTES").ok()).flatten();
    wanted.and_then(|wanted| wanted.parse().ok()).unwrap_or(bytes)
}

fn default_config(file: Option<&Path>, again: bool) -> anyhow::Result<LoadedConfig> {
    let named = || file.map_or("built-in configuration".to_owned(), |file| format!("--config {}", file.display()));
    let read = |file| fs::read_to_string(file).with_context(|| format!("{}: cannot be read", named()));
    let text = file.map(read).transpose()?.unwrap_or_default();
    if file.is_some() && again && validate::says_nothing(&text) {
        bail!("{}: {}", named(), validate::NOTHING);
    } else if file.is_some() && text.is_empty() {
        tracing::warn!(code = "configuration-note", "{}: it is empty, and the built-in default is in force", named());
    }
    let config = config::load(&text).with_context(named)?;
    config.check_rules().with_context(named)?;
    for warning in &config.warnings {
        tracing::warn!(code = "configuration-note", "{}: {warning}", named());
    }
    Ok(config)
}

/// Ends in an orderly way. False: not all of the logs is on the disk.
async fn shut_down(topology: &Topology, http: Option<ServerHandle>, grpc: Option<grpc::server::GrpcServer>) -> bool {
    let deadline = Instant::now() + SHUTDOWN;
    topology.close();
    stores(topology).for_each(|events| events.do_send(EndStreams));
    let http = async {
        if let Some(handle) = http {
            handle.stop(true).await;
        }
    };
    let grpc = async {
        let Some(mut door) = grpc else { return };
        door.stop();
        while !door.is_finished() && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    if tokio::time::timeout(SHUTDOWN, async { tokio::join!(http, grpc) }).await.is_err() {
        tracing::warn!(code = "shutdown-slow", "some connections did not end in time");
    }
    // Once more, for what the doors still brought: what is put aside for shims becomes lines, which are in the logs when these are closed.
    let _ = tokio::time::timeout(SHUTDOWN, topology.events.send(EndStreams)).await;
    let closed = tokio::time::timeout(SHUTDOWN, topology.close_logs(true)).await.unwrap_or(false);
    if !closed {
        tracing::error!(code = "log-not-written", "not all logs are on the disk");
    }
    close_events(topology).await;
    closed
}

/// The events of this server, and those of the logs of resource managers where they are kept apart.
fn stores(topology: &Topology) -> impl Iterator<Item = &Addr<EventActor>> {
    let of_logs = Some(topology.events_of_logs()).filter(|addr| **addr != topology.events);
    [&topology.events].into_iter().chain(of_logs)
}

/// Says in the stores of events that nothing is missing at their ends.
async fn close_events(topology: &Topology) {
    for events in stores(topology) {
        match tokio::time::timeout(SHUTDOWN, events.send(StopEvents)).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(error))) => tracing::error!(code = "events-not-closed", %error, "the event store is not closed"),
            Ok(Err(_)) | Err(_) => {
                tracing::error!(code = "events-not-closed", "the event store was not closed in time");
            }
        }
    }
}
