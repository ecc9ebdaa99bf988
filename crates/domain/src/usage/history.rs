//! Usage times time, exactly: amounts are whole, times are nanoseconds, and so is their product.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use super::{Charge, PointReason, UsagePiece, UsagePoint, prefix_of};
use crate::{
    event_block::{EventPiece, EventSlice, GapReason},
    resources::Resource,
    types::Nanos,
    ugm::Who,
};

/// Events of different partitions may come out of the order of time by less than this.
const ORDERED: Nanos = Nanos::from_secs(10);
/// Another server led, and this one has not heard what happened then.
const LED_ELSEWHERE: &str = "led-elsewhere";

/// What shares are told for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// For users.
    User,
    /// For groups.
    Group,
    /// For queues, each with those below it.
    Queue,
}

impl By {
    /// All of them.
    pub const ALL: [By; 3] = [By::User, By::Group, By::Queue];

    /// The name in requests and answers.
    pub fn name(self) -> &'static str {
        match self {
            By::User => "user",
            By::Group => "group",
            By::Queue => "queue",
        }
    }
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// Internal name of the partition.
    pub partition: Arc<str>,
    /// For whom.
    pub by: By,
    /// In this queue and those below it only.
    pub queue: Option<Arc<str>>,
    /// From when on; `None`: from the beginning of what is known.
    pub since: Option<Nanos>,
    /// Until when.
    pub until: Nanos,
    /// In steps of this length, the last one may be shorter; `None`: all in one.
    pub step: Option<Nanos>,
    /// The events are those of logs that several servers have, not what happened at one server: that one ends does not mean
    /// that its partitions do, and what it read of a log late, or twice, it has late, or twice.
    pub of_logs: bool,
}

/// A part of the answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// Somebody used something.
    Share(Share),
    /// What was used then is not known for certain.
    Gap(Gap),
}

/// What one user, group or queue used in one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    /// Beginning of the step.
    pub from: Nanos,
    /// Its end.
    pub to: Nanos,
    /// User, group or queue.
    pub name: Arc<str>,
    /// Amounts times nanoseconds.
    pub used: Resource,
}

/// A time for which events are missing.
#[derive(Clone, Debug, PartialEq)]
pub struct Gap {
    /// From when on.
    pub from: Nanos,
    /// Until when.
    pub to: Nanos,
    /// Why: a name of [`PointReason`] or [`GapReason`].
    pub reason: &'static str,
    /// More about it, empty for nothing.
    pub detail: Arc<str>,
}

/// The answer under way: pieces of the log in their order make lines, which are made as they are asked for. Memory is that of
/// the users, groups or queues with usage.
///
/// Where events are missing, what was used before is taken to be used until it is known again, or not at all where the
/// server was not running; a [`Gap`] says so.
pub struct History {
    question: Question,
    /// Beginning of the present step; `None` before anything is known.
    begin: Option<Nanos>,
    /// Everything before is accounted for.
    at: Nanos,
    /// Time of the latest event, of any partition.
    seen: Nanos,
    rows: BTreeMap<Arc<str>, Row>,
    /// Since when, and why, usage is uncertain.
    lost: Option<(Nanos, &'static str, Arc<str>)>,
    lines: Vec<Line>,
    /// What was taken and is not in the lines, in its order.
    left: VecDeque<Left>,
    /// The last point, and others of its id.
    passed: Vec<(u64, PointReason, Nanos, Nanos, Option<bool>)>,
    /// Another server leads since then, or has done so before this one first did; nothing of it is told here.
    away: Nanos,
    /// No event is missing within the time that was asked for.
    complete: bool,
    /// Events that were looked at.
    events: u64,
    /// Something in the log is of the partition.
    known: bool,
    /// See [`Question::of_logs`].
    log: Option<OfLog>,
}

/// The log of a resource manager, as far as it was taken.
struct OfLog {
    /// How the names of its partitions begin.
    prefix: Arc<str>,
    /// Events that it had; `None`: that is not known, and so is what is used.
    next: Option<u64>,
    /// Time of the latest of them.
    heard: Nanos,
}

/// What is still to be done.
enum Left {
    /// To take this.
    Piece(UsagePiece),
    /// To take the events of a slice from this one on.
    Events(EventSlice, usize),
    /// To go on to this time.
    Until(Nanos),
    /// To begin anew: nothing of before is used.
    Anew,
    /// To add what is used at a point.
    Used(Arc<UsagePoint>),
    /// To end.
    End,
}

#[derive(Clone, Default)]
struct Row {
    usage: Resource,
    used: Resource,
    /// `used` reaches so far.
    at: Nanos,
}

impl Row {
    fn settle(&mut self, to: Nanos) {
        let nanos = i128::from(to.0) - i128::from(self.at.0);
        self.used.add(&self.usage.times(nanos));
        self.at = to;
    }
}

impl History {
    /// Nothing is known yet.
    pub fn new(question: Question) -> History {
        let prefix = || Arc::from(prefix_of(&question.partition));
        let log = question.of_logs.then(|| OfLog { prefix: prefix(), next: None, heard: Nanos(i64::MIN) });
        let lost = question.since.filter(|_| log.is_some()).map(|since| (since, LED_ELSEWHERE, Arc::default()));
        History {
            question,
            begin: None,
            at: Nanos(i64::MIN),
            seen: Nanos(i64::MIN),
            rows: BTreeMap::new(),
            lost,
            lines: Vec::new(),
            left: VecDeque::new(),
            passed: Vec::new(),
            away: Nanos(i64::MIN),
            complete: true,
            events: 0,
            known: false,
            log,
        }
    }

