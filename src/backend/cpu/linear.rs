//! Fully connected layer: `y = x·wᵀ + b`, with `x: (n, ci)`, `w: (co, ci)`, `y: (n, co)`.
//!
//! Cost of each product: 2·n·ci·co FLOP. Few outputs go to the own kernels in `narrow`, the rest to BLAS.

use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2};

use super::{Input, narrow};

/// Sizes of one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Samples.
    pub n: usize,
    /// Inputs.
    pub ci: usize,
    /// Outputs.
    pub co: usize,
}

/// Whether a layer of this geometry takes bytes as they are.
pub fn takes_bytes(g: Geometry) -> bool {
    narrow::suits(g)
}

/// `y = x·wᵀ + b`.
pub fn forward(g: Geometry, x: Input, w: &[f32], b: &[f32], y: &mut [f32]) {
    if g.n == 0 {
        return;
    }
    if narrow::suits(g) {
        return narrow::forward(g, x, w, b, y);
    }
    y.chunks_exact_mut(g.co)
        .for_each(|row| row.copy_from_slice(b));
    general_mat_mul(
        1.0,
        &matrix(x.floats(), g.n, g.ci),
        &matrix(w, g.co, g.ci).t(),
        1.0,
        &mut matrix_mut(y, g.n, g.co),
    );
}

/// `dw = dyᵀ·x`, `db = Σ dy` over samples.
pub fn grad_params(g: Geometry, x: Input, dy: &[f32], dw: &mut [f32], db: &mut [f32]) {
    db.fill(0.0);
    for row in dy.chunks_exact(g.co) {
        db.iter_mut().zip(row).for_each(|(db, dy)| *db += dy);
    }
    if g.n == 0 {
        return dw.fill(0.0);
    }
    if narrow::suits(g) {
        return narrow::grad_weights(g, x, dy, db, dw);
    }
    general_mat_mul(
        1.0,
        &matrix(dy, g.n, g.co).t(),
        &matrix(x.floats(), g.n, g.ci),
        0.0,
        &mut matrix_mut(dw, g.co, g.ci),
    );
}

/// `dx = dy·w`.
pub fn grad_input(g: Geometry, dy: &[f32], w: &[f32], dx: &mut [f32]) {
    if g.n == 0 {
        return;
    }
    general_mat_mul(
        1.0,
        &matrix(dy, g.n, g.co),
        &matrix(w, g.co, g.ci),
        0.0,
        &mut matrix_mut(dx, g.n, g.ci),
    );
}

fn matrix(values: &[f32], rows: usize, columns: usize) -> ArrayView2<'_, f32> {
    ArrayView2::from_shape((rows, columns), values).expect("buffers have the geometry's sizes")
}

fn matrix_mut(values: &mut [f32], rows: usize, columns: usize) -> ArrayViewMut2<'_, f32> {
    ArrayViewMut2::from_shape((rows, columns), values).expect("buffers have the geometry's sizes")
}
