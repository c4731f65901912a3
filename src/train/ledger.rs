//! Who was late at the steps that ranks take together, and what made it late.
//!
//! Ranks in step leave an exchange together, so that the one which is busy for the longest time until the next one is the one that all
//! others wait for: no clock has to be the same on two hosts. Each rank notes how long it was busy with what, and every [`WINDOW`] steps
//! they tell each other. Costs four looks at the clock and one at the core a step, in steps of [`LONG`] two at what the system counts
//! (1 µs), and a gathering of 3 KiB a rank in [`WINDOW`] steps.

mod cores;
mod lateness;

pub use lateness::{Late, Lateness};

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::comm::{Comm, nodes};
use cores::{Waiting, core};

/// Steps from one gathering to the next.
pub const WINDOW: usize = 128;
/// Compute from which on the system is asked for how long the rank waited for a core. It lets ranks wait for milliseconds: it strikes few
/// of the shorter steps, and those it strikes are shorter no more.
const LONG: Duration = Duration::from_micros(250);
/// Numbers of a step: seconds in load, in compute, in what else there was, of compute without a core, and of waiting; and the core that
/// the rank had at the end.
const FIELDS: usize = 6;
/// Where in them the seconds of waiting are, and the core.
const WAIT: usize = 4;
const CORE: usize = 5;

/// One rank's side of it.
pub struct Ledger {
    /// Of the steps since the last gathering.
    noted: Vec<f32>,
    sums: Sums,
    /// The node of each rank, once they have told each other.
    nodes: Vec<usize>,
    /// When this rank last left others.
    left: Option<Instant>,
    cores: Option<Waiting>,
    /// What the system said when the step began that is being taken, if it was asked.
    before: Option<Duration>,
    /// Compute without a core, of the step that is being taken.
    starved: Duration,
    /// Whether steps are long, as far as is known.
    long: bool,
}

/// What came of all steps so far: a run that is resumed goes on from it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Sums {
    /// Seconds that this rank waited for each.
    waited: Vec<f64>,
    /// Who was late; the same on every rank.
    lateness: Lateness,
    /// Seconds of compute without a core.
    starved: f64,
}

/// When a rank did what in a step.
#[derive(Clone, Copy, Debug)]
pub struct Stride {
    /// It began to take a batch.
    pub start: Instant,
    /// Seconds of that.
    pub load: Duration,
    /// Seconds of forward and backward.
    pub compute: Duration,
    /// Seconds of waiting for others.
    pub wait: Duration,
}

impl Default for Ledger {
    fn default() -> Self {
        Self {
            noted: Vec::with_capacity(WINDOW * FIELDS),
            sums: Sums::default(),
            nodes: Vec::new(),
            left: None,
            cores: Waiting::open(),
            before: None,
            starved: Duration::ZERO,
            long: true,
        }
    }
}

impl Ledger {
    /// Of the steps that ranks have told each other of.
    pub fn sums(&self) -> &Sums {
        &self.sums
    }

    /// Goes on from what came of earlier steps, by as many ranks.
    pub fn go_on(&mut self, sums: Sums) {
        self.sums = sums;
    }

    /// The compute of a step begins.
    pub fn begin(&mut self) {
        let asked = self.cores.as_ref().filter(|_| self.long);
        self.before = asked.and_then(Waiting::total);
    }

    /// The compute of the step is over, of which the system knows, and took so long.
    pub fn computed(&mut self, time: Duration) {
        let now = self.before.and(self.cores.as_ref());
        let now = now.and_then(Waiting::total);
        self.starved = match (self.before.take(), now) {
            (Some(before), Some(now)) => now.saturating_sub(before),
            // Steps were short, and this one is not.
            _ if !self.long => time.saturating_sub(LONG),
            _ => Duration::ZERO,
        };
        self.sums.starved += self.starved.as_secs_f64();
    }

    /// A step is over that `team` has taken together; *collective* over it.
    pub fn stepped(&mut self, team: &dyn Comm, stride: Stride) {
        self.long = stride.compute >= LONG;
        if team.size() == 1 {
            return;
        }
        let other = self
            .left
            .map_or(Duration::ZERO, |left| stride.start.duration_since(left));
        let Stride {
            load,
            compute,
            wait,
            ..
        } = stride;
        let times = [load, compute, other, self.starved, wait];
        self.noted.extend(times.map(|time| time.as_secs_f32()));
        self.noted.push(core() as f32);
        if self.noted.len() == WINDOW * FIELDS {
            self.gather(team);
        }
        self.left = Some(Instant::now());
    }

    /// This rank has left others a moment ago.
    pub fn left(&mut self) {
        self.left = Some(Instant::now());
    }

