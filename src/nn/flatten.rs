//! All values of a sample in one row.

use super::device::{self, DeviceLayer};
use super::layer::{Layer, Pass};
use crate::Result;
use crate::backend::cuda::{View, ViewMut};
use crate::data::Shape;

/// Changes the shape to `(c·h·w, 1, 1)` and nothing else.
pub(super) struct Flatten {
    /// Values of one sample.
    pub(super) values: usize,
}

impl Layer for Flatten {
    fn name(&self) -> &'static str {
        "flatten"
    }

    fn output(&self) -> Shape {
        Shape {
            c: self.values,
            h: 1,
            w: 1,
        }
    }

    fn in_place(&self) -> bool {
        true
    }

    fn apply(&mut self, _pass: Pass, _x: &mut [f32]) {}

    fn apply_back(&mut self, _pass: Pass, _y: &[f32], _dy: &mut [f32]) {}

    fn on_device(&mut self) -> &mut dyn DeviceLayer {
        self
    }
}

impl DeviceLayer for Flatten {
    fn apply(&mut self, _pass: device::Pass, _x: ViewMut<f32>) -> Result<()> {
        Ok(())
    }

    fn apply_back(&mut self, _pass: device::Pass, _y: View<f32>, _dy: ViewMut<f32>) -> Result<()> {
        Ok(())
    }
}
