//! Fully connected layer.

use super::device::{self, DeviceLayer};
use super::layer::{Backward, Flops, Init, Layer, Pass};
use crate::Result;
use crate::backend::cpu::linear::{self, Geometry};
use crate::backend::cpu::{Input, Scratch};
use crate::backend::cuda::blas::{Product, Stored};
use crate::backend::cuda::{self, View, ViewMut};
use crate::data::Shape;
use crate::rng::Stream;

/// `y = x·wᵀ + b`.
pub(super) struct Linear {
    pub(super) ci: usize,
    pub(super) co: usize,
    /// Whether parameters start at zero, which is right for a layer that is the whole model.
    pub(super) zero: bool,
}

impl Linear {
    fn geometry(&self, n: usize) -> Geometry {
        Geometry {
            n,
            ci: self.ci,
            co: self.co,
        }
    }
}

impl Layer for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn output(&self) -> Shape {
        Shape {
            c: self.co,
            h: 1,
            w: 1,
        }
    }

    fn tensors(&self) -> Vec<(&'static str, Vec<usize>)> {
        vec![("weight", vec![self.co, self.ci]), ("bias", vec![self.co])]
    }

    fn init(&self, init: Init, stream: &mut Stream, params: &mut [f32]) {
        match self.zero {
            true => params.fill(0.0),
            false => init.fill(stream, self.ci, params, self.co),
        }
    }

    fn flops(&self) -> Flops {
        let product = 2.0 * self.ci as f64 * self.co as f64;
        Flops {
            forward: product,
            grad_params: product,
            grad_input: product,
        }
    }

    fn takes_bytes(&self) -> bool {
        linear::takes_bytes(self.geometry(1))
    }

    fn forward(
        &mut self,
        pass: Pass,
        params: &[f32],
        x: Input,
        y: &mut [f32],
        _scratch: &mut Scratch,
    ) {
        let (w, b) = params.split_at(self.ci * self.co);
        linear::forward(self.geometry(pass.n), x, w, b, y);
    }

    fn grad_params(
        &mut self,
        pass: Pass,
        work: &Backward,
        grads: &mut [f32],
        _scratch: &mut Scratch,
    ) {
        let (dw, db) = grads.split_at_mut(self.ci * self.co);
        linear::grad_params(self.geometry(pass.n), work.x, work.dy, dw, db);
    }

    fn grad_input(&mut self, pass: Pass, work: &Backward, dx: &mut [f32], _scratch: &mut Scratch) {
        let w = &work.params[..self.ci * self.co];
        linear::grad_input(self.geometry(pass.n), work.dy, w, dx);
    }

    fn on_device(&mut self) -> &mut dyn DeviceLayer {
        self
    }
}

impl DeviceLayer for Linear {
    fn most(&self) -> usize {
        cuda::linear::MOST
    }

    fn scratch(&self, n: usize) -> usize {
        cuda::linear::scratch(self.geometry(n))
    }

    fn forward(
        &mut self,
        pass: device::Pass,
        params: View<f32>,
        x: View<f32>,
        y: ViewMut<f32>,
        scratch: ViewMut<f32>,
    ) -> Result<()> {
        let (w, b) = params.split_at(self.ci * self.co);
        if let Some(blas) = pass.blas {
            let (m, n, k) = (pass.n, self.co, self.ci);
            let mut y = y;
            let stored = [Stored::Plain, Stored::Turned];
            blas.product(product((m, n, k), stored), x, w, y.again())?;
            return cuda::bias::add(pass.stream, 1, b, y);
        }
        cuda::linear::forward(pass.stream, self.geometry(pass.n), x, w, b, y, scratch)
    }

    fn grad_params(
        &mut self,
        pass: device::Pass,
        work: &device::Backward,
        grads: ViewMut<f32>,
        scratch: ViewMut<f32>,
    ) -> Result<()> {
        let (dw, db) = grads.split_at(self.ci * self.co);
        if let Some(blas) = pass.blas.filter(|_| pass.n > 0) {
            let (m, n, k) = (self.co, self.ci, pass.n);
            let stored = [Stored::Turned, Stored::Plain];
            blas.product(product((m, n, k), stored), work.dy, work.x, dw)?;
            return cuda::bias::grad(pass.stream, 1, work.dy, db);
        }
        let g = self.geometry(pass.n);
        cuda::linear::grad_params(pass.stream, g, work.x, work.dy, dw, db, scratch)
    }

    fn grad_input(
        &mut self,
        pass: device::Pass,
        work: &device::Backward,
        dx: ViewMut<f32>,
        scratch: ViewMut<f32>,
    ) -> Result<()> {
        let w = work.params.part(0..self.ci * self.co);
        if let Some(blas) = pass.blas {
            let (m, n, k) = (pass.n, self.ci, self.co);
            return blas.product(product((m, n, k), [Stored::Plain; 2]), work.dy, w, dx);
        }
        cuda::linear::grad_input(pass.stream, self.geometry(pass.n), work.dy, w, dx, scratch)
    }
}

/// A product for cuBLAS.
fn product((m, n, k): (usize, usize, usize), stored: [Stored; 2]) -> Product {
    Product {
        m,
        n,
        k,
        stored,
        add: false,
    }
}
