//! What operators told and the files of the journal lack, or were not read for yet: the log of a session that goes on has it, and it
//! holds.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::{domain::words::plural, messages::journal::KeepOrders};

impl JournalActor {
    /// Adds what a session has of what operators told to what the files have: files that are missing, damaged or not read yet do not
    /// mean that nothing was drained or stopped. It holds from now on, and is written when that is possible.
    pub(super) fn restore_lost(&mut self, own: Standing, ctx: &mut Context<Self>) -> Vec<Output> {
        let (known, mut missed, mut out) = (self.journal.held_hosts(), Vec::new(), Vec::new());
        let mut add = |file: &str, what: String| {
            missed.push(format!("{file} and its copy are missing or damaged: the log of the session knows {what}"));
        };
        let lost = self.undrained.as_ref().map(|undrained| drained_since(&own, &known, undrained));
        if let Some(lost) = lost.filter(|lost| !lost.is_empty()) {
            let told = plural(lost.len(), "host");
            add(eventlog::FILE, format!("{told} that operators drained; when and by whom is lost"));
            let mut notes: BTreeMap<_, _> = self.journal.drain_notes().into_iter().collect();
            notes.extend(own.notes.into_iter().filter(|(host, _)| lost.contains(host)));
            let hosts = known.into_iter().chain(lost).collect();
            out = self.agree(&Agree { nodes: BTreeSet::new(), hosts, notes });
        }
        let stopped = own.orders.into_iter().filter(|(path, _)| !self.orders.orders.contains_key(path));
        let lost: Vec<_> = stopped.filter(|_| self.orders.lost).collect();
        if !lost.is_empty() {
            self.orders.orders.extend(lost.iter().filter_map(|(path, order)| Some((path.clone(), order.clone()?))));
            if !self.is_unread() && self.orders.broken.is_none() {
                add(queue_orders::FILE, format!("{} that operators stopped or drain", plural(lost.len(), "queue")));
                ctx.notify(KeepOrders(lost));
            }
        }
        // What is not read yet may have all of it.
        if !missed.is_empty() && !self.is_unread() {
            self.report(missed, ctx);
        }
        out
    }

    /// What was told elsewhere has happened, like what a node does: it holds here too.
    pub(super) fn agree(&mut self, Agree { nodes, hosts, notes }: &Agree) -> Vec<Output> {
        let (now, mut out) = (self.now(), Vec::new());
        self.journal.meet(hosts, now);
        self.journal.flush(now, &mut out);
        match self.journal.plan_agreement(nodes, hosts, notes, now) {
            Ok(events) => {
                out.extend(events.iter().cloned().map(Output::Event));
                self.journal.carry_out(&events, &mut out);
            }
            Err(why) => {
                tracing::error!(code = "journal-fault", partition = %self.setup.partition, "another server drained other nodes: {why}");
            }
        }
        out
    }

    /// Tells of what the files turned out to lack.
    fn report(&mut self, missed: Vec<String>, ctx: &mut Context<Self>) {
        let Some(dir) = self.setup.dir.clone() else { return };
        let (at, told) = (disk::stamp(), missed.clone());
        let report = spawn_blocking(move || {
            let named = |error| format!("{} cannot be written: {error}", dir.join(files::REPORT).display());
            files::report(&dir, &at, &missed).map_err(named)
        });
        ctx.wait(report.into_actor(self).map(|reported, actor, _| {
            let reported = reported.unwrap_or_else(|error| Err(error.to_string()));
            // Where the report cannot be written this process reports it all the same.
            let _ = actor.written((reported, told));
        }));
    }
}

/// Hosts that a session knows as drained, and its journal does not: unless they were undrained after that, and only the journal heard it.
fn drained_since(own: &Standing, known: &[Arc<str>], undrained: &BTreeMap<Arc<str>, Nanos>) -> BTreeSet<Arc<str>> {
    let since: BTreeMap<_, _> = own.notes.iter().map(|(host, note)| (host, note.since)).collect();
    let is_later = |host: &Arc<str>| undrained.get(host).zip(since.get(host)).is_some_and(|(end, since)| end >= since);
    let known: BTreeSet<_> = known.iter().collect();
    own.hosts.iter().filter(|host| !known.contains(host) && !is_later(host)).cloned().collect()
}

impl Handler<Agree> for JournalActor {
    type Result = ();

    fn handle(&mut self, msg: Agree, ctx: &mut Self::Context) {
        self.agreed = self.is_unread();
        let out = self.agree(&msg);
        self.commit(out, ctx);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::journal::DrainNote;

    #[test]
    fn a_drain_of_which_a_damaged_journal_knows_nothing_holds_unless_it_was_taken_back_later() {
        let note = |since| DrainNote { since: Nanos(since), reason: None, deadline: None };
        let hosts = |hosts: &[&str]| hosts.iter().map(|host| Arc::from(*host)).collect::<Vec<Arc<str>>>();
        let own = Standing {
            hosts: hosts(&["known", "lost", "again", "back", "unsaid"]),
            notes: ["known", "lost", "again", "back"].map(|host| (host.into(), note(5))).into(),
            orders: Vec::new(),
        };
        let undrained = [("again".into(), Nanos(4)), ("back".into(), Nanos(6))].into();
        let lost = drained_since(&own, &hosts(&["known", "more"]), &undrained);
        assert_eq!(lost.into_iter().collect::<Vec<_>>(), hosts(&["again", "lost", "unsaid"]));
    }
}
