//! The library that is preloaded into ranks, and what it is told.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the library is.
fn library() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("faults.so")
}

/// Compiles it; whether that could be done.
pub fn build() -> bool {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/shim.c");
    let mut cc = Command::new("cc");
    cc.args([
        "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o",
    ]);
    cc.arg(library()).arg(source).arg("-ldl");
    cc.status().is_ok_and(|status| status.success())
}

/// What happens at the events `first..=last` of files below a folder.
#[derive(Clone, Copy)]
pub enum Fault {
    /// Nothing: events are counted.
    None,
    /// The process is killed.
    Kill(u64),
    /// It is killed when half of what it writes is written, if it writes.
    Half(u64),
    /// Calls fail with this number.
    Fail { first: u64, last: u64, errno: i32 },
    /// Every call waits for so many milliseconds.
    Delay(u64),
    /// The time of day jumps by so many seconds and back, again and again.
    Clock(i64),
}

/// Events that ranks have in common.
pub struct Events(PathBuf);

impl Events {
    /// None so far, in a file of `folder`.
    pub fn new(folder: &Path) -> Self {
        let path = folder.join("events");
        fs::write(&path, [0; 8]).unwrap();
        Self(path)
    }

    pub fn count(&self) -> u64 {
        let bytes = fs::read(&self.0).unwrap();
        u64::from_le_bytes(bytes.try_into().unwrap())
    }

    /// What ranks are told, by the names of variables, that meet with `fault` in `folder`.
    pub fn variables(&self, folder: &Path, fault: Fault) -> Vec<(&'static str, String)> {
        let (first, last, deed) = match fault {
            Fault::None | Fault::Clock(_) => (0, 0, String::new()),
            Fault::Kill(at) => (at, at, "kill".into()),
            Fault::Half(at) => (at, at, "half".into()),
            Fault::Fail { first, last, errno } => (first, last, errno.to_string()),
            Fault::Delay(_) => (1, u64::MAX, "delay".into()),
        };
        let (ms, seconds) = match fault {
            Fault::Delay(ms) => (ms, 0),
            Fault::Clock(seconds) => (0, seconds),
            _ => (0, 0),
        };
        vec![
            ("FAULT_PATH", folder.display().to_string()),
            ("FAULT_EVENTS", self.0.display().to_string()),
            ("FAULT_AT", first.to_string()),
            ("FAULT_LAST", last.to_string()),
            ("FAULT_DO", deed),
            ("FAULT_MS", ms.to_string()),
            ("FAULT_CLOCK", seconds.to_string()),
            ("LD_PRELOAD", library().display().to_string()),
        ]
    }
}
