//! What the service manager is told, where there is one that wants to know (`Type=notify`, `WatchdogSec=`).

use std::time::Duration;

use sd_notify::NotifyState;

/// Requests are taken. Where the service manager watches, it hears from the control thread from now on: a server whose
/// control thread hangs is started anew.
pub fn ready() {
    tell(&[NotifyState::Ready]);
    if let Some(patience) = sd_notify::watchdog_enabled() {
        actix::spawn(async move {
            let mut ticks = tokio::time::interval(pace(patience));
            loop {
                ticks.tick().await;
                tell(&[NotifyState::Watchdog]);
            }
        });
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
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(code = "service-manager", %error, "the service manager cannot be told how the server is");
    }
}
