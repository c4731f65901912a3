//! Rectifier and hyperbolic tangent, in place.

use super::device::{self, DeviceLayer};
use super::layer::{Layer, Pass};
use crate::Result;
use crate::backend::cpu::activation;
use crate::backend::cpu::lanes::Op;
use crate::backend::cuda::{self, View, ViewMut};
use crate::data::Shape;

/// Which function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// max(x, 0).
    Relu,
    /// tanh x.
    Tanh,
}

/// A function of each value by itself; its slope follows from its output alone.
pub(super) struct Activation {
    pub(super) kind: Kind,
    pub(super) shape: Shape,
}

impl Layer for Activation {
    fn name(&self) -> &'static str {
        match self.kind {
            Kind::Relu => "relu",
            Kind::Tanh => "tanh",
        }
    }

    fn output(&self) -> Shape {
        self.shape
    }

    fn lanes(&self) -> Option<Op> {
        Some(match self.kind {
            Kind::Relu => Op::Relu,
            Kind::Tanh => Op::Tanh,
        })
    }

    fn in_place(&self) -> bool {
        true
    }

    fn needs_output(&self) -> bool {
        // A rectifier asks only where its output is positive, and no layer that works in place changes that.
        self.kind == Kind::Tanh
    }

    fn apply(&mut self, _pass: Pass, x: &mut [f32]) {
        match self.kind {
            Kind::Relu => activation::relu(x),
            Kind::Tanh => activation::tanh(x),
        }
    }

    fn apply_back(&mut self, _pass: Pass, y: &[f32], dy: &mut [f32]) {
        match self.kind {
            Kind::Relu => activation::relu_backward(y, dy),
            Kind::Tanh => activation::tanh_backward(y, dy),
        }
    }

    fn on_device(&mut self) -> &mut dyn DeviceLayer {
        self
    }
}

impl DeviceLayer for Activation {
    fn apply(&mut self, pass: device::Pass, x: ViewMut<f32>) -> Result<()> {
        match self.kind {
            Kind::Relu => cuda::activation::relu(pass.stream, x),
            Kind::Tanh => cuda::activation::tanh(pass.stream, x),
        }
    }

    fn apply_back(&mut self, pass: device::Pass, y: View<f32>, dy: ViewMut<f32>) -> Result<()> {
        match self.kind {
            Kind::Relu => cuda::activation::relu_backward(pass.stream, y, dy),
            Kind::Tanh => cuda::activation::tanh_backward(pass.stream, y, dy),
        }
    }
}
