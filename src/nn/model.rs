//! A stack of layers that ends in softmax and cross-entropy.

use std::ops::Range;

use super::Tally;
use super::layer::{Backward, Layer, Tensor};
use crate::backend::cpu::Input;
use crate::backend::cpu::softmax::cross_entropy;
use crate::data::{Batch, Images, Shape};

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
    /// The batch as floats, where the first layer does not take bytes.
    entry: Vec<f32>,
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
            entry: Vec::new(),
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
        let needed = |(i, (forward, grads, input)): (usize, (f64, f64, f64))| {
            forward + grads + if i > 0 { input } else { 0.0 }
        };
        self.layers
            .iter()
            .map(|layer| layer.flops())
            .enumerate()
            .map(needed)
            .sum()
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
        for i in (0..self.layers.len()).rev() {
            let (layer, range) = (&self.layers[i], self.ranges[i].clone());
            // Taken out and put back: the layer reads its neighbours' buffers while it writes this one.
            let mut below = i
                .checked_sub(1)
                .map(|below| std::mem::take(&mut self.slopes[below]));
            let dy = self.slopes.get(i).unwrap_or(&self.outputs[i]);
            layer.backward(Backward {
                n,
                params: &params[range.clone()],
                x: self.input_of(i, batch),
                dy: &dy[..n * layer.outputs()],
                grads: &mut grads[range],
                dx: below.as_mut().map(|dx| &mut dx[..n * layer.inputs()]),
            });
            if let Some(below) = below {
                self.slopes[i - 1] = below;
            }
        }
        tally
    }

    fn forward(&mut self, params: &[f32], batch: &Batch) {
        let n = batch.len();
        if let (Images::Bytes(pixels), None) = (&batch.images, self.raw(batch)) {
            self.entry.resize(pixels.len(), 0.0);
            batch
                .scaling
                .bytes(self.input.h * self.input.w, pixels, &mut self.entry);
        }
        for i in 0..self.layers.len() {
            let (layer, range) = (&self.layers[i], self.ranges[i].clone());
            let size = n * layer.outputs();
            if self.outputs[i].len() < size {
                self.outputs[i].resize(size, 0.0);
                if let Some(slope) = self.slopes.get_mut(i) {
                    slope.resize(size, 0.0);
                }
            }
            let mut y = std::mem::take(&mut self.outputs[i]);
            layer.forward(n, &params[range], self.input_of(i, batch), &mut y[..size]);
            self.outputs[i] = y;
        }
    }

    /// What layer `i` reads.
    fn input_of<'a>(&'a self, i: usize, batch: &'a Batch) -> Input<'a> {
        match &batch.images {
            _ if i > 0 => {
                Input::Floats(&self.outputs[i - 1][..batch.len() * self.layers[i].inputs()])
            }
            Images::Floats(values) => Input::Floats(values),
            Images::Bytes(_) => self.raw(batch).unwrap_or(Input::Floats(&self.entry)),
        }
    }

    /// The batch's bytes, where the first layer takes them as they are.
    fn raw<'a>(&self, batch: &'a Batch) -> Option<Input<'a>> {
        match (&batch.images, batch.scaling.uniform()) {
            (Images::Bytes(pixels), Some((factor, shift))) if self.layers[0].takes_bytes() => {
                Some(Input::Bytes {
                    pixels,
                    factor,
                    shift,
                })
            }
            _ => None,
        }
    }
}
