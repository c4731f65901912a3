//! Processes of this host, by their numbers.

use procfs::process::Process;
use rustix::time::{ClockId, clock_gettime};

/// Whether the process of this number, which gave its last sign of life `seconds` ago, still runs or is stopped. One that
/// was killed keeps its entry until its parent has asked for its end, which may be never where the first process of a
/// container does not; and its number may be another process's by now.
pub fn is_there(pid: u32, seconds: f64) -> bool {
    let found = || {
        let stat = Process::new(pid.try_into().ok()?).ok()?.stat().ok()?;
        let now = clock_gettime(ClockId::Boottime);
        let up = now.tv_sec as f64 + now.tv_nsec as f64 / 1e9;
        Some((
            stat.state,
            up - stat.starttime as f64 / procfs::ticks_per_second() as f64,
        ))
    };
    found().is_some_and(|(state, age)| !matches!(state, 'Z' | 'X' | 'x') && age >= seconds)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_that_ended_or_that_began_later_is_not_there() {
        assert!(is_there(std::process::id(), 0.0));
        assert!(!is_there(std::process::id(), 1e9), "another had its number");
        assert!(!is_there(u32::MAX, 0.0));
        let mut ended = Command::new("cat");
        let mut ended = ended.stdin(Stdio::piped()).spawn().unwrap();
        assert!(is_there(ended.id(), 0.0));
        drop(ended.stdin.take());
        while is_there(ended.id(), 0.0) {
            std::thread::yield_now();
        }
        let entry = Path::new("/proc").join(ended.id().to_string());
        assert!(entry.exists(), "nobody asked for its end");
        ended.wait().unwrap();
    }
}
