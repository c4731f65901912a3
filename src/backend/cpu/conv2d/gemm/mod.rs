//! Convolution as a product of matrices: patches become columns, block by block.
//!
//! A block is a range of the output pixels of the whole batch, so that small images share a product and large ones
//! are cut; `columns: (ci·kh·kw, block)`. It stays in the cache between packing and product. A 1 × 1 kernel of stride
//! 1 without padding finds its columns in the input itself.

mod columns;

use std::ops::Range;

use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2};

use super::Geometry;
use columns::{pack, unpack};

/// Floats of a block of columns.
const BLOCK: usize = 1 << 18;

/// Pixels of a block: below the lower bound BLAS spends its time on packing the weights, above the upper one nothing
/// is won.
fn block(g: &Geometry) -> usize {
    (BLOCK / g.taps()).clamp(128, 1024)
}

/// Floats needed by every pass.
pub(super) fn memory(g: &Geometry) -> usize {
    if is_product(g) {
        return 0;
    }
    (g.taps() + g.co) * block(g)
}

/// Whether a sample's input is its matrix of columns.
fn is_product(g: &Geometry) -> bool {
    (g.kh, g.kw, g.stride, g.pad) == (1, 1, 1, 0)
}

/// `y = w · columns + b`.
pub(super) fn forward(
    g: &Geometry,
    x: &[f32],
    w: &[f32],
    b: &[f32],
    y: &mut [f32],
    scratch: &mut [f32],
) {
    let w = matrix(w, g.co, g.taps());
    if is_product(g) {
        let samples = x.chunks_exact(g.inputs());
        for (x, y) in samples.zip(y.chunks_exact_mut(g.outputs())) {
            let planes = y.chunks_exact_mut(g.pixels());
            planes.zip(b).for_each(|(plane, b)| plane.fill(*b));
            let x = matrix(x, g.ci, g.pixels());
            general_mat_mul(1.0, &w, &x, 1.0, &mut matrix_mut(y, g.co, g.pixels()));
        }
        return;
    }
    for pixels in blocks(g, y.len()) {
        let q = pixels.len();
        let (columns, rest) = scratch.split_at_mut(g.taps() * q);
        let rows = &mut rest[..g.co * q];
        pack(g, x, pixels.clone(), columns);
        let columns = matrix(columns, g.taps(), q);
        general_mat_mul(1.0, &w, &columns, 0.0, &mut matrix_mut(rows, g.co, q));
        for (o, row) in rows.chunks_exact(q).enumerate() {
            for (at, place) in places(g, pixels.clone(), o) {
                let len = place.len();
                let out = &mut y[place];
                out.iter_mut()
                    .zip(&row[at..at + len])
                    .for_each(|(y, v)| *y = v + b[o]);
            }
        }
    }
}

/// `dw = Σ dy · columnsᵀ` over blocks.
pub(super) fn grad_weights(
    g: &Geometry,
    x: &[f32],
    dy: &[f32],
    dw: &mut [f32],
    scratch: &mut [f32],
) {
    let mut dw = matrix_mut(dw, g.co, g.taps());
    let mut keep = 0.0;
    if is_product(g) {
        let samples = x.chunks_exact(g.inputs());
        for (x, dy) in samples.zip(dy.chunks_exact(g.outputs())) {
            let (x, dy) = (matrix(x, g.ci, g.pixels()), matrix(dy, g.co, g.pixels()));
            general_mat_mul(1.0, &dy, &x.t(), keep, &mut dw);
            keep = 1.0;
        }
        return;
    }
    for pixels in blocks(g, dy.len()) {
        let q = pixels.len();
        let (columns, rest) = scratch.split_at_mut(g.taps() * q);
        let rows = &mut rest[..g.co * q];
        pack(g, x, pixels.clone(), columns);
        gather(g, dy, pixels, rows);
        let (rows, columns) = (matrix(rows, g.co, q), matrix(columns, g.taps(), q));
        general_mat_mul(1.0, &rows, &columns.t(), keep, &mut dw);
        keep = 1.0;
    }
}

/// `columns = wᵀ · dy`, added to the pixels of `dx` that they came from.
pub(super) fn grad_input(g: &Geometry, dy: &[f32], w: &[f32], dx: &mut [f32], scratch: &mut [f32]) {
    let w = matrix(w, g.co, g.taps());
    if is_product(g) {
        let samples = dy.chunks_exact(g.outputs());
        for (dy, dx) in samples.zip(dx.chunks_exact_mut(g.inputs())) {
            let dy = matrix(dy, g.co, g.pixels());
            let mut dx = matrix_mut(dx, g.ci, g.pixels());
            general_mat_mul(1.0, &w.t(), &dy, 0.0, &mut dx);
        }
        return;
    }
    dx.fill(0.0);
    for pixels in blocks(g, dy.len()) {
        let q = pixels.len();
        let (columns, rest) = scratch.split_at_mut(g.taps() * q);
        let rows = &mut rest[..g.co * q];
        gather(g, dy, pixels.clone(), rows);
        let rows = matrix(rows, g.co, q);
        general_mat_mul(
            1.0,
            &w.t(),
            &rows,
            0.0,
            &mut matrix_mut(columns, g.taps(), q),
        );
        unpack(g, columns, pixels, dx);
    }
}

/// The blocks of the pixels of an output of this length.
fn blocks(g: &Geometry, outputs: usize) -> impl Iterator<Item = Range<usize>> {
    let (all, step) = (outputs / g.co, block(g));
    (0..all)
        .step_by(step)
        .map(move |start| start..all.min(start + step))
}

/// Where the pixels of a block are in channel `o` of the output: from which pixel of the block, and the places.
fn places(
    g: &Geometry,
    pixels: Range<usize>,
    o: usize,
) -> impl Iterator<Item = (usize, Range<usize>)> {
    let (plane, co) = (g.pixels(), g.co);
    (pixels.start / plane..pixels.end.div_ceil(plane)).map(move |sample| {
        let from = pixels.start.max(sample * plane);
        let to = pixels.end.min((sample + 1) * plane);
        let shift = (sample * co + o) * plane;
        let place = shift + from - sample * plane..shift + to - sample * plane;
        (from - pixels.start, place)
    })
}

/// `rows: (co, block)` from the output's gradient.
fn gather(g: &Geometry, dy: &[f32], pixels: Range<usize>, rows: &mut [f32]) {
    for (o, row) in rows.chunks_exact_mut(pixels.len()).enumerate() {
        for (at, place) in places(g, pixels.clone(), o) {
            row[at..at + place.len()].copy_from_slice(&dy[place]);
        }
    }
}

fn matrix(values: &[f32], rows: usize, columns: usize) -> ArrayView2<'_, f32> {
    ArrayView2::from_shape((rows, columns), values).expect("buffers have the geometry's sizes")
}

fn matrix_mut(values: &mut [f32], rows: usize, columns: usize) -> ArrayViewMut2<'_, f32> {
    ArrayViewMut2::from_shape((rows, columns), values).expect("buffers have the geometry's sizes")
}
