//! What came of the steps that ranks told each other of.

use serde::{Deserialize, Serialize};

use super::FIELDS;
use crate::study::median;

/// Steps of a block: a rank is slow in one if it is in the middle of its steps, whatever happened in a few.
const BLOCK: usize = 32;
/// Steps that a block must have to count.
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
    /// Of them, those in which it was busy for longer than others, also without the time for which it had no core.
    pub slow_blocks: u64,
    /// Those in which it was, with that time.
    pub held_blocks: u64,
}

/// All ranks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Lateness(Vec<Late>);

impl Lateness {
    /// Takes in what ranks noted, [`FIELDS`] numbers a step. Gives the rank that came last to each step.
    pub(super) fn add(&mut self, ranks: &[Vec<f32>]) -> Vec<usize> {
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
        let blocks = busy.chunks(BLOCK).zip(own.chunks(BLOCK));
        for (busy, own) in blocks.filter(|(block, _)| block.len() >= LEAST) {
            for (rank, late) in self.0.iter_mut().enumerate() {
                late.blocks += 1;
                late.held_blocks += u64::from(is_slow(rank, busy));
                late.slow_blocks += u64::from(is_slow(rank, own));
            }
        }
        last
    }

    /// Every rank, in their order; none where ranks do not step together.
    pub fn ranks(&self) -> &[Late] {
        &self.0
    }
}

/// Whether a rank is slower than others in a block of steps, each with the seconds of all ranks.
fn is_slow(rank: usize, steps: &[Vec<f64>]) -> bool {
    let against = |times: &Vec<f64>| {
        let others = times.iter().enumerate().filter(|(other, _)| *other != rank);
        let typical = median(others.map(|(_, &time)| time).collect());
        times[rank] / typical.unwrap_or(times[rank]).max(1e-9)
    };
    median(steps.iter().map(against).collect()).is_some_and(|times| times > SLOW)
}

/// Where the greatest is.
fn longest(times: &[f64]) -> usize {
    let pairs = times.iter().enumerate();
    let most = pairs.max_by(|(_, a), (_, b)| a.total_cmp(b));
    most.map_or(0, |(rank, _)| rank)
}
