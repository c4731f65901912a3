//! A stack of small layers in lanes, for batches of any size: most samples in the widest vectors, and what is left of
//! them in narrower ones.

use std::fmt::Debug;

#[cfg(target_arch = "x86_64")]
use super::super::isa::{Avx2, Avx512, Vectors};
use super::super::{Clock, Input, conv2d, pool as pooling};
#[cfg(target_arch = "x86_64")]
use super::layers::Layers;

/// A layer that can work in lanes.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// Convolution.
    Conv2d(conv2d::Geometry),
    /// Mean of each window.
    Average(pooling::Geometry),
    /// Largest value of each window.
    Max(pooling::Geometry),
    /// max(x, 0).
    Relu,
    /// tanh x.
    Tanh,
}

/// Floats of all planes of a group beyond which it is far from the caches that make this way fast.
const MOST: usize = 1 << 19;

/// Widths of vectors at the most.
const WIDTHS: usize = 2;

/// Layers for vectors of one width.
pub(super) trait Part: Debug + Send + Sync {
    /// `y` from `x`, each with `n` samples in rows; what the backward pass needs is kept only if `training`.
    fn forward(
        &mut self,
        n: (usize, bool),
        params: &[f32],
        x: Input,
        y: &mut [f32],
        clock: &mut Clock,
    );

    /// Sets `grads` from `dy`, with `n` samples in rows, after a forward pass with them.
    fn backward(&mut self, params: &[f32], dy: &[f32], grads: &mut [f32], clock: &mut Clock);

    /// Floats that a training step with `n` samples holds.
    fn floats(&self, n: usize) -> usize;

    /// Where its memory is, and how large.
    #[cfg(test)]
    fn memory(&self) -> Vec<(usize, usize)>;
}

/// A stack of layers in lanes, with memory that is allocated once for the largest batch.
#[derive(Debug)]
pub struct Stack {
    /// By the samples that they take at a time, the widest first.
    parts: Vec<(usize, Box<dyn Part>)>,
    /// Gradients of a part behind the first.
    grads: Vec<f32>,
    inputs: usize,
    outputs: usize,
}

impl Stack {
    /// As many of the layers, from the first on, as can and should work in lanes, for samples of `(c, h, w)`; none if
    /// there is no convolution among them. Returns their number too.
    pub fn of(shape: (usize, usize, usize), ops: &[Op]) -> Option<(Self, usize)> {
        let (mut count, mut values, mut out) = (0, shape.0 * shape.1 * shape.2, shape);
        for op in ops {
            let next = op.output(out);
            let more = values + next.0 * next.1 * next.2;
            if !op.can() || more * 8 > MOST {
                break;
            }
            (count, values, out) = (count + 1, more, next);
        }
        let ops = &ops[..count];
        let parts = match ops.iter().any(|op| matches!(op, Op::Conv2d(_))) {
            true => parts(shape, ops, values),
            false => Vec::new(),
        };
        let params = ops.iter().map(|op| match op {
            Op::Conv2d(g) => g.weights() + g.co,
            _ => 0,
        });
        let stack = Self {
            grads: vec![0.0; params.sum()],
            inputs: shape.0 * shape.1 * shape.2,
            outputs: out.0 * out.1 * out.2,
            parts,
        };
        (!stack.parts.is_empty()).then_some((stack, count))
    }

    /// How many of `n` samples each part takes.
    fn shares(&self, n: usize) -> [usize; WIDTHS] {
        let (mut shares, mut left) = ([0; WIDTHS], n);
        for (i, (lanes, _)) in self.parts.iter().enumerate() {
            // The rest goes to narrower vectors only if one of those takes all of it.
            let next = self.parts.get(i + 1).map_or(0, |(lanes, _)| *lanes);
            let rest = left % lanes;
            shares[i] = if rest <= next { left - rest } else { left };
            left -= shares[i];
        }
        shares
    }

    /// `y` from `x`, each with `n` samples in rows; what the backward pass needs is kept only if `training`.
    pub fn forward(
        &mut self,
        (n, training): (usize, bool),
        params: &[f32],
        x: Input,
        y: &mut [f32],
        clock: &mut Clock,
    ) {
        let mut start = 0;
        for (share, (_, part)) in self.shares(n).into_iter().zip(&mut self.parts) {
            let end = start + share;
            if share > 0 {
                let x = x.part(start * self.inputs..end * self.inputs);
                let y = &mut y[start * self.outputs..end * self.outputs];
                part.forward((share, training), params, x, y, clock);
            }
            start = end;
        }
    }

    /// Sets `grads` from `dy`, with `n` samples in rows, after a forward pass with them.
    pub fn backward(&mut self, params: &[f32], dy: &[f32], grads: &mut [f32], clock: &mut Clock) {
        let (mut rest, mut first) = (dy, true);
        let shares = self.shares(dy.len() / self.outputs);
        let grads = &mut grads[..self.grads.len()];
        for (share, (_, part)) in shares.into_iter().zip(&mut self.parts) {
            let dy;
            (dy, rest) = rest.split_at(share * self.outputs);
            if share == 0 {
                continue;
            }
            if first {
                part.backward(params, dy, grads, clock);
            } else {
                part.backward(params, dy, &mut self.grads, clock);
                let both = grads.iter_mut().zip(&self.grads);
                both.for_each(|(sum, grad)| *sum += grad);
            }
            first = false;
        }
        if first {
            grads.fill(0.0);
        }
    }

    /// Floats that a training step with `n` samples holds.
    pub fn floats(&self, n: usize) -> usize {
        let parts = self.shares(n).into_iter().zip(&self.parts);
        parts.map(|(share, (_, part))| part.floats(share)).sum()
    }

    /// Where its memory is, and how large.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> Vec<(usize, usize)> {
        let parts = self.parts.iter();
        parts.flat_map(|(_, part)| part.memory()).collect()
    }
}

/// The layers for each width of this machine; `values` are those of a sample in all planes.
fn parts(shape: (usize, usize, usize), ops: &[Op], values: usize) -> Vec<(usize, Box<dyn Part>)> {
    let mut parts: Vec<(usize, Box<dyn Part>)> = Vec::new();
    #[cfg(target_arch = "x86_64")]
    {
        if let Some(isa) = Avx512::here()
            && values * Avx512::LANES <= MOST
        {
            parts.push((Avx512::LANES, Box::new(Layers::new(isa, shape, ops))));
        }
        if let Some(isa) = Avx2::here() {
            parts.push((Avx2::LANES, Box::new(Layers::new(isa, shape, ops))));
        }
    }
    parts
}

impl Op {
    /// Whether its loops can do it.
    fn can(&self) -> bool {
        match self {
            // The gradient's planes hold all of its pixels.
            Self::Conv2d(g) => g.pad < g.kh.min(g.kw),
            // A place in a window is a byte.
            Self::Max(g) => g.k < 16,
            _ => true,
        }
    }

    /// Sizes of a sample behind it.
    pub(super) fn output(&self, shape: (usize, usize, usize)) -> (usize, usize, usize) {
        match self {
            Self::Conv2d(g) => (g.co, g.oh(), g.ow()),
            Self::Average(g) | Self::Max(g) => (g.c, g.oh(), g.ow()),
            Self::Relu | Self::Tanh => shape,
        }
    }
}
