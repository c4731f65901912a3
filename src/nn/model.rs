//! A stack of layers that ends in softmax and cross-entropy.

mod profile;

use std::ops::Range;

pub use profile::{LANES, LayerCost};

use super::Tally;
use super::layer::{Backward, Draw, Init, Layer, Pass, Tensor};
use super::peers::Peers;
use super::spec::Spec;
use crate::backend::cpu::lanes::{Op, Stack};
use crate::backend::cpu::softmax::cross_entropy;
use crate::backend::cpu::{Clock, Input, Scratch, Timed};
use crate::data::{Part, Shape, Values};
use crate::rng::Stream;

#[cfg(test)]
mod tests;

/// A model: its layers, the table of its parameters, and buffers that are allocated once.
pub struct Model {
    /// What it is made from.
    pub spec: Spec,
    /// One input sample's dimensions.
    pub input: Shape,
    /// How many classes it tells apart.
    pub classes: usize,
    pub(super) layers: Vec<Box<dyn Layer>>,
    pub(super) stages: Vec<Stage>,
    tensors: Vec<Tensor>,
    tape: Tape,
    head: Option<Head>,
    /// Gradients with respect to outputs: of the layer at hand and of the one before, in turn.
    slopes: [Vec<f32>; 2],
    /// What layers work in, one at a time.
    scratch: Scratch,
    pub(super) clock: Clock,
}

/// A layer as a reader sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Its name.
    pub name: &'static str,
    /// One output sample's dimensions.
    pub output: Shape,
    /// How many parameters it has.
    pub params: usize,
    /// Floating-point operations of the forward pass for one sample.
    pub flops: f64,
}

/// Where a layer reads and writes.
pub(super) struct Stage {
    /// Its part of the arenas.
    pub(super) range: Range<usize>,
    /// The buffer it reads, none for the batch itself, and the one it writes.
    pub(super) reads: Option<usize>,
    pub(super) writes: usize,
    /// Whether both are the same.
    pub(super) in_place: bool,
    /// Values of one input and of one output sample.
    pub(super) inputs: usize,
    pub(super) outputs: usize,
}

/// The first layers, where they are of a kind that is faster eight samples at a time.
struct Head {
    stack: Stack,
    /// How many layers.
    layers: usize,
}

/// What a forward pass leaves for the backward pass.
struct Tape {
    /// Outputs, for the largest batch so far; layers that work in place share the buffer of the one before.
    buffers: Vec<Vec<f32>>,
    /// The batch as floats, where the first layer does not take bytes.
    entry: Vec<f32>,
    takes_bytes: bool,
}

impl Model {
    /// Stacks `layers`, which were made to fit.
    pub(super) fn new(spec: Spec, input: Shape, layers: Vec<Box<dyn Layer>>) -> Self {
        let (mut tensors, mut stages) = (Vec::new(), Vec::new());
        let (mut end, mut shape, mut buffers) = (0, input, 0usize);
        for (i, layer) in layers.iter().enumerate() {
            let start = end;
            for (part, shape) in layer.tensors() {
                let range = end..end + shape.iter().product::<usize>();
                end = range.end;
                let name = format!("{i}.{}.{part}", layer.name());
                tensors.push(Tensor { name, shape, range });
            }
            let reads = buffers.checked_sub(1);
            let free = i > 0 && !layers[i - 1].needs_output();
            let in_place = free && layer.in_place();
            buffers += usize::from(!in_place);
            let (inputs, outputs) = (shape.len(), layer.output().len());
            shape = layer.output();
            stages.push(Stage {
                range: start..end,
                reads,
                writes: buffers - 1,
                in_place,
                inputs,
                outputs,
            });
        }
        let ops: Vec<Op> = layers.iter().map_while(|layer| layer.lanes()).collect();
        let head = Stack::of((input.c, input.h, input.w), &ops)
            .map(|(stack, layers)| Head { stack, layers });
        let takes_bytes = head.is_some() || layers[0].takes_bytes();
        let tape = Tape {
            buffers: vec![Vec::new(); buffers],
            entry: Vec::new(),
            takes_bytes,
        };
        let slopes = [Vec::new(), Vec::new()];
        Self {
            spec,
            input,
            classes: shape.len(),
            layers,
            stages,
            tensors,
            tape,
            head,
            slopes,
            scratch: Scratch::default(),
            clock: Clock::default(),
        }
    }

    /// The table of parameters: which range of the arenas is which tensor.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Length of the arenas.
    pub fn params(&self) -> usize {
        self.stages.last().map_or(0, |stage| stage.range.end)
    }

    /// Parameters to start from; the same on every rank.
    pub fn init(&self, init: Init, seed: u64) -> Vec<f32> {
        let mut params = vec![0.0; self.params()];
        for (i, (layer, stage)) in self.layers.iter().zip(&self.stages).enumerate() {
            let mut stream = Stream::new(&[seed, i as u64, 0x696e_6974]);
            layer.init(init, &mut stream, &mut params[stage.range.clone()]);
        }
        let mut stages = self.stages.iter().rev();
        if let (Init::He, Some(last)) = (init, stages.find(|stage| !stage.range.is_empty())) {
            params[last.range.clone()].fill(0.0);
        }
        params
    }

