//! A server that joins, or comes back, gets its share of what the others lead: one resource manager after the other is handed over
//! to it, as a drain would.

use std::{cmp::Reverse, collections::BTreeMap, time::Duration};

use tokio::{sync::oneshot, time::Instant};

use super::{Manager, Role};

/// How long the same servers must have been there, and the time between two hand-overs.
pub(super) const SETTLED: Duration = Duration::from_secs(30);

impl Manager {
    /// Hands one over where another server leads two less than this one, which leads most. Servers of another release get none: those
    /// that are not upgraded yet may not follow what is led by one that is. Once they lead alike, it is left to operators until a server
    /// or a resource manager comes or goes.
    pub(super) fn spread(&mut self) {
        if !self.uneven || self.settled.elapsed() < SETTLED || self.is_drained() {
            return;
        }
        let mut led: BTreeMap<&String, usize> = self.servers.keys().map(|id| (id, 0)).collect();
        for known in self.known.values() {
            // One that is changing hands may go to whichever server has less.
            if matches!(known.role, Role::Changes) || known.heir.is_some() {
                return;
            }
            if let Some(led) = led.get_mut(&known.head.server) {
                *led += 1;
            }
        }
        let me = &self.options.me;
        let (mine, most) = (led.get(&me.id).copied(), led.iter().map(|(id, led)| (*led, Reverse(*id))).max());
        let (Some(mine), Some((most, Reverse(first)))) = (mine, most) else { return };
        if led.iter().all(|(id, led)| led + 2 > most || self.drains.contains_key(*id)) {
            self.uneven = false;
            return;
        }
        let alike = |id: &String| self.servers.get(id).is_some_and(|server| server.version == me.version);
        let less = |id: &String| alike(id) && led.get(id).is_some_and(|led| led + 2 <= mine);
        if *first != me.id || !led.keys().any(|id| less(id)) {
            return;
        }
        let groups = self.known.values().filter(|known| matches!(known.role, Role::Leads(_)));
        let fit = |rm: &str| {
            let next = self.somebody_else(rm).map(|(id, _)| id).filter(less)?;
            Some((rm.to_owned(), next))
        };
        let next = groups.map(|known| &*known.head.rm).find_map(fit);
        // Where nobody follows yet, as well.
        self.settled = Instant::now();
        if let Some((rm, next)) = next {
            tracing::info!(rm, server = next, "it is handed over to a server that leads less");
            // It says itself what went wrong.
            self.hand(&rm, &next, oneshot::channel().0);
        }
    }
}
