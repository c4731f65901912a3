//! Launches `kernels/activation.cu`: ReLU and tanh in place, as [`crate::backend::cpu::activation`].

use super::launch::{Arg, Grid};
use super::module::Source;
use super::{Stream, View, ViewMut};
use crate::Result;

/// `x = max(x, 0)`; NaN stays NaN.
pub fn relu(stream: &Stream, x: ViewMut<f32>) -> Result<()> {
    apply(stream, "relu", &x)
}

/// `d = 0` where `y ≤ 0`; `y` is what [`relu`] left, `d` the gradient with respect to it.
pub fn relu_backward(stream: &Stream, y: View<f32>, d: ViewMut<f32>) -> Result<()> {
    apply_back(stream, "relu_backward", y, &d)
}

/// `x = tanh(x)`.
pub fn tanh(stream: &Stream, x: ViewMut<f32>) -> Result<()> {
    apply(stream, "tanh_forward", &x)
}

/// `d = d·(1 − y²)`; `y` is what [`tanh`] left, `d` the gradient with respect to it.
pub fn tanh_backward(stream: &Stream, y: View<f32>, d: ViewMut<f32>) -> Result<()> {
    apply_back(stream, "tanh_backward", y, &d)
}

fn apply(stream: &Stream, name: &'static str, x: &ViewMut<f32>) -> Result<()> {
    if x.is_empty() {
        return Ok(());
    }
    let kernel = stream.device().kernel(Source::Activation, name)?;
    let grid = Grid::over(x.len().div_ceil(4));
    kernel.start(stream, grid, [x.into(), Arg::size(x.len())])
}

fn apply_back(stream: &Stream, name: &'static str, y: View<f32>, d: &ViewMut<f32>) -> Result<()> {
    assert_eq!(y.len(), d.len(), "as many gradients as outputs");
    if y.is_empty() {
        return Ok(());
    }
    let kernel = stream.device().kernel(Source::Activation, name)?;
    let grid = Grid::over(y.len().div_ceil(4));
    kernel.start(stream, grid, [y.into(), d.into(), Arg::size(y.len())])
}
