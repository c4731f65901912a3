//! Stochastic gradient descent with momentum, classic or Nesterov's.

use std::ops::Range;

use super::there::{There, moved};
use super::{Memory, Optimizer, Step};
use crate::Result;
use crate::backend::cpu::wide;
use crate::backend::cuda::update;

/// As PyTorch's SGD with dampening 0: with `g = gradient + weight_decay × params` and `v = momentum × v + g`, classic
/// momentum is `params −= lr × v` and Nesterov's `params −= lr × (g + momentum × v)`.
///
/// Cost of an update: 4 bytes of state a parameter, read and written once.
#[derive(Clone, Debug, Default)]
pub struct Momentum {
    /// Share of the velocity that stays from step to step.
    pub momentum: f64,
    /// Whether to look ahead by one more step of the velocity.
    pub nesterov: bool,
    /// Share of each parameter that is added to its gradient.
    pub weight_decay: f64,
    velocity: Memory,
}

impl Momentum {
    /// At rest.
    pub fn new(momentum: f64, nesterov: bool, weight_decay: f64) -> Self {
        Self {
            momentum,
            nesterov,
            weight_decay,
            velocity: Memory::default(),
        }
    }
}

impl Optimizer for Momentum {
    fn begin(&mut self, part: Range<usize>) {
        self.velocity = Memory::of(part);
    }

    fn state(&self) -> usize {
        1
    }

    fn memory(&mut self) -> Vec<&mut [f32]> {
        vec![&mut self.velocity.values]
    }

    fn update(&mut self, step: &Step, params: &[f32], grads: &mut [f32]) {
        let velocities = self.velocity.piece(step.at, grads.len());
        let (lr, decay, keep) = (step.lr, self.weight_decay as f32, self.momentum as f32);
        // Both kinds are `lr × (a × g + b × v)`: the choice is made once, not for each parameter.
        let (a, b) = if self.nesterov {
            (1.0, keep)
        } else {
            (0.0, 1.0)
        };
        wide(|| {
            for ((grad, param), velocity) in grads.iter_mut().zip(params).zip(velocities) {
                let g = *grad + decay * param;
                *velocity = keep * *velocity + g;
                *grad = -lr * (a * g + b * *velocity);
            }
        });
    }

    fn move_there(&mut self, lr: f32, mut there: There) -> Result<()> {
        let all = 0..there.params.len();
        let settings = update::Momentum {
            lr,
            momentum: self.momentum as f32,
            nesterov: self.nesterov,
            weight_decay: self.weight_decay as f32,
        };
        let moved = moved(&mut there.params, &mut there.grads, all);
        update::momentum(there.stream, settings, moved, there.memory)
    }
}

#[cfg(test)]
mod tests {
    use super::super::sequence::{GRADS, RATES, START, check};
    use super::*;

    /// Figures computed in double precision by another program from PyTorch's documented formulas.
    #[test]
    fn four_steps_give_the_figures_of_pytorch() {
        let classic = [
            [0.9500000, -1.9000000, 0.4750000],
            [0.9250000, -1.8500000, 0.3525000],
            [0.9087500, -1.8425000, 0.3323750],
            [0.8641250, -1.8057500, 0.3142625],
        ];
        check(Momentum::new(0.9, false, 0.0), classic);
        let nesterov = [
            [0.8860000, -1.7720000, 0.4430000],
            [0.8585660, -1.7171320, 0.2202830],
            [0.8235513, -1.6946026, 0.2314612],
            [0.7355779, -1.5954546, 0.2088139],
        ];
        check(Momentum::new(0.9, true, 0.1), nesterov);
    }

    /// Classic momentum is a sum: the update at step t is the sum over s ≤ t of momentum^(t−s) times gradient s.
    #[test]
    fn classic_momentum_is_a_fading_sum_of_all_gradients() {
        let mut params = START.map(f64::from);
        let mut expected = [[0.0; 3]; 4];
        for t in 0..4 {
            for i in 0..3 {
                let fading = (0..=t).map(|s| 0.7f64.powi((t - s) as i32) * f64::from(GRADS[s][i]));
                params[i] -= f64::from(RATES[t]) * fading.sum::<f64>();
            }
            expected[t] = params;
        }
        check(Momentum::new(0.7, false, 0.0), expected);
    }

    #[test]
    fn without_momentum_it_is_plain_descent() {
        let mut params = START.map(f64::from);
        let expected = [0, 1, 2, 3].map(|t| {
            params = std::array::from_fn(|i| {
                params[i] - f64::from(RATES[t]) * (f64::from(GRADS[t][i]) + 0.2 * params[i])
            });
            params
        });
        check(Momentum::new(0.0, true, 0.2), expected);
        check(Momentum::new(0.0, false, 0.2), expected);
    }
}
