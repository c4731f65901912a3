//! Small layers one after the other, eight samples at a time: what a group of samples leaves between layers stays in
//! the second-level cache, and only what the backward pass needs is kept.

use std::ops::Range;

use super::super::conv2d::direct::Group;
use super::super::{Clock, Input, Timed, conv2d, has_avx2, pool as pooling};
use super::activation::{self, copy, mask};
use super::pack::{pack, unpack};
use super::{Eight, LANES, Planes, pool};

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

/// Vectors of all planes of a group beyond which it is far from the caches that make this way fast.
const MOST: usize = 1 << 16;

/// A stack of layers in lanes, with memory that is allocated once for the largest batch.
#[derive(Debug)]
pub struct Stack {
    steps: Vec<Step>,
    /// What goes into each step, and what comes out of the last.
    values: Vec<Value>,
    /// Gradients with respect to the values, of the group at hand; none for the first.
    slopes: Vec<Value>,
}

/// One step: a layer, or a convolution with the rectifier behind it.
#[derive(Debug)]
struct Step {
    kind: Kind,
    /// Its first layer's number.
    layer: usize,
    /// Its part of the arenas.
    params: Range<usize>,
    /// Of each group: which outputs of a rectifier are positive, or where each maximum was.
    marks: Vec<u8>,
    /// Of one group.
    each: usize,
}

#[derive(Debug)]
enum Kind {
    Conv2d {
        group: Box<Group>,
        weights: usize,
        rectified: bool,
    },
    Average(pooling::Geometry),
    Max(pooling::Geometry),
    Activation(activation::Kind),
}

/// Planes of one group, or of all.
#[derive(Debug)]
struct Value {
    planes: Planes,
    kept: bool,
    memory: Vec<Eight>,
}

impl Value {
    fn new(planes: Planes, kept: bool) -> Self {
        Self {
            planes,
            kept,
            memory: vec![Eight::default(); planes.len()],
        }
    }

    /// Makes room for so many groups.
    fn grow(&mut self, groups: usize) {
        let len = if self.kept { groups } else { 1 } * self.planes.len();
        if self.memory.len() < len {
            self.memory.resize(len, Eight::default());
        }
    }

    fn range(&self, group: usize) -> Range<usize> {
        let start = if self.kept { group } else { 0 } * self.planes.len();
        start..start + self.planes.len()
    }

    fn of(&self, group: usize) -> (&[Eight], &Planes) {
        (&self.memory[self.range(group)], &self.planes)
    }

    fn of_mut(&mut self, group: usize) -> (&mut [Eight], &Planes) {
        let range = self.range(group);
        (&mut self.memory[range], &self.planes)
    }
}

impl Step {
    /// Which outputs of a group are positive, if they were rectified.
    fn bits(&self, group: usize) -> Option<&[u8]> {
        let rectified = matches!(self.kind, Kind::Conv2d { rectified, .. } if rectified);
        rectified.then(|| &self.marks[group * self.each..][..self.each])
    }

    /// One group of samples.
    fn forward(
        &mut self,
        group: usize,
        params: &[f32],
        x: (&[Eight], &Planes),
        y: (&mut [Eight], &Planes),
    ) {
        let marks = &mut self.marks[group * self.each..][..self.each];
        match &mut self.kind {
            Kind::Conv2d {
                group,
                weights,
                rectified,
            } => {
                let biases = &params[self.params.clone()][*weights..];
                group.forward(x.0, biases, y.0, rectified.then_some(marks));
            }
            Kind::Average(g) => pool::average(*g, x.0, y),
            Kind::Max(g) => pool::max(*g, x.0, y, marks),
            Kind::Activation(kind) => kind.forward(x, y),
        }
    }
}

impl Stack {
    /// As many of the layers, from the first on, as can and should work in lanes, for samples of `(c, h, w)`; none if
    /// there is no convolution among them. Returns their number too.
    pub fn of(shape: (usize, usize, usize), ops: &[Op]) -> Option<(Self, usize)> {
        let fit = ops.iter().scan((shape, 0), |(shape, vectors), op| {
            *vectors += shape.0 * shape.1 * shape.2;
            *shape = op.output(*shape);
            let fits = op.can() && *vectors + shape.0 * shape.1 * shape.2 <= MOST;
            fits.then_some(())
        });
        let count = fit.count();
        let ops = &ops[..count];
        let worth = has_avx2() && ops.iter().any(|op| matches!(op, Op::Conv2d(_)));
        worth.then(|| (Self::new(shape, ops), count))
    }

