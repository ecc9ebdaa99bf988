//! A session that is brought back: its lines, questions and partitions.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    actors::rm::{
        buffer::Buffer,
        lines,
        record::{HandedTo, KeysTaken, Manner, Numbers, Reconfigured, Registered, SavedSession},
        settings::RmSettings,
    },
    domain::{effect::Question, resources::Types},
    messages::{
        recorded::Replica,
        rm::{Kind, Outgoing, Payload, Predicates},
    },
};

/// A session as its log left it.
#[derive(Clone)]
pub struct Replayed {
    /// What it registered with, and was configured with since.
    pub registered: Registered,
    /// The rest of it.
    pub manner: Manner,
    /// Its lines.
    pub buffer: Buffer,
    /// How far they were handed to sockets.
    pub handed: HandedTo,
    /// Open questions, by the line that carries them.
    pub questions: BTreeMap<u64, Open>,
    /// Partitions by their number, with their internal names; those that ended are not there.
    pub partitions: BTreeMap<u32, (Arc<str>, Replica)>,
    /// Number of the next partition.
    pub instances: u32,
    /// Resource types.
    pub types: Arc<Types>,
    /// Its numbered requests.
    pub numbers: Numbers,
    /// Its requests with keys.
    pub keys: KeysTaken,
    /// What its extra configuration says.
    settings: Option<RmSettings>,
}

/// Questions of a line that was not answered.
#[derive(Clone, Debug)]
pub struct Open {
    /// Internal name of the partition.
    pub partition: Arc<str>,
    /// The questions of the line, in their order.
    pub questions: Vec<Question>,
    /// How they were put.
    pub asks: Predicates,
}

impl Open {
    /// As lines: one, unless the shim is asked in another way now.
    pub fn payloads(&self) -> Vec<Payload> {
        lines::group(self.questions.iter().cloned().map(Outgoing::Ask).collect(), self.asks)
    }
}

impl Replayed {
    pub(super) fn begin(registered: Registered) -> Replayed {
        // Its extra configuration was checked when it came.
        let settings = RmSettings::of(&registered).ok();
        Replayed {
            registered,
            manner: Manner::default(),
            buffer: Buffer::default(),
            handed: HandedTo::default(),
            questions: BTreeMap::new(),
            partitions: BTreeMap::new(),
            instances: 0,
            types: Arc::default(),
            numbers: Numbers::default(),
            keys: KeysTaken::default(),
            settings,
        }
    }

    pub(super) fn of(saved: SavedSession) -> Replayed {
        let mut questions: BTreeMap<u64, Open> = BTreeMap::new();
        for saved in saved.questions.into_iter().filter(|_| !crate::domain::planted!("questions-lost")) {
            let begin = || Open { partition: saved.partition.clone(), questions: Vec::new(), asks: saved.asks() };
            questions.entry(saved.line).or_insert_with(begin).questions.push(saved.question());
        }
        Replayed {
            manner: saved.manner,
            handed: saved.handed,
            questions,
            instances: saved.instances,
            numbers: saved.numbers,
            keys: saved.keys,
            ..Replayed::begin(saved.registered)
        }
    }

    pub(super) fn reconfigured(&mut self, changed: Reconfigured) {
        let Reconfigured { config, default_config, extra, tenant, shared } = changed;
        self.registered = Registered { config, default_config, extra, tenant, shared, ..self.registered.clone() };
        self.settings = RmSettings::of(&self.registered).ok();
    }

    pub(super) fn push(&mut self, partition: &Arc<str>, items: Vec<Outgoing>, asks: Predicates) {
        let items = lines::wanted(items, self.settings.as_ref().is_some_and(|settings| settings.all_container_states));
        for payload in lines::group(items, asks) {
            let questions = payload.questions().to_vec();
            if !questions.is_empty() && asks == Predicates::Off {
                continue;
            }
            let line = self.buffer.push(partition.clone(), payload);
            if !questions.is_empty() {
                self.questions.insert(line, Open { partition: partition.clone(), questions, asks });
            }
        }
    }

    pub(super) fn hand(&mut self, handed: HandedTo) {
        self.handed = handed;
        for kind in Kind::ALL {
            self.buffer.hand(handed[kind as usize], Some(kind));
        }
        if let Some(settings) = &self.settings {
            // Within the bounds as in the session; an overflow ended that, which is a record of its own.
            self.buffer.trim(settings.bounds, None);
        }
    }

    /// Questions that were open when a process ended are put once more, in new lines.
    pub fn ask_again(&mut self) {
        for (_, open) in std::mem::take(&mut self.questions) {
            for payload in open.payloads() {
                let again = Open { questions: payload.questions().to_vec(), ..open.clone() };
                self.questions.insert(self.buffer.push(open.partition.clone(), payload), again);
            }
        }
    }
}
