//! Whether a run goes on, and if not, why.

use std::fs;
use std::path::Path;
use std::time::UNIX_EPOCH;

use super::{Now, State, clock};
use crate::observe::resources::is_there;

/// Seconds without a sign of life after which a rank is silent: it writes once a second.
pub(super) const SILENT: f64 = 5.0;

/// How it is with a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Life {
    /// Ranks train.
    Running,
    /// It has come to its end, and its result is there.
    Finished,
    /// It has ended before that, as it was asked to.
    Stopped,
    /// A rank has failed.
    Failed,
    /// A rank hung, and the job was ended.
    Hung,
    /// No rank gives a sign of life any more, as these words say.
    Gone(String),
}

impl Life {
    /// How it is with the run in a folder whose ranks have said this last.
    pub(super) fn of(run: &Path, ranks: &[Now]) -> Self {
        if run.join("result.toml").exists() {
            return Self::Finished;
        }
        let newest = ranks.iter().map(|now| now.time).fold(0.0, f64::max);
        let is_silent = clock() - newest > SILENT;
        if is_silent
            && written(&run.join("stalled.json")).is_some_and(|time| time + SILENT > newest)
        {
            return Self::Hung;
        }
        if ranks.iter().any(|now| now.state == State::Failed) {
            return Self::Failed;
        }
        if ranks.iter().all(|now| now.state == State::Ended) {
            return Self::Stopped;
        }
        match is_silent {
            true => Self::Gone(gone(ranks, clock() - newest)),
            false => Self::Running,
        }
    }

    /// In words.
    pub fn words(&self) -> String {
        match self {
            Self::Running => "running".into(),
            Self::Finished => "finished".into(),
            Self::Stopped => "stopped before its end".into(),
            Self::Failed => "failed".into(),
            Self::Hung => "ended because a rank hung".into(),
            Self::Gone(why) => why.clone(),
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Running | Self::Finished => "",
            Self::Hung => "stalled.json in the run folder names the rank",
            Self::Stopped | Self::Failed | Self::Gone(_) => {
                "if it has a checkpoint, go on with: phalanx train --resume RUN"
            }
        }
    }
}

/// Why ranks that were not at their end are silent.
fn gone(ranks: &[Now], seconds: f64) -> String {
    let here = hostname::get().map_or(String::new(), |name| name.to_string_lossy().into_owned());
    let mine: Vec<&Now> = ranks.iter().filter(|now| now.host == here).collect();
    let lives = |now: &&Now| is_there(now.pid, seconds);
    let last = format!("its last sign of life was {seconds:.0} s ago");
    match (mine.is_empty(), mine.iter().any(lives)) {
        (true, _) => format!("silent: {last}, on {}", ranks[0].host),
        (false, true) => format!("silent: {last}, but its processes are still there"),
        (false, false) => format!("killed: {last}, and its processes are gone"),
    }
}

/// When a file was last written, in seconds since 1970.
fn written(path: &Path) -> Option<f64> {
    let time = fs::metadata(path).and_then(|file| file.modified()).ok()?;
    Some(time.duration_since(UNIX_EPOCH).ok()?.as_secs_f64())
}
