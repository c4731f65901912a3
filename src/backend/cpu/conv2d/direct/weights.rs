//! The weights' gradient: products of planes of `dy` with shifted planes of `x`, summed in lanes.
//!
//! A tile of 2 output channels × 5 taps, or 6, stays in registers over a band of rows: 10 multiply-adds for 7 vectors.
//! The lanes are added up once, after all samples.
#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::ops::Range;

use super::super::super::lanes::{Eight, LANES, Planes};
use super::Geometry;

/// Vectors of the first-level cache that a band may fill: 24 KiB.
const BAND: usize = 768;

/// Adds the products of eight samples to `sums: (co, taps)`; `x` lies within the geometry's padding, `dy` as `grads`
/// says.
///
/// # Safety
/// The planes must have these sizes.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn add(
    g: &Geometry,
    x: &[Eight],
    (dy, grads): (&[Eight], &Planes),
    sums: &mut [Eight],
) {
    let width = g.w + 2 * g.pad;
    let height = (BAND / (2 * g.ow() + g.stride * width)).max(1);
    for first in (0..g.oh()).step_by(height) {
        let rows = first..g.oh().min(first + height);
        // SAFETY: as promised.
        unsafe { band(g, rows, x, (dy, grads), sums) };
    }
}

/// Adds the products of a band of output rows.
///
/// # Safety
/// As for [`add`].
#[target_feature(enable = "avx2,fma")]
unsafe fn band(
    g: &Geometry,
    rows: Range<usize>,
    x: &[Eight],
    dy: (&[Eight], &Planes),
    sums: &mut [Eight],
) {
    // With a single channel out, more taps keep both multiply-add units busy.
    let step = match g.co {
        1 => 8,
        _ if g.taps().is_multiple_of(6) => 6,
        _ => 5,
    };
    for o in (0..g.co).step_by(2) {
        let mut taps = Taps::default();
        for tap in (0..g.taps()).step_by(step) {
            let (at, rows) = ((o, tap), rows.clone());
            // SAFETY: o and tap lie in the geometry, and the planes have its sizes.
            unsafe {
                match (step, g.co - o) {
                    (8, _) => tile::<1, 8>(g, at, taps.starts(g), rows, x, dy, sums),
                    (6, 1) => tile::<1, 6>(g, at, taps.starts(g), rows, x, dy, sums),
                    (6, _) => tile::<2, 6>(g, at, taps.starts(g), rows, x, dy, sums),
                    (_, 1) => tile::<1, 5>(g, at, taps.starts(g), rows, x, dy, sums),
                    _ => tile::<2, 5>(g, at, taps.starts(g), rows, x, dy, sums),
                }
            }
        }
    }
}

/// Goes from tap to tap of a window.
#[derive(Default)]
struct Taps {
    c: usize,
    p: usize,
    q: usize,
}

impl Taps {
    /// Where the next T taps meet the input of the first pixel; behind the last tap that of the last.
    fn starts<const T: usize>(&mut self, g: &Geometry) -> [usize; T] {
        let (height, width) = (g.h + 2 * g.pad, g.w + 2 * g.pad);
        let mut last = 0;
        std::array::from_fn(|_| {
            if self.c < g.ci {
                last = (self.c * height + self.p) * width + self.q;
                self.q += 1;
                if self.q == g.kw {
                    (self.q, self.p) = (0, self.p + 1);
                }
                if self.p == g.kh {
                    (self.p, self.c) = (0, self.c + 1);
                }
            }
            last
        })
    }
}

/// Adds the products of C output channels from `o` with up to T taps from `tap`.
///
/// # Safety
/// o + C ≤ co, tap < taps, and the planes must have the geometry's sizes.
// By itself: together with others in one function, its tile would not stay in registers.
#[inline(never)]
#[target_feature(enable = "avx2,fma")]
unsafe fn tile<const C: usize, const T: usize>(
    g: &Geometry,
    (o, tap): (usize, usize),
    starts: [usize; T],
    rows: Range<usize>,
    x: &[Eight],
    (dy, grads): (&[Eight], &Planes),
    sums: &mut [Eight],
) {
    let (width, plane) = (g.w + 2 * g.pad, grads.plane());
    let mut tile = [[_mm256_setzero_ps(); T]; C];
    for row in rows {
        // SAFETY: every tap's input is in the planes, every channel's dy in the grads.
        let (xs, ds) = unsafe {
            let x = x[row * g.stride * width..].as_ptr();
            let dy = dy[grads.place(o, row, 0)..].as_ptr();
            let xs: [*const f32; T] = std::array::from_fn(|t| x.add(starts[t]).cast());
            let ds: [*const f32; C] = std::array::from_fn(|c| dy.add(c * plane).cast());
            (xs, ds)
        };
        for column in 0..g.ow() {
            let (i, j) = (column * g.stride * LANES, column * grads.step * LANES);
            // SAFETY: the pixel is in its row.
            unsafe {
                let ds = ds.map(|dy| _mm256_load_ps(dy.add(j)));
                for t in 0..T {
                    let x = _mm256_load_ps(xs[t].add(i));
                    for c in 0..C {
                        tile[c][t] = _mm256_fmadd_ps(ds[c], x, tile[c][t]);
                    }
                }
            }
        }
    }
    // A tile that is not full summed its last tap again, which is dropped.
    let count = T.min(g.taps() - tap);
    for (c, tile) in tile.iter().enumerate() {
        let to = &mut sums[(o + c) * g.taps() + tap..][..count];
        for (to, sum) in to.iter_mut().zip(tile) {
            // SAFETY: the place is aligned and has eight floats.
            unsafe {
                let before = _mm256_load_ps(to.0.as_ptr());
                _mm256_store_ps(to.0.as_mut_ptr(), _mm256_add_ps(before, *sum));
            }
        }
    }
}

/// Adds the pixels of each channel of `dy` to `sums: (co)`.
///
/// # Safety
/// The planes must have their sizes.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn add_biases((dy, grads): (&[Eight], &Planes), sums: &mut [Eight]) {
    for (o, to) in sums.iter_mut().enumerate().take(grads.channels) {
        // Several strands: a single one would wait for each addition.
        let mut strands = [_mm256_setzero_ps(); 4];
        let mut add = |strand: usize, dy: &Eight| {
            // SAFETY: a vector is aligned and has eight floats.
            let dy = unsafe { _mm256_load_ps(dy.0.as_ptr()) };
            strands[strand] = _mm256_add_ps(strands[strand], dy);
        };
        for row in 0..grads.size.0 {
            let row = &dy[grads.row(o, row)];
            // Between pixels that lie apart there are zeros.
            let (fours, rest) = row.as_chunks::<4>();
            for four in fours {
                (0..4).for_each(|strand| add(strand, &four[strand]));
            }
            rest.iter().for_each(|dy| add(0, dy));
        }
        let pairs = (
            _mm256_add_ps(strands[0], strands[1]),
            _mm256_add_ps(strands[2], strands[3]),
        );
        // SAFETY: as above.
        unsafe {
            let before = _mm256_load_ps(to.0.as_ptr());
            let sum = _mm256_add_ps(pairs.0, pairs.1);
            _mm256_store_ps(to.0.as_mut_ptr(), _mm256_add_ps(before, sum));
        }
    }
}
