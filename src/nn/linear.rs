//! Fully connected layer.

use super::layer::{Backward, Layer};
use crate::backend::cpu::Input;
use crate::backend::cpu::linear::{self, Geometry};

/// `y = x·wᵀ + b`; weights start at zero, which is right for a layer that feeds softmax alone.
pub(super) struct Linear {
    pub(super) ci: usize,
    pub(super) co: usize,
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

    fn inputs(&self) -> usize {
        self.ci
    }

    fn outputs(&self) -> usize {
        self.co
    }

    fn tensors(&self) -> Vec<(&'static str, Vec<usize>)> {
        vec![("weight", vec![self.co, self.ci]), ("bias", vec![self.co])]
    }

    fn init(&self, _seed: u64, params: &mut [f32]) {
        params.fill(0.0);
    }

    fn flops(&self) -> (f64, f64, f64) {
        let product = 2.0 * self.ci as f64 * self.co as f64;
        (product, product, product)
    }

    fn takes_bytes(&self) -> bool {
        linear::takes_bytes(self.geometry(1))
    }

    fn forward(&self, n: usize, params: &[f32], x: Input, y: &mut [f32]) {
        let (w, b) = params.split_at(self.ci * self.co);
        linear::forward(self.geometry(n), x, w, b, y);
    }

    fn backward(&self, pass: Backward) {
        let g = self.geometry(pass.n);
        let (dw, db) = pass.grads.split_at_mut(self.ci * self.co);
        linear::grad_params(g, pass.x, pass.dy, dw, db);
        if let Some(dx) = pass.dx {
            linear::grad_input(g, pass.dy, &pass.params[..self.ci * self.co], dx);
        }
    }
}
