//! Small layers one after the other, a vector's samples at a time: what a group of samples leaves between layers stays in
//! the second-level cache, and only what the backward pass needs is kept.

use std::ops::Range;

use super::super::conv2d::direct::Group;
use super::super::isa::Vectors;
use super::super::{Clock, Input, Timed, pool as pooling};
use super::activation::{self, copy, mask};
use super::pack::{pack, unpack};
use super::stack::{Op, Part};
use super::{Planes, pool};

/// Layers in lanes, with memory that is allocated once for the largest batch.
#[derive(Debug)]
pub(super) struct Layers<I: Vectors> {
    isa: I,
    steps: Vec<Step<I>>,
    /// What goes into each step, and what comes out of the last.
    values: Vec<Value<I>>,
    /// Gradients with respect to the values, of the group at hand; none for the first.
    slopes: Vec<Value<I>>,
}

/// One step: a layer, or a convolution with the rectifier behind it.
#[derive(Debug)]
struct Step<I: Vectors> {
    kind: Kind<I>,
    /// Its first layer's number.
    layer: usize,
    /// Its part of the arenas.
    params: Range<usize>,
    /// Of each group: which outputs of a rectifier are positive.
    bits: Vec<I::Bits>,
    /// Of each group: where each maximum was.
    places: Vec<u8>,
    /// Bits and places of one group.
    each: (usize, usize),
}

#[derive(Debug)]
enum Kind<I: Vectors> {
    Conv2d {
        group: Box<Group<I>>,
        weights: usize,
    },
    Average(pooling::Geometry),
    Max(pooling::Geometry),
    Activation(activation::Kind),
}

/// Planes of one group, or of all.
#[derive(Debug)]
struct Value<I: Vectors> {
    planes: Planes,
    kept: bool,
    memory: Vec<I::Vector>,
}

impl<I: Vectors> Value<I> {
    fn new(planes: Planes, kept: bool) -> Self {
        Self {
            planes,
            kept,
            memory: vec![I::Vector::default(); planes.len()],
        }
    }

    /// Makes room for so many groups.
    fn grow(&mut self, groups: usize) {
        let len = if self.kept { groups } else { 1 } * self.planes.len();
        if self.memory.len() < len {
            self.memory.resize(len, I::Vector::default());
        }
    }

    fn range(&self, group: usize) -> Range<usize> {
        let start = if self.kept { group } else { 0 } * self.planes.len();
        start..start + self.planes.len()
    }

    fn of(&self, group: usize) -> (&[I::Vector], &Planes) {
        (&self.memory[self.range(group)], &self.planes)
    }

    fn of_mut(&mut self, group: usize) -> (&mut [I::Vector], &Planes) {
        let range = self.range(group);
        (&mut self.memory[range], &self.planes)
    }
}

impl<I: Vectors> Step<I> {
    /// Which outputs of a group are positive, if they were rectified.
    fn bits(&self, group: usize) -> Option<&[I::Bits]> {
        let each = self.each.0;
        (each > 0).then(|| &self.bits[group * each..][..each])
    }

    /// One group of samples.
    fn forward(
        &mut self,
        (isa, group): (I, usize),
        params: &[f32],
        x: (&[I::Vector], &Planes),
        y: (&mut [I::Vector], &Planes),
    ) {
        match &mut self.kind {
            Kind::Conv2d {
                group: conv,
                weights,
            } => {
                let biases = &params[self.params.clone()][*weights..];
                let each = self.each.0;
                let bits = (each > 0).then(|| &mut self.bits[group * each..][..each]);
                conv.forward(x.0, biases, y.0, bits);
            }
            Kind::Average(g) => pool::average(isa, *g, x.0, y),
            Kind::Max(g) => {
                let each = self.each.1;
                pool::max(isa, *g, x.0, y, &mut self.places[group * each..][..each]);
            }
            Kind::Activation(kind) => kind.forward(isa, x, y),
        }
    }
}

