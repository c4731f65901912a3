//! 3 × 3 kernels of stride 1 after Winograd, F(4×4, 3×3): 36 products for 16 pixels instead of 144.
//!
//! With tiles `d: (6, 6)` of the input that overlap by two, and kernels `k: (3, 3)`,
//! `y = Aᵀ[(G·k·Gᵀ) ⊙ (Bᵀ·d·B)]A`, summed over input channels before Aᵀ. That sum is a product of matrices for each of
//! the 36 places: `(co, ci) · (ci, tiles)`. Images that are no multiple of 4 waste part of their last tiles.
//! Backward, the input's gradient is the same with the kernel turned round, the weights' gradient the transpose:
//! `dk = Gᵀ[(A·dy·Aᵀ) ⊙ (Bᵀ·d·B)]G`.
//! Rounding errors grow by the constants of the transforms: 1e-5 of the largest value where plain sums have 1e-6.

use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2};

use super::transform::{AT, BT, EDGE, G, Lanes, OUT, WIDTH, fastest, sandwich, transposed};
use super::{Geometry, Pass};

/// Places of a tile.
const PLACES: usize = EDGE * EDGE;

/// Tiles of a block: enough for BLAS to be fast, few enough for the last-level cache.
const BLOCK: usize = 128;

/// Whether this method can do this pass.
pub(super) fn can(g: &Geometry, pass: Pass) -> bool {
    let fits = pass != Pass::GradInput || g.pad <= 2;
    (g.kh, g.kw, g.stride) == (3, 3, 1) && fits
}

/// Floats needed by every pass.
pub(super) fn memory(g: &Geometry) -> usize {
    PLACES * (g.co * g.ci + (g.co + g.ci) * BLOCK)
}

/// Images whose tiles are transformed: `(n, channels, h, w)`, and where the first tile starts before them.
#[derive(Clone, Copy)]
struct Images {
    channels: usize,
    h: usize,
    w: usize,
    before: usize,
    /// Tiles of an image, down and across.
    tiles: (usize, usize),
}

impl Images {
    /// Images from which or to which tiles of an output of `oh × ow` are taken.
    fn new(shape: (usize, usize, usize), before: usize, (oh, ow): (usize, usize)) -> Self {
        Self {
            channels: shape.0,
            h: shape.1,
            w: shape.2,
            before,
            tiles: (oh.div_ceil(OUT), ow.div_ceil(OUT)),
        }
    }

    /// Sample, and the row and column before whose `before`-th the tile starts.
    fn locate(&self, tile: usize) -> (usize, usize, usize) {
        let (line, column) = (tile / self.tiles.1, tile % self.tiles.1);
        let (sample, row) = (line / self.tiles.0, line % self.tiles.0);
        (sample, row * OUT, column * OUT)
    }

    /// Where row `i` of a tile lies in a channel: the first place, and the columns of the tile that are in the image.
    #[inline(always)]
    fn row(&self, (sample, row, column): (usize, usize, usize), c: usize, i: usize) -> Row {
        let line = (row + i).wrapping_sub(self.before);
        if line >= self.h {
            return Row {
                start: 0,
                skip: 0,
                end: 0,
            };
        }
        let skip = self.before.saturating_sub(column);
        let end = (self.w + self.before).saturating_sub(column);
        let start =
            ((sample * self.channels + c) * self.h + line) * self.w + column + skip - self.before;
        Row { start, skip, end }
    }
}

/// Columns `skip..end` of a row of a tile lie in the image, from `start` on.
struct Row {
    start: usize,
    skip: usize,
    end: usize,
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
    let (kernels, rest) = scratch.split_at_mut(PLACES * g.co * g.ci);
    fastest(|| transform_kernels(g.co, g.ci, kernels, |o, c, k| w[(o * g.ci + c) * 9 + k]));
    multiply((&from, x), kernels, b, (&to, y), rest);
}

/// `dx = dy ∗ w`, with the kernel turned round and the rest of the padding.
pub(super) fn grad_input(g: &Geometry, dy: &[f32], w: &[f32], dx: &mut [f32], scratch: &mut [f32]) {
    let from = Images::new((g.co, g.oh(), g.ow()), 2 - g.pad, (g.h, g.w));
    let to = Images::new((g.ci, g.h, g.w), 0, (g.h, g.w));
    let (kernels, rest) = scratch.split_at_mut(PLACES * g.co * g.ci);
    fastest(|| transform_kernels(g.ci, g.co, kernels, |c, o, k| w[(o * g.ci + c) * 9 + 8 - k]));
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
    let all = dy.len() / g.outputs() * to.tiles.0 * to.tiles.1;
    let (sums, rest) = scratch.split_at_mut(PLACES * g.co * g.ci);
    for first in (0..all).step_by(BLOCK) {
        let tiles = BLOCK.min(all - first);
        let (inputs, grads) = rest.split_at_mut(PLACES * g.ci * tiles);
        let grads = &mut grads[..PLACES * g.co * tiles];
        fastest(|| transform_tiles(&from, &BT, x, (first, tiles), inputs));
        fastest(|| transform_tiles(&to, &transposed(&AT), dy, (first, tiles), grads));
        let keep = if first == 0 { 0.0 } else { 1.0 };
        for place in 0..PLACES {
            let grads = matrix(grads, place, g.co, tiles);
            let inputs = matrix(inputs, place, g.ci, tiles);
            let mut sums = matrix_mut(sums, place, g.co, g.ci);
            general_mat_mul(1.0, &grads, &inputs.t(), keep, &mut sums);
        }
    }
    fastest(|| restore_kernels(sums, dw));
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
    let all = y.len() / (co * to.h * to.w) * to.tiles.0 * to.tiles.1;
    for first in (0..all).step_by(BLOCK) {
        let tiles = BLOCK.min(all - first);
        let (inputs, sums) = scratch.split_at_mut(PLACES * ci * tiles);
        let sums = &mut sums[..PLACES * co * tiles];
        fastest(|| transform_tiles(from, &BT, x, (first, tiles), inputs));
        for place in 0..PLACES {
            let kernels = matrix(kernels, place, co, ci);
            let inputs = matrix(inputs, place, ci, tiles);
            let mut sums = matrix_mut(sums, place, co, tiles);
            general_mat_mul(1.0, &kernels, &inputs, 0.0, &mut sums);
        }
        fastest(|| restore_tiles(to, sums, biases, (first, tiles), y));
    }
}

