//! What `--trace` costs: the same ranks train in turns, with it and without.
//!
//! Two runs differ by more than a trace costs, whatever it is that differs: where memory came to lie, what else the machine does. Turns of one
//! run have the first in common, and take so little time that the second changes both sides alike.

use serde_json::{Value, json};

use super::agreed;
use crate::Result;
use crate::comm::Comm;
use crate::observe::timeline;
use crate::study::Middle;

/// Seconds that a turn takes, or one step where that is longer.
const TURN: f64 = 0.02;
/// Whether the turns of a round are traced: what grows or shrinks evenly over a round does not count.
const ROUND: [bool; 4] = [false, true, true, false];

/// What was measured.
pub(super) struct Traced {
    /// How many times as long a step takes with a trace, by round.
    ratio: Middle,
    rounds: usize,
    /// Of a turn.
    steps: u64,
}

impl Traced {
    /// Measures for about `seconds`, where so many steps were taken a second; `take` takes some and tells how long that took;
    /// *collective*.
    pub(super) fn measure(
        comm: &dyn Comm,
        (seconds, rate): (f64, f64),
        mut take: impl FnMut(u64) -> Result<f64>,
    ) -> Result<Self> {
        let steps = agreed(comm, (rate * TURN).ceil() as u64).max(1);
        let turns = rate * seconds / steps as f64;
        let rounds = agreed(comm, (turns / ROUND.len() as f64).ceil() as u64).max(2);
        timeline::start(comm.size());
        let mut log = timeline::take();
        let mut round = || {
            let mut times = [0.0; 2];
            for on in ROUND {
                if let Some(log) = log.take_if(|_| on) {
                    timeline::go_on(log);
                }
                let taken = take(steps);
                log = timeline::take().or(log.take());
                times[usize::from(on)] += taken?;
            }
            Ok(times[1] / times[0])
        };
        let ratios = (0..rounds).map(|_| round()).collect::<Result<Vec<f64>>>()?;
        Ok(Self {
            ratio: Middle::of(&ratios).expect("two rounds at least"),
            rounds: ratios.len(),
            steps,
        })
    }

    /// As a line under a row.
    pub(super) fn line(&self) -> String {
        let (low, high) = self.interval();
        format!(
            "  with --trace a step takes {:.4} times as long ({low:.4} to {high:.4} in 19 of 20 such measurements); median of {} rounds, in each {} turns of {} steps",
            self.ratio.median,
            self.rounds,
            ROUND.len(),
            self.steps
        )
    }

    /// The same for programs.
    pub(super) fn json(&self) -> Value {
        let (low, high) = self.interval();
        json!({"ratio": self.ratio.median, "low": low, "high": high, "rounds": self.rounds, "steps": self.steps})
    }

    fn interval(&self) -> (f64, f64) {
        self.ratio.interval.expect("two rounds at least")
    }
}
