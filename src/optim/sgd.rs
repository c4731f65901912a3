//! Plain stochastic gradient descent.

use super::there::{There, moved};
use super::{Optimizer, Step};
use crate::Result;
use crate::backend::cuda::update;

/// `params −= lr × (gradient + weight_decay × params)`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sgd {
    /// Share of each parameter that is added to its gradient.
    pub weight_decay: f64,
}

impl Optimizer for Sgd {
    fn update(&mut self, step: &Step, params: &[f32], grads: &mut [f32]) {
        let (lr, decay) = (step.lr, self.weight_decay as f32);
        if decay == 0.0 {
            grads.iter_mut().for_each(|g| *g *= -lr);
            return;
        }
        grads
            .iter_mut()
            .zip(params)
            .for_each(|(g, p)| *g = -lr * (*g + decay * p));
    }

    fn move_there(&mut self, lr: f32, mut there: There) -> Result<()> {
        let all = 0..there.params.len();
        let moved = moved(&mut there.params, &mut there.grads, all);
        update::sgd(there.stream, lr, self.weight_decay as f32, moved)
    }
}

#[cfg(test)]
mod tests {
    use super::super::sequence;
    use super::*;

    /// Figures computed in double precision by another program from PyTorch's documented formula.
    #[test]
    fn weight_decay_pulls_parameters_to_zero_as_in_pytorch() {
        let expected = [
            [0.9400000, -1.8800000, 0.4700000],
            [0.9506000, -1.9012000, 0.3653000],
            [0.9408470, -1.9066940, 0.3984735],
            [0.9061428, -1.8671605, 0.3964811],
        ];
        sequence::check(Sgd { weight_decay: 0.1 }, expected);
    }

    #[test]
    fn without_weight_decay_an_update_is_the_rate_times_the_gradient() {
        let mut delta = [2.0, -4.0];
        let step = Step {
            lr: 0.5,
            ..Step::default()
        };
        Sgd::default().update(&step, &[1.0, 1.0], &mut delta);
        assert_eq!(delta, [-1.0, 2.0]);
    }
}