/// `to: (36, outputs, inputs)` from the kernels `G·k·Gᵀ`.
#[inline(always)]
fn transform_kernels(
    outputs: usize,
    inputs: usize,
    to: &mut [f32],
    weight: impl Fn(usize, usize, usize) -> f32,
) {
    for o in 0..outputs {
        for c in (0..inputs).step_by(WIDTH) {
            let count = WIDTH.min(inputs - c);
            let mut kernel: [[Lanes; 3]; 3] = Default::default();
            for k in 0..9 {
                for lane in 0..count {
                    kernel[k / 3][k % 3][lane] = weight(o, c + lane, k);
                }
            }
            let values = sandwich(&G, &kernel);
            for (place, values) in values.as_flattened().iter().enumerate() {
                let at = (place * outputs + o) * inputs + c;
                to[at..at + count].copy_from_slice(&values[..count]);
            }
        }
    }
}

/// The weights' gradient `Gᵀ·u·G` from `sums: (36, co, ci)`.
#[inline(always)]
fn restore_kernels(sums: &[f32], dw: &mut [f32]) {
    let all = dw.len() / 9;
    for first in (0..all).step_by(WIDTH) {
        let count = WIDTH.min(all - first);
        let mut values: [[Lanes; EDGE]; EDGE] = Default::default();
        for (place, values) in values.as_flattened_mut().iter_mut().enumerate() {
            values[..count].copy_from_slice(&sums[place * all + first..][..count]);
        }
        let kernel = sandwich(&transposed(&G), &values);
        for (k, values) in kernel.as_flattened().iter().enumerate() {
            for lane in 0..count {
                dw[(first + lane) * 9 + k] = values[lane];
            }
        }
    }
}

/// `to: (36, channels, tiles)` from tiles of S × S, `l·d·lᵀ`.
#[inline(always)]
fn transform_tiles<const S: usize>(
    images: &Images,
    l: &[[f32; S]; EDGE],
    x: &[f32],
    (first, tiles): (usize, usize),
    to: &mut [f32],
) {
    for t in (0..tiles).step_by(WIDTH) {
        let count = WIDTH.min(tiles - t);
        let tile: [_; WIDTH] =
            std::array::from_fn(|lane| images.locate(first + t + lane.min(count - 1)));
        for c in 0..images.channels {
            let mut values = [[[0.0; WIDTH]; S]; S];
            for (lane, tile) in tile.iter().enumerate() {
                for (i, values) in values.iter_mut().enumerate() {
                    let row = images.row(*tile, c, i);
                    if row.skip == 0 && row.end >= S {
                        let x = &x[row.start..row.start + S];
                        (0..S).for_each(|j| values[j][lane] = x[j]);
                        continue;
                    }
                    for j in row.skip..row.end.min(S) {
                        values[j][lane] = x[row.start + j - row.skip];
                    }
                }
            }
            let values = sandwich(l, &values);
            for (place, values) in values.as_flattened().iter().enumerate() {
                let at = (place * images.channels + c) * tiles + t;
                to[at..at + count].copy_from_slice(&values[..count]);
            }
        }
    }
}

/// The output's pixels `Aᵀ·m·A + b` from `sums: (36, channels, tiles)`.
#[inline(always)]
fn restore_tiles(
    images: &Images,
    sums: &[f32],
    biases: &[f32],
    (first, tiles): (usize, usize),
    y: &mut [f32],
) {
    for t in (0..tiles).step_by(WIDTH) {
        let count = WIDTH.min(tiles - t);
        for c in 0..images.channels {
            let bias = biases.get(c).copied().unwrap_or(0.0);
            let mut values: [[Lanes; EDGE]; EDGE] = Default::default();
            for (place, values) in values.as_flattened_mut().iter_mut().enumerate() {
                let at = (place * images.channels + c) * tiles + t;
                values[..count].copy_from_slice(&sums[at..at + count]);
            }
            let values = sandwich(&AT, &values);
            for lane in 0..count {
                let tile = images.locate(first + t + lane);
                for (i, values) in values.iter().enumerate() {
                    let row = images.row(tile, c, i);
                    let y = &mut y[row.start..row.start + row.end.min(OUT)];
                    y.iter_mut()
                        .zip(values)
                        .for_each(|(y, v)| *y = v[lane] + bias);
                }
            }
        }
    }
}

/// The matrix of one place.
fn matrix(values: &[f32], place: usize, rows: usize, columns: usize) -> ArrayView2<'_, f32> {
    let values = &values[place * rows * columns..][..rows * columns];
    ArrayView2::from_shape((rows, columns), values).expect("the slice has the matrix's size")
}

fn matrix_mut(
    values: &mut [f32],
    place: usize,
    rows: usize,
    columns: usize,
) -> ArrayViewMut2<'_, f32> {
    let values = &mut values[place * rows * columns..][..rows * columns];
    ArrayViewMut2::from_shape((rows, columns), values).expect("the slice has the matrix's size")
}
