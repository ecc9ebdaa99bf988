//! What happened to a partition, as bytes: the part of the log that belongs to the domain.
//!
//! A partition is a function of its [`Beginning`] and of the [`Step`]s after it, each with its time: the commands, and the calls that
//! decide, as how many there are depends on a clock. So whoever owns a partition writes each of them down as it happens:
//!
//! ```
//! use callboard_domain::{Partition, command::Command, config, digest::Digest, log::{Reader, Writer}, resources::Types, types::Nanos};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let conf = config::load("partitions: [{name: default, queues: [{name: root}]}]").expect("valid").partitions[0].clone();
//! let (mut effects, mut writer, mut digest) = (Vec::new(), Writer::new(), Digest::default());
//! let mut partition = Partition::new("rm-1".into(), "[rm-1]default".into(), conf, Nanos(1), &mut effects);
//! let at = Nanos(2);
//!
//! // One record: what goes in is written before it is used up, and the effects are summed up.
//! writer.begin();
//! let (command, mut effects) = (Command::Tick, Vec::new());
//! writer.apply(&command, at);
//! partition.apply(command, at, &mut effects);
//! writer.schedule(64, at);
//! let _all_of_it = !partition.schedule(64, at, &mut effects).cut;
//! digest.add(&effects);
//! let record: (Vec<u8>, u64) = (writer.bytes().to_vec(), digest.finish());
//!
//! // A snapshot is the whole partition; it goes on as the other does.
//! let types = Types::default();
//! let mut again = Partition::load(&partition.save(), &types)?;
//! assert_eq!(again.save(), partition.save());
//!
//! // Replayed: the same effects, the same digest.
//! let mut effects = Vec::new();
//! for step in Reader::new(&record.0, &types) {
//!     again.replay(step?, &mut effects);
//! }
//! digest.add(&effects);
//! assert_eq!(digest.finish(), record.1);
//! # Ok(())
//! # }
//! ```
//!
//! A record is self-contained: texts are numbered within it. What is read must be understood in full; anything that a later version
//! wrote is refused with its place. Whoever keeps records guards them against damage (a checksum each), and keeps
//! [`DOMAIN_VERSION`](crate::DOMAIN_VERSION) with them.

mod record;

use std::sync::Arc;

pub use record::{Reader, Writer};

pub use crate::coded::{Error, Names};
use crate::{
    Partition,
    coded::{self, map, variants},
    command::Command,
    conf::PartitionConf,
    effect::Effect,
    partition::Done,
    resources::Types,
    types::Nanos,
};

/// What a partition is made from.
#[derive(Clone, Debug)]
pub struct Beginning {
    /// Resource manager.
    pub rm: Arc<str>,
    /// Internal name, such as `[rm-1]default`.
    pub internal: Arc<str>,
    /// Its configuration.
    pub conf: Arc<PartitionConf>,
    /// When it happened, in ns since the Unix epoch.
    pub at: Nanos,
}

/// One thing that happened to a partition.
#[derive(Clone, Debug)]
pub struct Step {
    /// When it happened, in ns since the Unix epoch.
    pub at: Nanos,
    /// What it did: a command, decisions, or a part of its end.
    pub input: Input,
}

/// See [`Step`].
#[derive(Clone, Debug)]
pub enum Input {
    /// [`Partition::apply`].
    Apply(Command),
    /// [`Partition::schedule`].
    Schedule {
        /// Decisions at most, and attempts in vain.
        max: usize,
    },
    /// [`Partition::dismantle`].
    Dismantle {
        /// Asks and allocations at most.
        max: usize,
    },
}

map!(Beginning { 1 rm, 2 internal, 3 conf, 4 at });
variants!(Input { 1 Apply(command), 2 Schedule { max }, 3 Dismantle { max } });

impl Beginning {
    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        coded::bytes_of(self)
    }

    /// From the bytes that [`Beginning::encode`] gave; `types` are those of the resource manager.
    ///
    /// # Errors
    /// They are damaged, or of a later version.
    pub fn decode(bytes: &[u8], types: &Types) -> Result<Beginning, Error> {
        coded::value_of(bytes, types)
    }

    /// As [`Beginning::decode`], with other texts.
    ///
    /// # Errors
    /// They are damaged, or of a later version.
    pub fn decode_as(bytes: &[u8], types: &Types, names: &Names<'_>) -> Result<Beginning, Error> {
        coded::read_all(coded::Reader::new(bytes, types).with_names(names))
    }

    /// What stands in its place until it is made: it has not even queues.
    pub fn unmade(&self) -> Partition {
        Partition::without_queues(self.rm.clone(), self.internal.clone(), self.conf.clone(), self.at)
    }

    /// The partition; its first effects are the events of its queues.
    pub fn partition(self, effects: &mut Vec<Effect>) -> Partition {
        Partition::new(self.rm, self.internal, self.conf, self.at, effects)
    }
}

/// Effects as bytes, for those that a snapshot keeps until they are delivered.
pub fn effects_to_bytes(effects: &Vec<Effect>) -> Vec<u8> {
    coded::bytes_of(effects)
}

/// The effects that [`effects_to_bytes`] wrote; `types` are those of the resource manager.
///
/// # Errors
/// They are damaged, or of a later version.
pub fn effects_from_bytes(bytes: &[u8], types: &Types) -> Result<Vec<Effect>, Error> {
    coded::value_of(bytes, types)
}

impl Partition {
    /// Does once more what was done. Gives what [`Partition::schedule`] gives; [`Input::Dismantle`] is cut as long as something is left.
    pub fn replay(&mut self, step: Step, effects: &mut Vec<Effect>) -> Done {
        match step.input {
            Input::Apply(command) => {
                self.apply(command, step.at, effects);
                Done::default()
            }
            Input::Schedule { max } => self.schedule(max, step.at, effects),
            Input::Dismantle { max } => Done { made: 0, cut: self.dismantle(max, step.at, effects) },
        }
    }
}
