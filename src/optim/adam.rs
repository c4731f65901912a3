//! Adam and AdamW: each parameter at a rate of its own, from the first two moments of its gradients.

use std::ops::Range;

use super::there::{There, moved};
use super::{Memory, Optimizer, Step};
use crate::Result;
use crate::backend::cpu::wide;
use crate::backend::cuda::update;

/// Added to the root of the second moment, so that no parameter divides by zero.
pub const EPSILON: f64 = 1e-8;

/// As PyTorch's: with `m = β1·m + (1−β1)·g` and `v = β2·v + (1−β2)·g²`, at the t-th update
/// `params −= lr / (1−β1ᵗ) × m / (√v / √(1−β2ᵗ) + ε)`.
///
/// Adam adds `weight_decay × params` to the gradient; AdamW (`decoupled`) shrinks the parameters by
/// `lr × weight_decay` instead. Cost of an update: 8 bytes of state a parameter, read and written once.
#[derive(Clone, Debug)]
pub struct Adam {
    /// Share of the first moment that stays from step to step.
    pub beta1: f64,
    /// Share of the second moment that stays.
    pub beta2: f64,
    /// How fast parameters fade.
    pub weight_decay: f64,
    /// Whether fading bypasses the moments: AdamW.
    pub decoupled: bool,
    /// First and second moments.
    moments: [Memory; 2],
    updates: i32,
}

impl Adam {
    /// Before the first update.
    pub fn new(beta1: f64, beta2: f64, weight_decay: f64, decoupled: bool) -> Self {
        Self {
            beta1,
            beta2,
            weight_decay,
            decoupled,
            moments: Default::default(),
            updates: 0,
        }
    }
}

impl Optimizer for Adam {
    fn begin(&mut self, part: Range<usize>) {
        self.moments = [Memory::of(part.clone()), Memory::of(part)];
    }

    fn advance(&mut self, number: u64) {
        // So many updates that their number stops are past all correction.
        self.updates = i32::try_from(number).unwrap_or(i32::MAX);
    }

    fn state(&self) -> usize {
        2
    }

    fn memory(&mut self) -> Vec<&mut [f32]> {
        let moments = self.moments.iter_mut();
        moments.map(|moment| &mut moment.values[..]).collect()
    }

    fn update(&mut self, step: &Step, params: &[f32], grads: &mut [f32]) {
        let [first, second] = (self.moments)
            .each_mut()
            .map(|moment| moment.piece(step.at, grads.len()));
        let correction = |beta: f64| 1.0 - beta.powi(self.updates);
        let rate = (f64::from(step.lr) / correction(self.beta1)) as f32;
        let root = (1.0 / correction(self.beta2).sqrt()) as f32;
        let (keep1, take1) = (self.beta1 as f32, (1.0 - self.beta1) as f32);
        let (keep2, take2) = (self.beta2 as f32, (1.0 - self.beta2) as f32);
        let (coupled, fade) = match self.decoupled {
            true => (0.0, (f64::from(step.lr) * self.weight_decay) as f32),
            false => (self.weight_decay as f32, 0.0),
        };
        let state = first.iter_mut().zip(second);
        wide(|| {
            for ((grad, param), (m, v)) in grads.iter_mut().zip(params).zip(state) {
                let g = *grad + coupled * param;
                *m = keep1 * *m + take1 * g;
                *v = keep2 * *v + take2 * g * g;
                *grad = -fade * param - rate * *m / (v.sqrt() * root + EPSILON as f32);
            }
        });
    }

    fn move_there(&mut self, lr: f32, mut there: There) -> Result<()> {
        let params = there.params.len();
        let settings = update::Adam {
            lr,
            beta1: self.beta1,
            beta2: self.beta2,
            weight_decay: self.weight_decay,
            decoupled: self.decoupled,
            epsilon: EPSILON,
            step: self.updates,
        };
        let moved = moved(&mut there.params, &mut there.grads, 0..params);
        let (first, second) = there.memory.split_at(params);
        update::adam(there.stream, settings, moved, [first, second])
    }
}

#[cfg(test)]
mod tests {
    use super::super::Mover;
    use super::super::sequence::{GRADS, RATES, START, check};
    use super::*;

    /// Figures computed in double precision by another program from PyTorch's documented formulas.
    #[test]
    fn four_steps_give_the_figures_of_pytorch() {
        let adam = [
            [0.9000000, -1.9000000, 0.4000000],
            [0.8475191, -1.8468319, 0.3099360],
            [0.8188406, -1.8293869, 0.2971295],
            [0.7815701, -1.8016789, 0.2859631],
        ];
        check(Adam::new(0.9, 0.999, 0.1, false), adam);
        let adamw = [
            [0.8900000, -1.8800000, 0.3950000],
            [0.8465394, -1.8266394, 0.3026124],
            [0.8233371, -1.8132172, 0.2907776],
            [0.7872790, -1.7873020, 0.2808688],
        ];
        check(Adam::new(0.9, 0.999, 0.1, true), adamw);
    }

    /// The paper's form with corrected moments, which is the same as PyTorch's with corrected rates.
    #[test]
    fn moments_are_corrected_for_their_start_at_zero() {
        let (beta1, beta2) = (0.8, 0.95);
        let mut params = START.map(f64::from);
        let (mut m, mut v) = ([0.0; 3], [0.0; 3]);
        let mut expected = [[0.0; 3]; 4];
        for t in 0..4 {
            for i in 0..3 {
                let g = f64::from(GRADS[t][i]);
                m[i] = beta1 * m[i] + (1.0 - beta1) * g;
                v[i] = beta2 * v[i] + (1.0 - beta2) * g * g;
                let count = t as i32 + 1;
                let (m, v): (f64, f64) = (
                    m[i] / (1.0 - f64::powi(beta1, count)),
                    v[i] / (1.0 - f64::powi(beta2, count)),
                );
                params[i] -= f64::from(RATES[t]) * m / (v.sqrt() + 1e-8);
            }
            expected[t] = params;
        }
        check(Adam::new(beta1, beta2, 0.0, false), expected);
    }

    #[test]
    fn the_first_step_is_the_rate_whatever_the_gradient() {
        let mut delta = [1e-3, -50.0, 0.0];
        let adam = Box::new(Adam::new(0.9, 0.999, 0.0, false));
        Mover::new(adam).deltas(0.01, &[1.0; 3], &mut delta);
        let close = |a: f32, b: f32| (a - b).abs() < 1e-6;
        assert!(
            close(delta[0], -0.01) && close(delta[1], 0.01) && delta[2] == 0.0,
            "{delta:?}"
        );
    }
}