    /// Floating-point operations to train on one sample.
    pub fn flops(&self) -> f64 {
        let all = self
            .layers
            .iter()
            .map(|layer| layer.flops())
            .zip(&self.stages);
        let needed = all.map(|(flops, stage)| {
            flops.forward + flops.grad_params + stage.reads.map_or(0.0, |_| flops.grad_input)
        });
        needed.sum()
    }

    /// Its layers, one by one.
    pub fn summary(&self) -> Vec<Summary> {
        let all = self.layers.iter().zip(&self.stages);
        all.map(|(layer, stage)| Summary {
            name: layer.name(),
            output: layer.output(),
            params: stage.range.len(),
            flops: layer.flops().forward,
        })
        .collect()
    }

    /// Floats that a training step with `n` samples holds beside parameters and gradients.
    pub fn floats(&self, n: usize) -> usize {
        let (head, done) = self.head.as_ref().map_or((0, 0), |head| {
            (head.stack.floats(n), head.layers.saturating_sub(1))
        });
        // Of the layers in lanes only the last one writes rows.
        let stages = || self.stages.iter().enumerate().skip(done);
        let written = stages().filter(|(i, stage)| *i == done || !stage.in_place);
        let outputs: usize = written.map(|(_, stage)| stage.outputs).sum();
        let largest = stages().map(|(_, stage)| stage.outputs).max().unwrap_or(0);
        n.saturating_mul(outputs + 2 * largest).saturating_add(head)
    }

    /// Number, name and output of each layer, as the last pass left them.
    pub(super) fn outputs(
        &mut self,
        params: &[f32],
        batch: Part,
    ) -> impl Iterator<Item = (usize, &'static str, &[f32])> {
        let n = batch.len();
        if let Some(head) = self.head.take() {
            // In lanes, layers leave nothing to look at: once more, in rows.
            let pass = Pass {
                n,
                training: false,
                draw: Draw::default(),
                samples: batch.samples,
                peers: Peers::default(),
            };
            self.tape.takes_bytes = self.layers[0].takes_bytes();
            self.tape.enter(batch, self.input);
            self.run(0..head.layers, pass, params, batch);
            self.tape.takes_bytes = true;
            self.head = Some(head);
        }
        let buffers = &self.tape.buffers;
        let all = self.layers.iter().zip(&self.stages).enumerate();
        all.map(move |(i, (layer, stage))| {
            let values = &buffers[stage.writes][..n * stage.outputs];
            (i, layer.name(), values)
        })
    }

    /// Losses and right answers over `batch`.
    pub fn evaluate(&mut self, params: &[f32], batch: Part) -> Tally {
        let (n, samples) = (batch.len(), batch.samples);
        self.forward(
            Pass {
                n,
                training: false,
                draw: Draw::default(),
                samples,
                peers: Peers::default(),
            },
            params,
            batch,
        );
        self.losses(batch, 0.0)
    }

    /// The losses of a training step, and sets `grads` to the gradient of `scale` times their sum.
    ///
    /// Layers that normalise by the batch add up over `peers`: then it is *collective* over them.
    pub fn gradients(
        &mut self,
        params: &[f32],
        batch: Part,
        draw: Draw,
        scale: f32,
        peers: Peers,
        grads: &mut [f32],
    ) -> Tally {
        self.gradients_by_layer(params, batch, (draw, scale), peers, grads, &mut |_| {})
    }

    /// As `gradients`, and hands over the gradients of each layer as soon as they are there: from the last parameters to the
    /// first, without gaps.
    pub fn gradients_by_layer<'a>(
        &mut self,
        params: &[f32],
        batch: Part,
        (draw, scale): (Draw, f32),
        peers: Peers,
        grads: &'a mut [f32],
        ready: &mut dyn FnMut(&'a mut [f32]),
    ) -> Tally {
        let pass = Pass {
            n: batch.len(),
            training: true,
            draw,
            samples: batch.samples,
            peers,
        };
        self.forward(pass, params, batch);
        let tally = self.losses(batch, scale);
        self.backward(pass, params, batch, (grads, ready));
        tally
    }

    /// The tally of the logits; the first slope becomes their gradient times `scale`.
    fn losses(&mut self, batch: Part, scale: f32) -> Tally {
        let size = batch.len() * self.classes;
        let logits = self.tape.buffers.last().expect("a model has layers");
        let slope = grown(&mut self.slopes[0], size);
        slope.copy_from_slice(&logits[..size]);
        cross_entropy(slope, batch.labels, scale)
    }

