//! Local response normalisation across channels, as AlexNet had it.

use super::device::{self, DeviceLayer};
use super::layer::{Backward, Layer, Pass};
use crate::Result;
use crate::backend::cpu::local_response::LocalResponse as Kernel;
use crate::backend::cpu::{Input, Scratch};
use crate::backend::cuda::{self, View, ViewMut};
use crate::data::Shape;

/// Divides each value by a power of what the channels around it hold in the same place.
pub(super) struct LocalResponse {
    kernel: Kernel,
    shape: Shape,
    scratch: Vec<f32>,
}

impl LocalResponse {
    pub(super) fn new(kernel: Kernel, shape: Shape) -> Self {
        Self {
            kernel,
            shape,
            scratch: Vec::new(),
        }
    }
}

impl Layer for LocalResponse {
    fn name(&self) -> &'static str {
        "local_response"
    }

    fn output(&self) -> Shape {
        self.shape
    }

    fn forward(
        &mut self,
        _pass: Pass,
        _params: &[f32],
        x: Input,
        y: &mut [f32],
        _scratch: &mut Scratch,
    ) {
        self.kernel.forward(x.floats(), y);
    }

    fn grad_input(&mut self, _pass: Pass, work: &Backward, dx: &mut [f32], _scratch: &mut Scratch) {
        self.kernel
            .backward(work.x.floats(), work.dy, dx, &mut self.scratch);
    }

    fn on_device(&mut self) -> &mut dyn DeviceLayer {
        self
    }
}

impl DeviceLayer for LocalResponse {
    fn scratch(&self, n: usize) -> usize {
        n * self.shape.len()
    }

    fn forward(
        &mut self,
        pass: device::Pass,
        _params: View<f32>,
        x: View<f32>,
        y: ViewMut<f32>,
        _scratch: ViewMut<f32>,
    ) -> Result<()> {
        cuda::local_response::forward(pass.stream, self.kernel, x, y)
    }

    fn grad_input(
        &mut self,
        pass: device::Pass,
        work: &device::Backward,
        dx: ViewMut<f32>,
        scratch: ViewMut<f32>,
    ) -> Result<()> {
        let scratch = scratch.part(0..work.x.len());
        cuda::local_response::backward(pass.stream, self.kernel, work.x, work.dy, dx, scratch)
    }
}
