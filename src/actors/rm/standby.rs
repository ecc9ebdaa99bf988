//! A resource manager that another server leads, for readers: what its log has led to so far, in partitions that stand still.

use std::{collections::BTreeMap, sync::Arc};

use actix::prelude::*;
use tokio::task::spawn_blocking;

use super::{RmActor, RmSettings, follow::View};
use crate::{
    actors::{directory::RmEntry, topology::PartitionHandle},
    config::{self, LoadedConfig},
    domain::types::Nanos,
    messages::{
        budget::Budget,
        partition::{PartitionSetup, ShowInstead, StopPartition},
        recorded::{Outlet, Recorded, Replica},
    },
};

/// Readers see this from now on; `None`: there is no session. It has no effect while this server leads it.
#[derive(Message)]
#[rtype(result = "()")]
pub struct Show(pub Option<Box<View>>);

/// What readers see.
#[derive(Default)]
pub(super) struct Standby {
    /// Of the session.
    epoch: u64,
    /// The configuration that was read last.
    config: Option<Arc<LoadedConfig>>,
    /// By their numbers in the session.
    partitions: BTreeMap<u32, PartitionHandle>,
}

impl RmActor {
    fn is_followed(&self) -> bool {
        self.far.is_none() && self.session.is_none() && self.elsewhere.is_some()
    }

    /// Readers see nothing of what another server leads any more. `listed`: something else is in its place.
    pub(super) fn end_standby(&mut self, listed: bool) {
        let Some(standby) = self.standby.take() else { return };
        if !listed {
            self.topology.list(&self.id, true, None);
        }
        for partition in standby.partitions.values() {
            partition.stop.do_send(StopPartition);
        }
    }

    fn show_view(&mut self, view: View, config: Arc<LoadedConfig>, ctx: &Context<Self>) {
        let View { at, registered, partitions, .. } = view;
        let mut standby = self.standby.take().unwrap_or_default();
        let other = standby.epoch != registered.epoch;
        (standby.epoch, standby.config) = (registered.epoch, Some(config.clone()));
        let mut before = std::mem::take(&mut standby.partitions);
        for (place, (instance, internal, replica)) in partitions.into_iter().enumerate() {
            let handle = match before.remove(&instance).filter(|_| !other) {
                Some(known) => {
                    known.addr.do_send(ShowInstead(Box::new(replica.partition), at));
                    known
                }
                None => self.show_partition(&registered.extra, place, (instance, internal, replica), at, ctx),
            };
            standby.partitions.insert(instance, handle);
        }
        for gone in before.values() {
            gone.stop.do_send(StopPartition);
        }
        let entry = RmEntry {
            id: self.id.clone(),
            build_info: registered.build_info,
            config,
            default_config: registered.default_config,
            extra: registered.extra,
            at_registration: BTreeMap::new(),
        };
        let handles: Vec<_> = standby.partitions.values().cloned().collect();
        self.topology.list(&self.id, true, Some((entry, &handles)));
        self.standby = Some(standby);
    }

    fn show_partition(
        &self,
        extra: &BTreeMap<String, String>,
        place: usize,
        (instance, internal, replica): (u32, Arc<str>, Replica),
        at: Nanos,
        ctx: &Context<Self>,
    ) -> PartitionHandle {
        let conf = replica.partition.conf.clone();
        let events = self.topology.publisher();
        let recorded = Recorded {
            instance,
            outlet: Outlet::new(events.clone()),
            replica: Some(Box::new(replica)),
            still: Some(at),
            shared: true,
            standing: None,
        };
        let setup = PartitionSetup {
            clock: self.clock,
            rm: self.id.clone(),
            epoch: self.epoch,
            internal,
            conf,
            budget: Budget::new(1, 1),
            patience: RmSettings::read(extra).map(|settings| settings.patience).unwrap_or_default(),
            callbacks: ctx.address().recipient(),
            events,
            recorded: Some(recorded),
        };
        self.topology.launch_still(self.home, place, setup)
    }
}

impl Handler<Show> for RmActor {
    type Result = ResponseActFuture<Self, ()>;

    fn handle(&mut self, msg: Show, _ctx: &mut Self::Context) -> Self::Result {
        let view = match msg.0 {
            Some(view) if self.is_followed() => view,
            none => {
                if none.is_none() {
                    self.end_standby(false);
                }
                return Box::pin(async {}.into_actor(self));
            }
        };
        let text = view.registered.config.clone();
        let known = self.standby.as_ref().and_then(|standby| standby.config.clone());
        let known = known.filter(|config| *config.text == *text);
        let config = async move {
            match known {
                Some(known) => Some(known),
                // A large text takes a while: not on the thread of partitions.
                None => spawn_blocking(move || config::load(&text)).await.ok()?.ok().map(Arc::new),
            }
        };
        Box::pin(config.into_actor(self).map(move |config, actor, ctx| {
            // It may have been taken over meanwhile.
            if let Some(config) = config.filter(|_| actor.is_followed()) {
                actor.show_view(*view, config, ctx);
            }
        }))
    }
}
