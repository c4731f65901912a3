//! What the user sees: progress and resources while it runs; tables, what limited it, traces, reports and plots afterwards.

pub mod plot;
mod progress;
mod report;
pub mod resources;
mod table;
pub mod tensorboard;
pub mod timeline;
pub mod top;
mod verdict;
mod voice;

pub use plot::{Plot, Series};
pub use progress::Progress;
pub use report::{Run, Section, Sheet, gallery, grid, page, plots, shell};
pub use table::table;
pub use verdict::{Cause, Facts, Finding, Link, Memory, Moved, Photos, verdict};
pub use voice::{Voice, emit, mention, say};

/// A short time in words, such as `3.1 µs`.
pub fn seconds(time: f64) -> String {
    match time {
        s if s < 1e-3 => format!("{:.1} µs", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

/// Peak resident memory of this process in MiB, where the system tells.
pub fn peak_memory_mb() -> f64 {
    mib("/proc/self/status", "VmHWM:")
}

/// Resident memory of this process in MiB where memory that ranks share is divided among them, where the system tells.
pub fn proportional_memory_mb() -> f64 {
    mib("/proc/self/smaps_rollup", "Pss:")
}

/// The number of KiB that a file of the system gives a name, in MiB.
fn mib(file: &str, name: &str) -> f64 {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    kib.map_or(f64::NAN, |kib| kib / 1024.0)
}

/// Lets the peak of memory start again from what is in use now, where the system can.
pub fn restart_peak_memory() {
    // Older kernels lack the file: then the peak is that of the whole run.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}
