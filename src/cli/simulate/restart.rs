//! The process is killed, and the next one goes on: from files, by the codec and the reader of the server. What it finds is held
//! against what was there.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::OpenOptions,
    io::Write as _,
    sync::Arc,
};

use super::{
    case::Kill,
    disk::Disk,
    rules::Fault,
    server::{Mark, RM, Server},
};
use crate::domain::words::plural;
use crate::{
    actors::rm::{
        log::{LogSync, RmLog},
        questions::Questions,
        record::{self, kind},
        replay::{self, Found, Progress, Replayed, State},
        restore,
        streams::Streams,
    },
    config,
    domain::{
        command::{Command, PredicateTerms, Turn},
        turns::Turns,
        types::Nanos,
    },
    messages::{
        budget::Budget,
        receipts::Receipts,
        recorded::Talks,
        rm::{Line, Predicates},
    },
    store::log::{self, mark::Before},
};

impl Server {
    /// See the module. What the shim knows for certain: `lines` that it has, and the last `request` that was acknowledged.
    /// False: the session is lost, and the shim has to be told.
    pub fn kill(&mut self, kill: Kill, lines: u64, request: u64) -> bool {
        let interval = self.log.sync != LogSync::Batch;
        // What was half written may be there, or not; what the kernel dropped is damage.
        let (refused, dropped) = (self.is_disk_refusing() || self.disk.failing, self.disk.dropped);
        let written = self.log.shared.written();
        self.disk = Disk::default();
        // It is half a record that is there already.
        let kill = if refused { Kill { torn: 0, ..kill } } else { kill };
        self.counts.restarts += 1;
        self.now = self.now.plus(Nanos::from_millis(kill.down.clamp(0, 1 << 40)));
        self.drop_journals();
        self.wanted.clear();
        let found = match self.next_process(kill) {
            Ok(found) => found,
            Err(why) => {
                self.wrong(why);
                return false;
            }
        };
        let Found { last: found_last, at, state, snapshot, events, .. } = found;
        if self.cluster.is_none() {
            // Whoever reads a log flushes it.
            self.note_flushed();
        }
        let (synced, before) = (self.log.shared.synced(), self.log.last());
        let last = match &self.cluster {
            // What etcd did not answer to may be there, too.
            Some(_) => found_last.clamp(synced, before),
            None if kill.machine => synced,
            None if refused => found_last.clamp(if interval { written } else { synced }, before),
            None if interval => before,
            None => synced,
        };
        let whole = last == before;
        if whole && found_last == before && events != Some(self.log.events) {
            self.wrong(format!("there were {}, and {events:?} are counted", plural(self.log.events, "event")));
        }
        self.log = RmLog::new(self.logs.clone(), self.home(), RM, self.log.sync, found_last + 1, at);
        self.log.events = events.unwrap_or(0);
        match state {
            State::Session(_) if kill.machine && interval => {
                self.wrong("the machine stopped, and the session goes on as if nothing could be missing".to_owned());
                false
            }
            State::Session(replayed) => {
                if found_last != last {
                    self.wrong(format!("it ends with record {found_last}, and record {last} was on the disk"));
                }
                self.counts.snapshots += u64::from(snapshot.is_some());
                self.compare(&replayed, (last, whole), lines, request);
                self.log.numbers = replayed.numbers.clone();
                self.snapshots = snapshot.into_iter().collect();
                self.go_on(*replayed, last);
                true
            }
            State::Ended(_) if self.stopped => false,
            State::Lost(_) if kill.machine && interval || dropped => false,
            State::Lost(why) => {
                self.wrong(format!("the session is lost: {why}"));
                false
            }
            other => {
                self.wrong(format!("what was found is {}", other.name()));
                false
            }
        }
    }

