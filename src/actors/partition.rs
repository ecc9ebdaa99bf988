//! `PartitionActor`: owns `domain::Partition`, runs the scheduling loop, routes effects, starts and stops the conversations
//! of queues, applications and nodes. Nobody else changes the partition.

mod begin;
mod conversations;
mod handlers;
mod journal;
mod links;
mod meter;
mod orders;
pub mod recorder;
pub(crate) mod restored;
mod talkers;
mod teardown;
mod traced;
mod waits;

use std::{
    collections::VecDeque,
    rc::Rc,
    sync::Arc,
    time::{Duration, Instant},
};

use actix::prelude::*;
use tokio::sync::oneshot;

pub use self::links::Links;
use self::{
    begin::Begin,
    conversations::Conversations,
    journal::Link,
    meter::Meter,
    recorder::Recorder,
    traced::{Leaving, Traced},
    waits::Waits,
};
use super::{
    rm::buffer::{Size, size_of},
    silence::Silence,
    ugm::UgmActor,
    ugm::wants_groups,
    unconfirmed::Unconfirmed,
};
use crate::{
    domain::{
        Partition,
        command::Command,
        conf::Resolver,
        effect::{Callback, Effect, Released, TurnEffect, events_of},
        event::Event,
        log::Beginning,
        types::Nanos,
    },
    messages::{
        budget::Permit,
        clock::Clock,
        event::Publish,
        journal::Standing,
        partition::{Commands, PartitionSetup, PartitionStatus, Snapshot},
        recorded::{Entry, Recorded},
        rm::{Deliver, Kind, Outgoing},
        ugm::Resolve,
    },
    trace::Span,
};

/// Effects that wait for the slice at most.
const WITHHELD: usize = 4096;
/// Decisions between two looks at the clock.
const CHUNK: usize = 64;
/// Decisions of one slice at most.
const SLICE: usize = 1024;
/// How long parts of one request are applied before others have their turn.
const PIECE: Duration = Duration::from_millis(1);
/// Submissions, with their groups, that are applied together, or removals.
const PART: usize = 64;
/// Allocations and releases, or nodes, that are applied together: what becomes one line of answers.
const ENTRIES: usize = 256;
/// Time of one slice at most.
const SLICE_NANOS: u128 = 300_000;

/// See the module.
pub struct PartitionActor {
    setup: PartitionSetup,
    clock: Clock,
    partition: Partition,
    effects: Vec<Effect>,
    /// How many of them count as undelivered already, and their weight.
    counted: (usize, i64),
    /// Where among them the time changes, and to what.
    steps: Vec<(usize, Nanos)>,
    conversations: Conversations,
    waits: Waits,
    link: Link,
    meter: Meter,
    traced: Traced,
    /// Where what it does is recorded.
    recorder: Option<Recorder>,
    ugm: Addr<UgmActor>,
    /// Batches that are not applied yet, since groups of a user are looked up for the one before.
    inbox: VecDeque<Commands>,
    /// The batch for which groups are being looked up, as it came.
    resolving: Option<Commands>,
    /// What is left of the batch that is being applied, while others have their turn, and its time.
    rest: Option<(Nanos, Commands)>,
    /// Releases that are sent once more at the end of this turn.
    again: Vec<Released>,
    /// Who waits for its end, once that has begun.
    ended: Vec<oneshot::Sender<Standing>>,
    /// A slice is under way.
    slicing: bool,
    /// What was tried in vain was cut into slices, and goes on before another request comes in: those that free something would
    /// have it begin anew, and whoever is behind it would never be tried.
    amid: bool,
    /// The snapshot that readers get, until something changes.
    snapshot: Option<Arc<Snapshot>>,
    timer: Option<(Nanos, SpawnHandle)>,
    /// It shows how a partition was, for `flight` or while another server leads it: nothing happens in it.
    is_still: bool,
    /// What it is made from when it starts; until then it has not even queues.
    unmade: Option<Begin>,
    status: PartitionStatus,
}

impl PartitionActor {
    /// Starts one on an arbiter.
    pub fn start_on(arbiter: &ArbiterHandle, setup: PartitionSetup, links: Links) -> Addr<PartitionActor> {
        PartitionActor::start_in_arbiter(arbiter, move |ctx| PartitionActor::new(setup, links, ctx))
    }

