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
}

impl Tail {
    /// Values it takes.
    pub const LEN: usize = 6;

    /// Writes it behind gradients.
    pub(super) fn write(self, values: &mut [f32]) {
        let Tally {
            loss,
            correct,
            count,
        } = self.tally;
        values.copy_from_slice(&[
            loss as f32,
            correct as f32,
            count as f32,
            self.faults as f32,
            self.share as f32,
            self.norm as f32,
        ]);
    }

    /// Reads what `write` wrote, or sums of it.
    pub(super) fn read(values: &[f32]) -> Self {
        let &[loss, correct, count, faults, share, norm] = values else {
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
        }
    }
}
