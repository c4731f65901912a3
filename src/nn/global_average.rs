//! The mean of each channel.

use super::device::{self, DeviceLayer};
use super::layer::{Backward, Layer, Pass};
use crate::Result;
use crate::backend::cpu::pool::average;
use crate::backend::cpu::{Input, Scratch};
use crate::backend::cuda::{self, View, ViewMut};
use crate::data::Shape;

/// One value for each channel, so that what follows does not depend on the size of the image.
pub(super) struct GlobalAverage {
    /// The input's dimensions.
    pub(super) input: Shape,
}

impl GlobalAverage {
    fn plane(&self) -> usize {
        self.input.h * self.input.w
    }
}

impl Layer for GlobalAverage {
    fn name(&self) -> &'static str {
        "global_average_pool"
    }

    fn output(&self) -> Shape {
        Shape {
            c: self.input.c,
            h: 1,
            w: 1,
        }
    }

    fn forward(
        &mut self,
        _pass: Pass,
        _params: &[f32],
        x: Input,
        y: &mut [f32],
        _scratch: &mut Scratch,
    ) {
        average::global(self.plane(), x.floats(), y);
    }

    fn grad_input(&mut self, _pass: Pass, work: &Backward, dx: &mut [f32], _scratch: &mut Scratch) {
        average::global_backward(self.plane(), work.dy, dx);
    }

    fn on_device(&mut self) -> &mut dyn DeviceLayer {
        self
    }
}

impl DeviceLayer for GlobalAverage {
    fn forward(
        &mut self,
        pass: device::Pass,
        _params: View<f32>,
        x: View<f32>,
        y: ViewMut<f32>,
        _scratch: ViewMut<f32>,
    ) -> Result<()> {
        cuda::pool::average::global(pass.stream, self.plane(), x, y)
    }

    fn grad_input(
        &mut self,
        pass: device::Pass,
        work: &device::Backward,
        dx: ViewMut<f32>,
        _scratch: ViewMut<f32>,
    ) -> Result<()> {
        cuda::pool::average::global_backward(pass.stream, self.plane(), work.dy, dx)
    }
}
