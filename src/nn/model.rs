//! A stack of layers that ends in softmax and cross-entropy.

use std::ops::Range;

use super::Tally;
use super::layer::{Backward, Layer, Tensor};
use crate::backend::cpu::softmax::cross_entropy;
use crate::data::{Batch, Shape};

/// A model: its layers, the table of its parameters, and buffers that are allocated once.
pub struct Model {
    /// Its name in the zoo.
    pub name: &'static str,
    /// One input sample's dimensions.
    pub input: Shape,
    /// How many classes it tells apart.
    pub classes: usize,
    layers: Vec<Box<dyn Layer>>,
    tensors: Vec<Tensor>,
    /// Each layer's part of the arenas.
    ranges: Vec<Range<usize>>,
    /// Each layer's output, for the largest batch so far.
    outputs: Vec<Vec<f32>>,
    /// The gradient of the loss with respect to it; the last output holds its own.
    slopes: Vec<Vec<f32>>,
}

impl Model {
    /// Stacks `layers`, whose sizes must fit.
    pub(super) fn new(name: &'static str, input: Shape, layers: Vec<Box<dyn Layer>>) -> Self {
        let (mut tensors, mut ranges, mut end) = (Vec::new(), Vec::new(), 0);
        let mut width = input.len();
        for (i, layer) in layers.iter().enumerate() {
            assert_eq!(
                layer.inputs(),
                width,
                "layer {i} takes what the one before gives"
            );
            width = layer.outputs();
            let start = end;
            for (part, shape) in layer.tensors() {
                let range = end..end + shape.iter().product::<usize>();
                end = range.end;
                tensors.push(Tensor {
                    name: format!("{}.{}.{part}", i, layer.name()),
                    shape,
                    range,
                });
            }
            ranges.push(start..end);
        }
        let outputs = vec![Vec::new(); layers.len()];
        let slopes = vec![Vec::new(); layers.len() - 1];
        Self {
            name,
            input,
            classes: width,
            layers,
            tensors,
            ranges,
            outputs,
            slopes,
        }
    }

    /// The table of parameters: which range of the arenas is which tensor.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Length of the arenas.
    pub fn params(&self) -> usize {
        self.ranges.last().map_or(0, |range| range.end)
    }

    /// Parameters to start from; the same on every rank.
    pub fn init(&self, seed: u64) -> Vec<f32> {
        let mut params = vec![0.0; self.params()];
        for (i, (layer, range)) in self.layers.iter().zip(&self.ranges).enumerate() {
            layer.init(crate::rng::mix(seed ^ i as u64), &mut params[range.clone()]);
        }
        params
    }

    /// Floating-point operations to train on one sample.
    pub fn flops(&self) -> f64 {
        let layer = |(i, layer): (usize, &Box<dyn Layer>)| {
            let (forward, grads, input) = layer.flops();
            forward + grads + if i > 0 { input } else { 0.0 }
        };
        self.layers.iter().enumerate().map(layer).sum()
    }

    /// Losses and right answers over `batch`.
    pub fn evaluate(&mut self, params: &[f32], batch: &Batch) -> Tally {
        self.forward(params, batch);
        let last = self.outputs.last_mut().expect("a model has layers");
        cross_entropy(&mut last[..batch.len() * self.classes], &batch.labels, 0.0)
    }

    /// As `evaluate`, and sets `grads` to the gradient of `scale` times the sum of losses.
    pub fn gradients(
        &mut self,
        params: &[f32],
        batch: &Batch,
        scale: f32,
        grads: &mut [f32],
    ) -> Tally {
        self.forward(params, batch);
        let n = batch.len();
        let last = self.outputs.last_mut().expect("a model has layers");
        let tally = cross_entropy(&mut last[..n * self.classes], &batch.labels, scale);
        for (i, layer) in self.layers.iter().enumerate().rev() {
            let range = self.ranges[i].clone();
            let (params, grads) = (&params[range.clone()], &mut grads[range]);
            let (before, after) = self.slopes.split_at_mut(i);
            let dy = &after.first().unwrap_or(&self.outputs[i])[..n * layer.outputs()];
            let (x, dx) = match before.last_mut() {
                None => (&batch.images[..], None),
                Some(dx) => (
                    &self.outputs[i - 1][..],
                    Some(&mut dx[..n * layer.inputs()]),
                ),
            };
            layer.backward(Backward {
                n,
                params,
                x: &x[..n * layer.inputs()],
                dy,
                grads,
                dx,
            });
        }
        tally
    }

    fn forward(&mut self, params: &[f32], batch: &Batch) {
        let n = batch.len();
        for (i, layer) in self.layers.iter().enumerate() {
            let (before, this) = self.outputs.split_at_mut(i);
            let x = before
                .last()
                .map_or(&batch.images[..], |output| &output[..n * layer.inputs()]);
            let y = &mut this[0];
            if y.len() < n * layer.outputs() {
                y.resize(n * layer.outputs(), 0.0);
                if let Some(slope) = self.slopes.get_mut(i) {
                    slope.resize(n * layer.outputs(), 0.0);
                }
            }
            layer.forward(
                n,
                &params[self.ranges[i].clone()],
                x,
                &mut y[..n * layer.outputs()],
            );
        }
    }
}