    /// The next lines, about so many; fewer: all of what was taken was told.
    pub fn lines(&mut self, most: usize) -> Vec<Line> {
        while self.lines.len() < most
            && let Some(left) = self.left.pop_front()
        {
            match left {
                Left::Piece(UsagePiece::Log(EventPiece::Events(slice))) => {
                    self.events += slice.len() as u64;
                    if self.begin.is_none() && slice.first() > 0 && self.log.is_none() {
                        // A log that begins in the middle without a word.
                        let from = self.question.since.unwrap_or(Nanos(i64::MIN));
                        self.lost.get_or_insert((from, GapReason::Damage(Arc::default()).name(), Arc::default()));
                    }
                    self.left.push_front(Left::Events(slice, 0));
                }
                Left::Piece(UsagePiece::Log(EventPiece::Gap(gap))) => self.missing(&gap.reason),
                Left::Piece(UsagePiece::Point(point)) if self.log.is_some() => self.point_of_log(point),
                Left::Piece(UsagePiece::Point(point)) => self.point(point),
                Left::Events(slice, from) => {
                    let reached = self.take_events(&slice, from, most);
                    if reached < slice.len() {
                        self.left.push_front(Left::Events(slice, reached));
                    }
                }
                Left::Until(to) if !self.advance(to, most) => self.left.push_front(left),
                Left::Until(_) => {}
                Left::Anew => {
                    self.settle();
                    for row in self.rows.values_mut() {
                        row.usage = Resource::new();
                    }
                }
                Left::Used(point) => {
                    for (key, amount) in &point.rows {
                        if key.partition != self.question.partition {
                            continue;
                        }
                        self.known = true;
                        if let Some(name) = self.subject(key.who, &key.name, &key.queue) {
                            self.row(name).usage.add(amount);
                        }
                    }
                }
                Left::End => self.end(),
            }
        }
        std::mem::take(&mut self.lines)
    }

    /// No event was missing so far.
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// The log names the partition, in what was taken.
    pub fn is_known(&self) -> bool {
        self.known
    }

    /// Number of events that were looked at.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// Beginning and end of what was answered.
    pub fn extent(&self) -> (Nanos, Nanos) {
        let until = self.question.until;
        (self.question.since.unwrap_or(until).min(until), until)
    }

    /// What comes later than the end of the question changes nothing, once all lines of what was taken were told.
    pub fn is_over(&self) -> bool {
        self.at >= self.question.until || self.seen.minus(self.question.until) > ORDERED
    }

    /// Takes the next piece of the log. Points that follow each other may be repeated.
    pub fn take(&mut self, piece: &UsagePiece) {
        self.left.push_back(Left::Piece(piece.clone()));
    }

    /// Nothing comes any more: the last step ends.
    pub fn finish(&mut self) {
        self.left.extend([Left::Until(self.question.until), Left::End]);
    }

    fn missing(&mut self, reason: &GapReason) {
        let detail = match reason {
            // A point comes with them.
            GapReason::NotStored | GapReason::Crash => return,
            GapReason::Damage(place) => place.clone(),
            GapReason::Retention => Arc::default(),
        };
        self.log.iter_mut().for_each(|log| log.next = None);
        let from = if self.begin.is_some() { self.at } else { self.question.since.unwrap_or(self.at) };
        self.lost.get_or_insert((from, reason.name(), detail));
    }

    /// Takes events from one on; gives the first that it did not take, as there are enough lines.
    fn take_events(&mut self, slice: &EventSlice, from: usize, most: usize) -> usize {
        for (at, event) in slice.events().iter().enumerate().skip(from) {
            let mut known = true;
            if let Some(log) = &self.log {
                if !event.partition.starts_with(&*log.prefix) {
                    continue;
                }
                known = log.next.is_some();
            }
            self.seen = self.seen.max(event.at);
            let is_of = event.partition == self.question.partition;
            self.known |= is_of;
            if !is_of || !known {
                self.count(1, event.at);
                continue;
            }
            if !self.advance(event.at, most) {
                return at;
            }
            if let Some(Charge { who, added, amount }) = Charge::of(event)
                && let Some(name) = self.subject(who, &event.object, &event.reference)
            {
                let row = self.row(name);
                if added { row.usage.add(amount) } else { row.usage.sub(amount) }
            }
            self.count(1, event.at);
        }
        slice.len()
    }

