//! What operators ask for: drain, undrain, and the expiration of the resource set. A request is planned first, which changes
//! nothing; when its events are on disk they are carried out.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    Journal, Moment, Output, Slot,
    event::{Kind, Origin, Overwrite, ResourceEvent},
    flush::RM_REASON,
    slot::{Capacity, DrainNote, DrainState},
};
use crate::{
    command::Command,
    hostlist::{self, HostList},
    idset::IdSet,
    types::Nanos,
};

/// Elements of one list of targets: each takes memory of its own while it is read; what they stand for has [`MAX_HOSTS`].
const MAX_ELEMENTS: usize = 100_000;
/// Hosts that one list of targets may stand for: each is looked up.
const MAX_HOSTS: u64 = 1 << 20;
/// Characters of a text that an error repeats.
const SHOWN: usize = 200;

/// Host names at fault that an error lists at most.
const LISTED: usize = 20;

/// An operator's drain.
#[derive(Clone, Debug, Default)]
pub struct DrainRequest {
    /// Idset of ranks, or else a hostlist, in which a node's id may stand for its host.
    pub targets: String,
    /// Why, as it is shown to people.
    pub reason: Option<Arc<str>>,
    /// What changes on targets that are drained already; `None`: then the request is refused.
    pub overwrite: Option<Overwrite>,
    /// When operators are told of what still runs, by the wall clock.
    pub deadline: Option<Nanos>,
}

/// An operator's undrain.
#[derive(Clone, Debug, Default)]
pub struct UndrainRequest {
    /// Idset of ranks, or else a hostlist, in which a node's id may stand for its host.
    pub targets: String,
    /// Why, as it is shown to people.
    pub reason: Option<Arc<str>>,
    /// Targets that are not drained are no error.
    pub lenient: bool,
}

/// Why a request was refused. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DrainRefusal {
    /// The targets are wrong.
    #[error("{0}")]
    Targets(String),
    /// One of them is a host that is away, and a node elsewhere.
    #[error("{0}")]
    Ambiguous(String),
    /// Some of them are drained already.
    #[error("{0} already drained; overwrite 0 leaves them as they are, 1 replaces their reason, 2 reason and time")]
    Drained(String),
    /// Some of them are not drained.
    #[error("{0} not drained")]
    NotDrained(String),
    /// The resource manager drained some of them.
    #[error("{0} drained by the resource manager, which has to undrain them")]
    RmDrained(String),
    /// The file could not be written.
    #[error("{0}")]
    Disk(String),
}

/// Hosts as the targets of an order: what reads as ranks is taken for them, unless a comma ends it.
pub fn targets_of(hosts: impl Iterator<Item = Arc<str>>) -> String {
    let names = hosts.map(|host| hostlist::safe_name(&host)).collect::<Vec<_>>().join(",");
    if IdSet::parse(&names).is_ok() { names + "," } else { names }
}

/// What the targets of a request are named for.
#[derive(Clone, Copy, Debug)]
enum Meant {
    ToDrain,
    ToUndrain,
}

impl Journal {
    /// The events of a drain (RFC 44): one with all targets, even where it changes nothing on some.
    ///
    /// # Errors
    /// The targets are wrong, or, without `overwrite`, an operator drained one of them already.
    pub fn plan_drain(&self, request: &DrainRequest, now: Moment) -> Result<Vec<ResourceEvent>, DrainRefusal> {
        let idset = self.resolve(&request.targets, Meant::ToDrain)?;
        if request.overwrite.is_none() {
            self.refuse_where(&idset, DrainRefusal::Drained, |slot| slot.drained_by_operator())?;
        }
        let kind = Kind::Drain {
            targets: self.targets(idset),
            reason: request.reason.clone(),
            overwrite: request.overwrite.unwrap_or_default(),
            origin: Origin::Operator,
            deadline: request.deadline,
        };
        Ok(vec![ResourceEvent { at: now.wall, kind }])
    }

