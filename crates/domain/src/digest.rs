//! Digests of effects: the same 64 bits in every process wherever the effects are the same, so that a replay finds the first that differs.
//!
//! All fields of an effect count, in a form of their own that is quickly made; it is XXH3 (64 bits, no seed) of that. The
//! form is as lasting as the log: where it changes, so does [`DOMAIN_VERSION`](crate::DOMAIN_VERSION).

use std::sync::Arc;

use twox_hash::XxHash3_64;

use crate::{
    alloc::{AskSpec, Foreign, PreemptionPolicy},
    effect::{
        AppEffect, Callback, Effect, NewAllocation, NodeEffect, Question, QuestionKind, QueueEffect, Released,
        TurnEffect,
    },
    event::Event,
    resources::Resource,
    sorted::Texts,
    summary::AppSummary,
    types::{AppState, Nanos, Termination},
};

/// Sums up effects; see the module.
#[derive(Clone, Debug, Default)]
pub struct Digest {
    form: Vec<u8>,
}

impl Digest {
    /// Adds effects in their order.
    pub fn add(&mut self, effects: &[Effect]) {
        for effect in effects {
            self.effect(effect);
        }
    }

    /// The digest of all effects that were added since the last; none at all give one, too.
    pub fn finish(&mut self) -> u64 {
        let digest = XxHash3_64::oneshot(&self.form);
        self.form.clear();
        digest
    }

    fn number(&mut self, number: u64) {
        self.form.extend_from_slice(&number.to_le_bytes());
    }

    fn time(&mut self, time: Nanos) {
        self.form.extend_from_slice(&time.0.to_le_bytes());
    }

    /// A kind, with up to three small values.
    fn head(&mut self, head: [u8; 4]) {
        self.form.extend_from_slice(&head);
    }

    fn text(&mut self, text: &str) {
        // No text is longer.
        self.form.extend_from_slice(&(text.len() as u32).to_le_bytes());
        self.form.extend_from_slice(text.as_bytes());
    }

    fn texts(&mut self, texts: &[Arc<str>]) {
        self.number(texts.len() as u64);
        texts.iter().for_each(|text| self.text(text));
    }

    fn map(&mut self, map: &Texts) {
        self.number(map.len() as u64);
        for (key, value) in map.iter() {
            self.text(key);
            self.text(value);
        }
    }

    fn vector(&mut self, vector: &Resource) {
        self.number(vector.len() as u64);
        for (kind, amount) in vector.iter() {
            self.text(kind.name());
            self.form.extend_from_slice(&amount.to_le_bytes());
        }
    }

    fn effect(&mut self, effect: &Effect) {
        match effect {
            Effect::Callback(callback) => self.callback(callback),
            Effect::Event(event) => self.event(event),
            Effect::Ask(question) => self.question(question),
            Effect::App(effect) => self.app(effect),
            Effect::Queue(effect) => self.queue(effect),
            Effect::Node(effect) => self.node(effect),
            Effect::Turn(effect) => self.turn(*effect),
        }
    }

    fn callback(&mut self, callback: &Callback) {
        match callback {
            Callback::New(new) => {
                let NewAllocation { spec, app, node, resource } = &**new;
                self.head([1, 1, 0, 0]);
                self.spec(spec);
                self.text(app);
                self.text(node);
                self.vector(resource);
            }
            Callback::Released(released) => {
                self.head([1, 2, 0, 0]);
                self.released(released);
            }
            Callback::RejectedAllocation { key, app, reason } => self.words([1, 3, 0, 0], [key, app, reason]),
            Callback::AcceptedApplication(app) => self.words([1, 4, 0, 0], [app]),
            Callback::RejectedApplication { app, reason } => self.words([1, 5, 0, 0], [app, reason]),
            Callback::UpdatedApplication { app, state, at, message } => {
                self.words([1, 6, app_state(*state), 0], [app, message]);
                self.time(*at);
            }
            Callback::AcceptedNode(node) => self.words([1, 7, 0, 0], [node]),
            Callback::RejectedNode { node, reason } => self.words([1, 8, 0, 0], [node, reason]),
            Callback::ContainerState { app, key, state, reason } => {
                self.words([1, 9, *state as u8, 0], [app, key, reason]);
            }
        }
    }

    fn words<const N: usize>(&mut self, head: [u8; 4], words: [&Arc<str>; N]) {
        self.head(head);
        words.iter().for_each(|word| self.text(word));
    }

    fn spec(&mut self, spec: &AskSpec) {
        let AskSpec {
            key,
            tags,
            resource,
            priority,
            task_group,
            placeholder,
            originator,
            preemption,
            required_node,
            created,
            foreign,
        } = spec;
        let preemption = preemption.map_or(0, |PreemptionPolicy { allow_preempt_self, allow_preempt_other }| {
            1 + 2 * u8::from(allow_preempt_self) + 4 * u8::from(allow_preempt_other)
        });
        let foreign = match foreign {
            None => 0,
            Some(Foreign::Static) => 1,
            Some(Foreign::Default) => 2,
        };
        let flags = u8::from(*placeholder)
            + 2 * u8::from(*originator)
            + 4 * u8::from(required_node.is_some())
            + 8 * u8::from(created.is_some());
        self.words([0, preemption, foreign, flags], [key, task_group]);
        self.map(tags);
        self.vector(resource);
        self.form.extend_from_slice(&priority.to_le_bytes());
        self.text(required_node.as_deref().unwrap_or_default());
        self.time(created.unwrap_or_default());
    }

