//! Turning gradients into updates.

mod adam;
mod clip;
mod lars;
mod measured;
mod momentum;
mod rule;
mod schedule;
mod sgd;

pub use adam::Adam;
pub use clip::Clip;
pub use lars::Lars;
pub use measured::Measured;
pub use momentum::Momentum;
pub use rule::Rule;
pub use schedule::{Decay, Epochs, Schedule, Warmup};
pub use sgd::Sgd;

/// Anything that moves parameters along a gradient.
///
/// It may get all parameters or only a part of them, always the same: what it remembers of them begins at zero with the
/// first update and has the length of the part.
pub trait Optimizer {
    /// How many sums over all parameters or gradients it must know before an update.
    fn sums(&self) -> usize {
        0
    }

    /// Adds to `sums` what the part that begins at `at` contributes to them.
    fn measure(&self, _at: usize, _params: &[f32], _grads: &[f32], _sums: &mut [f64]) {}

    /// Replaces each gradient by the amount to add to its parameter.
    fn update(&mut self, step: &Step, params: &[f32], grads: &mut [f32]);

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
    /// Where the part begins.
    pub at: usize,
    /// What was measured, over all parts.
    pub sums: &'a [f64],
}

impl dyn Optimizer + '_ {
    /// Measures and updates the part that begins at `at`. `total` replaces sums over this part by those over all; it is
    /// not called where the optimizer needs none.
    pub fn step(
        &mut self,
        lr: f32,
        at: usize,
        params: &[f32],
        grads: &mut [f32],
        total: impl FnOnce(&mut [f64]),
    ) {
        let mut sums = vec![0.0; self.sums()];
        if !sums.is_empty() {
            self.measure(at, params, grads, &mut sums);
            total(&mut sums);
        }
        let sums = &sums;
        self.update(&Step { lr, at, sums }, params, grads);
    }
}

/// The sum of squares.
pub(crate) fn squares(values: &[f32]) -> f64 {
    values.iter().map(|&value| f64::from(value).powi(2)).sum()
}

/// Makes `state` as long as the part it belongs to, at the first update.
fn begin(state: &mut Vec<f32>, len: usize) {
    if state.is_empty() {
        state.resize(len, 0.0);
    }
    assert_eq!(
        state.len(),
        len,
        "an optimizer moves the same part at every step"
    );
}

/// A sequence of gradients and rates on which optimizers are compared with figures from elsewhere.
#[cfg(test)]
mod sequence {
    use super::Optimizer;

    pub const START: [f32; 3] = [1.0, -2.0, 0.5];
    pub const GRADS: [[f32; 3]; 4] = [
        [0.5, -1.0, 0.25],
        [-0.2, 0.4, 1.0],
        [0.1, 0.3, -0.7],
        [0.6, -0.6, 0.0],
    ];
    pub const RATES: [f32; 4] = [0.1, 0.1, 0.05, 0.05];

    /// The parameters after each step must be those expected.
    pub fn check(optimizer: &mut dyn Optimizer, expected: [[f64; 3]; 4]) {
        let mut params = START;
        for (i, expected) in expected.iter().enumerate() {
            let mut delta = GRADS[i];
            optimizer.step(RATES[i], 0, &params, &mut delta, |_| {});
            params.iter_mut().zip(delta).for_each(|(p, d)| *p += d);
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
