//! Convolution.

use super::device::{self, DeviceLayer};
use super::layer::{Backward, Flops, Init, Layer, Pass};
use crate::Result;
use crate::backend::cpu::conv2d::{Conv2d as Kernel, Geometry, Method, Pass as Way};
use crate::backend::cpu::lanes::Op;
use crate::backend::cpu::{Input, Scratch};
use crate::backend::cuda::{self, View, ViewMut};
use crate::data::Shape;
use crate::rng::Stream;

/// Filters `(co, ci, k, k)` over images, with a bias each.
pub(super) struct Conv2d {
    g: Geometry,
    kernel: Kernel,
}

impl Conv2d {
    pub(super) fn new(g: Geometry) -> Self {
        Self {
            g,
            kernel: Kernel::new(g),
        }
    }

    fn weights(&self) -> usize {
        self.g.co * self.inputs()
    }

    /// Values under one filter.
    fn inputs(&self) -> usize {
        self.g.ci * self.g.kh * self.g.kw
    }
}

impl Layer for Conv2d {
    fn name(&self) -> &'static str {
        "conv2d"
    }

    fn output(&self) -> Shape {
        Shape {
            c: self.g.co,
            h: self.g.oh(),
            w: self.g.ow(),
        }
    }

    fn tensors(&self) -> Vec<(&'static str, Vec<usize>)> {
        let Geometry { ci, co, kh, kw, .. } = self.g;
        vec![("weight", vec![co, ci, kh, kw]), ("bias", vec![co])]
    }

    fn init(&self, init: Init, stream: &mut Stream, params: &mut [f32]) {
        init.fill(stream, self.inputs(), params, self.g.co);
    }

    fn flops(&self) -> Flops {
        let product = 2.0 * self.weights() as f64 * (self.g.oh() * self.g.ow()) as f64;
        Flops {
            forward: product,
            grad_params: product,
            grad_input: product,
        }
    }

    fn lanes(&self) -> Option<Op> {
        let direct = |pass: Way| self.kernel.method(pass) == Method::Direct;
        Way::ALL
            .into_iter()
            .all(direct)
            .then_some(Op::Conv2d(self.g))
    }

    fn forward(
        &mut self,
        pass: Pass,
        params: &[f32],
        x: Input,
        y: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let (w, b) = params.split_at(self.weights());
        self.kernel.forward(pass.n, x.floats(), w, b, y, scratch);
    }

    fn grad_params(
        &mut self,
        pass: Pass,
        work: &Backward,
        grads: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let (dw, db) = grads.split_at_mut(self.weights());
        self.kernel
            .grad_params(pass.n, work.x.floats(), work.dy, dw, db, scratch);
    }

    fn grad_input(&mut self, pass: Pass, work: &Backward, dx: &mut [f32], scratch: &mut Scratch) {
        let w = &work.params[..self.weights()];
        self.kernel.grad_input(pass.n, work.dy, w, dx, scratch);
    }

    fn convolution(&self) -> Option<&Kernel> {
        Some(&self.kernel)
    }

    fn convolution_mut(&mut self) -> Option<&mut Kernel> {
        Some(&mut self.kernel)
    }

    fn on_device(&mut self) -> &mut dyn DeviceLayer {
        self
    }
}

impl DeviceLayer for Conv2d {
    fn most(&self) -> usize {
        cuda::conv2d::Conv2d::new(self.g).most()
    }

    fn scratch(&self, n: usize) -> usize {
        cuda::conv2d::Conv2d::new(self.g).scratch(n)
    }

    fn forward(
        &mut self,
        pass: device::Pass,
        params: View<f32>,
        x: View<f32>,
        y: ViewMut<f32>,
        _scratch: ViewMut<f32>,
    ) -> Result<()> {
        let (w, b) = params.split_at(self.weights());
        cuda::conv2d::Conv2d::new(self.g).forward(pass.stream, pass.n, x, w, b, y)
    }

    fn grad_params(
        &mut self,
        pass: device::Pass,
        work: &device::Backward,
        grads: ViewMut<f32>,
        scratch: ViewMut<f32>,
    ) -> Result<()> {
        let (dw, db) = grads.split_at(self.weights());
        let kernel = cuda::conv2d::Conv2d::new(self.g);
        kernel.grad_params(pass.stream, pass.n, work.x, work.dy, dw, db, scratch)
    }

    fn grad_input(
        &mut self,
        pass: device::Pass,
        work: &device::Backward,
        dx: ViewMut<f32>,
        _scratch: ViewMut<f32>,
    ) -> Result<()> {
        let w = work.params.part(0..self.weights());
        cuda::conv2d::Conv2d::new(self.g).grad_input(pass.stream, pass.n, work.dy, w, dx)
    }
}
