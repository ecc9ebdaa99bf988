//! `callboard cluster import` and `export`: from one server to several and back, without a shim registering again.

use std::{fs, path::PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;

use crate::{
    cli::{
        Misused,
        serve::{cluster::EtcdArgs, data},
    },
    cluster::carry::{Carried, Carrier},
    store::{
        files,
        log::{self, mark::Mark},
    },
};

#[derive(Args, Clone, Debug)]
pub(super) struct CarryArgs {
    /// The data directory of the server, which is stopped
    #[arg(long, value_name = "DIR", env = "CALLBOARD_DATA", default_value = "./callboard-data")]
    data: PathBuf,
    /// Only this resource manager; may be repeated
    #[arg(long, value_name = "ID")]
    rm: Vec<String>,
    #[command(flatten)]
    etcd: EtcdArgs,
}

impl CarryArgs {
    fn carrier(&self, mark: &Mark) -> anyhow::Result<Carrier> {
        if self.etcd.cluster.is_empty() {
            bail!(Misused("--cluster says where etcd is".into()));
        }
        let carrier = Carrier::new(self.etcd.access(), &self.etcd.cluster_prefix, &mark.server);
        carrier.map_err(anyhow::Error::msg)
    }

    fn wants(&self, rm: &str) -> bool {
        self.rm.is_empty() || self.rm.iter().any(|wanted| wanted == rm)
    }

    fn all_found(&self, done: &[Carried]) -> anyhow::Result<()> {
        match self.rm.iter().find(|rm| done.iter().all(|carried| carried.rm != **rm)) {
            Some(rm) => bail!("resource manager \"{rm}\" is not there"),
            None => Ok(()),
        }
    }
}

fn told(done: &[Carried], what: &str) -> String {
    if done.is_empty() {
        return format!("nothing {what}: there is no log\n");
    }
    done.iter().map(|one| format!("{} {what}: {}, up to record {}\n", one.rm, one.state, one.last)).collect()
}

/// Logs of a data directory into etcd.
pub(super) async fn import(args: &CarryArgs) -> anyhow::Result<String> {
    let base = args.data.join("log");
    if !base.is_dir() {
        bail!(
            "--data {}: there are no logs of a server in it: name the directory that it was started with",
            args.data.display()
        );
    }
    let _lock = data::lock(&args.data)?;
    let (mark, before) = Mark::open(&base).with_context(|| format!("--data {}", args.data.display()))?;
    if !before.is_whole() && !log::directories(&base)?.is_empty() {
        bail!(
            "the machine stopped while the server ran: its logs may lack their end. Start it once without --cluster, and end it, so \
             that it says which sessions can go on"
        );
    }
    let carrier = args.carrier(&mark)?;
    let mut done = Vec::new();
    for dir in log::directories(&base)? {
        let rm = log::title_of(&dir).map(|title| title.rm).or_else(|| log::rm_of(&dir)).unwrap_or_default();
        if !args.wants(&rm) {
            continue;
        }
        done.push(carrier.import(dir.clone()).await.map_err(anyhow::Error::msg)?);
        // A start without --cluster does not go on with what others go on with.
        let aside = base.with_extension("imported");
        fs::create_dir_all(&aside)
            .and_then(|()| files::move_dir(&dir, &aside.join(dir.file_name().unwrap_or_default())))
            .with_context(|| format!("{} is in etcd now, and cannot be put aside", dir.display()))?;
    }
    mark.close(&base)?;
    args.all_found(&done)?;
    Ok(told(&done, "imported"))
}

/// Logs out of etcd into a data directory.
pub(super) async fn export(args: &CarryArgs) -> anyhow::Result<String> {
    let _lock = data::lock(&args.data)?;
    let base = args.data.join("log");
    let (mark, _) = Mark::open(&base).with_context(|| format!("--data {}", args.data.display()))?;
    let carrier = args.carrier(&mark)?;
    let there = carrier.all().await.map_err(anyhow::Error::msg)?;
    for dir in log::left_by_exports(&base) {
        let rm = log::title_of(&dir).map(|title| title.rm).or_else(|| log::rm_of(&dir)).unwrap_or_default();
        if args.wants(&rm) && !there.contains(&rm) {
            mark.close(&base)?;
            bail!(
                "{} is not in etcd any more: an export that did not come to its end left it there, where no start reads it: move it \
                 into {}, and run this again for others",
                dir.display(),
                base.display()
            );
        }
    }
    let mut done = Vec::new();
    for rm in there {
        if args.wants(&rm) {
            done.push(carrier.export(&rm, &base, &args.data.join("journal"), &mark).await.map_err(anyhow::Error::msg)?);
        }
    }
    mark.close(&base)?;
    args.all_found(&done)?;
    Ok(told(&done, "exported"))
}
