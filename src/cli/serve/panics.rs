//! What a panic means: in a door one failed request, on the arbiter of partitions or of control the end of the process.

use std::{
    cell::Cell,
    io::{self, Write as _},
    panic, process, thread,
};

thread_local! {
    static CRITICAL: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread: a panic on it is a broken invariant.
pub fn critical() {
    CRITICAL.set(true);
}

/// Installs the hook.
pub fn install() {
    panic::set_hook(Box::new(|info| {
        let payload = info.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let what = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        if CRITICAL.get() {
            let _ = writeln!(
                io::stderr(),
                "callboard: broken invariant at {place}: {what}\n\
                 callboard: the process ends; the next one goes on from the log, or resource managers register again"
            );
            process::abort();
        }
        let thread = thread::current();
        tracing::error!(code = "panic", thread = thread.name().unwrap_or("unnamed"), place, "panic: {what}");
    }));
}
