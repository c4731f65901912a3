//! 3 × 3 kernels of stride 1 after Winograd, F(4×4, 3×3): 36 products for 16 pixels instead of 144.
//!
//! With tiles `d: (6, 6)` of the input that overlap by two, and kernels `k: (3, 3)`,
//! `y = Aᵀ[(G·k·Gᵀ) ⊙ (Bᵀ·d·B)]A`, summed over input channels before Aᵀ. That sum is a product of matrices for each of
//! the 36 places: `(co, ci) · (ci, tiles)`. Images that are no multiple of 4 waste part of their last tiles.
//! Backward, the input's gradient is the same with the kernel turned round, the weights' gradient the transpose:
//! `dk = Gᵀ[(A·dy·Aᵀ) ⊙ (Bᵀ·d·B)]G`.
//! Rounding errors grow by the constants of the transforms: below 1e-5 of the largest value where plain sums have 1e-6.

mod kernels;
mod matrices;
mod tiles;

use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2, s};

use self::kernels::Kernels;
use super::{Geometry, Pass};
use matrices::{EDGE, WIDTH, fastest};
use tiles::{Images, Tiles};

/// Places of a tile.
const PLACES: usize = EDGE * EDGE;

/// Tiles of a block: enough for BLAS to be fast, few enough for the last-level cache.
const BLOCK: usize = 128;

/// Floats from one place's matrix to the next: a cache line more than it has, since at a power of two all places
/// would fall on the same lines of the cache.
fn apart(rows: usize, columns: usize) -> usize {
    (rows * padded(columns)).next_multiple_of(16) + 16
}

/// Floats from one row of a matrix to the next: whole vectors, so that no column needs special care.
fn padded(columns: usize) -> usize {
    columns.next_multiple_of(WIDTH)
}

/// Whether this method can do this pass.
pub(super) fn can(g: &Geometry, pass: Pass) -> bool {
    let fits = pass != Pass::GradInput || g.pad <= 2;
    (g.kh, g.kw, g.stride) == (3, 3, 1) && fits
}

/// Floats needed by every pass.
pub(super) fn memory(g: &Geometry) -> usize {
    let kernels = apart(g.co, g.ci).max(apart(g.ci, g.co));
    PLACES * (kernels + apart(g.co, BLOCK) + apart(g.ci, BLOCK))
}

/// `y = x ∗ w + b`.
pub(super) fn forward(
    g: &Geometry,
    x: &[f32],
    w: &[f32],
    b: &[f32],
    y: &mut [f32],
    scratch: &mut [f32],
) {
    let out = (g.oh(), g.ow());
    let from = Images::new((g.ci, g.h, g.w), g.pad, out);
    let to = Images::new((g.co, out.0, out.1), 0, out);
    let (kernels, rest) = scratch.split_at_mut(PLACES * apart(g.co, g.ci));
    let weights = Kernels {
        w,
        shape: (g.co, g.ci),
        strides: (9 * g.ci, 9),
        turned: false,
    };
    fastest(kernels::Transform(weights, kernels));
    multiply((&from, x), kernels, b, (&to, y), rest);
}

/// `dx = dy ∗ w`, with the kernel turned round and the rest of the padding.
pub(super) fn grad_input(g: &Geometry, dy: &[f32], w: &[f32], dx: &mut [f32], scratch: &mut [f32]) {
    let from = Images::new((g.co, g.oh(), g.ow()), 2 - g.pad, (g.h, g.w));
    let to = Images::new((g.ci, g.h, g.w), 0, (g.h, g.w));
    let (kernels, rest) = scratch.split_at_mut(PLACES * apart(g.ci, g.co));
    let weights = Kernels {
        w,
        shape: (g.ci, g.co),
        strides: (9, 9 * g.ci),
        turned: true,
    };
    fastest(kernels::Transform(weights, kernels));
    multiply((&from, dy), kernels, &[], (&to, dx), rest);
}

/// `dw`, summed over blocks before it is transformed back.
pub(super) fn grad_weights(
    g: &Geometry,
    x: &[f32],
    dy: &[f32],
    dw: &mut [f32],
    scratch: &mut [f32],
) {
    let out = (g.oh(), g.ow());
    let from = Images::new((g.ci, g.h, g.w), g.pad, out);
    let to = Images::new((g.co, out.0, out.1), 0, out);
    let all = dy.len() / g.outputs() * to.area();
    let (sums, rest) = scratch.split_at_mut(PLACES * apart(g.co, g.ci));
    for first in (0..all).step_by(BLOCK) {
        let tiles = BLOCK.min(all - first);
        let (inputs, grads) = rest.split_at_mut(PLACES * apart(g.ci, tiles));
        let part = Tiles {
            images: from,
            first,
            count: tiles,
        };
        fastest(tiles::TransformInputs(part, x, inputs));
        let part = Tiles { images: to, ..part };
        fastest(tiles::TransformGrads(part, dy, grads));
        let keep = if first == 0 { 0.0 } else { 1.0 };
        for place in 0..PLACES {
            let grads = matrix(grads, place, g.co, tiles);
            let inputs = matrix(inputs, place, g.ci, tiles);
            let mut sums = matrix_mut(sums, place, g.co, g.ci);
            general_mat_mul(1.0, &grads, &inputs.t(), keep, &mut sums);
        }
    }
    let shape = (g.co, g.ci);
    fastest(kernels::Restore { shape, sums, dw });
}

/// Blocks of tiles through transform, products and transform back; no biases stand for zeros.
fn multiply(
    (from, x): (&Images, &[f32]),
    kernels: &[f32],
    biases: &[f32],
    (to, y): (&Images, &mut [f32]),
    scratch: &mut [f32],
) {
    let (ci, co) = (from.channels, to.channels);
    let all = y.len() / (co * to.h * to.w) * to.area();
    for first in (0..all).step_by(BLOCK) {
        let tiles = BLOCK.min(all - first);
        let (inputs, sums) = scratch.split_at_mut(PLACES * apart(ci, tiles));
        let part = Tiles {
            images: *from,
            first,
            count: tiles,
        };
        fastest(tiles::TransformInputs(part, x, inputs));
        for place in 0..PLACES {
            let kernels = matrix(kernels, place, co, ci);
            let inputs = matrix(inputs, place, ci, tiles);
            let mut sums = matrix_mut(sums, place, co, tiles);
            general_mat_mul(1.0, &kernels, &inputs, 0.0, &mut sums);
        }
        let part = Tiles {
            images: *to,
            ..part
        };
        fastest(tiles::RestoreOutputs {
            tiles: part,
            sums,
            biases,
            y,
        });
    }
}

/// The matrix of one place.
fn matrix(values: &[f32], place: usize, rows: usize, columns: usize) -> ArrayView2<'_, f32> {
    let line = padded(columns);
    let values = &values[place * apart(rows, columns)..][..rows * line];
    ArrayView2::from_shape((rows, line), values)
        .expect("the slice has the matrix's size")
        .slice_move(s![.., ..columns])
}

fn matrix_mut(
    values: &mut [f32],
    place: usize,
    rows: usize,
    columns: usize,
) -> ArrayViewMut2<'_, f32> {
    let line = padded(columns);
    let values = &mut values[place * apart(rows, columns)..][..rows * line];
    ArrayViewMut2::from_shape((rows, line), values)
        .expect("the slice has the matrix's size")
        .slice_move(s![.., ..columns])
}