    /// Starts one on the present arbiter, linked to nothing else.
    pub fn start_here(setup: PartitionSetup) -> Addr<PartitionActor> {
        PartitionActor::create(move |ctx| PartitionActor::new(setup, Links::default(), ctx))
    }

    fn new(mut setup: PartitionSetup, links: Links, ctx: &mut Context<Self>) -> PartitionActor {
        let (mut recorder, mut replica, mut is_still) = (None, None, None);
        let mut clock = setup.clock;
        let (rm, internal, conf) = (setup.rm.clone(), setup.internal.clone(), setup.conf.clone());
        let resolver = conf.resolver;
        let beginning = Beginning { rm, internal, conf, at: clock.now() };
        let (mut shared, mut inherited, mut recorded) = (false, None, None);
        if let Some(Recorded { instance, outlet, replica: before, still, shared: is_shared, standing }) =
            setup.recorded.take()
        {
            (shared, inherited) = (is_shared, standing);
            match &before {
                Some(before) => recorder = Some(Recorder::resume(instance, outlet, before.number, before.at)),
                None => recorded = Some((instance, outlet)),
            }
            recorder = recorder.filter(|_| still.is_none());
            (replica, is_still) = (before, still);
        }
        let (partition, talks, unmade) = match replica {
            Some(replica) => {
                clock = is_still.map_or_else(|| clock.not_before(replica.at), Clock::still);
                (replica.partition, Some(replica.talks), None)
            }
            None => {
                let partition = beginning.unmade();
                (partition, None, Some(Begin { beginning, recorded, metrics: links.metrics.clone() }))
            }
        };
        let (internal, budget) = (setup.internal.clone(), setup.budget.clone());
        let unconfirmed = Rc::new(Unconfirmed::new(internal, clock, budget, setup.patience));
        let journal = links.journal.clone().map(|journal| (journal.recipient(), setup.epoch));
        let silence = Rc::new(Silence::new(clock, setup.patience.torpid_after, journal));
        let mut actor = PartitionActor {
            conversations: Conversations::new(unconfirmed, silence, ctx.address().recipient()),
            ugm: UgmActor::new(clock, resolver, links.ldap_secrets).start(),
            waits: Waits::default(),
            link: Link::new(links.journal, setup.epoch, inherited),
            meter: Meter::new(links.metrics),
            traced: Traced::default(),
            setup,
            clock,
            partition,
            effects: Vec::new(),
            counted: (0, 0),
            steps: Vec::new(),
            recorder,
            inbox: VecDeque::new(),
            resolving: None,
            rest: None,
            again: Vec::new(),
            ended: Vec::new(),
            slicing: false,
            amid: false,
            snapshot: None,
            timer: None,
            is_still: is_still.is_some(),
            unmade,
            status: PartitionStatus::default(),
        };
        // One that shows what another server leads has no conversations.
        if let Some(talks) = talks.filter(|_| !(actor.is_still && shared)) {
            actor.restore(talks, shared);
        }
        actor
    }

    /// Applies a command.
    fn enter(&mut self, command: Command, now: Nanos) {
        if self.is_still {
            return;
        }
        let began = Instant::now();
        if let Some(recorder) = &mut self.recorder {
            recorder.apply(&command, now);
        }
        self.step(now);
        self.partition.apply(command, now, &mut self.effects);
        if let Some(recorder) = &mut self.recorder {
            recorder.took(began.elapsed());
        }
    }

    /// The present time: one for all of a request, and for what comes between its parts.
    fn now(&mut self) -> Nanos {
        if let Some((at, _)) = &self.rest {
            return *at;
        }
        let now = self.clock.now();
        self.recorder.as_mut().map_or(now, |recorder| recorder.time(now))
    }

    /// Gives the credits of a request back, now or when it is recorded.
    fn give_back(&mut self, permit: Option<Permit>) {
        if let Some(recorder) = &mut self.recorder {
            recorder.hold(permit);
        }
    }

    /// Applies the batches that have arrived, as long as no groups are being looked up, and nothing else is in the middle.
    fn drain(&mut self, ctx: &mut Context<Self>) {
        while self.resolving.is_none()
            && self.rest.is_none()
            && !self.amid
            && !self.is_ending()
            && let Some(batch) = self.inbox.pop_front()
        {
            if self.partition.conf.resolver != Resolver::None && has_unresolved(&batch.commands) {
                self.resolve(batch, ctx);
                return;
            }
            self.submit(batch, ctx);
        }
    }

