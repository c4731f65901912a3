//! Turning gradients into updates.

mod adam;
mod clip;
mod lars;
mod measured;
mod momentum;
mod mover;
mod rule;
mod schedule;
mod sgd;
mod there;

pub use adam::Adam;
pub use clip::Clip;
pub use lars::Lars;
pub use measured::Measured;
pub use momentum::Momentum;
pub use mover::{Mover, Part};
pub use rule::Rule;
pub use schedule::{Decay, Epochs, Schedule, Warmup};
pub use sgd::Sgd;
pub use there::There;

use std::ops::Range;

use crate::Result;

/// Anything that moves parameters along a gradient.
///
/// It moves all parameters or a part of them, always the same, and gets them piece by piece.
pub trait Optimizer {
    /// How many sums over all parameters or gradients it must know before an update.
    fn sums(&self) -> usize {
        0
    }

    /// Adds to `sums` what the piece that begins at `at` contributes to them.
    fn measure(&self, _at: usize, _params: &[f32], _grads: &[f32], _sums: &mut [f64]) {}

    /// The sums over all are known; also where the part to move is empty.
    fn measured(&mut self, _sums: &[f64]) {}

    /// Makes ready to move `part` of the parameters.
    fn begin(&mut self, _part: Range<usize>) {}

    /// The step begins that is the `number`th, from 1.
    fn advance(&mut self, _number: u64) {}

    /// Values that it remembers of each parameter.
    fn state(&self) -> usize {
        0
    }

    /// What it remembers of the part that it was made ready for.
    fn memory(&mut self) -> Vec<&mut [f32]> {
        Vec::new()
    }

    /// Replaces each gradient of a piece by the amount to add to its parameter.
    fn update(&mut self, step: &Step, params: &[f32], grads: &mut [f32]);

    /// As `measure`, of all parameters on a device: sets the sums there.
    fn measure_there(&self, _there: &mut There) -> Result<()> {
        Ok(())
    }

    /// As `update` of all parameters on a device, which are moved by it too; the sums are there.
    fn move_there(&mut self, lr: f32, there: There) -> Result<()>;

    /// The squared norm of the whole gradient of the last update, where it was measured.
    fn norm(&self) -> Option<f64> {
        None
    }
}

/// What an update needs to know besides parameters and gradients.
#[derive(Clone, Copy, Debug, Default)]
pub struct Step<'a> {
    /// The learning rate.
    pub lr: f32,
    /// Where the piece begins.
    pub at: usize,
    /// What was measured, over all pieces and parts.
    pub sums: &'a [f64],
}

/// What an optimizer remembers of its part of the parameters, a number each.
#[derive(Clone, Debug, Default)]
struct Memory {
    start: usize,
    values: Vec<f32>,
}

impl Memory {
    /// Zeros for `part`.
    fn of(part: Range<usize>) -> Self {
        Self {
            start: part.start,
            values: vec![0.0; part.len()],
        }
    }

    /// That of the `len` parameters from `at` on.
    fn piece(&mut self, at: usize, len: usize) -> &mut [f32] {
        &mut self.values[at - self.start..][..len]
    }
}

/// The sum of squares.
pub(crate) fn squares(values: &[f32]) -> f64 {
    values.iter().map(|&value| f64::from(value).powi(2)).sum()
}

/// A sequence of gradients and rates on which optimizers are compared with figures from elsewhere.
#[cfg(test)]
mod sequence {
    use super::{Mover, Optimizer, Part};

    pub const START: [f32; 3] = [1.0, -2.0, 0.5];
    pub const GRADS: [[f32; 3]; 4] = [
        [0.5, -1.0, 0.25],
        [-0.2, 0.4, 1.0],
        [0.1, 0.3, -0.7],
        [0.6, -0.6, 0.0],
    ];
    pub const RATES: [f32; 4] = [0.1, 0.1, 0.05, 0.05];

    /// The parameters after each step must be those expected.
    pub fn check(optimizer: impl Optimizer + 'static, expected: [[f64; 3]; 4]) {
        let mut mover = Mover::new(Box::new(optimizer));
        let mut params = START;
        for (i, expected) in expected.iter().enumerate() {
            let gradient = |range, out: &mut [f32]| out.copy_from_slice(&GRADS[i][range]);
            mover.step(
                RATES[i],
                Part::whole(&mut params, &[0, 3]),
                gradient,
                |_| {},
            );
            for (param, expected) in params.iter().zip(expected) {
                let error = (f64::from(*param) - expected).abs();
                assert!(
                    error < 1e-6,
                    "step {}: {param} instead of {expected}",
                    i + 1
                );
            }
        }
    }
}
