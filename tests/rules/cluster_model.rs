//! The protocol by which servers share the log of a resource manager in etcd (docs/cluster.md), as a model that is checked
//! exhaustively: append, take-over, resume, with everything that may happen in between. etcd itself is one register with a
//! revision and a list of values; what is sent to it may be late, lost, or carried out without an answer; servers may be killed
//! and started again, and may try to take over at any time, since leases decide nothing. The faults that a program could have are planted
//! one by one, and each is found.

use stateright::{Checker as _, Expectation, HasDiscoveries, Model, Property};

/// A numbered request of the shim.
type Request = u8;
/// What comes of a request, at the server that took it: one record, and one line.
type Record = (Request, usize);

const SERVERS: usize = 2;

/// What a program could do wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// A record is added whatever the head is.
    AppendWithoutCompare,
    /// The head is overwritten whatever it is.
    TakeWithoutCompare,
    /// Who leads is told by an epoch that is not raised.
    TakeWithoutEpoch,
    /// Lines leave before their record is in etcd.
    OutputBeforeAppend,
    /// Requests are acknowledged before their record is in etcd.
    AcknowledgeBeforeAppend,
    /// What was not answered counts as done.
    SilenceIsDone,
    /// What was not answered is sent again at the present head, without a look at what is there.
    SilenceIsSentAgain,
    /// A watch leaves out a change.
    LostChange,
    /// Reading begins one record behind the snapshot.
    SnapshotOffByOne,
    /// A new leader goes on with what it has applied, not with all that is there.
    LeadsBeforeApplied,
    /// A server that finds another leader goes on as if it still led.
    GoesOnWhenDeposed,
    /// A stream that resumes begins one line too late.
    ResumesTooLate,
    /// A request that is sent again is taken again.
    TakesTwice,
}

const FAULTS: [Fault; 13] = [
    Fault::AppendWithoutCompare,
    Fault::TakeWithoutCompare,
    Fault::TakeWithoutEpoch,
    Fault::OutputBeforeAppend,
    Fault::AcknowledgeBeforeAppend,
    Fault::SilenceIsDone,
    Fault::SilenceIsSentAgain,
    Fault::LostChange,
    Fault::SnapshotOffByOne,
    Fault::LeadsBeforeApplied,
    Fault::GoesOnWhenDeposed,
    Fault::ResumesTooLate,
    Fault::TakesTwice,
];

/// What may happen, at most.
#[derive(Clone, Copy, Debug)]
struct Cluster {
    requests: Request,
    /// Take-overs; the first server leads from the beginning.
    takes: u8,
    kills: u8,
    /// Changes whose answer is not waited for any longer.
    silences: u8,
    snapshots: u8,
    fault: Option<Fault>,
}

/// The head of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Head {
    leader: usize,
    epoch: u8,
    /// Records that count.
    index: usize,
}

/// A change on its way to etcd, under the condition that the head is of this revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Change {
    from: usize,
    /// Tells it from others of its sender.
    number: u8,
    revision: u8,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum What {
    /// This record is the next, in this epoch.
    Append(Record, u8, usize),
    /// The sender leads, in this epoch; it knows so many records.
    Take(u8, usize),
}

