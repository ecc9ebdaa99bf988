//! Taking the lead of a resource manager, by a compare of its head in etcd.

use std::sync::Arc;

use super::{
    etcd::{Change, Etcd, If, Trouble},
    keys::{Head, Keys, VERSION},
};
use crate::domain::DOMAIN_VERSION;

/// What came of an attempt.
pub enum Taken {
    /// This server leads, with this head, of this revision.
    Leads(Head, i64),
    /// Somebody else was there before.
    Other,
}

/// What taking the lead needs.
#[derive(Clone)]
pub struct Way {
    /// How etcd is reached.
    pub etcd: Arc<Etcd>,
    /// Names of the keys in etcd.
    pub keys: Keys,
    /// This server.
    pub me: String,
}

impl Way {
    /// Takes the lead from whoever wrote this head; `revision` is its own.
    ///
    /// # Errors
    /// etcd does not say.
    pub async fn over(&self, head: &Head, revision: i64) -> Result<Taken, Trouble> {
        let head = Head {
            version: VERSION,
            domain: DOMAIN_VERSION,
            server: self.me.clone(),
            epoch: head.epoch + 1,
            next: None,
            index: head.index - u64::from(head.index > 0 && crate::domain::planted!("take-behind")),
            ..head.clone()
        };
        self.put(head, revision).await
    }

    /// Takes the lead of a resource manager that nobody knows.
    ///
    /// # Errors
    /// etcd does not say.
    pub async fn first(&self, rm: &str) -> Result<Taken, Trouble> {
        let head = Head {
            version: VERSION,
            domain: DOMAIN_VERSION,
            rm: rm.to_owned(),
            server: self.me.clone(),
            epoch: 1,
            first: 1,
            ..Head::default()
        };
        self.put(head, 0).await
    }

    async fn put(&self, head: Head, revision: i64) -> Result<Taken, Trouble> {
        let key = self.keys.head(&Keys::name(&head.rm));
        let put = Change::Put(key.clone(), head.json().into(), 0);
        let mut conditions = vec![If { key: key.clone(), revision }];
        if crate::domain::planted!("take-unguarded") {
            conditions.clear();
        }
        let done = match self.etcd.txn(&conditions, vec![put]).await {
            Ok(done) if done.held => return Ok(Taken::Leads(head, done.revision)),
            Ok(done) => done.found,
            // It may have come through.
            Err(Trouble::Silent(_)) => self.etcd.range(&key, "", 0, 0).await?.keys,
            Err(trouble) => return Err(trouble),
        };
        let found = done.first().and_then(|found| Some((Head::read(&found.value).ok()?, found.mod_revision)));
        Ok(match found {
            Some((found, revision)) if found == head => Taken::Leads(head, revision),
            _ => Taken::Other,
        })
    }
}