    /// The events of an undrain. Targets that the resource manager drained too are drained by it again in the next event.
    ///
    /// # Errors
    /// The targets are wrong; one is not drained, unless the request is lenient; one is drained by the resource manager alone.
    pub fn plan_undrain(&self, request: &UndrainRequest, now: Moment) -> Result<Vec<ResourceEvent>, DrainRefusal> {
        let idset = self.resolve(&request.targets, Meant::ToUndrain)?;
        if !request.lenient {
            self.refuse_where(&idset, DrainRefusal::NotDrained, |slot| slot.drain.is_none())?;
        }
        self.refuse_where(&idset, DrainRefusal::RmDrained, |slot| slot.drained_by_rm() && !slot.drained_by_operator())?;
        let still: IdSet = idset.iter().filter(|rank| self.slots[*rank as usize].drained_by_rm()).collect();
        let kind =
            Kind::Undrain { targets: self.targets(idset), reason: request.reason.clone(), origin: Origin::Operator };
        let mut events = vec![ResourceEvent { at: now.wall, kind }];
        if !still.is_empty() {
            let kind = Kind::Drain {
                targets: self.targets(still),
                reason: Some(RM_REASON.into()),
                overwrite: Overwrite::Nothing,
                origin: Origin::ResourceManager,
                deadline: None,
            };
            events.push(ResourceEvent { at: now.wall, kind });
        }
        Ok(events)
    }

    /// The events after which operators have drained these nodes, where no node is registered these hosts, and nothing else, for
    /// these reasons: as another server was told, which led the partition before.
    ///
    /// # Errors
    /// None of these is drained by the resource manager alone.
    pub fn plan_agreement(
        &self,
        nodes: &BTreeSet<Arc<str>>,
        hosts: &BTreeSet<Arc<str>>,
        notes: &BTreeMap<Arc<str>, DrainNote>,
        now: Moment,
    ) -> Result<Vec<ResourceEvent>, DrainRefusal> {
        let wanted = |slot: &Slot| match &slot.node {
            Some(node) if slot.online() => nodes.contains(node),
            _ => hosts.contains(&slot.host),
        };
        let (mut drained, mut undrained) = (BTreeMap::<_, IdSet>::new(), IdSet::new());
        for (rank, slot) in (0..).zip(&self.slots) {
            let (is, wanted, note) = (slot.drained_by_operator(), wanted(slot), notes.get(&slot.host));
            if is && !wanted {
                undrained.insert(rank);
            } else if wanted && (!is || note.is_some_and(|note| slot.note().as_ref() != Some(note))) {
                drained.entry(note).or_default().insert(rank);
            }
        }
        let mut events = Vec::new();
        for (note, ranks) in drained {
            let (at, reason, deadline) = match note.cloned() {
                Some(DrainNote { since, reason, deadline }) => (since, reason, deadline),
                None => (now.wall, Some("drained while another server led".into()), None),
            };
            let (targets, overwrite, origin) = (self.targets(ranks), Overwrite::ReasonAndTime, Origin::Operator);
            events.push(ResourceEvent { at, kind: Kind::Drain { targets, reason, overwrite, origin, deadline } });
        }
        if !undrained.is_empty() {
            let reason = Some("undrained while another server led".into());
            let request = UndrainRequest { targets: undrained.to_string(), reason, lenient: true };
            events.extend(self.plan_undrain(&request, now)?);
        }
        Ok(events)
    }

    /// The events of a new end of the resource set's life, in seconds since the Unix epoch, 0: none. Nothing where it is
    /// the present one (SEEDS S38).
    pub fn plan_expiration(&self, expiration: i64, now: Moment) -> Vec<ResourceEvent> {
        let update = ResourceEvent { at: now.wall, kind: Kind::Update { expiration } };
        if expiration == self.expiration { Vec::new() } else { vec![update] }
    }