    /// Ranks tell each other what they noted since they last did; *collective* over the team that takes steps together.
    pub fn gather(&mut self, team: &dyn Comm) {
        let bytes = self.noted.iter().flat_map(|number| number.to_le_bytes());
        let all = team.gather(&bytes.collect::<Vec<u8>>());
        let number = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().expect("four bytes"));
        let ranks: Vec<Vec<f32>> = all
            .iter()
            .map(|bytes| bytes.chunks_exact(4).map(number).collect())
            .collect();
        self.sums.waited.resize(team.size(), 0.0);
        if self.nodes.is_empty() {
            self.nodes = nodes(team);
        }
        let last = self.sums.lateness.add(&ranks, &self.nodes);
        let mine = self.noted.chunks_exact(FIELDS);
        for (note, last) in mine.zip(last) {
            // The last one waits for nobody: what it has of waiting is the meeting itself.
            if last != team.rank() {
                self.sums.waited[last] += f64::from(note[WAIT]);
            }
        }
        self.noted.clear();
    }

    /// Seconds that this rank waited for each.
    pub fn waited(&self) -> &[f64] {
        &self.sums.waited
    }

    /// Who was late, over all steps that ranks told each other of.
    pub fn lateness(&self) -> &Lateness {
        &self.sums.lateness
    }

    /// Seconds of compute in which this rank had no core to run on, where the system tells.
    pub fn starved(&self) -> Option<f64> {
        self.cores.as_ref().map(|_| self.sums.starved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::run_ranks;

    /// What ranks make of steps whose milliseconds of load and compute `of` gives for a rank and a step; their run is resumed in between.
    fn told(
        ranks: usize,
        steps: u64,
        of: fn(usize, u64) -> [u64; 2],
    ) -> Vec<(Vec<f64>, Vec<Late>)> {
        run_ranks(ranks, |comm| {
            let mut ledger = Ledger::default();
            for step in 0..steps {
                if step == 2 * WINDOW as u64 {
                    let kept = serde_json::to_string(ledger.sums()).unwrap();
                    ledger = Ledger::default();
                    ledger.go_on(serde_json::from_str(&kept).unwrap());
                }
                let busy = |rank| of(rank, step).iter().sum::<u64>();
                let longest = (0..comm.size()).map(busy).max().unwrap();
                let [load, compute] = of(comm.rank(), step).map(Duration::from_millis);
                let wait = Duration::from_millis(longest - busy(comm.rank()));
                let stride = Stride {
                    start: Instant::now(),
                    load,
                    compute,
                    wait,
                };
                ledger.begin();
                ledger.stepped(comm, stride);
            }
            ledger.gather(comm);
            let late = ledger.lateness().ranks().to_vec();
            (ledger.waited().to_vec(), late)
        })
    }

    #[test]
    fn waiting_is_charged_to_the_rank_that_came_last() {
        // Rank 2 computes for 30 ms and others for 10; in every tenth step rank 0 loads for 50.
        let of = |rank, step: u64| match (rank, step % 10) {
            (0, 0) => [50, 10],
            (2, _) => [0, 30],
            _ => [0, 10],
        };
        let all = told(4, 300, of);
        let seconds = |rank: usize, whom: usize| (all[rank].0[whom] * 1e3).round();
        assert_eq!([seconds(1, 2), seconds(1, 0)], [270.0 * 20.0, 30.0 * 50.0]);
        assert_eq!([seconds(2, 2), seconds(2, 0)], [0.0, 30.0 * 30.0]);
        assert_eq!([seconds(0, 2), seconds(0, 0)], [270.0 * 20.0, 0.0]);
        for (_, late) in &all {
            assert_eq!(late[2].last, 270);
            assert_eq!(
                [late[0].slow_blocks, late[2].slow_blocks],
                [0, late[2].blocks]
            );
            assert_eq!(late[2].blocks, 10);
        }
    }

    #[test]
    fn time_without_a_core_makes_no_rank_slow() {
        let found = slow(
            &[(0.01, 0.0), (0.01, 0.0), (0.05, 0.04), (0.05, 0.0)],
            [0, 1, 2, 3],
            [0; 4],
        );
        assert_eq!(found, [[0, 0], [0, 0], [0, 2], [2, 2]]);
    }

    /// Of two blocks, those in which each rank is slow, with the seconds of its compute and of those without a core, on these cores of
    /// these nodes; and those with the latter.
    fn slow(ranks: &[(f32, f32)], cores: [u8; 4], nodes: [usize; 4]) -> Vec<[u64; 2]> {
        let notes = ranks.iter().zip(cores).map(|(&(compute, starved), core)| {
            [0.0, compute, 0.0, starved, 0.0, core.into()].repeat(64)
        });
        let mut lateness = Lateness::default();
        lateness.add(&notes.collect::<Vec<_>>(), &nodes);
        let ranks = lateness.ranks().iter();
        assert!(ranks.clone().all(|late| late.blocks == 2));
        ranks
            .map(|late| [late.slow_blocks, late.held_blocks])
            .collect()
    }

    #[test]
    fn a_slow_core_makes_none_of_the_ranks_slow_that_share_it() {
        // Somebody else's work, which the system does not see, slows down the second core.
        let ranks = [(0.010, 0.0), (0.010, 0.0), (0.014, 0.0), (0.014, 0.0)];
        let own = |cores, nodes| {
            slow(&ranks, cores, nodes)
                .into_iter()
                .map(|[own, _]| own)
                .collect::<Vec<_>>()
        };
        assert_eq!(own([0, 0, 1, 1], [0; 4]), [0; 4]);
        // With a core each, or on cores of different nodes that have the same number, two of the four are slow.
        assert_eq!(own([0, 1, 2, 3], [0; 4]), [0, 0, 2, 2]);
        assert_eq!(own([0, 1, 0, 1], [0, 0, 1, 1]), [0, 0, 2, 2]);
        // A rank that is slower than who has the same core is slow; so is one by itself that is slower than all others.
        assert_eq!(own([0, 1, 0, 1], [0; 4]), [0, 0, 2, 2]);
        assert_eq!(own([0, 0, 0, 1], [0; 4]), [0, 0, 2, 2]);
    }

    #[test]
    fn a_rank_alone_waits_for_nobody() {
        assert_eq!(told(1, 200, |_, _| [1, 1])[0].0, [0.0]);
    }
}
