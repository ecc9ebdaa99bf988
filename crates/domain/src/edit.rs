//! Changes of one setting of a configuration, as explanations suggest them and what-if tries them.

use std::sync::Arc;

use crate::resources::Resource;

/// A change of one setting. Queues are named by their lowercase path.
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// The configuration names a queue that placement made, below one that it names already.
    Name {
        /// Full path of the queue.
        queue: Arc<str>,
        /// It is a parent.
        parent: bool,
    },
    /// The max of a queue takes over these types: memory in bytes, vcore in milli.
    Max {
        /// Full path of the queue.
        queue: Arc<str>,
        /// The types that change.
        amounts: Resource,
    },
    /// The guarantee of a queue takes over these types.
    Guaranteed {
        /// Full path of the queue.
        queue: Arc<str>,
        /// The types that change.
        amounts: Resource,
    },
    /// Applications that a queue may run at most; 0: any number.
    Applications {
        /// Full path of the queue.
        queue: Arc<str>,
        /// At most.
        max: u64,
    },
    /// A limit of users and groups takes over these types.
    LimitMax {
        /// Path of the queue.
        queue: Arc<str>,
        /// Which of its limits, from 0.
        entry: usize,
        /// The types that change.
        amounts: Resource,
    },
    /// Applications that a limit allows; 0: any number.
    LimitApplications {
        /// Path of the queue.
        queue: Arc<str>,
        /// Which of its limits, from 0.
        entry: usize,
        /// At most.
        max: u64,
    },
    /// A property of a queue.
    Property {
        /// Full path of the queue.
        queue: Arc<str>,
        /// Name of the property, as in the file.
        name: Arc<str>,
        /// The new value, as in the file.
        value: Arc<str>,
    },
    /// Whether there is preemption in the partition.
    Preemption(bool),
}

impl Edit {
    /// The queue that it is about; `None`: the partition.
    pub fn queue(&self) -> Option<&Arc<str>> {
        match self {
            Edit::Name { queue, .. }
            | Edit::Max { queue, .. }
            | Edit::Guaranteed { queue, .. }
            | Edit::Applications { queue, .. }
            | Edit::LimitMax { queue, .. }
            | Edit::LimitApplications { queue, .. }
            | Edit::Property { queue, .. } => Some(queue),
            Edit::Preemption(_) => None,
        }
    }
}
