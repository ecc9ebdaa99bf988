//! Requests that are traced: what they lead to in the partition, and the callbacks and events that come of it. A replacement of a
//! placeholder is a span of its own, in the trace of the real ask, from the release to the swap. Where nothing is traced, none of
//! this costs more than a look at empty tables.

use std::{collections::VecDeque, sync::Arc};

use rustc_hash::FxHashMap;

use crate::{
    domain::{
        Partition,
        command::Command,
        effect::{AppEffect, Callback, Effect, Released},
        event::{Detail, Event, EventKind},
        types::Termination,
    },
    messages::{budget::Permit, rm::Kind},
    trace::{Exemplar, Point, Side, Span},
};

/// Names that are remembered as part of a trace at most: the oldest are forgotten.
const KNOWN: usize = 16_384;
/// Names that are remembered of one request at most.
const NAMED: usize = 128;
/// Replacements that are followed at most.
const SWAPS: usize = 1_024;

/// What a name is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum What {
    App,
    Ask,
    Node,
}

/// A name, and of an ask its application, within which alone its key is unique (R4.1).
type Name = (What, Arc<str>, Arc<str>);

/// An allocation: its application and its key.
type Key = (Arc<str>, Arc<str>);

fn name_of(what: What, name: &Arc<str>) -> Name {
    (what, name.clone(), Arc::default())
}

fn ask_of(app: &Arc<str>, key: &Arc<str>) -> Name {
    (What::Ask, key.clone(), app.clone())
}

/// See the module.
#[derive(Default)]
pub(super) struct Traced {
    known: FxHashMap<Name, Known>,
    /// The same names, the oldest first; some are not known any more.
    order: VecDeque<Name>,
    /// The application that the last of the known asks of a key is of: events of nodes name the key alone.
    apps: FxHashMap<Arc<str>, Arc<str>>,
    /// What was done for requests whose effects have not left.
    steps: Vec<Span>,
    /// Under way, by the placeholder.
    swaps: FxHashMap<Key, Span>,
    /// Numbers the requests.
    requests: u64,
    leaving: Leaving,
}

/// A name that a traced request brought.
struct Known {
    request: u64,
    point: Point,
    /// The key of the placeholder that it replaces.
    swap: Option<Arc<str>>,
}

/// What leaves together.
#[derive(Default)]
pub(super) struct Leaving {
    /// Each ends when the stream has it.
    pub callbacks: Vec<(Kind, Span)>,
    /// Places of the events of each request.
    pub events: Vec<(Span, Vec<u64>)>,
    of_request: FxHashMap<u64, usize>,
    /// Events so far.
    count: u64,
    /// What is over: forgotten when all of the batch was looked at.
    over: Vec<Name>,
    /// Placeholders whose release has been confirmed, or needs no confirmation any more.
    confirmed: Vec<Key>,
}

impl Traced {
    /// Something of it is traced.
    pub(super) fn is_busy(&self) -> bool {
        !self.known.is_empty() || !self.steps.is_empty() || !self.swaps.is_empty()
    }

    /// Commands are about to be applied.
    pub(super) fn enters(&mut self, commands: &[Command], permit: Option<&Permit>, partition: &str) {
        let point = permit.and_then(Permit::point);
        if !self.swaps.is_empty() {
            self.confirm(commands, point.as_ref());
        }
        let Some(point) = point else { return };
        let mut span = point.child("partition", Side::Inside);
        span.text("callboard.partition", partition);
        self.requests += 1;
        let here = span.point();
        for name in names(commands).take(NAMED) {
            self.learn(name, Known { request: self.requests, point: here.clone(), swap: None });
        }
        self.steps.push(span);
    }

    fn learn(&mut self, name: Name, known: Known) {
        if self.order.len() >= KNOWN
            && let Some(oldest) = self.order.pop_front()
        {
            self.forget(&oldest);
        }
        if name.0 == What::Ask {
            self.apps.insert(name.1.clone(), name.2.clone());
        }
        self.order.push_back(name.clone());
        self.known.insert(name, known);
    }

    fn forget(&mut self, name: &Name) {
        self.known.remove(name);
        if name.0 == What::Ask && self.apps.get(&name.1) == Some(&name.2) {
            self.apps.remove(&name.1);
        }
    }

    /// Nothing came of what was done.
    pub(super) fn rest(&mut self) {
        self.steps.clear();
    }

