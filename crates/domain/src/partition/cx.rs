//! What a command or a slice works with, and how it tells its effects.

use std::sync::Arc;

use crate::{
    effect::{Callback, Effect},
    event::{Change, Detail, Event, EventKind, cut_message},
    resources::Resource,
    types::Nanos,
    ugm::{Hear, UgmEvent},
};

/// What is told more often than this by one slice is told by a copy.
const OFTEN: u16 = 32;

/// The time, and where effects go.
///
/// Who takes effects drops them on another core, while the next slice is made here. Were all of them to hold the texts that the
/// partition holds, both cores would count the references of the same few texts all the time, and wait for each other's caches:
/// that took a fifth of the time of a wave. So effects hold copies of what most of them have in common, new ones in each slice.
pub(crate) struct Cx<'a> {
    pub now: Nanos,
    pub fx: &'a mut Vec<Effect>,
    /// What may still be tried in vain before the present call ends.
    patience: usize,
    /// The epoch in which the present step began.
    pub epoch: u64,
    /// Internal name of the partition.
    partition: Arc<str>,
    empty: Arc<str>,
    texts: Copies<str, 8>,
    resources: Copies<Resource, 4>,
}

/// What a call of [`Partition::schedule`](super::Partition::schedule) did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Number of decisions.
    pub made: usize,
    /// It ended amid attempts in vain, of which it is to make no more: the next call goes on there.
    pub cut: bool,
}

impl Done {
    /// There may be more to do of at most `max` decisions at a time.
    pub fn may_go_on(self, max: usize) -> bool {
        self.cut || self.made >= max
    }
}

impl Cx<'_> {
    /// For a partition with this internal name.
    pub fn new<'a>(now: Nanos, fx: &'a mut Vec<Effect>, partition: &Arc<str>) -> Cx<'a> {
        let (partition, empty) = (Arc::from(&**partition), Arc::from(""));
        Cx {
            now,
            fx,
            patience: usize::MAX,
            epoch: 0,
            partition,
            empty,
            texts: Copies::default(),
            resources: Copies::default(),
        }
    }

    /// So much may be tried in vain.
    pub fn with_patience(self, patience: usize) -> Self {
        Cx { patience, ..self }
    }

    /// Something was tried in vain that counts so much.
    pub fn tried(&mut self, weight: usize) {
        self.patience = self.patience.saturating_sub(weight);
    }

    /// Enough was tried in vain.
    pub fn is_spent(&self) -> bool {
        self.patience == 0
    }

    /// What cannot be taken up again in the middle is tried to its end.
    pub fn in_one_go<R>(&mut self, act: impl FnOnce(&mut Self) -> R) -> R {
        let patience = std::mem::replace(&mut self.patience, usize::MAX);
        let result = act(self);
        self.patience = patience;
        result
    }

    /// The effects of this, in `room` instead of among all others.
    pub fn apart(&mut self, room: Vec<Effect>, act: impl FnOnce(&mut Self)) -> Vec<Effect> {
        let told = std::mem::replace(self.fx, room);
        act(self);
        std::mem::replace(self.fx, told)
    }

    /// A text that others of these effects have, too.
    pub fn text(&mut self, text: &Arc<str>) -> Arc<str> {
        self.texts.of(text, |text| text.into())
    }

    /// A resource that others of these effects have, too.
    pub fn resource(&mut self, resource: &Arc<Resource>) -> Arc<Resource> {
        self.resources.of(resource, |resource| Arc::new(resource.clone()))
    }

    pub fn callback(&mut self, callback: Callback) {
        self.fx.push(Effect::Callback(callback));
    }

    /// Says it before all that came of it since there were so many effects.
    pub fn callbacks_before(&mut self, at: usize, callbacks: impl IntoIterator<Item = Callback>) {
        self.fx.splice(at..at, callbacks.into_iter().map(Effect::Callback));
    }

    pub fn event(&mut self, kind: EventKind, object: &Arc<str>, change: Change, detail: Detail) {
        let reference = self.empty.clone();
        self.message(kind, object, &reference, (change, detail), "", None);
    }

    pub fn event_of(
        &mut self,
        kind: EventKind,
        object: &Arc<str>,
        reference: &Arc<str>,
        change: Change,
        detail: Detail,
        resource: &Arc<Resource>,
    ) {
        let resource = self.resource(resource);
        self.message(kind, object, reference, (change, detail), "", Some(resource));
    }

    pub fn message(
        &mut self,
        kind: EventKind,
        object: &Arc<str>,
        reference: &Arc<str>,
        (change, detail): (Change, Detail),
        message: &str,
        resource: Option<Arc<Resource>>,
    ) {
        let message = cut_message(message);
        let (object, reference) = self.names(kind, object, reference);
        let (at, partition) = (self.now, self.partition.clone());
        let event = Event { kind, object, reference, change, detail, message, resource, at, partition };
        self.fx.push(Effect::Event(event));
    }

    /// Of object and reference of an event those as copies that many have: applications, queues, users. Nodes and keys are many.
    fn names(&mut self, kind: EventKind, object: &Arc<str>, reference: &Arc<str>) -> (Arc<str>, Arc<str>) {
        match kind {
            EventKind::Request => (object.clone(), self.text(reference)),
            EventKind::App | EventKind::Queue => (self.text(object), reference.clone()),
            EventKind::Node => (object.clone(), reference.clone()),
            EventKind::UserGroup => (self.text(object), self.text(reference)),
        }
    }
}

