//! What every layer can do on a device.

use crate::Result;
use crate::backend::cuda::blas::Blas;
use crate::backend::cuda::{Stream, View, ViewMut};
use crate::comm::Comm;
use crate::nn::Draw;

/// What a pass through a model on a device knows beside its tensors.
#[derive(Clone, Copy)]
pub struct Pass<'a> {
    /// Where kernels are launched.
    pub stream: &'a Stream,
    /// Samples.
    pub n: usize,
    /// Whether a backward pass follows.
    pub training: bool,
    /// What names its random numbers, together with the samples.
    pub draw: Draw,
    /// Which samples of the data set they are.
    pub samples: View<'a, u64>,
    /// The ranks that take the step together, if there are any.
    pub team: Option<&'a dyn Comm>,
    /// Who multiplies matrices, if not our kernels.
    pub blas: Option<&'a Blas>,
}

/// What a backward pass reads.
pub struct Backward<'a> {
    /// The layer's parameters.
    pub params: View<'a, f32>,
    /// The forward pass's input.
    pub x: View<'a, f32>,
    /// Gradient of the loss with respect to the output.
    pub dy: View<'a, f32>,
}

/// One layer on a device, as [`crate::nn::Layer`] on the host: it maps one buffer to another, or works in place. Everything is
/// launched on the pass's stream and done later.
pub trait DeviceLayer {
    /// Samples at most, where its kernels count more than the values that go in and come out.
    fn most(&self) -> usize {
        usize::MAX
    }

    /// Floats that a pass of up to `n` samples works in, and leaves.
    fn scratch(&self, _n: usize) -> usize {
        0
    }

    /// Bytes that `allocate` takes.
    fn bytes(&self, _n: usize) -> usize {
        0
    }

    /// Takes the memory that it keeps from one pass to the next, for up to `n` samples.
    fn allocate(&mut self, _stream: &Stream, _n: usize) -> Result<()> {
        Ok(())
    }

    /// `y: (n, output)` from `x: (n, input)`.
    fn forward(
        &mut self,
        _pass: Pass,
        _params: View<f32>,
        _x: View<f32>,
        _y: ViewMut<f32>,
        _scratch: ViewMut<f32>,
    ) -> Result<()> {
        unreachable!("it works in place")
    }

    /// Sets `grads`, the gradient with respect to the parameters; called if there are any, and before `grad_input`.
    fn grad_params(
        &mut self,
        _pass: Pass,
        _work: &Backward,
        _grads: ViewMut<f32>,
        _scratch: ViewMut<f32>,
    ) -> Result<()> {
        Ok(())
    }

    /// Sets `dx`, the gradient with respect to the input; not called for a model's first layer.
    fn grad_input(
        &mut self,
        _pass: Pass,
        _work: &Backward,
        _dx: ViewMut<f32>,
        _scratch: ViewMut<f32>,
    ) -> Result<()> {
        unreachable!("it works in place")
    }

    /// Turns `x` into `y`.
    fn apply(&mut self, _pass: Pass, _x: ViewMut<f32>) -> Result<()> {
        unreachable!("it does not work in place")
    }

    /// Turns the gradient with respect to the output `y` into that with respect to the input.
    fn apply_back(&mut self, _pass: Pass, _y: View<f32>, _dy: ViewMut<f32>) -> Result<()> {
        unreachable!("it does not work in place")
    }

    /// What training changes in it and no gradient moves.
    fn state(&self, _stream: &Stream) -> Result<Vec<f32>> {
        Ok(Vec::new())
    }

    /// Replaces that.
    fn set_state(&mut self, _stream: &Stream, _values: &[f32]) -> Result<()> {
        Ok(())
    }
}