    /// The trace of what was done last, if any of it is traced.
    pub(super) fn exemplar(&self) -> Option<Exemplar> {
        self.steps.last().map(|span| span.point().exemplar())
    }

    /// The shim confirms releases: the span of a replacement is linked to the request that does, where that is traced.
    fn confirm(&mut self, commands: &[Command], by: Option<&Point>) {
        let releases = commands.iter().filter_map(|command| match command {
            Command::Allocations { releases, .. } => Some(releases),
            _ => None,
        });
        for release in releases.flatten().filter(|release| release.termination == Termination::PlaceholderReplaced) {
            let Some(swap) = self.swaps.get_mut(&(release.app.clone(), release.key.clone())) else { continue };
            let mut span = swap.point().child("confirmation", Side::Inside);
            if let Some(by) = by {
                span.link(by);
                swap.link(by);
            }
            self.steps.push(span);
        }
    }

    /// An effect is about to leave; `partition` is as all effects have left it.
    pub(super) fn note(&mut self, effect: &Effect, partition: &Partition) {
        match effect {
            Effect::Event(event) => self.event(event, partition),
            Effect::Callback(Callback::New(new)) => {
                let name = ask_of(&new.app, &new.spec.key);
                let Some(known) = self.known.get(&name) else { return };
                let placeholder = known.swap.as_ref().map(|key| (new.app.clone(), key.clone()));
                let swap = placeholder.and_then(|placeholder| self.swaps.remove(&placeholder));
                let point = swap.as_ref().map_or_else(|| known.point.clone(), Span::point);
                let mut span = point.child("callback: new allocation", Side::Callback);
                span.text("callboard.node", &*new.node);
                self.says(span, Kind::Allocation, &new.app, &new.spec.key);
                if let Some(mut swap) = swap {
                    swap.text("callboard.outcome", "replaced");
                }
                // Placeholders are replaced.
                if !new.spec.placeholder {
                    self.leaving.over.push(name);
                }
            }
            Effect::Callback(Callback::Released(release)) => self.released(release, partition),
            Effect::Callback(Callback::RejectedAllocation { key, app, reason }) => {
                self.refused(ask_of(app, key), "callback: rejected allocation", Kind::Allocation, app, reason);
            }
            Effect::Callback(Callback::AcceptedApplication(app)) => {
                if let Some(known) = self.known.get(&name_of(What::App, app)) {
                    let span = known.point.child("callback: accepted application", Side::Callback);
                    self.says(span, Kind::Application, app, "");
                }
            }
            Effect::Callback(Callback::RejectedApplication { app, reason }) => {
                self.refused(name_of(What::App, app), "callback: rejected application", Kind::Application, app, reason);
            }
            Effect::Callback(Callback::AcceptedNode(node)) => {
                let name = name_of(What::Node, node);
                if let Some(known) = self.known.get(&name) {
                    let mut span = known.point.child("callback: accepted node", Side::Callback);
                    span.text("callboard.node", &**node);
                    self.leaving.callbacks.push((Kind::Node, span));
                    self.leaving.over.push(name);
                }
            }
            Effect::Callback(Callback::RejectedNode { node, reason }) => {
                self.refused(name_of(What::Node, node), "callback: rejected node", Kind::Node, "", reason);
            }
            Effect::App(AppEffect::Confirmed { app, key, termination: Termination::PlaceholderReplaced }) => {
                self.leaving.confirmed.push((app.clone(), key.clone()));
            }
            Effect::App(AppEffect::Removed { app }) => self.leaving.over.push(name_of(What::App, app)),
            _ => {}
        }
    }

    fn released(&mut self, release: &Released, partition: &Partition) {
        let name = ask_of(&release.app, &release.key);
        if release.termination != Termination::PlaceholderReplaced {
            if let Some(known) = self.known.get(&name) {
                let span = known.point.child("callback: released allocation", Side::Callback);
                self.says(span, Kind::Allocation, &release.app, &release.key);
                self.leaving.over.push(name);
            }
            return;
        }
        let real = real_of(partition, release);
        let named = real.as_ref().and_then(|real| self.known.get(&ask_of(&release.app, real)));
        let Some(known) = named.or_else(|| self.known.get(&name)) else { return };
        if self.swaps.len() >= SWAPS {
            return;
        }
        let (request, point) = (known.request, known.point.clone());
        let mut swap = point.child("gang swap", Side::Inside);
        swap.text("callboard.application", &*release.app);
        swap.text("callboard.placeholder", &*release.key);
        let span = swap.point().child("callback: released placeholder", Side::Callback);
        self.says(span, Kind::Allocation, &release.app, &release.key);
        if let Some(real) = real {
            swap.text("callboard.ask", &*real);
            self.learn(ask_of(&release.app, &real), Known { request, point, swap: Some(release.key.clone()) });
        }
        self.swaps.insert((release.app.clone(), release.key.clone()), swap);
        self.leaving.over.push(name);
    }

