//! The gradient arena, with the batch's tally riding behind it through the same reduction.

use crate::nn::Tally;

/// One gradient per parameter and what the batch added up to.
pub struct Gradients {
    values: Vec<f32>,
}

impl Gradients {
    /// Values behind the gradients: loss, right answers, samples, a norm.
    pub const TAIL: usize = 4;

    /// Zeros for so many parameters.
    pub fn new(params: usize) -> Self {
        Self {
            values: vec![0.0; params + Self::TAIL],
        }
    }

    /// The gradients.
    pub fn params(&mut self) -> &mut [f32] {
        let end = self.values.len() - Self::TAIL;
        &mut self.values[..end]
    }

    /// Gradients and tally in one piece, to be summed over ranks in one call.
    pub fn all(&mut self) -> &mut [f32] {
        &mut self.values
    }

    /// Puts the tally behind the gradients.
    pub fn set_tally(&mut self, tally: Tally) {
        let end = self.values.len() - Self::TAIL;
        self.values[end..].copy_from_slice(&[
            tally.loss as f32,
            tally.correct as f32,
            tally.count as f32,
            0.0,
        ]);
    }

    /// Puts a number behind the tally; to be called after `set_tally`.
    pub fn set_norm(&mut self, norm: f64) {
        *self.values.last_mut().expect("there is a tail") = norm as f32;
    }

    /// The number behind the tally.
    pub fn norm(&self) -> f64 {
        f64::from(*self.values.last().expect("there is a tail"))
    }

    /// The tally behind the gradients.
    pub fn tally(&self) -> Tally {
        let [loss, correct, count, _] = self.values[self.values.len() - Self::TAIL..] else {
            unreachable!("the tail has four values")
        };
        Tally {
            loss: f64::from(loss),
            correct: correct as u64,
            count: count as u64,
        }
    }
}
