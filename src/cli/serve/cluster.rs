//! Several servers: options, and the start of what keeps them together.

use std::{
    net::{IpAddr, SocketAddr},
    path::Path,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use rustls::RootCertStore;

use crate::{
    actors::{
        rm::log::{LogSync, Logs},
        topology::Topology,
    },
    cli::{
        client::trust::{self, Trust},
        url,
    },
    cluster::{Cluster, Options, Server, check_prefix, etcd, title_server},
    config::table::bytes_from,
    domain::{DOMAIN_VERSION, duration},
    http::forward::Forward,
    metrics::Metrics,
    store::log::{
        self,
        mark::{Before, Mark},
    },
};

/// Bytes of log after which a snapshot is taken: what is in etcd is in its memory, too.
const SNAPSHOT: u64 = 32 << 20;
/// etcd grants no lease that is shorter.
const SHORTEST: Duration = Duration::from_secs(2);

/// How etcd is reached.
#[derive(Args, Clone, Debug, Default)]
pub struct EtcdArgs {
    /// Share the logs of resource managers with other servers: URLs of the members of an etcd, separated by commas. One server
    /// leads a resource manager, another goes on with it
    #[arg(long, value_name = "URL", value_parser = url::option, env = "CALLBOARD_CLUSTER", value_delimiter = ',')]
    pub cluster: Vec<String>,
    /// What all keys in etcd begin with: servers with the same prefix are one cluster
    #[arg(
        long,
        value_name = "PREFIX",
        env = "CALLBOARD_CLUSTER_PREFIX",
        default_value = "/callboard",
        value_parser = prefix,
        requires = "cluster"
    )]
    pub cluster_prefix: String,
    /// Certificates to believe of etcd instead of those of the system (PEM)
    #[arg(long, value_name = "FILE", env = "CALLBOARD_CLUSTER_CA", requires = "cluster")]
    pub cluster_ca: Option<PathBuf>,
    /// Certificate to show to etcd (PEM)
    #[arg(long, value_name = "FILE", env = "CALLBOARD_CLUSTER_CERT", requires = "cluster_key")]
    pub cluster_cert: Option<PathBuf>,
    /// Private key of that certificate (PEM)
    #[arg(long, value_name = "FILE", env = "CALLBOARD_CLUSTER_KEY", requires = "cluster_cert")]
    pub cluster_key: Option<PathBuf>,
    /// User of etcd
    #[arg(long, value_name = "NAME", env = "CALLBOARD_CLUSTER_USER", requires = "cluster_password_file")]
    pub cluster_user: Option<String>,
    /// File with the password of that user
    #[arg(long, value_name = "FILE", env = "CALLBOARD_CLUSTER_PASSWORD_FILE", requires = "cluster_user")]
    pub cluster_password_file: Option<PathBuf>,
}

/// How the server takes part in a cluster.
#[derive(Args, Clone, Debug, Default)]
pub struct ClusterArgs {
    #[command(flatten)]
    pub etcd: EtcdArgs,
    /// URL at which clients and other servers reach the HTTP door [default: where it listens]
    #[arg(long, value_name = "URL", value_parser = url::option, env = "CALLBOARD_ADVERTISE", requires = "cluster")]
    pub advertise: Option<String>,
    /// Host and port at which clients reach the gRPC door [default: where it listens]
    #[arg(long, value_name = "HOST:PORT", value_parser = url::option, env = "CALLBOARD_ADVERTISE_GRPC", requires = "cluster")]
    pub advertise_grpc: Option<String>,
    /// A server of which nothing is heard for so long may be replaced; whole seconds, 2 at least
    #[arg(long, value_name = "TIME", env = "CALLBOARD_CLUSTER_LEASE", default_value = "2s", value_parser = lease, requires = "cluster")]
    pub cluster_lease: Option<Duration>,
    /// The etcd is this cluster's own: have it compacted, so that what was removed takes no space in it
    #[arg(long, env = "CALLBOARD_CLUSTER_COMPACT", requires = "cluster")]
    pub cluster_compact: bool,
    /// Bytes of log and snapshots of a resource manager in etcd at which nothing new is placed; confirmations go on
    #[arg(long, value_name = "BYTES", env = "CALLBOARD_CLUSTER_MAX_BYTES", default_value = "256Mi", value_parser = |text: &str| bytes_from(1 << 20, text), requires = "cluster")]
    pub cluster_max_bytes: Option<u64>,
    /// Send requests of shims on to the leader instead of sending shims there
    #[arg(long, env = "CALLBOARD_FORWARD", requires = "cluster")]
    pub forward: bool,
    /// Certificates to believe of other servers, to which requests are sent on, instead of those of the system (PEM)
    #[arg(long, value_name = "FILE", env = "CALLBOARD_FORWARD_CA", requires = "cluster")]
    pub forward_ca: Option<PathBuf>,
}