    /// So many events of the log, up to this time.
    fn count(&mut self, events: u64, at: Nanos) {
        if let Some(log) = &mut self.log {
            log.next = log.next.map(|next| next.saturating_add(events));
            log.heard = log.heard.max(at);
        }
    }

    fn end(&mut self) {
        if let Some((from, reason, detail)) = self.lost.take() {
            self.gap(from, self.question.until, reason, detail);
        }
        // Shorter than a step, or the only one.
        if let Some(begin) = self.begin.filter(|begin| *begin < self.question.until) {
            self.emit(begin, self.question.until);
        }
    }

    fn point(&mut self, point: Arc<UsagePoint>) {
        let leads = point.rows.iter().find_map(|(key, _)| key.leads(&self.question.partition));
        let this = (point.id, point.reason, point.from, point.to, leads);
        if self.passed.contains(&this) {
            return;
        }
        self.passed.retain(|(id, ..)| *id == point.id);
        self.passed.push(this);
        let first = self.begin.is_none();
        let ended = matches!(point.reason, PointReason::Stopped | PointReason::Killed);
        // Before the first process there was nothing; else the log begins in the middle.
        if first && point.id > 0 {
            if let Some(since) = self.question.since {
                self.gap(since, point.to, GapReason::Retention.name(), Arc::default());
            }
        } else if !first {
            match self.lost.take() {
                Some((from, reason, detail)) if !point.relative => self.gap(from, point.to, reason, detail),
                lost => {
                    self.lost = lost;
                    if point.reason != PointReason::Begin {
                        self.gap(point.from, point.to, point.reason.name(), Arc::default());
                    }
                }
            }
        }
        match leads {
            Some(true) if self.question.since.is_some() => self.gap(self.away, point.to, LED_ELSEWHERE, Arc::default()),
            Some(false) => self.away = point.to,
            Some(true) | None => {}
        }
        let (to, anew) = (Left::Until(point.to), (!point.relative).then_some(Left::Anew));
        self.left.push_front(Left::Used(point.clone()));
        self.left.push_front(to);
        anew.into_iter().for_each(|anew| self.left.push_front(anew));
        // What an ended server had is not used any longer than it was seen.
        self.left.push_front(Left::Until(if ended { point.from } else { point.to }));
    }

    /// As [`History::point`], where points tell of logs.
    fn point_of_log(&mut self, point: Arc<UsagePoint>) {
        let Some(OfLog { prefix, next, heard }) = &self.log else { return };
        let (next, heard, begun) = (*next, *heard, self.begin.is_some());
        if let Some((of, stands)) = point.log() {
            match stands {
                _ if of != prefix => {}
                Some(stands) => self.stands(point, stands),
                None => {
                    // Whatever comes next begins with nothing.
                    self.known_from(0, heard);
                    self.left.push_front(Left::Anew);
                }
            }
            return;
        }
        let told = point.told(prefix);
        match (point.reason, told, next) {
            // What the log had meanwhile is read later; that it is not there yet says nothing.
            (PointReason::Stopped | PointReason::Killed, _, Some(_)) => {
                self.lost.get_or_insert((point.from.max(heard).max(self.at), LED_ELSEWHERE, Arc::default()));
            }
            (PointReason::Stopped | PointReason::Killed, ..) | (_, None, _) => {}
            (_, Some(told), None) if !point.relative => {
                match self.lost.take() {
                    Some((from, reason, detail)) if begun => self.gap(from, point.to, reason, detail),
                    lost => lost.iter().for_each(|(from, ..)| {
                        self.gap(*from, point.to, GapReason::Retention.name(), Arc::default());
                    }),
                }
                self.known_from(told, point.to);
                self.goes_on(&point, None, true);
            }
            (PointReason::NotStored | PointReason::Off, Some(told), Some(next)) => {
                let this = (point.id, point.reason, point.from, point.to, None);
                let missed = if point.relative { told } else { told.saturating_sub(next) };
                if missed == 0 || point.relative && self.passed.contains(&this) {
                    return;
                }
                self.passed.retain(|(id, ..)| *id == point.id);
                self.passed.push(this);
                self.gap(point.from, point.to, point.reason.name(), Arc::default());
                self.count(missed, point.to);
                self.goes_on(&point, None, !point.relative);
            }
            // The same as is known.
            (_, Some(_), _) => {}
        }
    }