    /// Carries out planned events, and tells the partition of the nodes concerned.
    pub fn carry_out(&mut self, events: &[ResourceEvent], out: &mut Vec<Output>) {
        for event in events {
            let (targets, origin, drained) = match &event.kind {
                Kind::Update { expiration } => {
                    self.expiration = *expiration;
                    continue;
                }
                Kind::Drain { targets, origin, .. } => (targets, *origin, true),
                Kind::Undrain { targets, origin, .. } => (targets, *origin, false),
                _ => continue,
            };
            let size = self.size();
            for rank in targets.idset.iter().take_while(|rank| *rank < size) {
                self.change_drain(rank, event);
            }
            if origin == Origin::Operator {
                let slots: Vec<&Slot> = targets.idset.iter().filter_map(|rank| self.slots.get(rank as usize)).collect();
                // A node that left may be remembered as drained, unless it is at another rank now.
                let here = |slot: &&Slot| match &slot.node {
                    Some(node) if slot.online() || !(drained || self.by_node.contains_key(node)) => Some(node.clone()),
                    _ => None,
                };
                let nodes: Vec<_> = slots.iter().filter_map(here).collect();
                let hosts: BTreeSet<&Arc<str>> = slots.into_iter().map(|slot| &slot.host).collect();
                let hosts: Vec<_> = hosts.into_iter().filter(|host| self.holds(host) == drained).cloned().collect();
                if !hosts.is_empty() {
                    out.push(Output::Tell(Command::HoldHosts { hosts, held: drained }));
                }
                if !nodes.is_empty() {
                    out.push(Output::Tell(Command::OperatorDrain { nodes, drained }));
                }
                let notes = self.notes_of(&targets.idset);
                if drained && !notes.is_empty() {
                    out.push(Output::Tell(Command::NoteDrains(notes)));
                }
            }
        }
    }

    /// A node has another host name than before: what an operator drained there stays drained at its new rank.
    pub(super) fn move_drain(&mut self, old: u32, new: u32, now: Moment, out: &mut Vec<Output>) {
        let slots = (self.slots.get(old as usize), self.slots.get(new as usize));
        let (Some(from), Some(to)) = slots else { return };
        let Some(DrainNote { reason, deadline, .. }) = from.note() else { return };
        let why = format!("its node is {} now", to.host);
        let mut events = Vec::new();
        if !to.drained_by_operator() {
            let (targets, overwrite, origin) =
                (self.targets(IdSet::from_iter([new])), Overwrite::Nothing, Origin::Operator);
            events.push(Kind::Drain { targets, reason, overwrite, origin, deadline });
        }
        let targets = self.targets(IdSet::from_iter([old]));
        events.push(Kind::Undrain { targets, reason: Some(why.into()), origin: Origin::Operator });
        let events: Vec<_> = events.into_iter().map(|kind| ResourceEvent { at: now.wall, kind }).collect();
        // The map first, without which a reader does not know the new rank.
        self.flush(now, out);
        out.extend(events.iter().cloned().map(Output::Event));
        self.carry_out(&events, out);
    }

    /// An operator drained a rank of this host.
    fn holds(&self, host: &Arc<str>) -> bool {
        let ranks = self.by_host.get(host).map_or(&[][..], Vec::as_slice);
        ranks.iter().any(|rank| self.slots[*rank as usize].drained_by_operator())
    }

    /// What operators said of the drains of these ranks, by host: of several ranks of one host that of the last.
    fn notes_of(&self, ranks: &IdSet) -> Vec<(Arc<str>, DrainNote)> {
        let slots = ranks.iter().filter_map(|rank| self.slots.get(rank as usize));
        let notes = slots.filter_map(|slot| Some((slot.host.clone(), slot.note()?)));
        notes.collect::<BTreeMap<_, _>>().into_iter().collect()
    }

    /// What operators said of all drains.
    pub fn drain_notes(&self) -> Vec<(Arc<str>, DrainNote)> {
        self.notes_of(&self.ranks())
    }

    /// These hosts are known from now on, where they are not: another server heard of them.
    pub fn meet(&mut self, hosts: &BTreeSet<Arc<str>>, now: Moment) {
        for host in hosts {
            if !self.by_host.contains_key(host) {
                let rank = self.add_slot(host, Capacity::default());
                self.leave(rank, now);
                self.map_changed = true;
                self.changed(now);
            }
        }
    }

    /// The hosts of ranks that an operator drained: their nodes are drained from their registration on.
    pub fn held_hosts(&self) -> Vec<Arc<str>> {
        if crate::planted!("session-undrains") {
            return Vec::new();
        }
        let held: BTreeSet<&Arc<str>> =
            self.slots.iter().filter(|slot| slot.drained_by_operator()).map(|slot| &slot.host).collect();
        held.into_iter().cloned().collect()
    }

    /// What a drain or undrain event does to one rank.
    pub(super) fn change_drain(&mut self, rank: u32, event: &ResourceEvent) {
        let Some(slot) = self.slots.get_mut(rank as usize) else { return };
        // The log names its node with this.
        slot.taken_over = false;
        let before = slot.deadline();
        change(&mut slot.drain, event);
        let after = slot.deadline();
        self.may_be_given_up(rank);
        if before != after {
            before.map(|at| self.deadlines.remove(&(at, rank)));
            if let Some(at) = after {
                self.deadlines.insert((at, rank));
                // One that has passed already is told of too.
                self.told = self.told.min(at.minus(Nanos(1)));
            }
        }
    }