/// What came of a change: the revision after it, and the head where its condition did not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Answer {
    to: usize,
    number: u8,
    revision: u8,
    head: Head,
    held: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Server {
    Down,
    /// It applies what it sees, and knows the head of this revision; it may be taking over.
    Follows {
        state: Vec<Record>,
        seen: (u8, Head),
        taking: Option<u8>,
    },
    /// So much of its state is in etcd, as far as it knows; it may wait for the answer to a change.
    Leads {
        state: Vec<Record>,
        durable: usize,
        epoch: u8,
        revision: u8,
        sure: bool,
        asks: Option<u8>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    revision: u8,
    head: Head,
    log: Vec<Record>,
    /// What comes of so many records, as one server had it.
    snapshot: Vec<Record>,
    servers: Vec<Server>,
    wires: Vec<Change>,
    answers: Vec<Answer>,
    /// Lines that the shim has read.
    lines: Vec<Record>,
    acknowledged: Vec<Request>,
    numbers: u8,
    left: (u8, u8, u8, u8),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Action {
    /// The shim sends its first request that is not acknowledged to this server.
    Ask(usize),
    /// This server tells that its request is taken.
    Acknowledge(usize),
    /// It reads the next line there.
    Read(usize),
    /// The server adds the next record.
    Append(usize),
    /// etcd carries out what is on its way.
    CarryOut(usize),
    /// It was lost.
    Lose(usize),
    /// The answer arrives.
    Answer(usize),
    /// The server gives up waiting for it.
    Silence(usize),
    /// It reads the head after that.
    Look(usize),
    /// A change reaches it by its watch.
    Watch(usize),
    /// It tries to take over.
    Take(usize),
    /// It leaves a snapshot.
    Snapshot(usize),
    Kill(usize),
    Start(usize),
}

impl Cluster {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn leads_still(&self, head: Head, me: usize, epoch: u8) -> bool {
        if self.has(Fault::GoesOnWhenDeposed) {
            return true;
        }
        head.epoch == epoch && (head.leader == me || self.has(Fault::TakeWithoutEpoch))
    }

    /// A leader knows the head now.
    fn adopt(&self, state: &State, me: usize, head: Head, at: u8) -> Server {
        let Server::Leads { state: own, epoch, durable, .. } = &state.servers[me] else {
            return state.servers[me].clone();
        };
        if self.leads_still(head, me, *epoch) {
            let durable = if self.has(Fault::SilenceIsSentAgain) { *durable } else { head.index.min(own.len()) };
            return Server::Leads { state: own.clone(), durable, epoch: *epoch, revision: at, sure: true, asks: None };
        }
        self.read(state)
    }

    /// A server that begins to follow.
    fn read(&self, state: &State) -> Server {
        let mut own = state.snapshot.clone();
        if self.has(Fault::SnapshotOffByOne) && !own.is_empty() && state.log.len() > own.len() {
            // It takes the record behind the snapshot for one that is in it.
            let next = own.len() + 1;
            own.push(state.log.get(next).copied().unwrap_or((Request::MAX, 0)));
        }
        Server::Follows { state: own, seen: (state.revision, state.head), taking: None }
    }
}

impl Model for Cluster {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let head = Head { leader: 0, epoch: 1, index: 0 };
        let mut servers = vec![Server::Follows { state: Vec::new(), seen: (1, head), taking: None }; SERVERS];
        servers[0] = Server::Leads { state: Vec::new(), durable: 0, epoch: 1, revision: 1, sure: true, asks: None };
        vec![State {
            revision: 1,
            head,
            log: Vec::new(),
            snapshot: Vec::new(),
            servers,
            wires: Vec::new(),
            answers: Vec::new(),
            lines: Vec::new(),
            acknowledged: Vec::new(),
            numbers: 0,
            left: (self.takes, self.kills, self.silences, self.snapshots),
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        for (me, server) in state.servers.iter().enumerate() {
            match server {
                Server::Down => actions.push(Action::Start(me)),
                Server::Follows { taking, .. } => {
                    actions.push(Action::Watch(me));
                    if taking.is_none() && state.left.0 > 0 {
                        actions.push(Action::Take(me));
                    }
                }
                Server::Leads { sure, asks, .. } => {
                    actions.extend([Action::Ask(me), Action::Acknowledge(me), Action::Read(me)]);
                    match (asks, sure) {
                        (Some(_), _) => {}
                        (None, true) => actions.push(Action::Append(me)),
                        (None, false) => actions.push(Action::Look(me)),
                    }
                    if *sure && state.left.3 > 0 {
                        actions.push(Action::Snapshot(me));
                    }
                }
            }
            let waits = match server {
                Server::Leads { asks, .. } => asks.is_some(),
                Server::Follows { taking, .. } => taking.is_some(),
                Server::Down => false,
            };
            if waits && state.left.2 > 0 {
                actions.push(Action::Silence(me));
            }
            if *server != Server::Down && state.left.1 > 0 {
                actions.push(Action::Kill(me));
            }
        }
        actions.extend((0..state.wires.len()).map(Action::CarryOut));
        actions.extend((0..state.wires.len()).map(Action::Lose));
        actions.extend((0..state.answers.len()).map(Action::Answer));
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Ask(me) => {
                let next = state.acknowledged.len() as Request;
                let Server::Leads { state: own, .. } = &mut state.servers[me] else { return None };
                let known = own.iter().filter(|(request, _)| *request == next).count();
                let again = known < 2 && self.has(Fault::TakesTwice);
                if next >= self.requests || (known > 0 && !again) {
                    return None;
                }
                own.push((next, me));
            }
            Action::Acknowledge(me) => {
                let next = state.acknowledged.len() as Request;
                let Server::Leads { state: own, durable, .. } = &state.servers[me] else { return None };
                let counts = if self.has(Fault::AcknowledgeBeforeAppend) { own.len() } else { *durable };
                own[..counts].iter().any(|(request, _)| *request == next).then(|| state.acknowledged.push(next))?;
            }
            Action::Read(me) => {
                let Server::Leads { state: own, durable, .. } = &state.servers[me] else { return None };
                let counts = if self.has(Fault::OutputBeforeAppend) { own.len() } else { *durable };
                let resumed = state.head.epoch > 1;
                let late = usize::from(self.has(Fault::ResumesTooLate) && resumed);
                let line = *own[..counts].get(state.lines.len() + late)?;
                state.lines.push(line);
            }
            Action::Append(me) => {
                let number = state.numbers;
                let Server::Leads { state: own, durable, epoch, revision, asks, .. } = &mut state.servers[me] else {
                    return None;
                };
                let record = *own.get(*durable)?;
                *asks = Some(number);
                let what = What::Append(record, *epoch, *durable);
                state.wires.push(Change { from: me, number, revision: *revision, what });
                state.wires.sort();
                state.numbers += 1;
            }
            Action::CarryOut(at) => {
                let change = state.wires.remove(at);
                let blind = match change.what {
                    What::Append(..) => self.has(Fault::AppendWithoutCompare),
                    What::Take(..) => self.has(Fault::TakeWithoutCompare),
                };
                let held = blind || change.revision == state.revision;
                if held {
                    state.revision += 1;
                    match change.what {
                        What::Append(record, epoch, index) => {
                            let index = if self.has(Fault::SilenceIsSentAgain) { state.log.len() } else { index };
                            state.log.truncate(index);
                            state.log.push(record);
                            state.head = Head { leader: change.from, epoch, index: state.log.len() };
                        }
                        What::Take(epoch, index) => {
                            // What was added meanwhile does not count any more.
                            state.log.truncate(index);
                            state.head = Head { leader: change.from, epoch, index };
                        }
                    }
                }
                let Change { from: to, number, .. } = change;
                // Nobody waits for what was given up.
                let awaited = match &state.servers[to] {
                    Server::Leads { asks, .. } => *asks == Some(number),
                    Server::Follows { taking, .. } => *taking == Some(number),
                    Server::Down => false,
                };
                if awaited {
                    state.answers.push(Answer { to, number, revision: state.revision, head: state.head, held });
                }
            }
            Action::Lose(at) => drop(state.wires.remove(at)),
            Action::Answer(at) => {
                let answer = state.answers.remove(at);
                let me = answer.to;
                let server = match &state.servers[me] {
                    Server::Leads { state: own, durable, epoch, asks, .. } if *asks == Some(answer.number) => {
                        if answer.held {
                            let (own, durable, epoch) = (own.clone(), durable + 1, *epoch);
                            let revision = answer.revision;
                            Server::Leads { state: own, durable, epoch, revision, sure: true, asks: None }
                        } else {
                            self.adopt(&state, me, answer.head, answer.revision)
                        }
                    }
                    Server::Follows { state: own, seen, taking } if *taking == Some(answer.number) => {
                        if answer.held {
                            let mut own = own.clone();
                            if !self.has(Fault::LeadsBeforeApplied) {
                                let from = own.len().min(answer.head.index);
                                own.extend(&last.log[from..answer.head.index]);
                            }
                            let (durable, epoch) = (own.len(), answer.head.epoch);
                            let revision = answer.revision;
                            Server::Leads { state: own, durable, epoch, revision, sure: true, asks: None }
                        } else {
                            Server::Follows { state: own.clone(), seen: *seen, taking: None }
                        }
                    }
                    _ => return None,
                };
                state.servers[me] = server;
            }
            Action::Silence(me) => {
                state.left.2 -= 1;
                state.answers.retain(|answer| answer.to != me);
                match &mut state.servers[me] {
                    Server::Leads { asks, sure, durable, revision, .. } => {
                        (*asks, *sure) = (None, false);
                        if self.has(Fault::SilenceIsDone) {
                            (*sure, *durable, *revision) = (true, *durable + 1, *revision + 1);
                        }
                    }
                    Server::Follows { taking, .. } => *taking = None,
                    Server::Down => return None,
                }
            }
            Action::Look(me) => state.servers[me] = self.adopt(last, me, last.head, last.revision),
            Action::Watch(me) => {
                let Server::Follows { state: own, seen, .. } = &mut state.servers[me] else { return None };
                if own.len() >= state.head.index && seen.0 == state.revision {
                    return None;
                }
                if own.len() < state.head.index {
                    let lost = usize::from(self.has(Fault::LostChange) && own.len() + 1 < state.head.index);
                    own.push(state.log[own.len() + lost]);
                }
                *seen = (state.revision, state.head);
            }
            Action::Take(me) => {
                state.left.0 -= 1;
                let number = state.numbers;
                let Server::Follows { seen: (revision, head), taking, .. } = &mut state.servers[me] else {
                    return None;
                };
                *taking = Some(number);
                let epoch = if self.has(Fault::TakeWithoutEpoch) { head.epoch } else { head.epoch + 1 };
                state.wires.push(Change { from: me, number, revision: *revision, what: What::Take(epoch, head.index) });
                state.wires.sort();
                state.numbers += 1;
            }
            Action::Snapshot(me) => {
                let Server::Leads { state: own, durable, revision, .. } = &state.servers[me] else { return None };
                if *durable <= state.snapshot.len() || *revision != state.revision {
                    return None;
                }
                state.left.3 -= 1;
                state.snapshot = own[..*durable].to_vec();
            }
            Action::Kill(me) => {
                state.left.1 -= 1;
                state.servers[me] = Server::Down;
                state.answers.retain(|answer| answer.to != me);
            }
            Action::Start(me) => state.servers[me] = self.read(last),
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::<Self>::always("the shim has read what is in the log", |_, state: &State| {
                state.log.starts_with(&state.lines)
            }),
            Property::always("what was acknowledged is in the log", |_, state: &State| {
                state.acknowledged.iter().all(|one| state.log.iter().any(|(request, _)| request == one))
            }),
            Property::always("a request is in it once", |model: &Cluster, state: &State| {
                (0..model.requests).all(|request| state.log.iter().filter(|(other, _)| *other == request).count() < 2)
            }),
            Property::always("who follows, and who leads, has what is in it", |_, state: &State| {
                state.servers.iter().all(|server| match server {
                    Server::Down => true,
                    Server::Follows { state: own, .. } => state.log.starts_with(own),
                    // What it takes for recorded.
                    Server::Leads { state: own, durable, .. } => {
                        *durable <= own.len() && state.log.starts_with(&own[..*durable])
                    }
                })
            }),
            Property::sometimes("all goes on after another has taken over", |model: &Cluster, state: &State| {
                state.head.epoch > 1 && state.lines.len() == usize::from(model.requests)
            }),
            Property::sometimes("a change is carried out and not answered", |_, state: &State| {
                state.servers.iter().any(|server| {
                    matches!(server, Server::Leads { durable, sure: false, .. } if *durable < state.head.index)
                })
            }),
        ]
    }
}

/// As small as it may be to have everything happen.
const SMALL: Cluster = Cluster { requests: 2, takes: 1, kills: 1, silences: 1, snapshots: 1, fault: None };

#[test]
fn nothing_that_may_happen_breaks_the_protocol() {
    // With a server that is killed and begins with a snapshot; with one that loses the lead and takes it again.
    for model in [SMALL, Cluster { takes: 2, kills: 0, snapshots: 0, ..SMALL }] {
        let checker = model.checker().threads(2).spawn_bfs().join();
        checker.assert_properties();
        println!("{model:?}: {} states", checker.unique_state_count());
        assert!(checker.is_done() && checker.unique_state_count() > 10_000, "{}", checker.unique_state_count());
    }
}

#[test]
fn each_planted_fault_is_found() {
    for fault in FAULTS {
        let model = Cluster { fault: Some(fault), ..SMALL };
        let checker = model.checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
        let broken = model.properties().into_iter().filter(|property| property.expectation == Expectation::Always);
        let found: Vec<_> =
            broken.map(|property| property.name).filter(|name| checker.discovery(name).is_some()).collect();
        println!("{fault:?}: {found:?} after {} states", checker.unique_state_count());
        assert!(!found.is_empty(), "{fault:?} is not found");
    }
}
