//! Pooling: the largest or the mean of each window.

use super::device::{self, DeviceLayer};
use super::layer::{Backward, Layer, Pass};
use crate::Result;
use crate::backend::cpu::lanes::Op;
use crate::backend::cpu::pool::{Geometry, average, max};
use crate::backend::cpu::{Input, Scratch};
use crate::backend::cuda::{self, Buffer, Stream, View, ViewMut};
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
    /// The same on a device, if it is there.
    places_there: Option<Buffer<u32>>,
}

impl Pool {
    pub(super) fn new(kind: Kind, g: Geometry) -> Self {
        Self {
            kind,
            g,
            places: Vec::new(),
            places_there: None,
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

    fn on_device(&mut self) -> &mut dyn DeviceLayer {
        self
    }
}

impl DeviceLayer for Pool {
    fn bytes(&self, n: usize) -> usize {
        match self.kind {
            Kind::Max => 4 * n * self.output().len(),
            Kind::Average => 0,
        }
    }

    fn allocate(&mut self, stream: &Stream, n: usize) -> Result<()> {
        if self.kind == Kind::Max {
            let places = Buffer::new(stream.device(), n * self.output().len())?;
            self.places_there = Some(places);
        }
        Ok(())
    }

    fn forward(
        &mut self,
        pass: device::Pass,
        _params: View<f32>,
        x: View<f32>,
        y: ViewMut<f32>,
        _scratch: ViewMut<f32>,
    ) -> Result<()> {
        match &mut self.places_there {
            Some(places) => {
                let places = places.part_mut(0..y.len());
                cuda::pool::max::forward(pass.stream, self.g, x, y, places)
            }
            None => cuda::pool::average::forward(pass.stream, self.g, x, y),
        }
    }

    fn grad_input(
        &mut self,
        pass: device::Pass,
        work: &device::Backward,
        dx: ViewMut<f32>,
        _scratch: ViewMut<f32>,
    ) -> Result<()> {
        match &self.places_there {
            Some(places) => {
                let places = places.part(0..work.dy.len());
                cuda::pool::max::backward(pass.stream, self.g, places, work.dy, dx)
            }
            None => cuda::pool::average::backward(pass.stream, self.g, work.dy, dx),
        }
    }
}