    /// Ranks named by an idset, or else by a hostlist; a host stands for all its ranks, a node for its own.
    fn resolve(&self, text: &str, meant: Meant) -> Result<IdSet, DrainRefusal> {
        let elements = 1 + text.bytes().filter(|byte| *byte == b',').count();
        if elements > MAX_ELEMENTS {
            let most = format!("at most {MAX_ELEMENTS} go into one request: write them as ranges, or send several");
            return Err(DrainRefusal::Targets(format!("targets have {elements} elements: {most}")));
        }
        let Ok(idset) = IdSet::parse(text) else { return self.resolve_hosts(text, meant) };
        let Some(last) = idset.last() else {
            return Err(DrainRefusal::Targets("idset is empty: name at least one rank or host".to_owned()));
        };
        if last >= self.size() {
            let missing = idset.difference(&self.ranks());
            let there = match self.size() {
                0 => "there are no targets yet".to_owned(),
                _ => format!("ranks are {}", self.ranks()),
            };
            return Err(DrainRefusal::Targets(format!("idset is out of range: '{missing}' ({there})")));
        }
        Ok(idset)
    }

    /// A hostlist; else one name with what a hostlist cannot have in it, as other doors tell it.
    fn resolve_hosts(&self, text: &str, meant: Meant) -> Result<IdSet, DrainRefusal> {
        self.resolve_list(text, meant).or_else(|refused| {
            let safe = hostlist::safe_name(text);
            let known = || self.by_host.contains_key(safe.as_str()) || self.rank_of_node(text, &mut None).is_some();
            if safe != text && known() { self.resolve_list(&safe, meant) } else { Err(refused) }
        })
    }

    /// A name that is no host's may be that of a node, by which other doors name it.
    fn resolve_list(&self, text: &str, meant: Meant) -> Result<IdSet, DrainRefusal> {
        let hosts = HostList::parse(text).map_err(|hostlist::Error { position, what, .. }| {
            // Whoever sent it has it whole.
            let shown = text.char_indices().nth(SHOWN).map_or(text, |(end, _)| &text[..end]);
            let more = if shown.len() < text.len() { "…" } else { "" };
            DrainRefusal::Targets(format!(
                "invalid targets: Hostlist cannot be decoded: '{shown}{more}', character {position}: {what} (nor is it an idset)"
            ))
        })?;
        if hosts.len() > MAX_HOSTS {
            let text = format!("targets stand for {} hosts: at most {MAX_HOSTS} are allowed", hosts.len());
            return Err(DrainRefusal::Targets(text));
        }
        let mut idset = IdSet::new();
        let mut unknown = Vec::new();
        let mut away = None;
        for name in hosts.iter() {
            match self.by_host.get(name.as_str()) {
                Some(ranks) => match self.host_or_node(&name, ranks, meant)? {
                    Some(rank) => idset.insert(rank),
                    None => {
                        // A rank of the host where nothing is any more, and that is not drained, has nothing to undrain: it
                        // counts where there is no other.
                        let is_left = |rank: &u32| {
                            let slot = &self.slots[*rank as usize];
                            matches!(meant, Meant::ToUndrain) && !slot.online() && !slot.drained_by_operator()
                        };
                        let all = ranks.iter().all(is_left);
                        ranks.iter().filter(|rank| all || !is_left(rank)).for_each(|rank| idset.insert(*rank));
                    }
                },
                None => match self.rank_of_node(&name, &mut away) {
                    Some(rank) => idset.insert(rank),
                    None => unknown.push(name),
                },
            }
            if unknown.len() == LISTED {
                break;
            }
        }
        if !unknown.is_empty() {
            let unknown: HostList = unknown.into_iter().collect();
            return Err(DrainRefusal::Targets(format!("invalid targets: invalid hosts: {unknown}")));
        }
        if idset.is_empty() {
            return Err(DrainRefusal::Targets("hostlist is empty: name at least one rank or host".to_owned()));
        }
        Ok(idset)
    }