    /// Applies a request of the shim. What comes of it leaves with the slice that it asks for: a request and the placement
    /// that it makes possible are one message to each receiver, and wake it once.
    fn submit(&mut self, mut batch: Commands, ctx: &mut Context<Self>) {
        self.traced.enters(&batch.commands, batch.permit.as_ref(), &self.setup.internal);
        batch.commands = std::mem::take(&mut batch.commands).into_iter().flat_map(in_parts).collect();
        let now = self.now();
        self.go_on(now, batch, ctx);
    }

    /// Applies what is left of a request, or of what is due. Others on this thread have their turn where it takes long; of a request
    /// nothing leaves meanwhile, so that all of it is in one record.
    fn go_on(&mut self, now: Nanos, mut batch: Commands, ctx: &mut Context<Self>) {
        let began = Instant::now();
        let mut commands: VecDeque<_> = std::mem::take(&mut batch.commands).into();
        while let Some(command) = commands.pop_front() {
            let ticks = matches!(command, Command::Tick);
            let divides =
                matches!(command, Command::Nodes(_) | Command::Applications { .. } | Command::Allocations { .. });
            self.enter(command, now);
            if ticks && self.partition.is_due(now) {
                commands.push_front(Command::Tick);
            }
            if (divides || ticks) && !commands.is_empty() && began.elapsed() >= PIECE {
                if ticks && batch.permit.is_none() {
                    self.snapshot = None;
                    self.route();
                }
                batch.commands = commands.into();
                self.rest = Some((now, batch));
                let yielded = tokio::task::yield_now().into_actor(self);
                ctx.spawn(yielded.map(|(), actor, ctx| {
                    if actor.is_ending() {
                        return;
                    }
                    if let Some((at, rest)) = actor.rest.take() {
                        actor.go_on(at, rest, ctx);
                    }
                    actor.drain(ctx);
                }));
                return;
            }
        }
        self.entered(batch, ctx);
    }

    /// Applies at once what is left of a request; what is due and is left then, the timer goes on with.
    fn finish(&mut self, ctx: &mut Context<Self>) {
        let Some((now, mut batch)) = self.rest.take() else { return };
        for command in std::mem::take(&mut batch.commands) {
            self.enter(command, now);
        }
        self.entered(batch, ctx);
    }

    /// All of a request is applied.
    fn entered(&mut self, mut batch: Commands, ctx: &mut Context<Self>) {
        // Before its permit is dropped, which kept room for them.
        self.count();
        // Where it is recorded, with the slice that is asked for.
        self.give_back(batch.permit.take_if(|_| self.recorder.is_some()));
        self.snapshot = None;
        if self.effects.len() >= WITHHELD {
            self.route();
        }
        self.ask_for_slice(ctx);
        // Else the credits of the request go back here.
        drop(batch);
    }

    /// Groups are looked up elsewhere; this batch and what follows it wait, scheduling goes on.
    fn resolve(&mut self, batch: Commands, ctx: &mut Context<Self>) {
        let commands = batch.commands.clone();
        // Should the partition end before the answer, the batch is applied as it came.
        self.resolving = Some(batch);
        let answer = self.ugm.send(Resolve(commands)).into_actor(self).map(|commands, actor, ctx| {
            let Some(mut batch) = actor.resolving.take() else { return };
            batch.commands = commands.unwrap_or_default();
            // What is due may be half done.
            actor.finish(ctx);
            actor.submit(batch, ctx);
            actor.drain(ctx);
        });
        ctx.spawn(answer);
    }

    fn apply(&mut self, commands: Vec<Command>, ctx: &mut Context<Self>) {
        let now = self.now();
        for command in commands {
            self.enter(command, now);
        }
        self.changed(ctx);
    }

    /// Something changed: effects leave, the next deadline is armed, a slice is asked for.
    fn changed(&mut self, ctx: &mut Context<Self>) {
        self.snapshot = None;
        self.route();
        self.arm(ctx);
        self.ask_for_slice(ctx);
    }

    fn ask_for_slice(&mut self, ctx: &mut Context<Self>) {
        if self.slicing || self.is_still {
            return;
        }
        self.slicing = true;
        // After what is in the mailbox.
        ctx.spawn(async {}.into_actor(self).map(|(), actor, ctx| actor.slice(ctx)));
    }

