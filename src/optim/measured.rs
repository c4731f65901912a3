//! The norm of the gradient that an optimizer gets, for those who want to know.

use std::ops::Range;

use super::{Optimizer, Step, There, squares};
use crate::Result;

/// Does as the optimizer inside does, and remembers the squared norm of the whole gradient before it.
pub struct Measured {
    inside: Box<dyn Optimizer>,
    norm: f64,
}

impl Measured {
    /// Around any optimizer.
    pub fn new(inside: Box<dyn Optimizer>) -> Self {
        Self { inside, norm: 0.0 }
    }
}

impl Optimizer for Measured {
    fn sums(&self) -> usize {
        1 + self.inside.sums()
    }

    fn measure(&self, at: usize, params: &[f32], grads: &[f32], sums: &mut [f64]) {
        sums[0] += squares(grads);
        if sums.len() > 1 {
            self.inside.measure(at, params, grads, &mut sums[1..]);
        }
    }

    fn measured(&mut self, sums: &[f64]) {
        self.norm = sums[0];
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
        let step = Step {
            sums: &step.sums[1..],
            ..*step
        };
        self.inside.update(&step, params, grads);
    }

    fn measure_there(&self, there: &mut There) -> Result<()> {
        there.measure_grads(0, 0..there.grads.len())?;
        self.inside.measure_there(&mut there.behind(1))
    }

    fn move_there(&mut self, lr: f32, mut there: There) -> Result<()> {
        self.inside.move_there(lr, there.behind(1))
    }

    fn norm(&self) -> Option<f64> {
        Some(self.norm)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Clip, Mover, Part, Sgd};
    use super::*;

    #[test]
    fn the_norm_is_that_of_all_parts_before_clipping() {
        let clip = || Box::new(Clip::new(1.0, Box::new(Sgd::default())));
        let mut mover = Mover::new(Box::new(Measured::new(clip())));
        let mut params = [0.0; 2];
        let gradient = |range, out: &mut [f32]| out.copy_from_slice(&[3.0, 0.0][range]);
        let rest = |sums: &mut [f64]| sums.iter_mut().for_each(|sum| *sum += 16.0);
        mover.step(1.0, Part::whole(&mut params, &[0, 2]), gradient, rest);
        assert_eq!(mover.norm(), Some(25.0));
        assert!(
            (params[0] + 0.6).abs() < 1e-6,
            "clipped all the same: {params:?}"
        );
    }
}
