//! The weights' gradient: products of planes of `dy` with shifted planes of `x`, summed in lanes.
//!
//! A tile of 2 output channels × 5 taps, or 6, stays in registers over a band of rows: 10 multiply-adds for 7 vectors.
//! With twice as many registers it has 4 channels. The lanes are added up once, after all samples.
#![allow(unsafe_code)]
// Tiles of registers are indexed: iterators would hide which is which.
#![allow(clippy::needless_range_loop)]

use std::ops::Range;

use super::super::super::isa::Vectors;
use super::super::super::lanes::Planes;
use super::{Geometry, Work};

/// Floats of the first-level cache that a band may fill: 24 KiB.
const BAND: usize = 6144;

/// Adds the products of a group of samples to `sums: (co, taps)`; `x` lies within the geometry's padding, `dy` as
/// `grads` says.
///
/// # Safety
/// The planes must have these sizes.
pub(super) unsafe fn add<I: Vectors>(
    isa: I,
    g: &Geometry,
    x: &[I::Vector],
    dy: (&[I::Vector], &Planes),
    sums: &mut [I::Vector],
) {
    let width = g.w + 2 * g.pad;
    let channels = if I::REGISTERS < 32 { 2 } else { 4 };
    let height = (BAND / I::LANES / (channels * g.ow() + g.stride * width)).max(1);
    // With a single channel out, more taps keep both multiply-add units busy.
    let step = match g.co {
        1 => 8,
        _ if g.taps().is_multiple_of(6) => 6,
        _ => 5,
    };
    for first in (0..g.oh()).step_by(height) {
        for o in (0..g.co).step_by(channels) {
            let mut taps = Taps::default();
            for tap in (0..g.taps()).step_by(step) {
                let tile = Tile {
                    isa,
                    g,
                    at: (o, tap),
                    rows: first..g.oh().min(first + height),
                    x,
                    dy,
                    sums: &mut *sums,
                };
                match (step, (g.co - o).min(channels)) {
                    (8, _) => isa.run(Products::<I, 1, 8>(tile, taps.starts(g))),
                    (6, 1) => isa.run(Products::<I, 1, 6>(tile, taps.starts(g))),
                    (6, 2) => isa.run(Products::<I, 2, 6>(tile, taps.starts(g))),
                    (6, 3) => isa.run(Products::<I, 3, 6>(tile, taps.starts(g))),
                    (6, _) => isa.run(Products::<I, 4, 6>(tile, taps.starts(g))),
                    (_, 1) => isa.run(Products::<I, 1, 5>(tile, taps.starts(g))),
                    (_, 2) => isa.run(Products::<I, 2, 5>(tile, taps.starts(g))),
                    (_, 3) => isa.run(Products::<I, 3, 5>(tile, taps.starts(g))),
                    _ => isa.run(Products::<I, 4, 5>(tile, taps.starts(g))),
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

/// Some taps and channels over a band of rows.
struct Tile<'a, I: Vectors> {
    isa: I,
    g: &'a Geometry,
    /// First output channel and first tap.
    at: (usize, usize),
    rows: Range<usize>,
    x: &'a [I::Vector],
    dy: (&'a [I::Vector], &'a Planes),
    sums: &'a mut [I::Vector],
}

/// Adds the products of C output channels with up to T taps, given where they meet the input of the first pixel.
struct Products<'a, I: Vectors, const C: usize, const T: usize>(Tile<'a, I>, [usize; T]);

impl<I: Vectors, const C: usize, const T: usize> Work for Products<'_, I, C, T> {
    #[inline(always)]
    fn run(self) {
        let Self(tile, starts) = self;
        let (isa, g, (dy, grads)) = (tile.isa, tile.g, tile.dy);
        let (o, tap) = tile.at;
        let (width, plane) = (g.w + 2 * g.pad, grads.plane());
        let mut sums = [[isa.splat(0.0); T]; C];
        for row in tile.rows {
            let mut x = tile.x[row * g.stride * width..].as_ptr();
            let mut d = dy[grads.place(o, row, 0)..].as_ptr();
            for _ in 0..g.ow() {
                let mut ds = [isa.splat(0.0); C];
                for c in 0..C {
                    // SAFETY: every channel's dy is in the grads, and the pixel in its row.
                    ds[c] = isa.load(unsafe { &*d.wrapping_add(c * plane) });
                }
                for t in 0..T {
                    // SAFETY: every tap's input is in the planes, and the pixel in its row.
                    let x = isa.load(unsafe { &*x.wrapping_add(starts[t]) });
                    for c in 0..C {
                        sums[c][t] = isa.mul_add(ds[c], x, sums[c][t]);
                    }
                }
                x = x.wrapping_add(g.stride);
                d = d.wrapping_add(grads.step);
            }
        }
        // A tile that is not full summed its last tap again, which is dropped.
        let count = T.min(g.taps() - tap);
        for c in 0..C {
            let to = &mut tile.sums[(o + c) * g.taps() + tap..][..count];
            for (to, sum) in to.iter_mut().zip(sums[c]) {
                isa.store(to, isa.add(isa.load(to), sum));
            }
        }
    }
}

/// Adds the pixels of each channel of `dy` to `sums: (co)`.
pub(super) fn add_biases<I: Vectors>(isa: I, dy: (&[I::Vector], &Planes), sums: &mut [I::Vector]) {
    isa.run(Biases { isa, dy, sums });
}

struct Biases<'a, I: Vectors> {
    isa: I,
    dy: (&'a [I::Vector], &'a Planes),
    sums: &'a mut [I::Vector],
}

impl<I: Vectors> Work for Biases<'_, I> {
    #[inline(always)]
    fn run(self) {
        let (isa, (dy, grads)) = (self.isa, self.dy);
        for (o, to) in self.sums.iter_mut().enumerate().take(grads.channels) {
            // Several strands: a single one would wait for each addition.
            let mut strands = [isa.splat(0.0); 4];
            for row in 0..grads.size.0 {
                let row = &dy[grads.row(o, row)];
                // Between pixels that lie apart there are zeros.
                let (fours, rest) = row.as_chunks::<4>();
                for four in fours {
                    for strand in 0..4 {
                        strands[strand] = isa.add(strands[strand], isa.load(&four[strand]));
                    }
                }
                for dy in rest {
                    strands[0] = isa.add(strands[0], isa.load(dy));
                }
            }
            let [a, b, c, d] = strands;
            let sum = isa.add(isa.add(a, b), isa.add(c, d));
            isa.store(to, isa.add(isa.load(to), sum));
        }
    }
}