impl<I: Vectors> Layers<I> {
    pub(super) fn new(isa: I, shape: (usize, usize, usize), ops: &[Op]) -> Self {
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
            let (mut params, mut each) = (0, (0, 0));
            let kind = match op {
                Op::Conv2d(g) => {
                    x = Planes::padded(g.ci, (g.h, g.w), g.pad);
                    if dx.is_some() {
                        dy = Group::<I>::slopes(&g);
                    }
                    params = g.weights() + g.co;
                    each.0 = if rectified { g.outputs() } else { 0 };
                    Kind::Conv2d {
                        group: Box::new(Group::new(isa, g, y, dx)),
                        weights: g.weights(),
                    }
                }
                Op::Average(g) => Kind::Average(g),
                Op::Max(g) => {
                    each.1 = g.c * g.oh() * g.ow() * I::LANES;
                    Kind::Max(g)
                }
                Op::Relu => Kind::Activation(activation::Kind::Relu),
                Op::Tanh => Kind::Activation(activation::Kind::Tanh),
            };
            let after = steps.last().map(|step: &Step<I>| &step.kind);
            let kept = matches!(op, Op::Conv2d(_)) || matches!(after, Some(Kind::Activation(_)));
            values.push(Value::new(x, kept));
            slopes.push(Value::new(dy, false));
            dx = Some(dy);
            steps.push(Step {
                kind,
                layer,
                params: end..end + params,
                bits: Vec::new(),
                places: Vec::new(),
                each,
            });
            end += params;
        }
        let kept = matches!(steps.last(), Some(step) if matches!(step.kind, Kind::Activation(_)));
        values.push(Value::new(tight(shape), kept));
        Self {
            isa,
            steps,
            values,
            slopes,
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
                Kind::Average(g) => {
                    return pool::average_back(self.isa, *g, dy, (dx, planes), bits);
                }
                Kind::Max(g) => {
                    let each = steps[0].each.1;
                    let places = &steps[0].places[group * each..][..each];
                    pool::max_back(self.isa, *g, places, dy, (dx, planes));
                }
                Kind::Activation(kind) => {
                    kind.backward::<I>(self.values[i + 1].of(group), dy);
                    copy(self.isa, (dy, slopes), (dx, planes));
                }
            }
            if let Some(bits) = bits {
                mask(self.isa, bits, (dx, planes));
            }
        });
    }

    /// Makes room for what so many groups leave.
    fn grow(&mut self, groups: usize) {
        self.values.iter_mut().for_each(|value| value.grow(groups));
        for step in &mut self.steps {
            let (bits, places) = step.each;
            if step.bits.len() < groups * bits {
                step.bits.resize(groups * bits, I::Bits::default());
            }
            if step.places.len() < groups * places {
                step.places.resize(groups * places, 0);
            }
        }
    }
}

impl<I: Vectors> Part for Layers<I> {
    fn forward(
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
        self.grow(if training { n.div_ceil(I::LANES) } else { 1 });
        let inputs = self.values[0].planes.sample();
        let outputs = self.values[self.steps.len()].planes.sample();
        for (i, y) in y.chunks_mut(I::LANES * outputs).enumerate() {
            let group = if training { i } else { 0 };
            let count = y.len() / outputs;
            let samples = x.part(i * I::LANES * inputs..(i * I::LANES + count) * inputs);
            let (entry, planes) = self.values[0].of_mut(group);
            clock.time(0, Timed::Forward, || pack(self.isa, planes, samples, entry));
            for (i, step) in self.steps.iter_mut().enumerate() {
                let (before, after) = self.values.split_at_mut(i + 1);
                clock.time(step.layer, Timed::Forward, || {
                    step.forward(
                        (self.isa, group),
                        params,
                        before[i].of(group),
                        after[0].of_mut(group),
                    )
                });
            }
            let (last, _) = self.values[self.steps.len()].of(group);
            let layer = self.steps[self.steps.len() - 1].layer;
            clock.time(layer, Timed::Forward, || {
                unpack(self.isa, last, (count, outputs), y)
            });
        }
    }

    fn backward(&mut self, params: &[f32], dy: &[f32], grads: &mut [f32], clock: &mut Clock) {
        for step in &mut self.steps {
            if let Kind::Conv2d { group, weights, .. } = &mut step.kind {
                let weights = &params[step.params.clone()][..*weights];
                clock.time(step.layer, Timed::GradInput, || group.prepare_back(weights));
            }
        }
        let last = self.steps.len() - 1;
        let outputs = self.slopes[last].planes.sample();
        for (group, dy) in dy.chunks(I::LANES * outputs).enumerate() {
            let (slope, planes) = self.slopes[last].of_mut(0);
            clock.time(self.steps[last].layer, Timed::GradInput, || {
                pack(self.isa, planes, Input::Floats(dy), slope);
                if let Some(bits) = self.steps[last].bits(group) {
                    mask(self.isa, bits, (slope, planes));
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

    fn floats(&self, n: usize) -> usize {
        let values = self.values.iter().chain(&self.slopes).map(|value| {
            let groups = if value.kept { n.div_ceil(I::LANES) } else { 1 };
            groups * value.planes.len() * I::LANES
        });
        values.sum()
    }

    #[cfg(test)]
    fn memory(&self) -> Vec<(usize, usize)> {
        let values = self.values.iter().chain(&self.slopes);
        let places = values.map(|value| (value.memory.as_ptr() as usize, value.memory.len()));
        let steps = self.steps.iter();
        let marks = steps.flat_map(|step| {
            [
                (step.bits.as_ptr() as usize, step.bits.len()),
                (step.places.as_ptr() as usize, step.places.len()),
            ]
        });
        places.chain(marks).collect()
    }
}