    fn new(shape: (usize, usize, usize), ops: &[Op]) -> Self {
        let tight = |(c, h, w)| Planes::tight(c, h, w);
        let (mut steps, mut values, mut slopes) = (Vec::new(), Vec::new(), Vec::new());
        let (mut shape, mut end, mut i) = (shape, 0, 0);
        let mut dx = None;
        while i < ops.len() {
            let (op, input) = (ops[i], shape);
            shape = op.output(shape);
            let rectified = matches!(ops[i..], [Op::Conv2d(_), Op::Relu, ..]);
            let layer = i;
            i += 1 + usize::from(rectified);
            // What comes out lies as the next step reads it.
            let y = match ops.get(i) {
                Some(Op::Conv2d(g)) => Planes::padded(g.ci, (g.h, g.w), g.pad),
                _ => tight(shape),
            };
            let (mut x, mut dy) = (tight(input), tight(shape));
            let (mut params, mut each) = (0, 0);
            let kind = match op {
                Op::Conv2d(g) => {
                    x = Planes::padded(g.ci, (g.h, g.w), g.pad);
                    if dx.is_some() {
                        dy = Group::slopes(&g);
                    }
                    params = g.weights() + g.co;
                    each = if rectified { g.outputs() } else { 0 };
                    Kind::Conv2d {
                        group: Box::new(Group::new(g, y, dx)),
                        weights: g.weights(),
                        rectified,
                    }
                }
                Op::Average(g) => Kind::Average(g),
                Op::Max(g) => {
                    each = g.c * g.oh() * g.ow() * LANES;
                    Kind::Max(g)
                }
                Op::Relu => Kind::Activation(activation::Kind::Relu),
                Op::Tanh => Kind::Activation(activation::Kind::Tanh),
            };
            let after = steps.last().map(|step: &Step| &step.kind);
            let kept = matches!(op, Op::Conv2d(_)) || matches!(after, Some(Kind::Activation(_)));
            values.push(Value::new(x, kept));
            slopes.push(Value::new(dy, false));
            dx = Some(dy);
            steps.push(Step {
                kind,
                layer,
                params: end..end + params,
                marks: Vec::new(),
                each,
            });
            end += params;
        }
        let kept = matches!(steps.last(), Some(step) if matches!(step.kind, Kind::Activation(_)));
        values.push(Value::new(tight(shape), kept));
        Self {
            steps,
            values,
            slopes,
        }
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
        for step in &mut self.steps {
            if let Kind::Conv2d { group, weights, .. } = &mut step.kind {
                let weights = &params[step.params.clone()][..*weights];
                clock.time(step.layer, Timed::Forward, || group.prepare(weights));
            }
        }
        self.grow(if training { n.div_ceil(LANES) } else { 1 });
        let inputs = self.values[0].planes.sample();
        let outputs = self.values[self.steps.len()].planes.sample();
        for (i, y) in y.chunks_mut(LANES * outputs).enumerate() {
            let group = if training { i } else { 0 };
            let count = y.len() / outputs;
            let samples = x.part(i * LANES * inputs..(i * LANES + count) * inputs);
            let (entry, planes) = self.values[0].of_mut(group);
            clock.time(0, Timed::Forward, || pack(planes, samples, entry));
            for (i, step) in self.steps.iter_mut().enumerate() {
                let (before, after) = self.values.split_at_mut(i + 1);
                clock.time(step.layer, Timed::Forward, || {
                    step.forward(group, params, before[i].of(group), after[0].of_mut(group))
                });
            }
            let (last, _) = self.values[self.steps.len()].of(group);
            let layer = self.steps[self.steps.len() - 1].layer;
            clock.time(layer, Timed::Forward, || unpack(last, (count, outputs), y));
        }
    }

