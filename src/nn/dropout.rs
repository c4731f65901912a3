//! Dropout, in place.

use super::device::{self, DeviceLayer};
use super::layer::{Draw, Layer, Pass};
use crate::Result;
use crate::backend::cpu::dropout::Mask;
use crate::backend::cuda::{self, View, ViewMut};
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
            self.named(pass.draw).apply(pass.samples, values);
        }
    }

    /// What is dropped in the step that `draw` names.
    fn named(&self, draw: Draw) -> Mask {
        Mask {
            seed: draw.seed,
            layer: self.layer,
            step: draw.step,
            rate: self.rate,
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

    fn on_device(&mut self) -> &mut dyn DeviceLayer {
        self
    }
}

impl DeviceLayer for Dropout {
    fn apply(&mut self, pass: device::Pass, x: ViewMut<f32>) -> Result<()> {
        match pass.training {
            true => {
                let mask = self.named(pass.draw);
                cuda::dropout::apply(pass.stream, mask, pass.samples, x)
            }
            false => Ok(()),
        }
    }

    fn apply_back(&mut self, pass: device::Pass, _y: View<f32>, dy: ViewMut<f32>) -> Result<()> {
        DeviceLayer::apply(self, pass, dy)
    }
}
