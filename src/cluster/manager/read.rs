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
}

/// Reads it.
pub async fn present(etcd: Arc<Etcd>, keys: Keys) -> Result<Present, Trouble> {
    let (from, to) = keys.servers();
    let servers = etcd.range(&from, &to, 0, 0).await?;
    let revision = servers.revision;
    let all = async |(from, to): (String, String)| Ok::<_, Trouble>(etcd.range(&from, &to, revision, 0).await?.keys);
    let (heads, loads, drains) = (all(keys.heads()).await?, all(keys.loads()).await?, all(keys.drains()).await?);
    Ok(Present { revision, servers: servers.keys, heads, loads, drains })
}

impl Manager {
    /// Who is there and who leads what.
    pub(super) fn take_in(&mut self, present: Present) {
        let Present { revision, servers, heads, loads, drains } = present;
        self.seen = revision;
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
                self.head(name.to_owned(), &found.value, found.mod_revision, revision);
                if let (Some(known), Some(current)) = (self.known.get_mut(name), current) {
                    known.current = current;
                }
            }
        }
        for name in self.known.keys().filter(|name| !names.contains(name)).cloned().collect::<Vec<_>>() {
            self.removed(&name);
        }
    }
}
