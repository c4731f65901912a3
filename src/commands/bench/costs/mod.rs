//! What looking on and checkpoints cost: the same ranks train in turns, with them and without.
//!
//! Two runs differ by more than any of it costs, whatever it is that differs: where memory came to lie, what else the machine does. Turns
//! of one run have the first in common, and take so little time that the second changes both sides alike. What happens too
//! seldom for that is done more often, and its cost divided by how much more.

mod extras;

use std::fs;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use serde_json::{Value, json};

use super::agreed;
use super::steady::Steady;
use crate::comm::{Comm, agree, path_of_first};
use crate::study::Middle;
use crate::{Error, Result, interrupt};
use extras::Beside;

/// What a run may do beside its steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra {
    /// Note what a trace has.
    Trace,
    /// Keep `metrics.csv`, and show progress.
    Progress,
    /// Sample resources each second.
    Resources,
    /// Write event files.
    TensorBoard,
    /// Write a checkpoint each [`EVERY`].
    Checkpoint,
}

/// Seconds from one checkpoint to the next.
pub const EVERY: f64 = 30.0;

/// Whether the turns of a round are with it: what grows or shrinks evenly over a round does not count.
const ROUND: [bool; 4] = [false, true, true, false];
/// The fewest rounds.
const LEAST: u64 = 3;

impl Extra {
    /// As in the results.
    fn name(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Progress => "progress",
            Self::Resources => "resources",
            Self::TensorBoard => "tensorboard",
            Self::Checkpoint => "checkpoint",
        }
    }

    /// As the user reads it.
    fn words(self) -> String {
        match self {
            Self::Trace => "--trace".into(),
            Self::Progress => "metrics.csv and progress".into(),
            Self::Resources => "--resources csv".into(),
            Self::TensorBoard => "--tensorboard on".into(),
            Self::Checkpoint => format!("--checkpoint-every {EVERY}s"),
        }
    }

    /// Seconds that a turn takes, where there are as many for a round, and the fewest steps that it has.
    fn turn(self) -> (f64, u64) {
        match self {
            Self::Trace => (0.02, 1),
            // A bar is drawn twice in it.
            Self::Progress => (0.25, 1),
            // Samples are taken a few times, and an epoch's histograms once.
            Self::TensorBoard | Self::Resources => (0.5, 1),
            // Some steps are taken while one is being written.
            Self::Checkpoint => (0.5, 8),
        }
    }
}

/// What was measured.
pub(super) struct Cost {
    extra: Extra,
    /// How many times as long a step takes with it in a run, by round.
    ratio: Middle,
    /// How many times as often as in a run it was done, in the middle round.
    often: f64,
    rounds: usize,
    /// Of a turn.
    steps: u64,
}

/// Measures for about `seconds`, where so many steps were taken a second; *collective*.
pub(super) fn measure(
    steady: &mut Steady,
    extra: Extra,
    scratch: &Scratch,
    (seconds, rate): (f64, f64),
) -> Result<Cost> {
    let comm = steady.comm;
    let (turn, least) = extra.turn();
    let turn = turn.min(seconds / ROUND.len() as f64);
    let steps = agreed(comm, (rate * turn).ceil() as u64).max(least);
    let turns = rate * seconds / steps as f64;
    let rounds = agreed(comm, (turns / ROUND.len() as f64).round() as u64).max(LEAST);
    let mut beside = Beside::new(extra, steady, scratch)?;
    let mut round = || {
        let (mut times, mut often) = ([0.0; 2], 0.0);
        for on in ROUND {
            // Whoever is stopped here has a folder to remove.
            agree(comm, interrupt::check())?;
            let time = match on {
                false => steady.take(steps)?,
                true => {
                    let (time, done) = beside.turn(steady, steps)?;
                    often += done;
                    time
                }
            };
            times[usize::from(on)] += time;
        }
        let often = often / beside.in_a_run(times[0]);
        Ok((1.0 + (times[1] / times[0] - 1.0) / often, often))
    };
    let rounds: Vec<(f64, f64)> = (0..rounds).map(|_| round()).collect::<Result<_>>()?;
    // One that was begun and given up in every turn tells nothing.
    let known = rounds.into_iter().filter(|(_, often)| *often > 0.0);
    let (ratios, often): (Vec<f64>, Vec<f64>) = known.unzip();
    let (Some(ratio), Some(often)) = (Middle::of(&ratios), crate::study::median(often)) else {
        let problem = format!("{} was never done in a turn", extra.words());
        return Err(Error::Usage(problem));
    };
    Ok(Cost {
        extra,
        ratio,
        often,
        rounds: ratios.len(),
        steps,
    })
}

impl Cost {
    /// As a line under a row.
    pub(super) fn line(&self) -> String {
        let (low, high) = self.interval();
        let mut line = format!(
            "  with {} a step takes {:.4} times as long ({low:.4} to {high:.4} in 19 of 20 such measurements); median of {} rounds, in each {} turns of {} steps",
            self.extra.words(),
            self.ratio.median,
            self.rounds,
            ROUND.len(),
            self.steps
        );
        if self.extra == Extra::Checkpoint {
            line += &format!(
                "; one takes {:.1} ms from training",
                1e3 * EVERY * (self.ratio.median - 1.0)
            );
        }
        if self.often != 1.0 {
            line += &format!("; done {:.0} times as often", self.often);
        }
        line
    }

    /// The same for programs.
    pub(super) fn json(&self) -> Value {
        let (low, high) = self.interval();
        json!({
            "of": self.extra.name(), "ratio": self.ratio.median, "low": low, "high": high, "often": self.often,
            "rounds": self.rounds, "steps": self.steps,
        })
    }

    fn interval(&self) -> (f64, f64) {
        let one = self.ratio.median;
        self.ratio.interval.unwrap_or((one, one))
    }
}

/// A folder for what runs write, below the one where this was started, as theirs are; removed when all is measured.
pub(super) struct Scratch {
    path: PathBuf,
    first: bool,
}

impl Scratch {
    /// *Collective*.
    pub(super) fn make(comm: &dyn Comm) -> Result<Self> {
        let time = UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos());
        let name = format!(".phalanx-bench-{}-{time}", std::process::id());
        let scratch = Self {
            path: path_of_first(comm, Some(name.into())),
            first: comm.rank() == 0,
        };
        let made = match scratch.first {
            true => fs::create_dir(&scratch.path).map_err(Error::io("create", &scratch.path)),
            false => Ok(()),
        };
        agree(comm, made)?;
        interrupt::listen();
        Ok(scratch)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.first {
            // What cannot be removed is only litter.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}
