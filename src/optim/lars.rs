//! LARS: momentum with a rate for each tensor, for batches so large that one rate does not fit all.

use std::ops::Range;

use super::there::{There, moved};
use super::{Memory, Optimizer, Step, squares};
use crate::Result;
use crate::backend::cuda::update;
use crate::nn::Tensor;

/// As You, Gitman and Ginsburg (2017): for each tensor, `ratio = trust × |w| / (|g| + weight_decay × |w|)`,
/// `v = momentum × v + lr × ratio × (g + weight_decay × w)` and `w −= v`.
///
/// Tensors of one dimension (biases) and tensors of zeros have ratio 1, and the former no weight decay, as is usual.
/// Norms are those of whole tensors: ranks that hold slices of them add up their squares. Cost of an update: as
/// momentum, and one more reading of parameters and gradients.
#[derive(Clone, Debug)]
pub struct Lars {
    trust: f64,
    momentum: f64,
    weight_decay: f64,
    /// Each tensor's part of the arenas, and whether it has a ratio of its own.
    tensors: Vec<(Range<usize>, bool)>,
    velocity: Memory,
}

impl Lars {
    /// For parameters that consist of `tensors`, at rest.
    pub fn new(trust: f64, momentum: f64, weight_decay: f64, tensors: &[Tensor]) -> Self {
        let own = |tensor: &Tensor| (tensor.range.clone(), tensor.shape.len() > 1);
        Self {
            trust,
            momentum,
            weight_decay,
            tensors: tensors.iter().map(own).collect(),
            velocity: Memory::default(),
        }
    }

    /// The ratio of a tensor with these squares of parameters and gradients.
    fn ratio(&self, params: f64, grads: f64) -> f64 {
        let (w, g) = (params.sqrt(), grads.sqrt());
        if w == 0.0 || g == 0.0 {
            return 1.0;
        }
        self.trust * w / (g + self.weight_decay * w)
    }
}

/// The part of `tensor` in the slice of `len` values that begins at `at`, counted from there.
fn overlap(tensor: &Range<usize>, at: usize, len: usize) -> Range<usize> {
    let within = |position: usize| position.clamp(at, at + len) - at;
    within(tensor.start)..within(tensor.end)
}

impl Optimizer for Lars {
    fn sums(&self) -> usize {
        2 * self.tensors.len()
    }

    fn measure(&self, at: usize, params: &[f32], grads: &[f32], sums: &mut [f64]) {
        for ((tensor, _), sums) in self.tensors.iter().zip(sums.chunks_exact_mut(2)) {
            let part = overlap(tensor, at, params.len());
            sums[0] += squares(&params[part.clone()]);
            sums[1] += squares(&grads[part]);
        }
    }

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
        let keep = self.momentum as f32;
        for (i, (tensor, adapts)) in self.tensors.iter().enumerate() {
            let (ratio, decay) = match adapts {
                true => (
                    self.ratio(step.sums[2 * i], step.sums[2 * i + 1]),
                    self.weight_decay as f32,
                ),
                false => (1.0, 0.0),
            };
            let rate = (f64::from(step.lr) * ratio) as f32;
            let part = overlap(tensor, step.at, grads.len());
            let velocity = self.velocity.piece(step.at + part.start, part.len());
            let pairs = grads[part.clone()].iter_mut().zip(&params[part]);
            for ((grad, param), velocity) in pairs.zip(velocity) {
                *velocity = keep * *velocity + rate * (*grad + decay * param);
                *grad = -*velocity;
            }
        }
    }

    fn measure_there(&self, there: &mut There) -> Result<()> {
        for (i, (tensor, _)) in self.tensors.iter().enumerate() {
            there.measure_params(2 * i, tensor.clone())?;
            there.measure_grads(2 * i + 1, tensor.clone())?;
        }
        Ok(())
    }

    fn move_there(&mut self, lr: f32, mut there: There) -> Result<()> {
        let settings = update::Lars {
            lr,
            trust: self.trust,
            momentum: self.momentum,
            weight_decay: self.weight_decay,
        };
        for (i, (tensor, adapts)) in self.tensors.iter().enumerate() {
            let squares = adapts.then(|| there.sums.shared().part(2 * i..2 * i + 2));
            let velocity = there.memory.again().part(tensor.clone());
            let moved = moved(&mut there.params, &mut there.grads, tensor.clone());
            update::lars(there.stream, settings, squares, moved, velocity)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Mover;
    use super::super::sequence::check;
    use super::*;

    /// A matrix of two values and a bias.
    fn lars() -> Lars {
        let tensor = |shape: &[usize], range| Tensor {
            name: String::new(),
            shape: shape.to_vec(),
            range,
        };
        let tensors = [tensor(&[1, 2], 0..2), tensor(&[1], 2..3)];
        Lars::new(0.02, 0.9, 0.01, &tensors)
    }

    /// Figures computed in double precision by another program from the paper's formulas.
    #[test]
    fn four_steps_give_the_figures_of_the_paper() {
        let expected = [
            [0.9980000, -1.9960000, 0.4750000],
            [0.9980063, -1.9960125, 0.3525000],
            [0.9972869, -1.9978698, 0.2772500],
            [0.9950755, -1.9979516, 0.2095250],
        ];
        check(lars(), expected);
    }

    #[test]
    fn a_tensor_of_zeros_moves_at_the_plain_rate() {
        let mut delta = [1.0, -2.0, 0.5];
        Mover::new(Box::new(lars())).deltas(0.1, &[0.0; 3], &mut delta);
        assert_eq!(delta, [-0.1, 0.2, -0.05]);
    }
}
