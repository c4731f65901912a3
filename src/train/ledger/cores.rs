//! Which core this thread has, and how long it has waited for one.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

/// The number of the core that it runs on.
pub(super) fn core() -> usize {
    rustix::thread::sched_getcpu()
}

/// The file in which the system counts it, for the thread that opened it.
pub(super) struct Waiting(File);

impl Waiting {
    /// Nothing where the system does not tell.
    pub(super) fn open() -> Option<Self> {
        let file = File::open("/proc/thread-self/schedstat").ok().map(Self)?;
        file.total().map(|_| file)
    }

    /// All of it so far: the second number, in nanoseconds.
    pub(super) fn total(&self) -> Option<Duration> {
        let mut text = [0; 96];
        let len = self.0.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(&text[..len]).ok()?;
        let nanos = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
        Some(Duration::from_nanos(nanos))
    }
}