    /// The process is gone, and the next reads what there is; or another server takes over.
    fn next_process(&mut self, kill: Kill) -> Result<Found, String> {
        let title = self.logs.title(RM);
        if let Some(mut cluster) = self.cluster.take() {
            let found = cluster.take_over(&title, || self.flush());
            self.cluster = Some(cluster);
            return found;
        }
        let dir = self.logs.directory(RM);
        self.damage(kill).map_err(|error| format!("{}: {error}", dir.display()))?;
        let before = if kill.machine { Before::Crashed } else { Before::Killed };
        match replay::read(&self.logs, &dir, before, &Progress::default()) {
            Ok(Some(found)) => Ok(found),
            other => Err(format!("nothing was found: {:?}", other.map(|found| found.is_some()))),
        }
    }

    fn wrong(&mut self, text: String) {
        self.faults.push(Fault { rule: "a restart loses nothing", text });
    }

    /// What a crash leaves of the files.
    fn damage(&self, kill: Kill) -> std::io::Result<()> {
        let dir = self.logs.directory(RM);
        let (flushed, length) = &self.flushed;
        if kill.machine {
            for (_, path) in log::segments(&dir)? {
                // What was begun after the last flush is gone as a whole.
                match path.cmp(flushed) {
                    std::cmp::Ordering::Less => {}
                    std::cmp::Ordering::Equal => OpenOptions::new().write(true).open(&path)?.set_len(*length)?,
                    std::cmp::Ordering::Greater => crate::store::files::remove(&path)?,
                }
            }
        }
        if kill.torn > 0
            && let Some((_, path)) = log::segments(&dir)?.pop()
        {
            let mut frame = Vec::new();
            log::seal(&mut frame, kind::SAID, self.log.last() + 1, self.now, &[7; 100]);
            let torn = (frame.len() * usize::from(kill.torn) / 100).clamp(1, frame.len() - 1);
            OpenOptions::new().append(true).open(&path)?.write_all(&frame[..torn])?;
        }
        // Only where another one, or the whole log, is there still: a snapshot is renamed when it is whole.
        let snapshots = log::snapshots(&dir)?;
        let spare = snapshots.len() > 1 || log::segments(&dir)?.first().is_some_and(|(first, _)| *first == 1);
        if let (Some(part), Some((_, path)), true) = (kill.snapshot, snapshots.last(), spare) {
            let file = OpenOptions::new().write(true).open(path)?;
            let length = file.metadata()?.len();
            file.set_len(length * u64::from(part) / 100)?;
        }
        Ok(())
    }

    /// What was found is what was there after record `last`; `whole`: that was the last one.
    fn compare(&mut self, found: &Replayed, (last, whole): (u64, bool), lines: u64, request: u64) {
        let mut wrong = Vec::new();
        for live in &self.parts {
            let mark = live.marks.iter().rev().find(|mark| mark.index <= last);
            let there = found.partitions.get(&live.instance).map(|(_, replica)| replica);
            match (mark, there) {
                (Some(mark), Some(there)) => {
                    if mark.number != there.number {
                        wrong.push(format!(
                            "{} ends with its record {}, not {}",
                            live.internal, there.number, mark.number
                        ));
                    } else if mark.partition.save() != there.partition.save() {
                        wrong.push(format!("{} is not as it was", live.internal));
                    } else if talks(&mark.talks) != talks(&there.talks) {
                        wrong.push(format!("the conversations of {} do not know what they knew", live.internal));
                    }
                }
                (None, None) => {}
                (mark, _) => wrong.push(format!("{} was there: {}", live.internal, mark.is_some())),
            }
        }
        let told = self.told.iter().rev().find(|(index, _)| *index <= last).map_or(0, |(_, line)| *line);
        if found.buffer.last() != told {
            wrong.push(format!("the last line is {}, and was {told}", found.buffer.last()));
        }
        if lines > found.buffer.last() {
            wrong.push(format!("the shim has line {lines}, and the last is {}", found.buffer.last()));
        }
        if !found.buffer.can_resume(lines) {
            wrong.push(format!("the lines after {lines}, which the shim has not, are gone"));
        }
        let (_, kept) = found.buffer.kept_after(lines);
        let due = told.saturating_sub(lines);
        if kept.len() as u64 != due {
            wrong.push(format!("{} after {lines} told, and {due} were due", plural(kept.len(), "line")));
        }
        let before = |line: &Arc<Line>| self.history.get(usize::try_from(line.seq).unwrap_or(usize::MAX) - 1);
        for line in &kept {
            let was = before(line).map(|was| (format!("{:?}", was.payload), was.partition.clone()));
            if was != Some((format!("{:?}", line.payload), line.partition.clone())) {
                wrong.push(format!("line {} says {:?}, and said {:?}", line.seq, line.payload, before(line)));
                break;
            }
        }
        if found.numbers.taken < request {
            wrong
                .push(format!("request {request} was acknowledged, and those up to {} are there", found.numbers.taken));
        }
        // An answer that waited behind a directory is gone with the process, and its question is put once more.
        if whole && self.parts.iter().all(|live| live.lookup.is_none()) {
            let open: BTreeSet<u64> = self.questions.open().map(|(line, ..)| line).collect();
            let there: BTreeSet<u64> = found.questions.keys().copied().collect();
            if open != there {
                wrong.push(format!("the questions of lines {there:?} are open, and those of {open:?} were"));
            }
        }
        wrong.into_iter().for_each(|text| self.wrong(text));
    }