    /// Chunks of decisions, or of attempts in vain, until the slice is used up; then others have their turn.
    fn slice(&mut self, ctx: &mut Context<Self>) {
        self.slicing = false;
        if self.rest.is_some() {
            // It is asked for again when all of the request is there.
            return;
        }
        let began = Instant::now();
        let (mut made, mut more) = (0, true);
        self.amid = false;
        // Small where few callbacks may be undelivered, so that there are not many more than that.
        let [_, outward] = self.setup.budget.whole();
        let chunk = usize::try_from(outward / 8).unwrap_or(CHUNK).clamp(1, CHUNK);
        while more && made < SLICE && began.elapsed().as_nanos() < SLICE_NANOS {
            if !self.setup.budget.may_place() {
                (more, self.amid) = (false, false);
                break;
            }
            let now = self.now();
            if let Some(recorder) = &mut self.recorder {
                recorder.schedule(chunk, now);
            }
            self.step(now);
            let done = self.partition.schedule(chunk, now, &mut self.effects);
            self.count();
            made += done.made;
            (more, self.amid) = (done.may_go_on(chunk), done.cut);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.took(began.elapsed());
        }
        self.status.slices += 1;
        self.status.decisions += made as u64;
        self.status.longest_slice = self.status.longest_slice.max(began.elapsed().as_nanos() as u64);
        // Also where nothing was placed: an ask that was tried says so, and why it waits (R4.34, R4.37).
        self.snapshot = None;
        let traced = self.traced.exemplar();
        self.route();
        self.meter.slice(began.elapsed(), more, traced);
        self.look_at_queues_soon(ctx);
        self.arm(ctx);
        if more {
            self.slicing = true;
            // A bare self-send would starve the others of this arbiter.
            let yielded = tokio::task::yield_now().into_actor(self);
            ctx.spawn(yielded.map(|(), actor, ctx| actor.slice(ctx)));
        }
        // What came in the middle of it.
        self.drain(ctx);
    }

    /// What was made since the last time counts as undelivered from here on.
    fn count(&mut self) {
        let (counted, weight) = &mut self.counted;
        let mut size = Size::default();
        for effect in &self.effects[*counted..] {
            match effect {
                Effect::Callback(callback) => size.add(size_of(callback)),
                Effect::Ask(_) => size.entries += 1,
                _ => {}
            }
        }
        *counted = self.effects.len();
        let more = self.setup.budget.weigh(size);
        *weight += more;
        self.setup.budget.made(size.entries, more);
    }

    /// What comes now is of this time, as in a replay.
    pub(super) fn step(&mut self, now: Nanos) {
        let first = self.effects.len();
        self.steps.pop_if(|(before, _)| *before == first);
        self.steps.push((first, now));
    }

    /// One timer for the next deadline of the domain.
    fn arm(&mut self, ctx: &mut Context<Self>) {
        let next = self.partition.next_deadline().filter(|_| !self.is_ending() && !self.is_still);
        if self.timer.as_ref().map(|(at, _)| *at) == next {
            return;
        }
        if let Some((_, handle)) = self.timer.take() {
            ctx.cancel_future(handle);
        }
        if let Some(at) = next {
            let handle = ctx.run_later(self.clock.until(at), |actor, ctx| {
                actor.timer = None;
                // Within a request no time passes, nor amid attempts; it is armed again when all of that is there.
                if actor.rest.is_none() && !actor.amid {
                    let (now, tick) = (actor.now(), Commands::of(actor.setup.epoch, vec![Command::Tick]));
                    actor.go_on(now, tick, ctx);
                    actor.drain(ctx);
                }
            });
            self.timer = Some((at, handle));
        }
    }

    /// Effects leave grouped by receiver, each group in order; gives how many batches of events wait to be taken in.
    fn route(&mut self) -> usize {
        if self.rest.is_some() && !self.is_ending() {
            return 0;
        }
        if self.effects.is_empty() && !self.recorder.as_ref().is_some_and(Recorder::is_urgent) {
            self.traced.rest();
            return 0;
        }
        self.leave(false)
    }

