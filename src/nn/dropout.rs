//! Dropout, in place.

use super::layer::{Layer, Pass};
use crate::backend::cpu::dropout::Mask;
use crate::data::Shape;

/// Drops values while training; the same ones of a sample for any number of ranks.
pub(super) struct Dropout {
    pub(super) rate: f32,
    /// Its number in the model.
    pub(super) layer: u64,
    pub(super) shape: Shape,
}

impl Dropout {
    fn mask(&self, pass: Pass, values: &mut [f32]) {
        if pass.training {
            let mask = Mask {
                seed: pass.draw.seed,
                layer: self.layer,
                step: pass.draw.step,
                rate: self.rate,
            };
            mask.apply(pass.samples, values);
        }
    }
}

impl Layer for Dropout {
    fn name(&self) -> &'static str {
        "dropout"
    }

    fn output(&self) -> Shape {
        self.shape
    }

    fn in_place(&self) -> bool {
        true
    }

    fn apply(&mut self, pass: Pass, x: &mut [f32]) {
        self.mask(pass, x);
    }

    fn apply_back(&mut self, pass: Pass, _y: &[f32], dy: &mut [f32]) {
        self.mask(pass, dy);
    }
}
