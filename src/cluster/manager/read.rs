//! What is in etcd when this server begins to watch it.

use super::{Manager, Role};
use crate::cluster::{
    etcd::{Etcd, KeyValue, Trouble},
    keys::{Key, Keys},
};
use std::sync::Arc;

/// All of it at one revision, but for the logs.
pub struct Present {
    revision: i64,
    servers: Vec<KeyValue>,
    heads: Vec<KeyValue>,
    loads: Vec<KeyValue>,
    drains: Vec<KeyValue>,
    config: Option<KeyValue>,
}

/// Reads it.
pub async fn present(etcd: Arc<Etcd>, keys: Keys) -> Result<Present, Trouble> {
    let (from, to) = keys.servers();
    let servers = etcd.range(&from, &to, 0, 0).await?;
    let revision = servers.revision;
    let all = async |(from, to): (String, String)| Ok::<_, Trouble>(etcd.range(&from, &to, revision, 0).await?.keys);
    let (heads, loads, drains) = (all(keys.heads()).await?, all(keys.loads()).await?, all(keys.drains()).await?);
    let config = etcd.range(&keys.config(), "", revision, 0).await?.keys.pop();
    Ok(Present { revision, servers: servers.keys, heads, loads, drains, config })
}

impl Manager {
    /// etcd knows less than it told before. A member that lags knows less than others; a read knows what all of them do.
    pub(super) async fn is_rewound(&self) -> bool {
        let (from, to) = self.keys.heads();
        let found = self.etcd.range(&from, &to, 0, 0).await;
        found.is_ok_and(|found| found.revision < self.seen || found.keys.iter().any(|head| self.is_older(head)))
    }

    /// It was written before the one that is known: revisions may have caught up since etcd was restored.
    fn is_older(&self, head: &KeyValue) -> bool {
        let Some(Key::Head(name)) = self.keys.read(&head.key) else { return false };
        self.known.get(name).is_some_and(|known| head.mod_revision < known.revision)
    }

    /// etcd was restored to a state of before. What this server knew does not hold.
    fn rewound(&mut self, revision: i64, heads: &[KeyValue]) {
        tracing::error!(
            code = "etcd-restored",
            revision,
            seen = self.seen,
            "etcd was restored to an earlier state: sessions go on from there, and shims that have seen more register again"
        );
        for (name, known) in std::mem::take(&mut self.known) {
            if !heads.iter().any(|head| self.keys.read(&head.key) == Some(Key::Head(&name))) {
                self.say_gone(&known);
            }
            self.gone(&known);
        }
    }

    /// Who is there and who leads what.
    pub(super) fn take_in(&mut self, present: Present) {
        let Present { revision, servers, heads, loads, drains, config } = present;
        if revision < self.seen || heads.iter().any(|head| self.is_older(head)) {
            self.rewound(revision, &heads);
        }
        self.seen = revision;
        self.take_config(
            config.as_ref().map(|found| &found.value),
            config.as_ref().map_or(0, |found| found.mod_revision),
        );
        self.loads.clear();
        self.drains.clear();
        for found in loads.iter().chain(&drains) {
            match self.keys.read(&found.key) {
                Some(Key::Load(id)) => self.load(id, Some(&found.value)),
                Some(Key::Drain(id)) => self.drained(id, Some(&found.value)),
                _ => {}
            }
        }
        let gone = std::mem::take(&mut self.servers);
        for found in servers {
            if let Some(Key::Server(id)) = self.keys.read(&found.key) {
                self.server(id.to_owned(), Some(&found.value));
            }
        }
        for id in gone.into_keys().filter(|id| !self.servers.contains_key(id)).collect::<Vec<_>>() {
            self.server(id, None);
        }
        self.see_own(revision);
        let mut names = Vec::new();
        for found in heads {
            if let Some(Key::Head(name)) = self.keys.read(&found.key) {
                names.push(name.to_owned());
                // What came between is not known: it is followed from here.
                let mut current = None;
                if let Some(known) = self.known.get_mut(name)
                    && matches!(known.role, Role::Follows(_) | Role::Broken(_))
                {
                    current = Some(known.current);
                    self.known.remove(name);
                }
                self.head(name.to_owned(), &found.value, (found.mod_revision, found.create_revision), revision);
                if let (Some(known), Some(current)) = (self.known.get_mut(name), current) {
                    known.current = current;
                }
            }
        }
        let is_gone = |name: &&String| !names.contains(name) && !self.beginning.contains_key(*name);
        for name in self.known.keys().filter(is_gone).cloned().collect::<Vec<_>>() {
            self.removed(&name);
        }
    }
}