    /// All effects leave, as one record where there is a log.
    fn leave(&mut self, last: bool) -> usize {
        let now = self.now();
        self.count();
        let (_, weight) = std::mem::take(&mut self.counted);
        let mut entry = self.recorder.as_mut().map(|recorder| recorder.entry(&self.effects));
        if let Some(entry) = &mut entry {
            entry.last = last;
        }
        // Most effects are events: room for them is made once.
        let number = entry.as_ref().map_or_else(|| events_of(&self.effects), |entry| entry.events);
        self.leave_with(now, entry, Vec::with_capacity(number as usize), weight)
    }

    /// The same, after these events, which are in the record too.
    fn leave_with(&mut self, now: Nanos, entry: Option<Box<Entry>>, mut events: Vec<Event>, weight: i64) -> usize {
        let (mut items, mut turns) = (Vec::new(), Vec::new());
        let is_traced = self.traced.is_busy();
        // What was told last of the state of an application.
        let mut told = None;
        let (mut steps, mut at) = (std::mem::take(&mut self.steps).into_iter().peekable(), now);
        for (place, effect) in self.effects.drain(..).enumerate() {
            while let Some((_, time)) = steps.next_if(|(first, _)| *first <= place) {
                at = time;
            }
            self.meter.note(&effect, &self.partition);
            if is_traced {
                self.traced.note(&effect, &self.partition);
            }
            self.waits.note(&effect);
            match effect {
                Effect::Callback(callback) => {
                    if let Callback::UpdatedApplication { app, state, .. } = &callback {
                        told = Some((app.clone(), *state));
                    }
                    items.push(Outgoing::Callback(callback));
                }
                Effect::Ask(question) => items.push(Outgoing::Ask(question)),
                Effect::Event(event) => events.push(event),
                Effect::App(effect) => self.conversations.app((at, effect), told.as_ref(), &mut self.waits),
                Effect::Queue(effect) => self.conversations.queue(effect, &mut self.waits),
                Effect::Node(effect) => {
                    self.link.note(&effect);
                    self.conversations.node(effect, &mut self.waits);
                }
                Effect::Turn(effect) => turns.push(effect),
            }
        }
        self.meter.flush(&self.partition);
        self.link.flush();
        self.conversations.flush(now);
        for (target, status) in self.waits.changed(&self.partition) {
            self.conversations.tell(&target, status);
        }
        let traced = if is_traced { self.traced.leave() } else { Leaving::default() };
        // Before the callbacks: whoever has read one finds its events.
        let waiting = if events.is_empty() {
            0
        } else {
            let events = Publish {
                rm: self.setup.rm.clone(),
                epoch: self.setup.epoch,
                events,
                traced: traced.events,
                first: None,
            };
            match &self.recorder {
                Some(recorder) => recorder.publish(events),
                None => self.setup.events.publish(events),
            }
        };
        self.deliver(items, turns, entry, traced.callbacks, weight);
        waiting
    }

    fn deliver(
        &self,
        items: Vec<Outgoing>,
        turns: Vec<TurnEffect>,
        entry: Option<Box<Entry>>,
        traced: Vec<(Kind, Span)>,
        weight: i64,
    ) {
        if !items.is_empty() || !turns.is_empty() || entry.is_some() {
            let (epoch, partition) = (self.setup.epoch, self.setup.internal.clone());
            self.setup.callbacks.do_send(Deliver { epoch, partition, items, turns, entry, traced, weight });
        }
    }

    /// Conversations have releases sent once more: together, when all that fell due now have said so.
    fn send_again(&mut self, releases: Vec<Released>, ctx: &mut Context<Self>) {
        if self.is_still {
            return;
        }
        if self.again.is_empty() {
            let yielded = tokio::task::yield_now().into_actor(self);
            ctx.spawn(yielded.map(|(), actor, _| {
                actor.route();
                let line = |release| Outgoing::Callback(Callback::Released(Box::new(release)));
                let again: Vec<_> = std::mem::take(&mut actor.again).into_iter().map(line).collect();
                // Their weight is counted when they are lines.
                actor.setup.budget.made(again.len(), 0);
                actor.deliver(again, Vec::new(), None, Vec::new(), 0);
            }));
        }
        self.again.extend(releases);
    }
}

/// A submission among them has groups that have to be looked up.
pub(crate) fn has_unresolved(commands: &[Command]) -> bool {
    commands.iter().any(|command| match command {
        Command::Applications { new, .. } => new.iter().any(wants_groups),
        _ => false,
    })
}

