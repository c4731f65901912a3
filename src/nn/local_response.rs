//! Local response normalisation across channels, as AlexNet had it.

use super::layer::{Backward, Layer, Pass};
use crate::backend::cpu::local_response::LocalResponse as Kernel;
use crate::backend::cpu::{Input, Scratch};
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
}
