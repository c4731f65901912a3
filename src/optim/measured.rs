//! The norm of the gradient that an optimizer gets, for those who want to know.

use super::{Optimizer, Step, squares};

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

    fn update(&mut self, step: &Step, params: &[f32], grads: &mut [f32]) {
        let (own, inside) = step.sums.split_at(1);
        self.norm = own[0];
        let step = Step {
            sums: inside,
            ..*step
        };
        self.inside.update(&step, params, grads);
    }

    fn norm(&self) -> Option<f64> {
        Some(self.norm)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Clip, Sgd};
    use super::*;

    #[test]
    fn the_norm_is_that_of_all_parts_before_clipping() {
        let clip = || Box::new(Clip::new(1.0, Box::new(Sgd::default())));
        let optimizer: &mut dyn Optimizer = &mut Measured::new(clip());
        let rest = [16.0, 16.0];
        let mut grads = [3.0, 0.0];
        optimizer.step(1.0, 0, &[0.0; 2], &mut grads, |sums| {
            sums.iter_mut()
                .zip(rest)
                .for_each(|(sum, rest)| *sum += rest);
        });
        assert_eq!(optimizer.norm(), Some(25.0));
        assert!(
            (grads[0] + 0.6).abs() < 1e-6,
            "clipped all the same: {grads:?}"
        );
    }
}