    /// Sets `grads` from `dy`, with `n` samples in rows, after a forward pass with them.
    pub fn backward(&mut self, params: &[f32], dy: &[f32], grads: &mut [f32], clock: &mut Clock) {
        for step in &mut self.steps {
            if let Kind::Conv2d { group, weights, .. } = &mut step.kind {
                let weights = &params[step.params.clone()][..*weights];
                clock.time(step.layer, Timed::GradInput, || group.prepare_back(weights));
            }
        }
        let last = self.steps.len() - 1;
        let outputs = self.slopes[last].planes.sample();
        for (group, dy) in dy.chunks(LANES * outputs).enumerate() {
            let (slope, planes) = self.slopes[last].of_mut(0);
            clock.time(self.steps[last].layer, Timed::GradInput, || {
                pack(planes, Input::Floats(dy), slope);
                if let Some(bits) = self.steps[last].bits(group) {
                    mask(bits, (slope, planes));
                }
            });
            for i in (0..=last).rev() {
                self.step_back(i, group, clock);
            }
        }
        for step in &self.steps {
            if let Kind::Conv2d { group, .. } = &step.kind {
                let grads = &mut grads[step.params.clone()];
                clock.time(step.layer, Timed::GradParams, || group.gradients(grads));
            }
        }
    }

    /// Takes the gradient of a group back through step `i`.
    fn step_back(&mut self, i: usize, group: usize, clock: &mut Clock) {
        let (before, steps) = self.steps.split_at_mut(i);
        let (dx, dy) = self.slopes.split_at_mut(i);
        let (dy, slopes) = dy[0].of_mut(0);
        let layer = steps[0].layer;
        if let Kind::Conv2d { group: conv, .. } = &mut steps[0].kind {
            clock.time(layer, Timed::GradParams, || {
                conv.add(self.values[i].of(group).0, dy, slopes)
            });
        }
        let (Some(before), Some(dx)) = (before.last(), dx.last_mut()) else {
            return;
        };
        let ((dx, planes), bits) = (dx.of_mut(0), before.bits(group));
        clock.time(layer, Timed::GradInput, || {
            match &mut steps[0].kind {
                Kind::Conv2d { group: conv, .. } => return conv.grad_input(dy, dx, bits),
                Kind::Average(g) => return pool::average_back(*g, dy, (dx, planes), bits),
                Kind::Max(g) => {
                    let places = &steps[0].marks[group * steps[0].each..][..steps[0].each];
                    pool::max_back(*g, places, dy, (dx, planes));
                }
                Kind::Activation(kind) => {
                    kind.backward(self.values[i + 1].of(group), dy);
                    copy((dy, slopes), (dx, planes));
                }
            }
            if let Some(bits) = bits {
                mask(bits, (dx, planes));
            }
        });
    }

    /// Floats that a training step with `n` samples holds.
    pub fn floats(&self, n: usize) -> usize {
        let values = self.values.iter().chain(&self.slopes).map(|value| {
            let groups = if value.kept { n.div_ceil(LANES) } else { 1 };
            groups * value.planes.len() * LANES
        });
        values.sum()
    }

    /// Where its memory is, and how large.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> Vec<(usize, usize)> {
        let values = self.values.iter().chain(&self.slopes);
        let places = values.map(|value| (value.memory.as_ptr() as usize, value.memory.len()));
        let marks = self.steps.iter().map(|step| &step.marks);
        places
            .chain(marks.map(|marks| (marks.as_ptr() as usize, marks.len())))
            .collect()
    }

    /// Makes room for what so many groups leave.
    fn grow(&mut self, groups: usize) {
        self.values.iter_mut().for_each(|value| value.grow(groups));
        for step in &mut self.steps {
            if step.marks.len() < groups * step.each {
                step.marks.resize(groups * step.each, 0);
            }
        }
    }
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
    fn output(&self, shape: (usize, usize, usize)) -> (usize, usize, usize) {
        match self {
            Self::Conv2d(g) => (g.co, g.oh(), g.ow()),
            Self::Average(g) | Self::Max(g) => (g.c, g.oh(), g.ow()),
            Self::Relu | Self::Tanh => shape,
        }
    }
}
