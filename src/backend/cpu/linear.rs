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

#[cfg(test)]
mod tests {
    use super::super::with_each_set;
    use super::*;

    #[test]
    fn layers_equal_plain_sums_with_every_set_of_instructions() {
        with_each_set(|isa| {
            for (n, ci, co) in [
                (1, 16, 1),
                (3, 17, 4),
                (5, 31, 5),
                (2, 33, 8),
                (7, 84, 10),
                (4, 100, 20),
            ] {
                let g = Geometry { n, ci, co };
                let value = |i: usize, step: usize| (i * step % 23) as f32 / 8.0 - 1.25;
                let bytes: Vec<u8> = (0..n * ci).map(|i| (i * 37 % 256) as u8).collect();
                let w: Vec<f32> = (0..co * ci).map(|i| value(i, 7)).collect();
                let b: Vec<f32> = (0..co).map(|i| value(i, 5)).collect();
                let dy: Vec<f32> = (0..n * co).map(|i| value(i, 11)).collect();
                let x: Vec<f32> = bytes.iter().map(|&b| f32::from(b) * 0.01 - 0.5).collect();
                let raw = Input::Bytes {
                    pixels: &bytes,
                    factor: 0.01,
                    shift: -0.5,
                };
                let inputs = [Some(Input::Floats(&x)), takes_bytes(g).then_some(raw)];
                for input in inputs.into_iter().flatten() {
                    let (mut y, mut dw, mut db) = (
                        vec![f32::NAN; n * co],
                        vec![f32::NAN; co * ci],
                        vec![f32::NAN; co],
                    );
                    forward(g, input, &w, &b, &mut y);
                    grad_params(g, input, &dy, &mut dw, &mut db);
                    for (i, y) in y.iter().enumerate() {
                        let (s, o) = (i / co, i % co);
                        let sum: f64 = (0..ci)
                            .map(|c| f64::from(x[s * ci + c]) * f64::from(w[o * ci + c]))
                            .sum();
                        let truth = sum + f64::from(b[o]);
                        assert!(
                            (f64::from(*y) - truth).abs() < 2e-4,
                            "{isa} {g:?} {i}: {y} {truth}"
                        );
                    }
                    for (i, dw) in dw.iter().enumerate() {
                        let (o, c) = (i / ci, i % ci);
                        let truth: f64 = (0..n)
                            .map(|s| f64::from(dy[s * co + o]) * f64::from(x[s * ci + c]))
                            .sum();
                        assert!(
                            (f64::from(*dw) - truth).abs() < 2e-5,
                            "{isa} {g:?} {i}: {dw} {truth}"
                        );
                    }
                }
            }
        });
    }
}