    /// The log has had so many events, and all that is used then is in the point.
    fn stands(&mut self, point: Arc<UsagePoint>, stands: u64) {
        let Some(OfLog { next, heard, .. }) = &self.log else { return };
        let (next, heard) = (*next, *heard);
        // Nothing is missing; events behind it may come once more, at a time that is accounted for.
        let is_late = point.to.minus(heard) < ORDERED;
        let reached = next.map_or(stands == 0, |next| next == stands || next > stands && is_late);
        let lost = self.lost.take().or(next.map(|_| (heard.max(self.at), LED_ELSEWHERE, Arc::default())));
        let lost = lost.filter(|_| !reached && self.question.since.is_some());
        let ended = lost.map(|(from, reason, detail)| {
            self.gap(from, point.to, reason, detail);
            from
        });
        self.known_from(stands, heard.max(point.to));
        self.goes_on(&point, ended, true);
    }

    fn known_from(&mut self, next: u64, heard: Nanos) {
        if let Some(log) = &mut self.log {
            (log.next, log.heard) = (Some(next), heard);
        }
    }

    /// From a point on this is used, and up to there what was used before; from a time on nothing, where that is said.
    fn goes_on(&mut self, point: &Arc<UsagePoint>, ended: Option<Nanos>, anew: bool) {
        let to = point.to;
        let ended = ended.into_iter().flat_map(|from| [Left::Until(from), Left::Anew]);
        let anew = anew.then_some(Left::Anew);
        let left = ended.chain([Left::Until(to)]).chain(anew).chain([Left::Used(point.clone())]);
        for left in left.collect::<Vec<_>>().into_iter().rev() {
            self.left.push_front(left);
        }
    }

    /// Whose share changes, if any.
    fn subject(&self, who: Who, name: &Arc<str>, queue: &Arc<str>) -> Option<Arc<str>> {
        if let Some(wanted) = &self.question.queue {
            let below = queue.strip_prefix(&**wanted)?;
            if !below.is_empty() && !below.starts_with('.') {
                return None;
            }
        }
        match (self.question.by, who) {
            (By::User, Who::User) | (By::Group, Who::Group) => Some(name.clone()),
            (By::Queue, Who::User) => Some(queue.clone()),
            _ => None,
        }
    }

    /// A row that is about to change.
    fn row(&mut self, name: Arc<str>) -> &mut Row {
        let at = self.within();
        let row = self.rows.entry(name).or_insert_with(|| Row { at, ..Row::default() });
        row.settle(at);
        row
    }

    /// The present time, within the question.
    fn within(&self) -> Nanos {
        let begin = self.begin.unwrap_or(self.question.until);
        self.at.clamp(begin.min(self.question.until), self.question.until)
    }

    /// Time goes on; it never goes back. False: not all of the steps that end by then were told, as there are enough lines.
    fn advance(&mut self, to: Nanos, most: usize) -> bool {
        self.at = self.at.max(to);
        if self.begin.is_none() {
            let begin = *self.question.since.get_or_insert(self.at);
            self.begin = Some(begin);
        }
        let Some(step) = self.question.step else { return true };
        while let Some(begin) = self.begin {
            let end = begin.plus(step);
            if end > self.at || end > self.question.until {
                break;
            }
            if self.lines.len() >= most {
                return false;
            }
            self.emit(begin, end);
            self.begin = Some(end);
        }
        true
    }

    fn settle(&mut self) {
        let at = self.within();
        for row in self.rows.values_mut() {
            row.settle(at);
        }
    }

    /// Tells the shares of a step, and begins the next one.
    fn emit(&mut self, from: Nanos, to: Nanos) {
        let mut shares = BTreeMap::<Arc<str>, Resource>::new();
        for (name, row) in &mut self.rows {
            row.settle(to);
            let used = std::mem::take(&mut row.used).pruned();
            if used.is_empty() {
                continue;
            }
            let mut queue = Some(name.clone());
            while let Some(path) = queue {
                let above = path.rfind('.').filter(|_| self.question.by == By::Queue).map(|at| Arc::from(&path[..at]));
                shares.entry(path).or_default().add(&used);
                queue = above;
            }
        }
        self.rows.retain(|_, row| !row.usage.pruned().is_empty());
        let line = |(name, used)| Line::Share(Share { from, to, name, used });
        self.lines.extend(shares.into_iter().map(line));
    }

    fn gap(&mut self, from: Nanos, to: Nanos, reason: &'static str, detail: Arc<str>) {
        let to = to.min(self.question.until);
        // Without a beginning there is nothing before it either.
        let from = from.max(self.question.since.unwrap_or(to));
        if from < to {
            self.complete = false;
            self.away = self.away.max(to);
            self.lines.push(Line::Gap(Gap { from, to, reason, detail }));
        }
    }
}