    /// As `RmActor` goes on with what was found.
    fn go_on(&mut self, found: Replayed, last: u64) {
        let Replayed { registered, manner, buffer, questions, partitions, instances, types, numbers, .. } = found;
        self.budget = Budget::within(self.settings.inward, self.settings.outward, self.settings.bounds);
        self.budget.made(buffer.undelivered(), 0);
        let _ = self.budget.holds(buffer.waits(), 0);
        self.budget.pause(true);
        self.receipts = Receipts::after(numbers.taken, numbers.recorded);
        self.history.truncate(usize::try_from(buffer.last()).unwrap_or(usize::MAX));
        self.told.retain(|(index, _)| *index <= last);
        self.told.push((last, buffer.last()));
        (self.registered, self.types, self.instances) = (registered, types, instances);
        (self.had_stream, self.restored) = (manner.had_stream, true);
        self.asking = record::asks_of(manner.asking).unwrap_or_default();
        (self.manner, self.buffer) = (manner, buffer);
        self.buffer.hold_back();
        (self.streams, self.questions) = (Streams::default(), Questions::default());
        (self.turns, self.terms) = (Turns::default(), PredicateTerms::default());
        self.later.clear();
        self.drop_halves();
        let unasked = restore::unasked(&partitions, &questions);
        self.parts.clear();
        for (instance, (internal, replica)) in partitions {
            self.rules.restarted(&internal, &replica.partition);
            let mark = Mark { index: last, number: replica.number, partition: replica.partition, talks: replica.talks };
            self.relaunch(instance, internal, mark, replica.at);
        }
        self.paused = Some(self.now);
        for at in 0..self.parts.len() {
            self.begin_journal(at, true);
        }
        let confs = config::load(&self.registered.config).map(|config| config.partitions).unwrap_or_default();
        for conf in &confs {
            match self.parts.iter().position(|live| live.partition.name == conf.name) {
                Some(at) if restore::same(conf, &self.parts[at].partition.conf) => {}
                Some(at) => self.commands(at, vec![Command::Configure(conf.clone())], None),
                // The process ended before it had begun.
                None => self.launch(conf.clone()),
            }
        }
        for (internal, questions) in unasked {
            self.unanswered(&internal, questions);
        }
        let (all, asked) = (self.settings.all_container_states, self.asking != Predicates::Off);
        self.command_all(|| Command::ContainerStates(all));
        self.command_all(|| Command::AskPredicates(asked));
        if self.settings.reservations == Some(false) {
            self.command_all(|| Command::Reservations(false));
        }
        self.tell_terms();
        if self.terms.shared {
            // Nobody remembers whose turn it was.
            self.command_all(|| Command::Turn(Turn::Nobodys));
        }
        self.ask_again(questions);
    }
}

/// What conversations know, but for how often something was sent once more: the log tells that beside the records of the partition
/// by which it is marked here.
fn talks(talks: &Talks) -> String {
    let open: BTreeMap<_, _> = talks.unconfirmed.iter().map(|(key, row)| (key, (&row.release, row.since))).collect();
    format!("{:?} {:?} {open:?}", talks.apps, talks.queues)
}
