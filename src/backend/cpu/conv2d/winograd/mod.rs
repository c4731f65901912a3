//! 3 × 3 and 5 × 5 kernels of stride 1 after Winograd, F(4×4, K×K): (K + 3)² products for 16 pixels instead of 16·K²,
//! which is 36 instead of 144 and 64 instead of 400.
//!
//! With tiles `d: (E, E)` of the input, E = K + 3, that overlap by K − 1, and kernels `k: (K, K)`,
//! `y = Aᵀ[(G·k·Gᵀ) ⊙ (B·d·Bᵀ)]A`, summed over input channels before Aᵀ. That sum is a product of matrices for each of
//! the E² places: `(co, ci) · (ci, tiles)`. Images that are no multiple of 4 waste part of their last tiles.
//! Backward, the input's gradient is the same with the kernel turned round, the weights' gradient the transpose:
//! `dk = Gᵀ[(A·dy·Aᵀ) ⊙ (B·d·Bᵀ)]G`.
//! Rounding errors grow by the constants of the transforms: to about 1e-5 of the largest value where plain sums have 1e-6.

mod kernels;
mod lanes;
mod matrices;
#[cfg(target_arch = "x86_64")]
mod sixteen;
mod tiles;
#[cfg(target_arch = "x86_64")]
mod turn;

use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2, s};

use self::kernels::Kernels;
#[cfg(target_arch = "x86_64")]
use super::super::isa::{Avx512, Vectors};
use super::super::{Isa, Work, isa, wide};
use super::{Geometry, Pass};
use lanes::MOST_LANES;
use matrices::Scheme;
#[cfg(target_arch = "x86_64")]
use sixteen::Register;
use tiles::{Images, Tiles};

/// For 3 × 3 kernels.
type Three = Scheme<6, 4, 3>;

/// For 5 × 5 kernels.
type Five = Scheme<8, 4, 5>;

/// The most tiles of a block.
const MOST: usize = 256;

/// Floats from one place's matrix to the next: a cache line more than it has, since at a power of two all places
/// would fall on the same lines of the cache.
fn apart(rows: usize, columns: usize) -> usize {
    (rows * padded(columns)).next_multiple_of(16) + 16
}

/// Floats from one row of a matrix to the next: whole vectors, so that no column needs special care.
fn padded(columns: usize) -> usize {
    columns.next_multiple_of(MOST_LANES)
}

/// Whether this method can do this pass.
pub(super) fn can(g: &Geometry, pass: Pass) -> bool {
    let fits = pass != Pass::GradInput || g.pad < g.kh;
    matches!((g.kh, g.kw, g.stride), (3, 3, 1) | (5, 5, 1)) && fits
}

/// Floats needed by every pass.
pub(super) fn memory(g: &Geometry) -> usize {
    match g.kh {
        3 => Three::memory(g),
        _ => Five::memory(g),
    }
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
    match g.kh {
        3 => Three::forward(g, x, w, b, y, scratch),
        _ => Five::forward(g, x, w, b, y, scratch),
    }
}

/// `dx = dy ∗ w`, with the kernel turned round and the rest of the padding.
pub(super) fn grad_input(g: &Geometry, dy: &[f32], w: &[f32], dx: &mut [f32], scratch: &mut [f32]) {
    match g.kh {
        3 => Three::grad_input(g, dy, w, dx, scratch),
        _ => Five::grad_input(g, dy, w, dx, scratch),
    }
}

/// `dw`, summed over blocks before it is transformed back.
pub(super) fn grad_weights(
    g: &Geometry,
    x: &[f32],
    dy: &[f32],
    dw: &mut [f32],
    scratch: &mut [f32],
) {
    match g.kh {
        3 => Three::grad_weights(g, x, dy, dw, scratch),
        _ => Five::grad_weights(g, x, dy, dw, scratch),
    }
}

impl<const E: usize, const O: usize, const K: usize> Scheme<E, O, K> {
    /// Places of a tile.
    const PLACES: usize = E * E;

    /// Tiles of a block: enough for BLAS to be fast, few enough for the last-level cache. Measured on AlexNet.
    const BLOCK: usize = if K == 3 { MOST } else { MOST / 2 };

    fn memory(g: &Geometry) -> usize {
        let kernels = apart(g.co, g.ci).max(apart(g.ci, g.co));
        Self::PLACES * (kernels + apart(g.co, Self::BLOCK) + apart(g.ci, Self::BLOCK))
    }

    fn forward(g: &Geometry, x: &[f32], w: &[f32], b: &[f32], y: &mut [f32], scratch: &mut [f32]) {
        let out = (g.oh(), g.ow());
        let from = Images::new((g.ci, g.h, g.w), g.pad, out, O);
        let to = Images::new((g.co, out.0, out.1), 0, out, O);
        let (kernels, rest) = scratch.split_at_mut(Self::PLACES * apart(g.co, g.ci));
        let weights = Kernels {
            w,
            shape: (g.co, g.ci),
            strides: (K * K * g.ci, K * K),
            turned: false,
        };
        Self::transform_kernels(weights, kernels);
        Self::multiply((&from, x), kernels, b, (&to, y), rest);
    }