impl Hear for Cx<'_> {
    fn hear(&mut self, UgmEvent { change, detail, object, reference, resource }: UgmEvent) {
        let resource = resource.map(|resource| self.resource(resource));
        self.message(EventKind::UserGroup, object, reference, (change, detail), "", resource);
    }
}

/// Copies of what is told often.
struct Copies<T: ?Sized, const N: usize>([Copied<T>; N]);

/// What has a place among the copies by its address, until another one comes.
struct Copied<T: ?Sized> {
    address: usize,
    told: u16,
    /// The original, so that none other comes to its address, and what is told for it.
    copy: Option<(Arc<T>, Arc<T>)>,
}

impl<T: ?Sized, const N: usize> Default for Copies<T, N> {
    fn default() -> Self {
        Copies([const { Copied { address: 0, told: 0, copy: None } }; N])
    }
}

impl<T: ?Sized, const N: usize> Copies<T, N> {
    fn of(&mut self, original: &Arc<T>, copy: impl FnOnce(&T) -> Arc<T>) -> Arc<T> {
        let address = Arc::as_ptr(original).cast::<u8>().addr();
        let place = &mut self.0[(address >> 4) % N];
        if place.address != address {
            *place = Copied { address, told: 1, copy: None };
            return original.clone();
        }
        if let Some((_, copied)) = &place.copy {
            return copied.clone();
        }
        place.told += 1;
        if place.told <= OFTEN {
            return original.clone();
        }
        let copied = copy(original);
        place.copy = Some((original.clone(), copied.clone()));
        copied
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_often_is_told_by_a_copy() {
        let (mut copies, often) = (Copies::<str, 8>::default(), Arc::<str>::from("app-1"));
        let told: Vec<_> = (0..100).map(|_| copies.of(&often, |text| text.into())).collect();
        assert!(told.iter().all(|text| **text == *often));
        let own = told.iter().filter(|text| Arc::ptr_eq(text, &often)).count();
        assert_eq!(own, usize::from(OFTEN));
        assert!(told[own..].iter().all(|text| Arc::ptr_eq(text, &told[own])));
        // Those of a place take turns: none of them is copied.
        let many: Vec<Arc<str>> = (0..50).map(|n| format!("app-{n}").into()).collect();
        for text in many.iter().cycle().take(500) {
            assert!(*copies.of(text, |text| text.into()) == **text);
        }
    }

    #[test]
    fn what_comes_after_another_one_is_told_as_it_is() {
        let (mut copies, mut text) = (Copies::<str, 1>::default(), Arc::<str>::from("app-1"));
        for _ in 0..=OFTEN {
            copies.of(&text, |text| text.into());
        }
        assert!(Arc::get_mut(&mut text).is_none(), "it stays what it is, and where it is");
        let other = text.to_ascii_uppercase();
        drop(text);
        assert_eq!(&*copies.of(&other.into(), |text| text.into()), "APP-1");
    }
}
