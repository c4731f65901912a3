//! What rides behind a rank's gradients through the same sum.

use crate::nn::Tally;

/// What a rank's batch added up to, and after a step the whole team's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tail {
    /// Losses and right answers.
    pub tally: Tally,
    /// How many ranks have a loss or a gradient that is not finite: then no parameter moves.
    pub faults: u64,
    /// Share of the step's samples.
    pub share: f64,
    /// Squared norm of the rank's mean gradient times its share of the samples, where noise is measured.
    pub norm: f64,
    /// What ranks want and have done beside the step.
    pub votes: Votes,
}

/// How many ranks say what about the run; nothing where they were not asked in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Votes {
    /// The run is to end, with a checkpoint.
    pub stop: u64,
    /// A checkpoint is due.
    pub save: u64,
    /// The rank's part of the pending checkpoint is over.
    pub over: u64,
    /// And could not be written.
    pub failed: u64,
    /// Ranks that were asked.
    pub asked: u64,
}

impl Votes {
    /// As numbers.
    pub(crate) fn numbers(self) -> [u64; 5] {
        [self.stop, self.save, self.over, self.failed, self.asked]
    }

    /// What `numbers` gave, or sums of it.
    pub(crate) fn of([stop, save, over, failed, asked]: [u64; 5]) -> Self {
        Self {
            stop,
            save,
            over,
            failed,
            asked,
        }
    }
}

impl Tail {
    /// Values it takes.
    pub const LEN: usize = 11;

    /// Writes it behind gradients.
    pub(super) fn write(self, values: &mut [f32]) {
        let Tally {
            loss,
            correct,
            count,
        } = self.tally;
        let sums = [
            loss as f32,
            correct as f32,
            count as f32,
            self.faults as f32,
            self.share as f32,
            self.norm as f32,
        ];
        let (first, votes) = values.split_at_mut(sums.len());
        first.copy_from_slice(&sums);
        votes.copy_from_slice(&self.votes.numbers().map(|number| number as f32));
    }

    /// Reads what `write` wrote, or sums of it.
    pub(super) fn read(values: &[f32]) -> Self {
        let &[
            loss,
            correct,
            count,
            faults,
            share,
            norm,
            stop,
            save,
            over,
            failed,
            asked,
        ] = values
        else {
            unreachable!("a tail has {} values", Self::LEN)
        };
        Self {
            tally: Tally {
                loss: f64::from(loss),
                correct: correct as u64,
                count: count as u64,
            },
            faults: faults as u64,
            share: f64::from(share),
            norm: f64::from(norm),
            votes: Votes::of([stop, save, over, failed, asked].map(|number| number as u64)),
        }
    }
}
