//! What the system knows of a process: CPU time and memory, read from `/proc`.

use std::fs;

/// Clock ticks per second in `/proc/PID/stat`: 100 on every Linux that shows it to user space.
const TICKS: f64 = 100.0;

/// CPU seconds (user and system, all threads) of a process so far; `None` where the system does not tell.
pub fn cpu_seconds(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    cpu_of_stat(&stat)
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
    format!("{model}, {} cores, {:.0} GiB", cores(), bytes as f64 / f64::from(1 << 30))
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

    #[test]
    fn memory_is_given_in_bytes() {
        assert_eq!(status_bytes("Name: x\nVmHWM:\t  2048 kB\n", "VmHWM:"), Some(2 * 1024 * 1024));
        assert_eq!(status_bytes("Name: x\n", "VmHWM:"), None);
        assert!(memory(std::process::id()).is_some_and(|bytes| bytes > 0));
    }
}