    fn forward(&mut self, pass: Pass, params: &[f32], batch: Part) {
        self.tape.enter(batch, self.input);
        if let Some(head) = &mut self.head {
            let (first, last) = (&self.stages[0], &self.stages[head.layers - 1]);
            let mut y = std::mem::take(&mut self.tape.buffers[last.writes]);
            let out = grown(&mut y, pass.n * last.outputs);
            let x = self.tape.input(first, batch);
            let params = &params[..last.range.end];
            let pass = (pass.n, pass.training);
            head.stack.forward(pass, params, x, out, &mut self.clock);
            self.tape.buffers[last.writes] = y;
        }
        let done = self.head.as_ref().map_or(0, |head| head.layers);
        self.run(done..self.layers.len(), pass, params, batch);
    }

    /// The forward pass of some layers, in rows.
    fn run(&mut self, range: Range<usize>, pass: Pass, params: &[f32], batch: Part) {
        let (clock, scratch) = (&mut self.clock, &mut self.scratch);
        let layers = self.layers.iter_mut().zip(&self.stages).enumerate();
        for (i, (layer, stage)) in layers.take(range.end).skip(range.start) {
            let size = pass.n * stage.outputs;
            // Taken out and put back: a layer reads one buffer while it writes another.
            let mut y = std::mem::take(&mut self.tape.buffers[stage.writes]);
            let out = grown(&mut y, size);
            if !layer.in_place() {
                let x = self.tape.input(stage, batch);
                let params = &params[stage.range.clone()];
                clock.time(i, Timed::Forward, || {
                    layer.forward(pass, params, x, out, scratch)
                });
            } else {
                clock.time(i, Timed::Forward, || {
                    if !stage.in_place {
                        out.copy_from_slice(self.tape.input(stage, batch).floats());
                    }
                    layer.apply(pass, out);
                });
            }
            self.tape.buffers[stage.writes] = y;
        }
    }

    fn backward<'a>(
        &mut self,
        pass: Pass,
        params: &[f32],
        batch: Part,
        (mut rest, ready): (&'a mut [f32], &mut dyn FnMut(&'a mut [f32])),
    ) {
        let [mut dy, mut dx] = std::mem::take(&mut self.slopes);
        let first = self.head.as_ref().map_or(0, |head| head.layers);
        let (clock, scratch) = (&mut self.clock, &mut self.scratch);
        let layers = self.layers.iter_mut().zip(&self.stages).enumerate();
        for (i, (layer, stage)) in layers.skip(first).rev() {
            let y = &self.tape.buffers[stage.writes][..pass.n * stage.outputs];
            let slope = &mut dy[..pass.n * stage.outputs];
            if layer.in_place() {
                // The slope of a copy is a copy of the slope: it can stay where it is.
                clock.time(i, Timed::GradInput, || layer.apply_back(pass, y, slope));
                continue;
            }
            let work = Backward {
                params: &params[stage.range.clone()],
                x: self.tape.input(stage, batch),
                y,
                dy: slope,
            };
            let grads = rest.split_off_mut(stage.range.start..);
            let grads = grads.expect("layers behind have theirs");
            if !grads.is_empty() {
                clock.time(i, Timed::GradParams, || {
                    layer.grad_params(pass, &work, &mut *grads, scratch)
                });
                ready(grads);
            }
            if stage.reads.is_some() {
                let dx = grown(&mut dx, pass.n * stage.inputs);
                clock.time(i, Timed::GradInput, || {
                    layer.grad_input(pass, &work, dx, scratch)
                });
            }
            std::mem::swap(&mut dy, &mut dx);
        }
        if let Some(head) = &mut self.head {
            let last = &self.stages[head.layers - 1];
            let params = &params[..last.range.end];
            let dy = &dy[..pass.n * last.outputs];
            (head.stack).backward(params, dy, &mut *rest, &mut self.clock);
            ready(rest);
        }
        self.slopes = [dy, dx];
    }
}

impl Tape {
    /// Scales the batch to floats if the first layer wants them.
    fn enter(&mut self, batch: Part, shape: Shape) {
        if let (Values::Bytes(pixels), None) = (batch.images, self.raw(batch)) {
            let entry = grown(&mut self.entry, pixels.len());
            batch.scaling.bytes(shape.h * shape.w, pixels, entry);
        }
    }

    /// What a layer reads.
    fn input<'a>(&'a self, stage: &Stage, batch: Part<'a>) -> Input<'a> {
        match (batch.images, stage.reads) {
            (_, Some(buffer)) => Input::Floats(&self.buffers[buffer][..batch.len() * stage.inputs]),
            (Values::Floats(values), None) => Input::Floats(values),
            (Values::Bytes(pixels), None) => {
                let scaled = || Input::Floats(&self.entry[..pixels.len()]);
                self.raw(batch).unwrap_or_else(scaled)
            }
        }
    }

    /// The batch's bytes, where the first layer takes them as they are.
    fn raw<'a>(&self, batch: Part<'a>) -> Option<Input<'a>> {
        match (batch.images, batch.scaling.uniform()) {
            (Values::Bytes(pixels), Some((factor, shift))) if self.takes_bytes => {
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

/// The first `size` values of a buffer that never shrinks.
fn grown(buffer: &mut Vec<f32>, size: usize) -> &mut [f32] {
    if buffer.len() < size {
        buffer.resize(size, 0.0);
    }
    &mut buffer[..size]
}
