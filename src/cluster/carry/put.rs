//! A log on its way into etcd: nobody sees anything of it until all of it is there.

use std::sync::Arc;

use bytes::Bytes;

use super::{Whole, claim::Claim};
use crate::{
    cluster::{
        etcd::{Change, Done, Etcd, If, Trouble},
        follow::{self, Source},
        group::units,
        keys::{Head, Keys, PART, Snap, VERSION},
    },
    domain::DOMAIN_VERSION,
    store::log::Title,
};

/// How often a change is tried.
const TRIES: usize = 3;

/// Where one log goes, as long as nobody else puts it there and no server leads a resource manager of its id.
pub struct Put {
    etcd: Arc<Etcd>,
    keys: Keys,
    name: String,
    head: String,
    claim: Claim,
}

impl Put {
    /// `me`: who does it, with a data directory of which nobody else makes use.
    ///
    /// # Errors
    /// It is there, or is being put there, or etcd does not say.
    pub async fn begin(etcd: &Arc<Etcd>, keys: &Keys, rm: &str, me: &str) -> Result<Put, String> {
        let name = Keys::name(rm);
        let (head, key) = (keys.head(&name), keys.carry(&name));
        let mut before = 0;
        loop {
            let free = [If { key: head.clone(), revision: 0 }, If { key: key.clone(), revision: before }];
            let claimed = Claim::put(etcd, key.clone(), Bytes::copy_from_slice(me.as_bytes()), &free).await;
            let found = match claimed.map_err(|why| why.to_string())? {
                Ok(claim) => return Ok(Put { etcd: etcd.clone(), keys: keys.clone(), name, head, claim }),
                Err(done) => done.found,
            };
            if found.iter().any(|found| found.key == head.as_bytes()) {
                return Err("it is in etcd already, and is left as it is there".to_owned());
            }
            before = match found.first() {
                // One that was killed.
                Some(mine) if mine.value == me.as_bytes() => mine.mod_revision,
                Some(_) => return Err("another import puts it into etcd".to_owned()),
                None => 0,
            };
        }
    }

    /// Puts all of it, and the head last, once the rest was read again and found the same.
    ///
    /// # Errors
    /// Nothing of it is in etcd that a server would go on from, unless the text says so.
    pub async fn all(self, whole: Whole, title: Title) -> Result<(), String> {
        let done = self.parts_and_head(whole, title).await;
        if done.is_err() {
            // Without a head nobody reads what is left, and it is in nobody's way.
            let mut changes = self.none();
            changes.push(Change::delete(&self.claim.key));
            let _ = self.etcd.txn(&self.holds(), changes).await;
        }
        self.claim.end().await;
        done
    }

    async fn parts_and_head(&self, whole: Whole, title: Title) -> Result<(), String> {
        let Whole { rm, snapshot, frames, from, last, .. } = whole;
        // What is there was left by an import that did not end.
        self.change(self.none()).await?;
        let mut head = Head {
            version: VERSION,
            domain: DOMAIN_VERSION,
            rm,
            epoch: 1,
            index: last,
            first: 1,
            bytes: frames.len() as u64,
            ..Head::default()
        };
        for (unit, _) in units(&frames, from)? {
            for part in unit.chunks(PART) {
                head.last += 1;
                let part = Bytes::copy_from_slice(part);
                self.change(vec![Change::Put(self.keys.log(&self.name, head.last), part, 0)]).await?;
            }
        }
        let snapshot = snapshot.map(|(place, bytes)| (place, Bytes::from(bytes)));
        if let Some((place, bytes)) = &snapshot {
            let mut parts = 0;
            for part in bytes.chunks(PART) {
                let key = self.keys.snap(&self.name, place.index, parts);
                self.change(vec![Change::Put(key, bytes.slice_ref(part), 0)]).await?;
                parts += 1;
            }
            head.snapshots.push(Snap { place: *place, parts, bytes: bytes.len() as u64 });
            head.bytes += bytes.len() as u64;
        }
        let (etcd, keys) = (self.etcd.clone(), self.keys.clone());
        let source = Source { etcd, keys, head: head.clone(), revision: 0, title, listener: None };
        let unread = |why: Trouble| why.to_string();
        let mut same = follow::frames(&source).await.map_err(unread)? == frames;
        if let (Some(snap), Some((_, bytes))) = (head.snapshots.first(), &snapshot) {
            same &= follow::snapshot(&source, snap).await.map_err(unread)? == bytes[..];
        }
        if !same {
            return Err("etcd does not have what was put into it".to_owned());
        }
        self.seen(&head).await
    }

    /// From here on servers go on with it.
    async fn seen(&self, head: &Head) -> Result<(), String> {
        let key = &self.claim.key;
        // Without the claim nothing of this comes through late.
        let changes = vec![Change::Put(self.head.clone(), head.json().into(), 0), Change::delete(key)];
        let unknown =
            |why| format!("{why}; whether it is in etcd is not known: look there before any server goes on with it");
        let found = match self.tried(changes).await.map_err(|why| unknown(why.to_string()))? {
            done if done.held => return Ok(()),
            done => done.found,
        };
        let claimed = found.iter().any(|found| found.key == key.as_bytes());
        match found.iter().find(|found| found.key == self.head.as_bytes()).map(|found| Head::read(&found.value)) {
            // An earlier try came through, and a server may have taken it over since.
            Some(Ok(found)) if !claimed && found.index >= head.index && (found.epoch > 1 || found == *head) => Ok(()),
            Some(_) => Err("it registered at a server of the cluster meanwhile, and is left as it is there".to_owned()),
            None => Err(lost()),
        }
    }

    fn holds(&self) -> [If; 2] {
        [If { key: self.head.clone(), revision: 0 }, If { key: self.claim.key.clone(), revision: self.claim.revision }]
    }

    fn none(&self) -> Vec<Change> {
        let (logs, snaps) = (self.keys.logs(&self.name), self.keys.snaps(&self.name));
        vec![Change::Delete(logs.0, logs.1), Change::Delete(snaps.0, snaps.1)]
    }

    async fn change(&self, changes: Vec<Change>) -> Result<(), String> {
        let done = self.tried(changes).await.map_err(|why| why.to_string())?;
        if done.held { Ok(()) } else { Err(lost()) }
    }

    /// Each of them may come through twice.
    async fn tried(&self, changes: Vec<Change>) -> Result<Done, Trouble> {
        let mut tries = 1;
        loop {
            match self.etcd.txn(&self.holds(), changes.clone()).await {
                Err(Trouble::Silent(_)) if tries < TRIES => tries += 1,
                done => return done,
            }
        }
    }
}

fn lost() -> String {
    "etcd was not heard of for too long, or it registered at a server of the cluster meanwhile".to_owned()
}
