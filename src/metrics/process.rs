//! What the operating system knows of this process, under the names that dashboards know; Linux only.

use std::{
    fs,
    time::{SystemTime, UNIX_EPOCH},
};

use prometheus::{Counter, Gauge, Registry, Result};

use super::added;

/// Refreshed at each scrape.
pub(super) struct Process {
    cpu: Counter,
    open_files: Gauge,
    max_files: Gauge,
    virtual_memory: Gauge,
    resident_memory: Gauge,
}

/// Clock ticks per second in `/proc`, the same on every architecture that Linux runs on today.
const TICKS: f64 = 100.0;

impl Process {
    pub(super) fn new(registry: &Registry) -> Result<Process> {
        let gauge = |name: &str, help: &str| added(registry, Gauge::new(name, help)?);
        gauge("process_start_time_seconds", "When the process started, in seconds since the epoch.")?
            .set(start_time().unwrap_or_else(now));
        Ok(Process {
            cpu: added(registry, Counter::new("process_cpu_seconds_total", "CPU time used, in seconds.")?)?,
            open_files: gauge("process_open_fds", "Open file descriptors.")?,
            max_files: gauge("process_max_fds", "File descriptors that may be open.")?,
            virtual_memory: gauge("process_virtual_memory_bytes", "Virtual memory in bytes.")?,
            resident_memory: gauge("process_resident_memory_bytes", "Resident memory in bytes.")?,
        })
    }

    /// Reads the present values; what cannot be read stays as it was.
    pub(super) fn refresh(&self) {
        if let Some(fields) = stat() {
            let number = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
            let cpu = (number(UTIME) + number(STIME)) / TICKS;
            self.cpu.inc_by((cpu - self.cpu.get()).max(0.0));
            self.virtual_memory.set(number(VSIZE));
        }
        if let Some(kib) = status_kib("VmRSS:") {
            self.resident_memory.set(kib * 1024.0);
        }
        if let Ok(entries) = fs::read_dir("/proc/self/fd") {
            self.open_files.set(entries.count() as f64);
        }
        if let Some(limit) = max_open_files() {
            self.max_files.set(limit);
        }
    }
}

// Positions in `/proc/self/stat` after the name of the program.
const UTIME: usize = 11;
const STIME: usize = 12;
const START: usize = 19;
const VSIZE: usize = 20;

fn stat() -> Option<Vec<String>> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    // The name is in parentheses and may hold any character.
    let (_, fields) = text.rsplit_once(')')?;
    Some(fields.split_whitespace().map(str::to_owned).collect())
}

fn status_kib(name: &str) -> Option<f64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
}

fn max_open_files() -> Option<f64> {
    let text = fs::read_to_string("/proc/self/limits").ok()?;
    text.lines().find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().next()?.parse().ok())
}

/// In seconds since the epoch. It is first asked for when the process starts.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

fn start_time() -> Option<f64> {
    let since_boot = stat()?.get(START)?.parse::<f64>().ok()? / TICKS;
    let text = fs::read_to_string("/proc/stat").ok()?;
    let boot: f64 = text.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok())?;
    Some(boot + since_boot)
}
