//! The weights' gradient: products of planes of `dy` with shifted planes of `x`, summed in lanes.
//!
//! A tile of 2 output channels × 5 taps stays in registers over a band of rows: 10 multiply-adds for 7 vectors. The
//! lanes are added up once, after all samples.
#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::ops::Range;

use super::lanes::{Frame, pack};
use super::{Geometry, LANES};

/// Vectors of the first-level cache that a band may fill: 24 KiB.
const BAND: usize = 768;

/// `dw = Σ dy · x`.
///
/// # Safety
/// `scratch` must have the pass's size.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn grad_weights(
    g: &Geometry,
    x: &[f32],
    dy: &[f32],
    dw: &mut [f32],
    scratch: &mut [f32],
) {
    let input = Frame {
        channels: g.ci,
        from: (g.h, g.w),
        to: (g.h + 2 * g.pad, g.w + 2 * g.pad),
        first: (g.pad as isize, g.pad as isize),
        step: 1,
    };
    let output = Frame::tight(g.co, g.oh(), g.ow());
    let (planes, rest) = scratch.split_at_mut(input.len());
    let (grads, rest) = rest.split_at_mut(output.len());
    let sums = &mut rest[..g.weights() * LANES];
    planes.fill(0.0);
    sums.fill(0.0);
    let height = BAND / (2 * g.ow() + g.stride * input.to.1);
    let samples = x.chunks(LANES * input.sample());
    for (x, dy) in samples.zip(dy.chunks(LANES * output.sample())) {
        pack(&input, x, planes);
        pack(&output, dy, grads);
        for first in (0..g.oh()).step_by(height.max(1)) {
            let rows = first..g.oh().min(first + height.max(1));
            band(g, rows, planes, grads, sums);
        }
    }
    for (dw, sum) in dw.iter_mut().zip(sums.chunks_exact(LANES)) {
        *dw = sum.iter().sum();
    }
}

/// Adds the products of a band of output rows.
#[target_feature(enable = "avx2,fma")]
fn band(g: &Geometry, rows: Range<usize>, planes: &[f32], grads: &[f32], sums: &mut [f32]) {
    // With a single channel out, more taps keep both multiply-add units busy.
    let step = if g.co == 1 { 8 } else { 5 };
    for tap in (0..g.taps()).step_by(step) {
        for o in (0..g.co).step_by(2) {
            let (at, rows) = ((o, tap), rows.clone());
            // SAFETY: the planes have the geometry's sizes with padding, and o and tap lie in it.
            unsafe {
                match (g.co, g.co - o) {
                    (1, _) => tile::<1, 8>(g, at, rows, planes, grads, sums),
                    (_, 1) => tile::<1, 5>(g, at, rows, planes, grads, sums),
                    _ => tile::<2, 5>(g, at, rows, planes, grads, sums),
                }
            }
        }
    }
}

/// Adds the products of C output channels from `o` with up to T taps from `tap`.
///
/// # Safety
/// o + C ≤ co, tap < taps, and the buffers must have the geometry's sizes.
#[target_feature(enable = "avx2,fma")]
unsafe fn tile<const C: usize, const T: usize>(
    g: &Geometry,
    (o, tap): (usize, usize),
    rows: Range<usize>,
    planes: &[f32],
    grads: &[f32],
    sums: &mut [f32],
) {
    let (height, width) = (g.h + 2 * g.pad, g.w + 2 * g.pad);
    let count = T.min(g.taps() - tap);
    // A tile that is not full sums its last tap again, and drops it.
    let starts: [usize; T] = std::array::from_fn(|t| {
        let tap = tap + t.min(count - 1);
        let (line, q) = (tap / g.kw, tap % g.kw);
        (((line / g.kh) * height + line % g.kh) * width + q) * LANES
    });
    let mut tile = [[_mm256_setzero_ps(); T]; C];
    for row in rows {
        let mut x = planes[row * g.stride * width * LANES..].as_ptr();
        let mut dy = grads[(o * g.oh() + row) * g.ow() * LANES..].as_ptr();
        for _ in 0..g.ow() {
            // SAFETY: the pixel is in its row; every tap's input is in the planes, every channel's dy in the grads.
            unsafe {
                let ds: [__m256; C] =
                    std::array::from_fn(|c| _mm256_loadu_ps(dy.add(c * g.pixels() * LANES)));
                for t in 0..T {
                    let x = _mm256_loadu_ps(x.add(starts[t]));
                    for c in 0..C {
                        tile[c][t] = _mm256_fmadd_ps(ds[c], x, tile[c][t]);
                    }
                }
            }
            x = x.wrapping_add(g.stride * LANES);
            dy = dy.wrapping_add(LANES);
        }
    }
    for (c, tile) in tile.iter().enumerate() {
        let to = &mut sums[((o + c) * g.taps() + tap) * LANES..][..count * LANES];
        for (to, sum) in to.chunks_exact_mut(LANES).zip(tile) {
            // SAFETY: the place has eight floats.
            unsafe {
                let before = _mm256_loadu_ps(to.as_ptr());
                _mm256_storeu_ps(to.as_mut_ptr(), _mm256_add_ps(before, *sum));
            }
        }
    }
}
