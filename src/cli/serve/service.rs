//! What the service manager is told, where there is one that wants to know (`Type=notify`, `WatchdogSec=`).

use std::{io, time::Duration};

use actix::Addr;
use sd_notify::NotifyState;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::{actors::event::EventActor, messages::event::GetEventStatus};

/// Requests are taken. Where the service manager watches, it hears of the control thread from now on, as long as that answers: a
/// server whose control thread hangs is started anew. A partition may wait for a disk, and holds up no others.
pub fn ready(control: Addr<EventActor>) {
    tell(&[NotifyState::Ready]);
    if let Some(patience) = sd_notify::watchdog_enabled() {
        let answers = async move || control.send(GetEventStatus).await.is_ok();
        actix::spawn(watch(pace(patience), answers, || tell(&[NotifyState::Watchdog])));
    }
}

async fn watch(pace: Duration, answers: impl AsyncFn() -> bool, alive: impl Fn()) {
    let mut ticks = interval(pace);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if timeout(pace, answers()).await == Ok(true) {
            alive();
        } else {
            tracing::error!(
                code = "control-silent",
                "the control thread has not answered within {pace:?}: the service manager is not told that the server is well"
            );
        }
    }
}

/// It ends, and means to.
pub fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// A third of the time after which silence counts as death.
fn pace(patience: Duration) -> Duration {
    (patience / 3).max(Duration::from_millis(100))
}

fn tell(state: &[NotifyState]) {
    if let Err(error) = send(state) {
        tracing::warn!(code = "service-manager", %error, "the service manager cannot be told how the server is");
    }
}

fn send(state: &[NotifyState]) -> io::Result<()> {
    // The library knows sockets by their path only.
    #[cfg(target_os = "linux")]
    if let Some(name) = std::env::var("NOTIFY_SOCKET").unwrap_or_default().strip_prefix('@') {
        use std::os::{
            linux::net::SocketAddrExt as _,
            unix::net::{SocketAddr, UnixDatagram},
        };

        let text: String = state.iter().map(|state| format!("{state}\n")).collect();
        let address = SocketAddr::from_abstract_name(name)?;
        return UnixDatagram::unbound()?.send_to_addr(text.as_bytes(), &address).map(drop);
    }
    sd_notify::notify(state)
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, future};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_service_manager_hears_only_of_a_control_thread_that_answers() {
        let (told, hangs) = (Cell::new(0), Cell::new(false));
        let answers = async || match hangs.get() {
            true => future::pending().await,
            false => true,
        };
        let mut watch = Box::pin(watch(Duration::from_secs(1), answers, || told.set(told.get() + 1)));
        let mut after = async |time| drop(timeout(Duration::from_millis(time), &mut watch).await);
        after(5_500).await;
        assert_eq!(told.get(), 6);
        hangs.set(true);
        after(60_000).await;
        assert_eq!(told.get(), 6);
        hangs.set(false);
        after(10_000).await;
        assert!(told.get() > 10, "it goes on");
    }
}
