//! What came of the steps that ranks told each other of.

use serde::{Deserialize, Serialize};

use super::{CORE, FIELDS};
use crate::study::median;

/// Steps of a block: a rank is slow in one if it is in the middle of its steps, whatever happened in a few.
const BLOCK: usize = 32;
/// Steps that a block must have to count, and with others on the same core to be judged by them.
const LEAST: usize = 8;
/// How many times as long as others a rank must be busy to be slow.
const SLOW: f64 = 1.15;

/// One rank among others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Late {
    /// Steps that were told of.
    pub steps: u64,
    /// Of them, those it came to last.
    pub last: u64,
    /// Seconds in load, in compute and in what else was before an exchange.
    pub busy: [f64; 3],
    /// Blocks of steps.
    pub blocks: u64,
    /// Of them, those in which it was busy for longer than others, also without the time for which it had no core; than those who
    /// had the same one, where there are any: what slows a core down is nothing of the ranks on it.
    pub slow_blocks: u64,
    /// Those in which it was, with that time.
    pub held_blocks: u64,
}

/// All ranks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Lateness(Vec<Late>);

impl Lateness {
    /// Takes in what ranks noted, [`FIELDS`] numbers a step, with the node of each. Gives the rank that came last to each step.
    pub(super) fn add(&mut self, ranks: &[Vec<f32>], nodes: &[usize]) -> Vec<usize> {
        self.0.resize(ranks.len(), Late::default());
        let steps = ranks.iter().map(|notes| notes.len() / FIELDS).min();
        let steps = steps.unwrap_or(0);
        for (late, notes) in self.0.iter_mut().zip(ranks) {
            late.steps += steps as u64;
            for note in notes.chunks_exact(FIELDS) {
                let parts = late.busy.iter_mut().zip(note);
                parts.for_each(|(sum, &time)| *sum += f64::from(time));
            }
        }
        // Seconds that ranks were busy with each step, and those for which they had a core or did not ask for one.
        let of_ranks = |step: usize, of: fn(&[f32]) -> f32| -> Vec<f64> {
            let note = |notes: &Vec<f32>| of(&notes[step * FIELDS..][..FIELDS]);
            ranks.iter().map(|notes| f64::from(note(notes))).collect()
        };
        let table = |of| -> Vec<Vec<f64>> { (0..steps).map(|step| of_ranks(step, of)).collect() };
        let busy = table(|note| note[..3].iter().sum());
        let own = table(|note| note[..3].iter().sum::<f32>() - note[3]);
        let last: Vec<usize> = busy.iter().map(|busy| longest(busy)).collect();
        last.iter().for_each(|&rank| self.0[rank].last += 1);
        let core = |step: usize, rank: usize| {
            let number = ranks[rank][step * FIELDS + CORE];
            (nodes[rank], number as usize)
        };
        let held = against(&busy, |_, _| ());
        let alone = against(&own, |_, _| ());
        let beside = against(&own, core);
        for start in (0..steps).step_by(BLOCK) {
            let block = start..steps.min(start + BLOCK);
            if block.len() < LEAST {
                break;
            }
            for (rank, late) in self.0.iter_mut().enumerate() {
                let slow = |times: &Times| is_slow(&times[block.clone()], rank);
                late.blocks += 1;
                late.held_blocks += u64::from(slow(&held) == Some(true));
                let own = slow(&beside).or_else(|| slow(&alone));
                late.slow_blocks += u64::from(own == Some(true));
            }
        }
        last
    }

    /// Every rank, in their order; none where ranks do not step together.
    pub fn ranks(&self) -> &[Late] {
        &self.0
    }
}

/// How many times as long as others each rank takes, step by step; none where there are no others.
type Times = Vec<Vec<Option<f64>>>;

/// Each rank against the median of those others that have the same `place` at a step, of the seconds of all.
fn against<P: Ord>(steps: &[Vec<f64>], place: impl Fn(usize, usize) -> P) -> Times {
    let step = |(step, seconds): (usize, &Vec<f64>)| {
        let mut order: Vec<usize> = (0..seconds.len()).collect();
        order.sort_by(|&a, &b| {
            let places = place(step, a).cmp(&place(step, b));
            places.then(seconds[a].total_cmp(&seconds[b]))
        });
        let mut times = vec![None; seconds.len()];
        for mates in order.chunk_by(|&a, &b| place(step, a) == place(step, b)) {
            for (at, &rank) in mates.iter().enumerate().filter(|_| mates.len() > 1) {
                // The one in the middle of those that are left, or the two there.
                let others = mates.len() - 1;
                let nth = |n: usize| seconds[mates[n + usize::from(n >= at)]];
                let typical = (nth((others - 1) / 2) + nth(others / 2)) / 2.0;
                times[rank] = Some(seconds[rank] / typical.max(1e-9));
            }
        }
        times
    };
    steps.iter().enumerate().map(step).collect()
}

/// Whether a rank is slow in the middle of these steps; none where it has others at too few of them.
fn is_slow(steps: &[Vec<Option<f64>>], rank: usize) -> Option<bool> {
    let times: Vec<f64> = steps.iter().filter_map(|times| times[rank]).collect();
    let enough = times.len() >= LEAST;
    median(times).filter(|_| enough).map(|times| times > SLOW)
}

/// Where the greatest is.
fn longest(times: &[f64]) -> usize {
    let pairs = times.iter().enumerate();
    let most = pairs.max_by(|(_, a), (_, b)| a.total_cmp(b));
    most.map_or(0, |(rank, _)| rank)
}
