//! What readers see of resource managers that other servers lead. It is brought up to date when somebody reads, but not more often
//! than is useful.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{Mutex, mpsc::UnboundedSender, oneshot},
    time::{Instant, timeout},
};

use super::manager::{ToManager, Viewed};
use crate::{
    actors::{rm::standby::Show, topology::Topology},
    messages::leaders::Fresh,
};

/// A view that is no older than this is shown as it is.
const FRESH: Duration = Duration::from_millis(100);
/// How long readers wait for a newer view.
const PATIENCE: Duration = Duration::from_millis(500);

/// See the module.
pub struct Standby {
    messages: UnboundedSender<ToManager>,
    topology: Arc<Topology>,
    told: Arc<super::Shown>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    looked: Option<Instant>,
    /// How many logs were read by then, see [`super::Shown`].
    reads: Option<(usize, usize)>,
    shown: Vec<Shown>,
}

/// A resource manager as readers see it.
struct Shown {
    rm: Arc<str>,
    /// The last record that is in it.
    index: u64,
    /// Nothing was missing in it then.
    current: Instant,
}

impl Standby {
    /// Nothing is shown.
    pub fn new(messages: UnboundedSender<ToManager>, topology: Arc<Topology>, told: Arc<super::Shown>) -> Standby {
        Standby { messages, topology, told, state: Mutex::default() }
    }

    /// Brings it up to date, and tells how fresh it is.
    pub async fn freshen(self: Arc<Self>) -> Vec<Fresh> {
        let mut state = self.state.lock().await;
        let reads = self.told.reads.get();
        // Who hears that all is read finds it: what was read since is shown at once.
        if state.reads != reads || state.looked.is_none_or(|at| at.elapsed() >= FRESH) {
            // If it takes longer, the result is for the next who asks.
            if timeout(PATIENCE, self.look(&mut state)).await.is_ok() {
                state.reads = reads;
            }
        }
        let fresh = |shown: &Shown| Fresh { rm: shown.rm.clone(), index: shown.index, lag: shown.current.elapsed() };
        state.shown.iter().map(fresh).collect()
    }

    async fn look(&self, state: &mut State) {
        let (tell, told) = oneshot::channel();
        let _ = self.messages.send(ToManager::Views(tell));
        let asked = Instant::now();
        let Ok(views) = told.await else { return };
        state.shown.retain(|shown| views.iter().any(|view| view.rm == shown.rm));
        for view in views {
            self.show(state, view, asked).await;
        }
        state.looked = Some(Instant::now());
    }

    async fn show(&self, state: &mut State, view: Viewed, asked: Instant) {
        let Viewed { rm, looker, index, current } = view;
        // What was shown stays until there is more to see.
        let (Some(handle), Some(looker)) = (self.topology.find(&rm), looker) else { return };
        // Up to date when it was asked for, or when it was for the last time.
        let of = |last: u64| if last >= index && current >= asked { Instant::now() } else { current };
        if let Some(shown) = state.shown.iter_mut().find(|shown| shown.rm == rm)
            && shown.index == looker.seen.last()
        {
            shown.current = of(shown.index);
            return;
        }
        let Some(found) = looker.view().await else { return };
        state.shown.retain(|shown| shown.rm != rm);
        let last = found.as_ref().map(|found| found.last);
        if handle.addr.send(Show(found)).await.is_ok()
            && let Some(index) = last
        {
            state.shown.push(Shown { rm, index, current: of(index) });
        }
    }
}
