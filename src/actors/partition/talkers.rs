//! Things of one kind, most of which need no conversation: an actor starts with the first message to it.

use actix::prelude::*;
use rustc_hash::FxHashMap;

use super::conversations::Id;

/// See the module.
pub(super) struct Talkers<A: Actor> {
    all: FxHashMap<Id, Option<Addr<A>>>,
    /// Those that have an actor.
    actors: usize,
}

impl<A: Actor> Default for Talkers<A> {
    fn default() -> Talkers<A> {
        Talkers { all: FxHashMap::default(), actors: 0 }
    }
}

impl<A: Actor<Context = Context<A>>> Talkers<A> {
    /// This one is there.
    pub(super) fn insert(&mut self, id: Id) {
        if let Some(Some(_)) = self.all.insert(id, None) {
            self.actors -= 1;
        }
    }

    /// This one is there no more. Gives its actor.
    pub(super) fn remove(&mut self, id: &str) -> Option<Addr<A>> {
        let actor = self.all.remove(id).flatten();
        self.actors -= usize::from(actor.is_some());
        actor
    }

    /// The actor, where there is one.
    pub(super) fn get(&self, id: &str) -> Option<&Addr<A>> {
        self.all.get(id)?.as_ref()
    }

    /// The actor of what is there, which begins with this where it had none.
    pub(super) fn begin(&mut self, id: &str, actor: impl FnOnce() -> A) -> Option<&Addr<A>> {
        let count = &mut self.actors;
        Some(self.all.get_mut(id)?.get_or_insert_with(|| {
            *count += 1;
            actor().start()
        }))
    }

    /// Everything that is there, with the actor of each that has one.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Id, Option<&Addr<A>>)> {
        self.all.iter().map(|(id, actor)| (id, actor.as_ref()))
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        self.all.contains_key(id)
    }

    /// How many actors there are.
    pub(super) fn actors(&self) -> usize {
        self.actors
    }

    /// All actors; nothing is there any more.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Addr<A>> + use<A> {
        std::mem::take(self).all.into_values().flatten()
    }
}