    /// The rank of the node that a host's name means where nothing is registered at that host any more, and the node of that id
    /// is at another one: it got a host name, and is what works under this name. `None`: the host is meant.
    fn host_or_node(&self, name: &str, ranks: &[u32], meant: Meant) -> Result<Option<u32>, DrainRefusal> {
        let slot = |rank: u32| &self.slots[rank as usize];
        let Some(here) = self.by_node.get(name).copied() else { return Ok(None) };
        if ranks.iter().any(|rank| slot(*rank).online()) {
            return Ok(None);
        }
        let is_drained = ranks.iter().any(|rank| slot(*rank).drained_by_operator());
        // The host is known for itself: its node was another one, which is away as well.
        let of_another = |node: &Arc<str>| **node != *name && !self.by_node.contains_key(node);
        let is_host = ranks.iter().any(|rank| slot(*rank).node.as_ref().is_some_and(of_another));
        let ambiguous = match meant {
            Meant::ToUndrain if is_drained && !slot(here).drained_by_operator() => return Ok(None),
            Meant::ToUndrain => is_drained,
            Meant::ToDrain => is_drained || is_host,
        };
        if !ambiguous {
            return Ok(Some(here));
        }
        let ranks: IdSet = ranks.iter().copied().collect();
        let of_host = format!("host {name} (rank {ranks}), which is away");
        let of_node = format!("node {name} on host {} (rank {here})", slot(here).host);
        Err(DrainRefusal::Ambiguous(format!("'{name}' may be {of_host}, or {of_node}: name the rank that is meant")))
    }

    /// Where a node is registered; of one that is away, where it was, if that was one rank only. `away` keeps those.
    fn rank_of_node<'a>(&'a self, id: &str, away: &mut Option<BTreeMap<&'a str, Option<u32>>>) -> Option<u32> {
        // In a hostlist it is without what a hostlist cannot have in it.
        let plain = hostlist::plain_name(id);
        let here = self.by_node.get(id).or_else(|| self.by_node.get(plain.as_str())).copied();
        here.or_else(|| {
            let away = away.get_or_insert_with(|| self.nodes_away());
            *away.get(id).or_else(|| away.get(plain.as_str()))?
        })
    }

    fn nodes_away(&self) -> BTreeMap<&str, Option<u32>> {
        let mut away = BTreeMap::new();
        for (rank, slot) in (0..).zip(&self.slots).filter(|(_, slot)| !slot.online()) {
            if let Some(node) = &slot.node {
                away.entry(&**node).and_modify(|known| *known = None).or_insert(Some(rank));
            }
        }
        away
    }

    fn refuse_where(
        &self,
        idset: &IdSet,
        refusal: impl Fn(String) -> DrainRefusal,
        fault: impl Fn(&super::Slot) -> bool,
    ) -> Result<(), DrainRefusal> {
        let faulty: IdSet = idset.iter().filter(|rank| self.slots.get(*rank as usize).is_some_and(&fault)).collect();
        match faulty.len() {
            0 => Ok(()),
            1 => Err(refusal(format!("rank {faulty}"))),
            _ => Err(refusal(format!("ranks {faulty}"))),
        }
    }
}

/// What a drain or undrain event makes of a drain.
fn change(drain: &mut Option<DrainState>, event: &ResourceEvent) {
    let Kind::Drain { reason, overwrite, origin, deadline, .. } = &event.kind else {
        *drain = None;
        return;
    };
    let by_rm = *origin == Origin::ResourceManager;
    let operator = (!by_rm).then(|| reason.clone());
    let Some(state) = drain else {
        let (since, reason, deadline) = (event.at, reason.clone(), *deadline);
        *drain = Some(DrainState { since, reason, operator, rm: by_rm, deadline });
        return;
    };
    state.rm |= by_rm;
    if !by_rm && (state.operator.is_none() || *overwrite != Overwrite::Nothing) {
        state.operator = operator;
        // A new reason alone leaves the deadline as it is.
        if deadline.is_some() || *overwrite != Overwrite::Reason {
            state.deadline = *deadline;
        }
    }
    match overwrite {
        Overwrite::Nothing => {}
        Overwrite::Reason => state.reason = reason.clone(),
        Overwrite::ReasonAndTime => {
            state.reason = reason.clone();
            state.since = event.at;
        }
    }
}
