//! Disks that are full or do not flush: as `RmActor` has it, nothing is taken then, what is under way waits, and it is tried again.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::server::Server;
use crate::{
    domain::{command::Command, types::Nanos},
    messages::{budget::Permit, receipts::Receipt},
    store::log::DiskFault,
};

/// After a failure it is tried again.
const AGAIN: Nanos = Nanos::from_secs(1);

/// What a request brings, by partition.
type Commands = Arc<Vec<(usize, Command)>>;

/// The disk of the simulated server.
#[derive(Default)]
pub struct Disk {
    /// What it refuses, and until when.
    refuses: Option<(DiskFault, Nanos)>,
    /// Nothing can be written: nothing is taken.
    pub failing: bool,
    /// When it is tried again.
    again: Option<Nanos>,
    /// What was written since the last flush may be gone from the files.
    pub dropped: bool,
    /// Requests without a number that were taken: they are answered when they are recorded.
    awaited: Vec<(oneshot::Receiver<()>, Commands)>,
}

impl Server {
    /// The disk refuses something for a while.
    pub fn disk_refuses(&mut self, what: DiskFault, time: Nanos) {
        // A log in etcd has troubles of its own.
        if self.cluster.is_none() {
            self.disk.refuses = Some((what, self.now.plus(time)));
            self.log.shared.refuse(Some(what));
        }
    }

    /// The disk refuses something at present.
    pub fn is_disk_refusing(&self) -> bool {
        self.disk.refuses.is_some()
    }

    /// It takes everything again.
    pub fn mend_disk(&mut self) {
        self.disk.refuses = None;
        self.log.shared.refuse(None);
    }

    /// Whoever waits for an answer waits for ever.
    pub fn forget_awaited(&mut self) {
        self.disk.awaited.clear();
    }

    /// Nothing is written at present, and it will be tried again.
    pub fn tries_again(&self) -> bool {
        self.disk.again.is_some()
    }

    /// When the disk does something.
    pub fn disk_deadline(&self) -> Option<Nanos> {
        self.disk.refuses.map(|(_, until)| until).into_iter().chain(self.disk.again).min()
    }

    /// It does.
    pub fn tick_disk(&mut self) {
        if self.disk.refuses.is_some_and(|(_, until)| until <= self.now) {
            self.mend_disk();
        }
        if self.disk.again.is_some_and(|at| at <= self.now) {
            self.disk.again = None;
            self.flush();
        }
    }

    /// It could not be written, or flushed.
    pub(super) fn not_written(&mut self, why: String) {
        match self.disk.refuses {
            Some(_) => {
                self.disk.failing = true;
                self.disk.again.get_or_insert(self.now.plus(AGAIN));
            }
            None => self.fault("the log", why),
        }
    }

    /// The request is answered when it is recorded.
    pub(super) fn await_record(&mut self, permit: Permit, commands: &Commands) -> Permit {
        let (tell, told) = oneshot::channel();
        self.disk.awaited.push((told, commands.clone()));
        permit.with(Receipt::Awaited(tell))
    }

    /// Requests without a number that are answered by now.
    pub fn answered_requests(&mut self) -> Vec<Commands> {
        let mut answered = Vec::new();
        self.disk.awaited.retain_mut(|(told, commands)| {
            let waits = told.try_recv() == Err(oneshot::error::TryRecvError::Empty);
            if !waits {
                answered.push(commands.clone());
            }
            waits
        });
        answered
    }
}
