//! What every layer can do.

use std::ops::Range;

use serde::Serialize;

use super::device::DeviceLayer;
use super::peers::Peers;
use crate::backend::cpu::lanes::Op;
use crate::backend::cpu::{Input, Scratch, conv2d};
use crate::data::Shape;
use crate::rng::Stream;

/// A parameter tensor and its place in the arenas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Its name, such as `0.linear.weight`.
    pub name: String,
    /// Its dimensions.
    pub shape: Vec<usize>,
    /// Its place in the parameter and gradient arenas.
    pub range: Range<usize>,
}

/// What names the random numbers of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Draw {
    /// Of the run.
    pub seed: u64,
    /// Which step of it.
    pub step: u64,
}

/// What a pass through a model knows beside its tensors.
#[derive(Clone, Copy)]
pub struct Pass<'a> {
    /// Samples.
    pub n: usize,
    /// Whether a backward pass follows.
    pub training: bool,
    /// What names its random numbers, together with the samples.
    pub draw: Draw,
    /// Which samples of the data set they are.
    pub samples: &'a [u64],
    /// Who takes the step together: what they sum is *collective* over them.
    pub peers: Peers<'a>,
}

/// Floating-point operations for one sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flops {
    /// Of the forward pass.
    pub forward: f64,
    /// Of the gradient with respect to the parameters.
    pub grad_params: f64,
    /// Of the gradient with respect to the input.
    pub grad_input: f64,
}

/// One layer: `y = f(x, params)`, sample by sample in rows.
///
/// A layer either maps one buffer to another (`forward`, `grad_params`, `grad_input`), or works in place (`apply`,
/// `apply_back`).
pub trait Layer: Send {
    /// Its name.
    fn name(&self) -> &'static str;
    /// One output sample's dimensions.
    fn output(&self) -> Shape;
    /// Name and shape of each parameter tensor, in arena order.
    fn tensors(&self) -> Vec<(&'static str, Vec<usize>)> {
        Vec::new()
    }
    /// Sets the parameters a fresh model starts from.
    fn init(&self, _init: Init, _stream: &mut Stream, _params: &mut [f32]) {}
    /// Name and values of each tensor that training changes and no gradient moves.
    fn state(&self) -> Vec<(&'static str, &[f32])> {
        Vec::new()
    }
    /// Replaces its state by those values, one tensor after the other.
    fn set_state(&mut self, _values: &[f32]) {
        unreachable!("{} has no state", self.name())
    }
    /// What it costs.
    fn flops(&self) -> Flops {
        Flops::default()
    }
    /// Whether, as a model's first layer, it takes bytes as they are; otherwise they are scaled to floats for it.
    fn takes_bytes(&self) -> bool {
        false
    }
    /// What it is to a stack in lanes, if it can be part of one.
    fn lanes(&self) -> Option<Op> {
        None
    }
    /// Whether it works in place.
    fn in_place(&self) -> bool {
        false
    }
    /// Whether its backward pass reads its output, so that no layer behind it may overwrite that.
    fn needs_output(&self) -> bool {
        false
    }
    /// `y: (n, output)` from `x: (n, input)`.
    fn forward(
        &mut self,
        _pass: Pass,
        _params: &[f32],
        _x: Input,
        _y: &mut [f32],
        _scratch: &mut Scratch,
    ) {
        unreachable!("{} works in place", self.name())
    }
    /// Sets `grads`, the gradient with respect to the parameters; called if there are any, and before `grad_input`.
    fn grad_params(
        &mut self,
        _pass: Pass,
        _work: &Backward,
        _grads: &mut [f32],
        _scratch: &mut Scratch,
    ) {
    }
    /// Sets `dx`, the gradient with respect to the input; not called for a model's first layer.
    fn grad_input(
        &mut self,
        _pass: Pass,
        _work: &Backward,
        _dx: &mut [f32],
        _scratch: &mut Scratch,
    ) {
        unreachable!("{} works in place", self.name())
    }
    /// Its convolution, which can be done in several ways.
    fn convolution(&self) -> Option<&conv2d::Conv2d> {
        None
    }
    /// The same, to choose the way.
    fn convolution_mut(&mut self) -> Option<&mut conv2d::Conv2d> {
        None
    }
    /// Turns `x` into `y`.
    fn apply(&mut self, _pass: Pass, _x: &mut [f32]) {
        unreachable!("{} does not work in place", self.name())
    }
    /// Turns the gradient with respect to the output `y` into that with respect to the input.
    fn apply_back(&mut self, _pass: Pass, _y: &[f32], _dy: &mut [f32]) {
        unreachable!("{} does not work in place", self.name())
    }
    /// The layer as it is on a device.
    fn on_device(&mut self) -> &mut dyn DeviceLayer;
}

/// What a backward pass reads.
pub struct Backward<'a> {
    /// The layer's parameters.
    pub params: &'a [f32],
    /// The forward pass's input.
    pub x: Input<'a>,
    /// The forward pass's output.
    pub y: &'a [f32],
    /// Gradient of the loss with respect to the output.
    pub dy: &'a [f32],
}

/// What weights and biases of linear layers and convolutions start from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Init {
    /// Uniform in ±1/√inputs, weights and biases alike: as PyTorch does.
    #[default]
    Uniform,
    /// Normal with deviation √(2/inputs), and biases of zero: after He et al., who keep signals of deep stacks of
    /// rectifiers as large as they came in. The layer of the logits starts at zero: no class is likelier than another.
    He,
}

impl Init {
    /// Fills `params` of a layer with so many `inputs` for each output; the last of them, `biases`, are those.
    pub(super) fn fill(
        self,
        stream: &mut Stream,
        inputs: usize,
        params: &mut [f32],
        biases: usize,
    ) {
        let scale = 1.0 / (inputs as f32).sqrt();
        let (weights, biases) = params.split_at_mut(params.len() - biases);
        match self {
            Self::Uniform => {
                let all = weights.iter_mut().chain(biases);
                all.for_each(|param| *param = stream.between(-scale, scale));
            }
            Self::He => {
                let deviation = scale * std::f32::consts::SQRT_2;
                let all = weights.iter_mut();
                all.for_each(|weight| *weight = deviation * stream.normal());
                biases.fill(0.0);
            }
        }
    }
}
