//! What each rank says of itself once a second: `now.json` in its folder.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Its name.
pub const FILE: &str = "now.json";

/// Whether a rank goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It trains.
    Running,
    /// It has come to its end, or was asked to stop.
    Ended,
    /// It has failed.
    Failed,
}

/// A rank at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Now {
    /// Which one, and of how many.
    pub rank: usize,
    /// See `rank`.
    pub ranks: usize,
    /// Where it is.
    pub host: String,
    /// Its process there.
    pub pid: u32,
    /// When this was written, in seconds since 1970 by the host's clock.
    pub time: f64,
    /// Whether it goes on.
    pub state: State,
    /// On the clock of `metrics.csv`.
    pub seconds: f64,
    /// The step that it is in, and the last one of the run.
    pub step: u64,
    /// See `step`.
    pub total: u64,
    /// Passes over the data.
    pub epoch: f64,
    /// What it does.
    pub phase: String,
    /// The last loss, where the rank knows it.
    pub loss: Option<f64>,
    /// Samples that it has computed on, and how many in a second of the last ten.
    pub samples: u64,
    /// See `samples`.
    pub samples_per_s: f64,
    /// Of one core.
    pub cpu_percent: f64,
    /// Its memory.
    pub resident_mb: f64,
    /// Where its last ten seconds went.
    pub compute_percent: f64,
    /// See `compute_percent`.
    pub exchange_percent: f64,
    /// See `compute_percent`.
    pub wait_percent: f64,
    /// See `compute_percent`.
    pub load_percent: f64,
}

impl Now {
    /// Puts it into a rank's folder in one step. It need not be durable: the next one follows.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        let temporary = folder.join(format!(".{FILE}.partial"));
        fs::write(&temporary, serde_json::to_vec(self).expect("plain values"))?;
        fs::rename(&temporary, folder.join(FILE))
    }

    /// What is in a rank's folder, if there is one that is understood.
    pub fn read(folder: &Path) -> Option<Self> {
        let bytes = fs::read(folder.join(FILE)).ok()?;
        serde_json::from_slice(&bytes).ok()
    }
}

/// Seconds since 1970 by this host's clock.
pub fn clock() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |time| time.as_secs_f64())
}
