//! What the manager looks for again and again: who is gone, and what may be taken over.

use std::time::Duration;

use tokio::time::Instant;

use super::{COMPACT, DATABASE, DRAINED, EACH, Known, LOOK, Manager, REFUSES, Role, STILL, ToManager};
use crate::cluster::{etcd::PATIENCE, follow::Fault, probe};

/// Resource managers that a server takes over in one look at most, where other servers may take them too.
const AT_ONCE: usize = 10;

/// Leaves resource managers to other servers for a while: the one that leads least is the quickest.
#[derive(Clone, Copy)]
struct Modest {
    led: usize,
    /// In this look.
    taken: usize,
    /// There is nobody to leave anything to.
    alone: bool,
    /// Beyond that.
    more: Duration,
}

impl Modest {
    /// Whether one that has been vacant for so long, and may be taken after this time, is taken now. Only a few are in one look: the
    /// next look sees what other servers have taken meanwhile.
    fn takes(&mut self, vacant: Duration, wait: Duration) -> bool {
        let modest = EACH * u32::try_from((self.led + self.taken).min(8)).unwrap_or(8);
        let takes = self.taken < AT_ONCE && vacant >= wait + modest + self.more;
        self.taken += usize::from(takes && !self.alone);
        takes
    }
}

impl Manager {
    /// Looks for what is to be done.
    pub(super) fn look(&mut self) {
        self.see_unread();
        self.probe();
        self.compact();
        self.ask_etcd();
        if self.connected.is_some() {
            self.known.values_mut().for_each(Known::look);
        }
        // After that it makes no difference.
        self.absent.retain(|_, since| since.elapsed() < LOOK);
        let is_there = self.held.lease() != 0;
        let Some(connected) = self.connected.filter(|_| self.leaving.is_none() && is_there) else { return };
        self.say_load();
        self.evacuate();
        self.spread();
        let led = self.known.values().filter(|known| matches!(known.role, Role::Leads(_) | Role::Changes)).count();
        // Others go first, where there are any who can.
        let may_take =
            |id: &String| *id != self.options.me.id && !self.refusing.contains_key(id) && !self.drains.contains_key(id);
        let alone = !self.servers.keys().any(may_take);
        let more = if self.is_drained() { DRAINED } else { Duration::ZERO };
        let mut modest = Modest { led, taken: 0, alone, more };
        let mut take = Vec::new();
        let mut again = Vec::new();
        let mut names: Vec<_> = self.known.keys().cloned().collect();
        if !names.is_empty() {
            // So that servers which look at the same time begin with different ones.
            let place = self.options.me.id.bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31) + usize::from(byte));
            let at = place % names.len();
            names.rotate_left(at);
        }
        for name in names {
            self.announce(&name);
            let Some(known) = self.known.get(&name) else { continue };
            let Role::Follows(following) = &known.role else { continue };
            match following.seen.fault() {
                Some(Fault::Again) => again.push(name.clone()),
                Some(Fault::Broken(why)) => {
                    tracing::error!(
                        code = "cluster-cannot-follow",
                        rm = known.head.rm,
                        "the log of resource manager \"{}\" cannot be followed, and this server does not take it over: {why}",
                        known.head.rm
                    );
                    if let Some(known) = self.known.get_mut(&name) {
                        known.role = Role::Broken(why);
                    }
                    continue;
                }
                None => {}
            }
            let vacant = self.is_vacant(known, connected);
            let ready = following.seen.is_loaded();
            // Who has all of it goes before who has to catch up.
            let late = if following.seen.last() < known.head.index { STILL } else { Duration::ZERO };
            let Some(known) = self.known.get_mut(&name) else { continue };
            if !vacant {
                known.vacant = None;
                continue;
            }
            let since = *known.vacant.get_or_insert_with(Instant::now);
            // Who was named goes first, and who has less to do.
            let own = known.head.server == self.options.me.id;
            let wait = match &known.head.next {
                _ if own => None,
                Some(next) if *next == self.options.me.id => None,
                Some(_) => Some(STILL + late),
                None => Some(late),
            };
            if ready && wait.is_none_or(|wait| modest.takes(since.elapsed(), wait)) {
                take.push(name);
            }
        }
        for name in again {
            let Some(known) = self.known.get(&name) else { continue };
            let role = self.role_of(&known.head, self.seen);
            if let Some(known) = self.known.get_mut(&name) {
                known.role = role;
                known.pending.clear();
            }
        }
        for name in take {
            self.take(name);
        }
    }

    /// What is shown of it went with its lead: it is not known here again before its log is read.
    pub(super) fn reads_anew(&mut self, name: &str) {
        let (names, all) = &mut self.unread;
        if names.is_empty() {
            *all = 0;
        }
        if !names.iter().any(|other| other == name) {
            names.push(name.to_owned());
            *all += 1;
        }
        self.see_unread();
    }

    /// Shows how many of the logs that have to be read are. One that cannot be read is not waited for.
    pub(super) fn see_unread(&mut self) {
        let (names, all) = &mut self.unread;
        if names.is_empty() {
            return;
        }
        names.retain(|name| match self.known.get(name).map(|known| &known.role) {
            Some(Role::Follows(following)) => {
                !following.seen.is_loaded() && !matches!(following.seen.fault(), Some(Fault::Broken(_)))
            }
            _ => false,
        });
        self.shown.reads.set((!names.is_empty()).then(|| (*all - names.len(), *all)));
    }

    /// Nobody leads it any more.
    pub(super) fn is_vacant(&self, known: &Known, connected: Instant) -> bool {
        let id = &known.head.server;
        if id.is_empty() || *id == self.options.me.id {
            return true;
        }
        let still = |since: &Instant| since.elapsed() >= STILL && known.changed.elapsed() >= STILL;
        // One whose address never took a connection may live all the same.
        if self.reached.get(id) == Some(&true) && self.refusing.get(id).is_some_and(still) {
            return true;
        }
        // A server that was there while etcd was gone gets time to say so.
        !self.servers.contains_key(id)
            && connected.elapsed() >= self.options.lease
            && self.absent.get(id).is_none_or(|since| since.elapsed() >= LOOK)
    }

    /// Asks those who lead something whether they are there.
    fn probe(&mut self) {
        let now = Instant::now();
        let leaders = self.known.values().map(|known| &known.head.server);
        let leaders: Vec<String> = leaders.filter(|id| **id != self.options.me.id).cloned().collect();
        for id in leaders {
            let Some(server) = self.servers.get(&id) else { continue };
            if self.probing.get(&id).is_some_and(|since| now.duration_since(*since) < 2 * LOOK) {
                continue;
            }
            self.probing.insert(id.clone(), now + PATIENCE);
            let (server, tell) = (server.clone(), self.tell.clone());
            tokio::spawn(async move {
                let takes = probe::takes(&server).await;
                let _ = tell.send(ToManager::Probed(id, takes));
            });
        }
    }

    pub(super) fn probed(&mut self, id: String, takes: Option<bool>) {
        // It may be gone by now.
        let Some(server) = self.servers.get(&id) else { return };
        self.probing.insert(id.clone(), Instant::now());
        if takes == Some(false) {
            let since = *self.refusing.entry(id.clone()).or_insert_with(Instant::now);
            // The lease of a process that is gone has ended by now: it lives, and its address is what is wrong. Two servers that cannot
            // reach each other would else take over from each other for ever.
            if since.elapsed() > 2 * self.options.lease && self.reached.insert(id.clone(), false) != Some(false) {
                tracing::error!(
                    code = "cluster-unreached",
                    server = id,
                    "a server is there, and its address {} refuses connections of this one: look at its --advertise, and at what is between them",
                    if server.http.is_empty() { &server.grpc } else { &server.http }
                );
            }
            return;
        }
        if takes == Some(true) {
            self.reached.insert(id.clone(), true);
        }
        if self.refusing.remove(&id).is_some() {
            for name in self.known.keys().cloned().collect::<Vec<_>>() {
                self.announce(&name);
            }
        }
    }

    /// Asks how etcd is.
    fn ask_etcd(&mut self) {
        let between = if self.refuses().is_some() { REFUSES } else { DATABASE };
        if self.connected.is_none() || self.asked.is_some_and(|at| at.elapsed() < between) {
            return;
        }
        self.asked = Some(Instant::now());
        let (etcd, tell) = (self.etcd.clone(), self.tell.clone());
        tokio::spawn(async move {
            if let Ok(state) = etcd.status().await {
                let _ = tell.send(ToManager::Etcd(state));
            }
        });
    }

    /// Compacts an etcd that only this cluster uses.
    fn compact(&mut self) {
        let (revision, at) = self.past;
        if !self.options.compact || at.elapsed() < COMPACT || self.connected.is_none() {
            return;
        }
        self.past = (self.seen, Instant::now());
        if revision > 0 {
            let etcd = self.etcd.clone();
            tokio::spawn(async move {
                if let Err(trouble) = etcd.compact(revision).await {
                    tracing::warn!(code = "etcd-not-compacted", "{trouble}");
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_that_nobody_leads_each_server_takes_some() {
        let mut left = 100;
        let mut led = [0, 0];
        // Two servers that lead nothing look in turns, each a tenth of a second after the last time.
        let mut looks = 0_u32;
        while left > 0 {
            for led in &mut led {
                let mut modest = Modest { led: *led, taken: 0, alone: false, more: Duration::ZERO };
                let took = (0..left).filter(|_| modest.takes(LOOK * looks, Duration::ZERO)).count();
                assert!(took <= AT_ONCE);
                (*led, left) = (*led + took, left - took);
            }
            looks += 1;
        }
        assert!(led.iter().all(|led| *led >= 40), "{led:?}");
        // One that leads nothing goes first.
        let mut first = Modest { led: 0, taken: 0, alone: false, more: Duration::ZERO };
        let mut second = Modest { led: 3, ..first };
        assert!(!second.takes(2 * EACH, Duration::ZERO) && first.takes(2 * EACH, Duration::ZERO));
        let mut alone = Modest { alone: true, ..second };
        assert!((0..100).all(|_| alone.takes(3 * EACH, Duration::ZERO)), "who is alone takes all of it at once");
        let mut drained = Modest { more: DRAINED, ..first };
        assert!(!drained.takes(STILL, Duration::ZERO) && drained.takes(DRAINED + STILL, Duration::ZERO));
    }
}
