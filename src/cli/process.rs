//! What the system knows of a process: CPU time from its clock, memory from `/proc`.

use std::fs;

use nix::{
    time::{ClockId, clock_getcpuclockid},
    unistd::Pid,
};

use crate::domain::words::plural;

/// Clock ticks per second in `/proc/PID/stat`: 100 on every Linux that shows it to user space.
const TICKS: f64 = 100.0;

/// CPU seconds (user and system, all threads) of a process so far; `None` where the system does not tell.
///
/// The process's CPU clock counts nanoseconds. `/proc/PID/stat` tells the same in ticks of 10 ms, a third of what a
/// small shape takes in all, and is used only where the clock cannot be read.
pub fn cpu_seconds(pid: u32) -> Option<f64> {
    cpu_of_clock(pid).or_else(|| cpu_of_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?))
}

fn cpu_of_clock(pid: u32) -> Option<f64> {
    let clock = clock_getcpuclockid(Pid::from_raw(i32::try_from(pid).ok()?)).ok()?;
    let time = ClockId::now(clock).ok()?;
    Some(time.tv_sec() as f64 + time.tv_nsec() as f64 / 1e9)
}

/// The command name may hold spaces and brackets, so fields are counted from the last closing bracket.
fn cpu_of_stat(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS)
}

/// Largest resident memory of a process so far, in bytes.
pub fn peak_memory(pid: u32) -> Option<u64> {
    status_bytes(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, "VmHWM:")
}

/// Present resident memory of a process, in bytes.
pub fn memory(pid: u32) -> Option<u64> {
    status_bytes(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?, "VmRSS:")
}

fn status_bytes(status: &str, field: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: u64 = line.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

/// Number of processors this process may use.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The machine in one line: processor, number of processors, memory.
pub fn machine() -> String {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|l| l.strip_prefix("model name")).and_then(|l| l.split_once(':'));
    let model = model.map_or("unknown processor", |(_, name)| name.trim());
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let bytes = status_bytes(&memory, "MemTotal:").unwrap_or(0);
    format!("{model}, {}, {:.0} GiB", plural(cores(), "core"), bytes as f64 / f64::from(1 << 30))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_found_behind_any_command_name() {
        let stat = "12 (a) b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 1 0 100 200 300";
        assert_eq!(cpu_of_stat(stat), Some(2.0));
        assert_eq!(cpu_of_stat("12 (a"), None);
    }

    /// Both sources tell the same, within the ticks of the coarser one.
    #[test]
    fn the_clock_agrees_with_the_ticks() {
        let me = std::process::id();
        let mut sum = 0_u64;
        let began = cpu_of_clock(me).unwrap();
        while cpu_of_clock(me).unwrap() - began < 0.1 {
            sum = std::hint::black_box(sum + 1);
        }
        let ticks = cpu_of_stat(&fs::read_to_string("/proc/self/stat").unwrap()).unwrap();
        let clock = cpu_of_clock(me).unwrap();
        // Other tests run in this process at the same time, between the two looks.
        assert!((clock - ticks).abs() < 0.5, "{clock} {ticks}");
        assert_eq!(cpu_of_clock(u32::MAX), None);
    }

    #[test]
    fn memory_is_given_in_bytes() {
        assert_eq!(status_bytes("Name: x\nVmHWM:\t  2048 kB\n", "VmHWM:"), Some(2 * 1024 * 1024));
        assert_eq!(status_bytes("Name: x\n", "VmHWM:"), None);
        assert!(memory(std::process::id()).is_some_and(|bytes| bytes > 0));
    }
}