fn prefix(text: &str) -> Result<String, String> {
    check_prefix(text)?;
    Ok(text.to_owned())
}

fn lease(text: &str) -> Result<Duration, String> {
    let nanos = duration::parse(text).map_or(0, |time| u64::try_from(time.0).unwrap_or(0));
    let time = Duration::from_nanos(nanos);
    if time < SHORTEST || time.subsec_nanos() != 0 {
        return Err("expected whole seconds, 2s at least".to_owned());
    }
    Ok(time)
}

impl EtcdArgs {
    /// The same for the cluster.
    pub fn access(&self) -> etcd::Access {
        etcd::Access {
            members: self.cluster.clone(),
            ca: self.cluster_ca.clone(),
            identity: self.cluster_cert.clone().zip(self.cluster_key.clone()),
            user: self.cluster_user.clone().zip(self.cluster_password_file.clone()),
        }
    }
}

impl ClusterArgs {
    /// There are other servers.
    pub fn is_on(&self) -> bool {
        !self.etcd.cluster.is_empty()
    }

    /// Takes part, where there is a cluster: returns when it is known who leads what. `id`: that of this server, where it has
    /// a data directory; `doors`: where HTTP and gRPC listen, encrypted or not.
    pub async fn start(
        &self,
        id: Option<String>,
        doors: (Option<SocketAddr>, Option<SocketAddr>),
        encrypted: bool,
        topology: &Arc<Topology>,
    ) -> anyhow::Result<Option<Arc<Cluster>>> {
        if !self.is_on() {
            return Ok(None);
        }
        let options = Options {
            access: self.etcd.access(),
            prefix: self.etcd.cluster_prefix.clone(),
            me: Server {
                id: id.unwrap_or_else(|| uuid::Uuid::new_v4().to_string()),
                http: self.http(doors.0, encrypted)?,
                grpc: self.grpc(doors.1)?,
                version: env!("CARGO_PKG_VERSION").to_owned(),
                domain: DOMAIN_VERSION,
                process: uuid::Uuid::new_v4().to_string(),
            },
            lease: self.cluster_lease.unwrap_or(SHORTEST),
            compact: self.cluster_compact,
            max_bytes: self.max_bytes(),
        };
        let (cluster, opened) =
            Cluster::start(options, topology.clone()).map_err(|error| anyhow!("--cluster: {error}"))?;
        topology.share_logs(cluster.clone());
        let waiting = topology.clone();
        let telling = actix::spawn(async move {
            while let Some(why) = waiting.opening() {
                waiting.ready.waits("log", why);
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        });
        opened.await.map_err(|_| anyhow!("--cluster: its thread ended"))?;
        telling.abort();
        topology.opened();
        Ok(Some(cluster))
    }

    fn max_bytes(&self) -> u64 {
        self.cluster_max_bytes.unwrap_or(256 << 20)
    }

    /// How requests are sent on to other servers.
    pub fn forward(&self) -> anyhow::Result<Option<Arc<Forward>>> {
        if !self.is_on() {
            return Ok(None);
        }
        let trust = Trust { token_file: None, ca: self.forward_ca.clone() };
        // Without any certificates to believe, those that are encrypted cannot be reached, which each request says.
        let tls = match (&self.forward_ca, trust.tls()) {
            (_, Ok(tls)) => tls,
            (None, Err(_)) => trust::client(RootCertStore::empty()).map_err(anyhow::Error::msg)?,
            (Some(_), Err(why)) => bail!("--forward-ca: {why}"),
        };
        Ok(Some(Arc::new(Forward::new(tls, self.forward))))
    }

    fn http(&self, door: Option<SocketAddr>, encrypted: bool) -> anyhow::Result<String> {
        if let Some(given) = &self.advertise {
            let sound = given.starts_with("http://") || given.starts_with("https://");
            let uri = given.parse::<hyper::Uri>().unwrap_or_default();
            if !sound || !uri.authority().is_some_and(|authority| leads_somewhere(authority.as_str())) {
                bail!("--advertise {given} is no URL such as http://host:9080");
            }
            return Ok(given.trim_end_matches('/').to_owned());
        }
        let Some(addr) = door else { return Ok(String::new()) };
        if addr.ip().is_unspecified() {
            bail!("--cluster: other machines do not find this one at {addr}: name its address with --advertise URL");
        }
        Ok(format!("{}://{addr}", if encrypted { "https" } else { "http" }))
    }

    fn grpc(&self, door: Option<SocketAddr>) -> anyhow::Result<String> {
        if let Some(given) = &self.advertise_grpc {
            let has_port = given.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
            if !has_port || given.contains('/') || !leads_somewhere(given) {
                bail!("--advertise-grpc {given} is no host and port such as host:9090");
            }
            return Ok(given.clone());
        }
        let Some(addr) = door else { return Ok(String::new()) };
        if addr.ip().is_unspecified() {
            bail!(
                "--cluster: other machines do not find this one at {addr}: name its address with --advertise-grpc HOST:PORT"
            );
        }
        Ok(addr.to_string())
    }
}

fn logs(base: PathBuf, metrics: &Metrics, args: &ClusterArgs) -> Logs {
    Logs {
        base,
        server: title_server(&args.etcd.cluster_prefix),
        sync: LogSync::Batch,
        // Two of them are kept, and the log behind the older one.
        snapshot: super::snapshot_after(SNAPSHOT.min(args.max_bytes() / 8)),
        metrics: Some(metrics.log()),
        unread: Default::default(),
        gone: Default::default(),
        shared: true,
    }
}

/// Has logs kept in etcd by a server with a data directory, which names it.
pub fn keep_logs(
    topology: &Topology,
    metrics: &Metrics,
    data: &Path,
    args: &ClusterArgs,
) -> anyhow::Result<(Mark, PathBuf, Before)> {
    let base = data.join("log");
    let (mark, before) =
        Mark::open(&base).with_context(|| format!("--data {}: the log cannot be opened", data.display()))?;
    let own = log::directories(&base).unwrap_or_default();
    if !own.is_empty() {
        tracing::warn!(
            code = "cluster-own-logs", base = %base.display(), resource_managers = own.len(),
            "logs of resource managers in the data directory are not read with --cluster: these register again"
        );
    }
    topology.keep_logs(logs(base.clone(), metrics, args));
    Ok((mark, base, before))
}

/// Has logs kept in etcd by a server without a data directory, where there is a cluster.
pub fn keep_elsewhere(topology: &Topology, metrics: &Metrics, args: &ClusterArgs) {
    if args.is_on() {
        topology.keep_logs(logs(PathBuf::new(), metrics, args));
    }
}

/// Others may reach a host and a port like these: no `0.0.0.0`, which is each one's own, no port 0 or beyond 65535, no IPv6 address
/// without brackets, and nobody's password, which all clients would be told.
fn leads_somewhere(authority: &str) -> bool {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse::<u16>().unwrap_or(0)),
        // That of the scheme.
        _ => (authority, 1),
    };
    let is_bare = host.starts_with('[') || !host.contains(':');
    let ip = host.trim_matches(['[', ']']).parse::<IpAddr>();
    port > 0 && is_bare && !host.is_empty() && !host.contains('@') && !ip.is_ok_and(|ip| ip.is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_others_may_reach() {
        for good in ["host", "host:9080", "10.0.0.1:1", "host:65535", "[::1]", "[::1]:9080"] {
            assert!(leads_somewhere(good), "{good}");
        }
        for bad in [
            "",
            ":9080",
            "0.0.0.0",
            "0.0.0.0:9080",
            "[::]",
            "[::]:9080",
            "::1",
            "::1:9080",
            "host:0",
            "host:99999",
            "host:",
            "host:port",
            "host:1:2",
            "user@host",
            "user:secret@host:9080",
        ] {
            assert!(!leads_somewhere(bad), "{bad}");
        }
    }

    #[test]
    fn what_is_advertised_is_looked_at() {
        let http =
            |given: &str| ClusterArgs { advertise: Some(given.to_owned()), ..Default::default() }.http(None, false);
        let grpc =
            |given: &str| ClusterArgs { advertise_grpc: Some(given.to_owned()), ..Default::default() }.grpc(None);
        assert_eq!(http("https://board/").unwrap(), "https://board");
        assert_eq!(http("http://[::1]:9080").unwrap(), "http://[::1]:9080");
        for bad in ["board:9080", "ftp://board", "http://", "http:///path", "http://0.0.0.0:9080", "http://board:99999"]
        {
            assert!(http(bad).is_err(), "{bad}");
        }
        assert_eq!(grpc("board:9090").unwrap(), "board:9090");
        assert_eq!(grpc("[::1]:9090").unwrap(), "[::1]:9090");
        for bad in ["board", "[::1]", "http://board:9090", "0.0.0.0:9090", "board:0"] {
            assert!(grpc(bad).is_err(), "{bad}");
        }
    }
}
