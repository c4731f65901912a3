//! Gradient clipping: the gradient of all parameters together is never longer than a limit.

use std::ops::Range;

use super::{Optimizer, Step, There, squares};
use crate::Result;
use crate::backend::cuda::update;

/// Shortens the whole gradient to `limit` where it is longer, then does as the optimizer inside does. As PyTorch's
/// `clip_grad_norm_`: the factor is `limit / (norm + 1e-6)`, at most 1.
pub struct Clip {
    limit: f64,
    inside: Box<dyn Optimizer>,
}

impl Clip {
    /// Around an optimizer that needs no sums of its own: they would be those of gradients not yet clipped.
    pub fn new(limit: f64, inside: Box<dyn Optimizer>) -> Self {
        assert_eq!(inside.sums(), 0, "the optimizer inside measures nothing");
        Self { limit, inside }
    }
}

impl Optimizer for Clip {
    fn sums(&self) -> usize {
        1
    }

    fn measure(&self, _at: usize, _params: &[f32], grads: &[f32], sums: &mut [f64]) {
        sums[0] += squares(grads);
    }

    fn begin(&mut self, part: Range<usize>) {
        self.inside.begin(part);
    }

    fn advance(&mut self, number: u64) {
        self.inside.advance(number);
    }

    fn state(&self) -> usize {
        self.inside.state()
    }

    fn memory(&mut self) -> Vec<&mut [f32]> {
        self.inside.memory()
    }

    fn update(&mut self, step: &Step, params: &[f32], grads: &mut [f32]) {
        let factor = self.limit / (step.sums[0].sqrt() + 1e-6);
        if factor < 1.0 {
            grads.iter_mut().for_each(|g| *g *= factor as f32);
        }
        self.inside.update(step, params, grads);
    }

    fn measure_there(&self, there: &mut There) -> Result<()> {
        there.measure_grads(0, 0..there.grads.len())
    }

    fn move_there(&mut self, lr: f32, mut there: There) -> Result<()> {
        let (square, grads) = (there.sums.shared().part(0..1), there.grads.again());
        update::clip(there.stream, self.limit, square, grads)?;
        self.inside.move_there(lr, there)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Mover, Part, Sgd};
    use super::*;

    /// What zeros become in a step at the rate 1, with `rest` as other ranks' sum of squares.
    fn clipped(limit: f64, grads: [f32; 2], rest: f64) -> [f32; 2] {
        let mut mover = Mover::new(Box::new(Clip::new(limit, Box::new(Sgd::default()))));
        let mut params = [0.0; 2];
        let gradient = |range, out: &mut [f32]| out.copy_from_slice(&grads[range]);
        let part = Part::whole(&mut params, &[0, 2]);
        mover.step(1.0, part, gradient, |sums| sums[0] += rest);
        params
    }

    #[test]
    fn a_long_gradient_keeps_its_direction_and_gets_the_limit_as_length() {
        let [a, b] = clipped(1.0, [3.0, -4.0], 0.0);
        assert!((a + 0.6).abs() < 1e-6 && (b - 0.8).abs() < 1e-6, "{a} {b}");
    }

    #[test]
    fn a_short_gradient_stays() {
        assert_eq!(clipped(10.0, [3.0, -4.0], 0.0), [-3.0, 4.0]);
    }

    #[test]
    fn what_other_ranks_hold_counts() {
        // 3² + 4² here and 12² elsewhere: 13 in all.
        let [a, b] = clipped(1.0, [3.0, -4.0], 144.0);
        assert!((a + 3.0 / 13.0).abs() < 1e-6 && (b - 4.0 / 13.0).abs() < 1e-6);
    }
}
