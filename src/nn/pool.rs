//! Pooling: the largest or the mean of each window.

use super::layer::{Backward, Layer, Pass};
use crate::backend::cpu::lanes::Op;
use crate::backend::cpu::pool::{Geometry, average, max};
use crate::backend::cpu::{Input, Scratch};
use crate::data::Shape;

/// What becomes of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Its largest value.
    Max,
    /// Its mean.
    Average,
}

/// Windows over each channel by itself.
pub(super) struct Pool {
    kind: Kind,
    g: Geometry,
    /// Where each largest value was.
    places: Vec<u32>,
}

impl Pool {
    pub(super) fn new(kind: Kind, g: Geometry) -> Self {
        Self {
            kind,
            g,
            places: Vec::new(),
        }
    }
}

impl Layer for Pool {
    fn name(&self) -> &'static str {
        match self.kind {
            Kind::Max => "max_pool",
            Kind::Average => "average_pool",
        }
    }

    fn output(&self) -> Shape {
        Shape {
            c: self.g.c,
            h: self.g.oh(),
            w: self.g.ow(),
        }
    }

    fn lanes(&self) -> Option<Op> {
        Some(match self.kind {
            Kind::Max => Op::Max(self.g),
            Kind::Average => Op::Average(self.g),
        })
    }

    fn forward(
        &mut self,
        _pass: Pass,
        _params: &[f32],
        x: Input,
        y: &mut [f32],
        _scratch: &mut Scratch,
    ) {
        match self.kind {
            Kind::Average => average::forward(self.g, x.floats(), y),
            Kind::Max => {
                if self.places.len() < y.len() {
                    self.places.resize(y.len(), 0);
                }
                max::forward(self.g, x.floats(), y, &mut self.places[..y.len()]);
            }
        }
    }

    fn grad_input(&mut self, _pass: Pass, work: &Backward, dx: &mut [f32], _scratch: &mut Scratch) {
        match self.kind {
            Kind::Average => average::backward(self.g, work.dy, dx),
            Kind::Max => max::backward(self.g, &self.places[..work.dy.len()], work.dy, dx),
        }
    }
}