    fn refused(&mut self, name: Name, what: &'static str, kind: Kind, app: &str, reason: &str) {
        let Some(known) = self.known.get(&name) else { return };
        let mut span = known.point.child(what, Side::Callback);
        span.text("callboard.reason", reason);
        self.says(span, kind, app, if name.0 == What::App { "" } else { &name.1 });
        self.leaving.over.push(name);
    }

    fn says(&mut self, mut span: Span, kind: Kind, app: &str, key: &str) {
        for (name, value) in [("callboard.application", app), ("callboard.allocation", key)] {
            if !value.is_empty() {
                span.text(name, value);
            }
        }
        self.leaving.callbacks.push((kind, span));
    }

    fn event(&mut self, event: &Event, partition: &Partition) {
        let place = self.leaving.count;
        self.leaving.count += 1;
        let (key, app, other) = match event.kind {
            EventKind::Request => (&event.object, Some(&event.reference), name_of(What::App, &event.reference)),
            EventKind::App => (&event.reference, Some(&event.object), name_of(What::App, &event.object)),
            EventKind::Node => {
                (&event.reference, on_node(&self.apps, event, partition), name_of(What::Node, &event.object))
            }
            EventKind::Queue | EventKind::UserGroup => return,
        };
        let of = |name: &Name| (!name.1.is_empty()).then(|| self.known.get(name)).flatten();
        let ask = app.and_then(|app| of(&ask_of(app, key)));
        let Some(known) = ask.or_else(|| of(&other)) else { return };
        let events = &mut self.leaving.events;
        let at = *self.leaving.of_request.entry(known.request).or_insert_with(|| {
            events.push((known.point.child("events", Side::Inside), Vec::new()));
            events.len() - 1
        });
        if events[at].1.len() < NAMED {
            events[at].1.push(place);
        }
    }

    /// All effects have been looked at: gives what goes along with them.
    pub(super) fn leave(&mut self) -> Leaving {
        self.steps.clear();
        let left = std::mem::take(&mut self.leaving);
        for placeholder in &left.confirmed {
            if let Some(mut swap) = self.swaps.remove(placeholder) {
                swap.text("callboard.outcome", "undone");
            }
        }
        for name in &left.over {
            self.forget(name);
        }
        if self.known.is_empty() {
            self.order.clear();
        }
        left
    }
}

/// The application whose allocation the event of a node is about; `None` where that is of another one with the same key.
fn on_node<'a>(apps: &'a FxHashMap<Arc<str>, Arc<str>>, event: &Event, partition: &Partition) -> Option<&'a Arc<str>> {
    let app = apps.get(&event.reference)?;
    let row = partition.alloc(app, &event.reference);
    // Where it has gone, so has it from the node.
    let here = row.is_none_or(|row| match row.node {
        Some(node) => *partition.nodes[node].id() == event.object,
        None => event.detail == Detail::NodeReservation,
    });
    here.then_some(app)
}

/// The ask that a placeholder makes room for.
fn real_of(partition: &Partition, release: &Released) -> Option<Arc<str>> {
    let real = partition.alloc(&release.app, &release.key)?.link?;
    Some(partition.allocs[real].spec.key.clone())
}

/// What commands name that callbacks will name.
fn names(commands: &[Command]) -> impl Iterator<Item = Name> {
    commands.iter().flat_map(|command| {
        let names: Box<dyn Iterator<Item = Name>> = match command {
            Command::Nodes(items) => Box::new(items.iter().map(|item| name_of(What::Node, &item.id))),
            Command::Applications { new, .. } => Box::new(new.iter().map(|app| name_of(What::App, &app.id))),
            Command::Allocations { allocations, releases } => {
                let confirms = |termination| termination == Termination::PlaceholderReplaced;
                let asks = allocations.iter().map(|item| ask_of(&item.app, &item.spec.key));
                let releases = releases.iter().filter(move |release| !confirms(release.termination));
                Box::new(asks.chain(releases.map(|release| ask_of(&release.app, &release.key))))
            }
            _ => Box::new(std::iter::empty()),
        };
        names
    })
}