    fn released(&mut self, released: &Released) {
        let Released { key, app, termination: why, message, confirm } = released;
        self.words([0, termination(*why), u8::from(*confirm), 0], [key, app, message]);
    }

    fn event(&mut self, event: &Event) {
        let Event { kind, object, reference, change, detail, message, resource, at, partition } = event;
        self.head([2, *kind as u8, *change as u8, u8::from(resource.is_some())]);
        self.form.extend_from_slice(&(*detail as i32).to_le_bytes());
        self.time(*at);
        for text in [&**object, &**reference, &**message, &**partition] {
            self.text(text);
        }
        if let Some(resource) = resource {
            self.vector(resource);
        }
    }

    fn question(&mut self, question: &Question) {
        // Whether others may go with it follows from the ask and the terms.
        let Question { id, key, node, more, kind, together: _ } = question;
        match kind {
            QuestionKind::Fits { allocate } => self.head([3, 1, u8::from(*allocate), 0]),
            QuestionKind::FitsWithout { victims, start } => {
                self.head([3, 2, 0, 0]);
                self.texts(victims);
                self.form.extend_from_slice(&start.to_le_bytes());
            }
        }
        self.number(*id);
        self.text(key);
        self.text(node);
        self.texts(more);
    }

    fn app(&mut self, effect: &AppEffect) {
        match effect {
            AppEffect::Added { app } => self.words([4, 1, 0, 0], [app]),
            AppEffect::Removed { app } => self.words([4, 2, 0, 0], [app]),
            AppEffect::Ended { summary } => {
                let AppSummary { app, submission, started, finished, user, queue, state, rm, history } = &**summary;
                self.words([4, 3, app_state(*state), 0], [app, user, queue, rm]);
                [submission, started, finished].into_iter().for_each(|time| self.time(*time));
                for used in [&history.normal, &history.preempted, &history.placeholder] {
                    self.number(used.len() as u64);
                    for (instance, amount) in used {
                        self.text(instance);
                        self.vector(amount);
                    }
                }
            }
            AppEffect::Unconfirmed { release } => {
                self.head([4, 4, 0, 0]);
                self.released(release);
            }
            AppEffect::Confirmed { app, key, termination: why } => {
                self.words([4, 5, termination(*why), 0], [app, key]);
            }
        }
    }

    fn turn(&mut self, effect: TurnEffect) {
        let (kind, number) = match effect {
            TurnEffect::Wanted => (1, 0),
            TurnEffect::Over => (2, 0),
            TurnEffect::Changed => (3, 0),
            TurnEffect::Seen(number) => (4, number),
        };
        self.head([7, kind, 0, 0]);
        self.number(number);
    }

    fn queue(&mut self, effect: &QueueEffect) {
        match effect {
            QueueEffect::Added { queue } => self.words([5, 1, 0, 0], [queue]),
            QueueEffect::Removed { queue } => self.words([5, 2, 0, 0], [queue]),
            QueueEffect::Admitted { queue, app } => self.words([5, 4, 0, 0], [queue, app]),
            QueueEffect::Refused { queue, app, reason } => self.words([5, 5, 0, 0], [queue, app, reason]),
        }
    }

    fn node(&mut self, effect: &NodeEffect) {
        match effect {
            NodeEffect::Registered { node, host, capacity, schedulable } => {
                self.words([6, 1, u8::from(*schedulable), 0], [node, host]);
                self.vector(capacity);
            }
            NodeEffect::Held { node } => self.words([6, 2, 0, 0], [node]),
            NodeEffect::Seen { node } => self.words([6, 3, 0, 0], [node]),
            NodeEffect::Capacity { node, capacity } => {
                self.words([6, 4, 0, 0], [node]);
                self.vector(capacity);
            }
            NodeEffect::Schedulable { node, schedulable } => {
                self.words([6, 5, u8::from(*schedulable), 0], [node]);
            }
            NodeEffect::Removed { node } => self.words([6, 7, 0, 0], [node]),
            NodeEffect::Renamed { node, host } => self.words([6, 8, 0, 0], [node, host]),
        }
    }
}

// Numbers of their own: the order of a declaration may change.

fn termination(termination: Termination) -> u8 {
    match termination {
        Termination::Unknown => 0,
        Termination::StoppedByRm => 1,
        Termination::Timeout => 2,
        Termination::Preempted => 3,
        Termination::PlaceholderReplaced => 4,
        Termination::FailedOnRm => 5,
    }
}

fn app_state(state: AppState) -> u8 {
    match state {
        AppState::New => 0,
        AppState::Accepted => 1,
        AppState::Running => 2,
        AppState::Rejected => 3,
        AppState::Completing => 4,
        AppState::Completed => 5,
        AppState::Failing => 6,
        AppState::Failed => 7,
        AppState::Expired => 8,
        AppState::Resuming => 9,
    }
}