    fn grad_input(g: &Geometry, dy: &[f32], w: &[f32], dx: &mut [f32], scratch: &mut [f32]) {
        let from = Images::new((g.co, g.oh(), g.ow()), K - 1 - g.pad, (g.h, g.w), O);
        let to = Images::new((g.ci, g.h, g.w), 0, (g.h, g.w), O);
        let (kernels, rest) = scratch.split_at_mut(Self::PLACES * apart(g.ci, g.co));
        let weights = Kernels {
            w,
            shape: (g.ci, g.co),
            strides: (K * K, K * K * g.ci),
            turned: true,
        };
        Self::transform_kernels(weights, kernels);
        Self::multiply((&from, dy), kernels, &[], (&to, dx), rest);
    }

    fn grad_weights(g: &Geometry, x: &[f32], dy: &[f32], dw: &mut [f32], scratch: &mut [f32]) {
        let out = (g.oh(), g.ow());
        let from = Images::new((g.ci, g.h, g.w), g.pad, out, O);
        let to = Images::new((g.co, out.0, out.1), 0, out, O);
        let all = dy.len() / g.outputs() * to.area();
        let (sums, rest) = scratch.split_at_mut(Self::PLACES * apart(g.co, g.ci));
        for first in (0..all).step_by(Self::BLOCK) {
            let tiles = Self::BLOCK.min(all - first);
            let (inputs, grads) = rest.split_at_mut(Self::PLACES * apart(g.ci, tiles));
            let part = Tiles {
                images: from,
                first,
                count: tiles,
            };
            Self::transform_inputs(part, x, inputs);
            let part = Tiles { images: to, ..part };
            Self::transform_grads(part, dy, grads);
            let keep = if first == 0 { 0.0 } else { 1.0 };
            for place in 0..Self::PLACES {
                let grads = matrix(grads, place, g.co, tiles);
                let inputs = matrix(inputs, place, g.ci, tiles);
                let mut sums = matrix_mut(sums, place, g.co, g.ci);
                general_mat_mul(1.0, &grads, &inputs.t(), keep, &mut sums);
            }
        }
        let shape = (g.co, g.ci);
        Self::restore_kernels(shape, sums, dw);
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
        for first in (0..all).step_by(Self::BLOCK) {
            let tiles = Self::BLOCK.min(all - first);
            let (inputs, sums) = scratch.split_at_mut(Self::PLACES * apart(ci, tiles));
            let part = Tiles {
                images: *from,
                first,
                count: tiles,
            };
            Self::transform_inputs(part, x, inputs);
            for place in 0..Self::PLACES {
                let kernels = matrix(kernels, place, co, ci);
                let inputs = matrix(inputs, place, ci, tiles);
                let mut sums = matrix_mut(sums, place, co, tiles);
                general_mat_mul(1.0, &kernels, &inputs, 0.0, &mut sums);
            }
            let part = Tiles {
                images: *to,
                ..part
            };
            Self::restore_outputs(part, (sums, biases), y);
        }
    }
}

/// Each transform by the widest vectors.
impl<const E: usize, const O: usize, const K: usize> Scheme<E, O, K> {
    fn transform_kernels(weights: Kernels, to: &mut [f32]) {
        #[cfg(target_arch = "x86_64")]
        if let Some(set) = Avx512::here() {
            return set.run(kernels::Transform::<Register, E, O, K>(set, weights, to));
        }
        wide(kernels::Transform::<[f32; 8], E, O, K>(isa(), weights, to));
    }

    fn transform_inputs(part: Tiles, x: &[f32], to: &mut [f32]) {
        #[cfg(target_arch = "x86_64")]
        if let Some(set) = Avx512::here() {
            return set.run(tiles::TransformInputs::<Register, E, O, K>(
                set, part, x, to,
            ));
        }
        wide(tiles::TransformInputs::<[f32; 8], E, O, K>(
            isa(),
            part,
            x,
            to,
        ));
    }

    fn transform_grads(part: Tiles, dy: &[f32], to: &mut [f32]) {
        #[cfg(target_arch = "x86_64")]
        if let Some(set) = Avx512::here() {
            return set.run(tiles::TransformGrads::<Register, E, O, K>(
                set, part, dy, to,
            ));
        }
        wide(tiles::TransformGrads::<[f32; 8], E, O, K>(
            isa(),
            part,
            dy,
            to,
        ));
    }

    fn restore_kernels(shape: (usize, usize), sums: &[f32], dw: &mut [f32]) {
        #[cfg(target_arch = "x86_64")]
        if let Some(set) = Avx512::here() {
            return set.run(kernels::Restore::<Register, E, O, K> {
                set,
                shape,
                sums,
                dw,
            });
        }
        wide(kernels::Restore::<[f32; 8], E, O, K> {
            set: isa(),
            shape,
            sums,
            dw,
        });
    }

    fn restore_outputs(tiles: Tiles, (sums, biases): (&[f32], &[f32]), y: &mut [f32]) {
        #[cfg(target_arch = "x86_64")]
        if let Some(set) = Avx512::here() {
            return set.run(tiles::RestoreOutputs::<Register, E, O, K> {
                set,
                tiles,
                sums,
                biases,
                y,
            });
        }
        wide(tiles::RestoreOutputs::<[f32; 8], E, O, K> {
            set: isa(),
            tiles,
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
