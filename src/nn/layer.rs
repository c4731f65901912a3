//! What every layer can do.

use std::ops::Range;

use crate::backend::cpu::Input;

/// A parameter tensor and its place in the arenas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Its name, such as `linear.weight`.
    pub name: String,
    /// Its dimensions.
    pub shape: Vec<usize>,
    /// Its place in the parameter and gradient arenas.
    pub range: Range<usize>,
}

/// One layer: `y = f(x, params)`, sample by sample in rows.
pub trait Layer {
    /// Its name.
    fn name(&self) -> &'static str;
    /// Values of one input sample.
    fn inputs(&self) -> usize;
    /// Values of one output sample.
    fn outputs(&self) -> usize;
    /// Name and shape of each parameter tensor, in arena order.
    fn tensors(&self) -> Vec<(&'static str, Vec<usize>)>;
    /// Sets the parameters a fresh model starts from.
    fn init(&self, seed: u64, params: &mut [f32]);
    /// Floating-point operations of forward and backward pass for one sample, `(forward, grads, grad of input)`.
    fn flops(&self) -> (f64, f64, f64);
    /// Whether, as a model's first layer, it takes bytes as they are; otherwise they are scaled to floats for it.
    fn takes_bytes(&self) -> bool {
        false
    }
    /// `y: (n, outputs)` from `x: (n, inputs)`.
    fn forward(&self, n: usize, params: &[f32], x: Input, y: &mut [f32]);
    /// Sets `grads` and, where asked for, `dx` from `dy`.
    fn backward(&self, pass: Backward);
}

/// What a backward pass reads and writes.
pub struct Backward<'a> {
    /// Samples.
    pub n: usize,
    /// The layer's parameters.
    pub params: &'a [f32],
    /// The forward pass's input.
    pub x: Input<'a>,
    /// Gradient of the loss with respect to the output.
    pub dy: &'a [f32],
    /// Becomes the gradient with respect to the parameters.
    pub grads: &'a mut [f32],
    /// Becomes the gradient with respect to the input; absent for a model's first layer.
    pub dx: Option<&'a mut [f32]>,
}