/// Only what operators told: none of it depends on a submission that waits for a look-up, and they were told that it holds.
pub(crate) fn is_of_operators(commands: &[Command]) -> bool {
    let is = |command: &Command| {
        use Command::{DrainOverdue, HoldHosts, NoteDrains, OperatorDrain, OrderQueues};
        matches!(command, OperatorDrain { .. } | HoldHosts { .. } | NoteDrains(_) | DrainOverdue(_) | OrderQueues(_))
    };
    !commands.is_empty() && commands.iter().all(is)
}

/// A request is applied in small parts: submissions by their cost, which comes from their groups, then removals, allocations and
/// releases, and nodes by their number.
fn in_parts(command: Command) -> Vec<Command> {
    let (new, remove) = match command {
        Command::Nodes(items) if items.len() > ENTRIES => return pieces(items, ENTRIES).map(Command::Nodes).collect(),
        Command::Applications { new, remove } if new.len() > 1 || remove.len() > PART => (new, remove),
        Command::Allocations { allocations, releases } if allocations.len() + releases.len() > ENTRIES => {
            let (mut allocations, mut releases) = (allocations.into_iter(), releases.into_iter());
            let mut parts = Vec::with_capacity((allocations.len() + releases.len()) / ENTRIES + 1);
            while allocations.len() + releases.len() > 0 {
                let allocations: Vec<_> = allocations.by_ref().take(ENTRIES).collect();
                let releases = releases.by_ref().take(ENTRIES - allocations.len()).collect();
                parts.push(Command::Allocations { allocations, releases });
            }
            return parts;
        }
        command => return vec![command],
    };
    let (mut commands, mut part, mut weight) = (Vec::new(), Vec::new(), 0);
    for one in new {
        weight += 1 + one.groups.as_ref().map_or(0, |groups| groups.len());
        part.push(one);
        if weight >= PART {
            commands.push(Command::Applications { new: std::mem::take(&mut part), remove: Vec::new() });
            weight = 0;
        }
    }
    let mut removals = pieces(remove, PART);
    let first = removals.next().unwrap_or_default();
    if !(part.is_empty() && first.is_empty()) {
        commands.push(Command::Applications { new: part, remove: first });
    }
    commands.extend(removals.map(|remove| Command::Applications { new: Vec::new(), remove }));
    commands
}

/// So many of them at a time, in their order.
fn pieces<T>(items: Vec<T>, size: usize) -> impl Iterator<Item = Vec<T>> {
    let mut items = items.into_iter();
    std::iter::from_fn(move || {
        let piece: Vec<T> = items.by_ref().take(size).collect();
        (!piece.is_empty()).then_some(piece)
    })
}

impl Actor for PartitionActor {
    type Context = Context<Self>;

    fn started(&mut self, ctx: &mut Self::Context) {
        if let Some(unmade) = self.unmade.take() {
            self.begin(unmade, ctx);
        } else if !self.is_still {
            self.changed(ctx);
            self.begin_journal(ctx);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{
        command::{AddApplication, NodeAction, NodeItem},
        sorted::Texts,
    };

    fn sizes(command: Command) -> Vec<(usize, usize)> {
        let size = |part: &Command| match part {
            Command::Nodes(items) => (items.len(), 0),
            Command::Applications { new, remove } => (new.len(), remove.len()),
            _ => (0, 0),
        };
        in_parts(command).iter().map(size).collect()
    }

    #[test]
    fn what_goes_enters_in_small_parts_as_what_comes_does() {
        let node = |i: usize| NodeItem {
            id: format!("n{i}").into(),
            action: NodeAction::Decommission,
            capacity: None,
            attributes: Texts::default(),
        };
        let request = |new: usize, remove: usize| Command::Applications {
            new: (0..new).map(|_| AddApplication::default()).collect(),
            remove: (0..remove).map(|i| format!("a{i}").into()).collect(),
        };
        assert_eq!(sizes(Command::Nodes((0..600).map(node).collect())), [(256, 0), (256, 0), (88, 0)]);
        assert_eq!(sizes(request(0, 150)), [(0, 64), (0, 64), (0, 22)]);
        assert_eq!(sizes(request(65, 65)), [(64, 0), (1, 64), (0, 1)]);
        // A small one stays whole.
        assert_eq!(sizes(request(1, 64)), [(1, 64)]);
        assert_eq!(sizes(request(0, 0)), [(0, 0)]);
    }
}
