//! Pooling in lanes: every pixel is a vector, so that windows need no shuffles.
//!
//! What is read has no frame; what is written lies in any planes.

use super::super::pool::Geometry;
use super::super::{Work, wide};
use super::activation::kept;
use super::{Eight, LANES, Planes};

/// `y = Σ x / k²` over each window.
pub(super) fn average(g: Geometry, x: &[Eight], y: (&mut [Eight], &Planes)) {
    wide(Average { g, x, y });
}

/// `dx` from `dy`; where there are bits, only what they keep.
pub(super) fn average_back(
    g: Geometry,
    dy: &[Eight],
    dx: (&mut [Eight], &Planes),
    bits: Option<&[u8]>,
) {
    wide(AverageBack { g, dy, dx, bits });
}

/// Maxima; `places` take which cell of its window each was.
pub(super) fn max(g: Geometry, x: &[Eight], y: (&mut [Eight], &Planes), places: &mut [u8]) {
    wide(Max { g, x, y, places });
}

/// `dx` from `dy`: each output gives `dy` to the place of its maximum.
pub(super) fn max_back(g: Geometry, places: &[u8], dy: &[Eight], dx: (&mut [Eight], &Planes)) {
    wide(MaxBack { g, places, dy, dx });
}

struct Average<'a> {
    g: Geometry,
    x: &'a [Eight],
    y: (&'a mut [Eight], &'a Planes),
}

impl Work for Average<'_> {
    #[inline(always)]
    fn run(self) {
        let (g, (y, to)) = (self.g, self.y);
        let share = 1.0 / (g.k * g.k) as f32;
        for (c, x) in self.x.chunks_exact(g.h * g.w).enumerate() {
            for oy in 0..g.oh() {
                let y = &mut y[to.row(c, oy)];
                if (g.k, g.stride, g.pad) == (2, 2, 0) {
                    let (upper, lower) = x[2 * oy * g.w..][..2 * g.w].split_at(g.w);
                    let (upper, lower) = (upper.as_chunks::<2>().0, lower.as_chunks::<2>().0);
                    for (y, (a, b)) in y.iter_mut().zip(upper.iter().zip(lower)) {
                        let sum = plus(plus(a[0], a[1]), plus(b[0], b[1]));
                        *y = scaled(sum, share);
                    }
                    continue;
                }
                for (ox, y) in y.iter_mut().enumerate() {
                    let mut sum = Eight::default();
                    for iy in g.window(oy, g.h) {
                        for x in &x[iy * g.w..][g.window(ox, g.w)] {
                            sum = plus(sum, *x);
                        }
                    }
                    *y = scaled(sum, share);
                }
            }
        }
    }
}

struct AverageBack<'a> {
    g: Geometry,
    dy: &'a [Eight],
    dx: (&'a mut [Eight], &'a Planes),
    bits: Option<&'a [u8]>,
}

impl Work for AverageBack<'_> {
    #[inline(always)]
    fn run(self) {
        let (g, (dx, to)) = (self.g, self.dx);
        let share = 1.0 / (g.k * g.k) as f32;
        for (c, dy) in self.dy.chunks_exact(g.oh() * g.ow()).enumerate() {
            for iy in 0..g.h {
                let dx = &mut dx[to.row(c, iy)];
                let bits = self.bits.map(|bits| &bits[(c * g.h + iy) * g.w..][..g.w]);
                let bits = bits.unwrap_or(&[]);
                if let ((2, 2, 0), 1) = ((g.k, g.stride, g.pad), to.step)
                    && iy / 2 < g.oh()
                    && bits.len() == g.w
                {
                    let dy = &dy[iy / 2 * g.ow()..][..g.ow()];
                    let pairs = dx.as_chunks_mut::<2>().0.iter_mut();
                    let bits = bits.as_chunks::<2>().0;
                    for ((dx, dy), bits) in pairs.zip(dy).zip(bits) {
                        let dy = scaled(*dy, share);
                        *dx = [kept(dy, bits[0]), kept(dy, bits[1])];
                    }
                    dx[2 * g.ow()..].fill(Eight::default());
                    continue;
                }
                let above = g.over(iy, g.oh());
                for (ix, dx) in dx.iter_mut().step_by(to.step).enumerate() {
                    let mut sum = Eight::default();
                    for oy in above.clone() {
                        for dy in &dy[oy * g.ow()..][g.over(ix, g.ow())] {
                            sum = plus(sum, *dy);
                        }
                    }
                    *dx = scaled(sum, share);
                    if let Some(bits) = bits.get(ix) {
                        *dx = kept(*dx, *bits);
                    }
                }
            }
        }
    }
}

struct Max<'a> {
    g: Geometry,
    x: &'a [Eight],
    y: (&'a mut [Eight], &'a Planes),
    places: &'a mut [u8],
}

impl Work for Max<'_> {
    #[inline(always)]
    fn run(self) {
        let (g, (y, to)) = (self.g, self.y);
        let mut places = self.places.as_chunks_mut::<LANES>().0.iter_mut();
        for (c, x) in self.x.chunks_exact(g.h * g.w).enumerate() {
            for oy in 0..g.oh() {
                for (ox, y) in y[to.row(c, oy)].iter_mut().enumerate() {
                    let (rows, columns) = (g.window(oy, g.h), g.window(ox, g.w));
                    // A window full of −∞ has its maximum in its first cell, which is not padding.
                    let (mut best, mut cells) = ([f32::NEG_INFINITY; LANES], [0u32; LANES]);
                    for (p, iy) in rows.enumerate() {
                        let row = &x[iy * g.w..][columns.clone()];
                        for (q, x) in row.iter().enumerate() {
                            let cell = (p * columns.len() + q) as u32;
                            for lane in 0..LANES {
                                let x = x.0[lane];
                                let take = (x > best[lane]) | x.is_nan();
                                best[lane] = if take { x } else { best[lane] };
                                cells[lane] = if take { cell } else { cells[lane] };
                            }
                        }
                    }
                    *y = Eight(best);
                    let places = places.next().expect("a place for each output");
                    *places = cells.map(|cell| cell as u8);
                }
            }
        }
    }
}

struct MaxBack<'a> {
    g: Geometry,
    places: &'a [u8],
    dy: &'a [Eight],
    dx: (&'a mut [Eight], &'a Planes),
}

impl Work for MaxBack<'_> {
    #[inline(always)]
    fn run(self) {
        let (g, (dx, to)) = (self.g, self.dx);
        let mut outputs = self.dy.iter().zip(self.places.as_chunks::<LANES>().0);
        for c in 0..g.c {
            for iy in 0..g.h {
                let row = dx[to.row(c, iy)].iter_mut().step_by(to.step);
                row.for_each(|dx| *dx = Eight::default());
            }
            for (oy, ox) in (0..g.oh()).flat_map(|oy| (0..g.ow()).map(move |ox| (oy, ox))) {
                let (rows, columns) = (g.window(oy, g.h), g.window(ox, g.w));
                let (dy, places) = outputs.next().expect("a place for each output");
                let places = places.map(u32::from);
                for (p, iy) in rows.enumerate() {
                    for (q, ix) in columns.clone().enumerate() {
                        let cell = (p * columns.len() + q) as u32;
                        let dx = &mut dx[to.place(c, iy, ix)];
                        let taken = Eight(std::array::from_fn(|lane| {
                            let here = places[lane] == cell;
                            if here { dy.0[lane] } else { 0.0 }
                        }));
                        *dx = plus(*dx, taken);
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn plus(a: Eight, b: Eight) -> Eight {
    a.map2(b, |a, b| a + b)
}

#[inline(always)]
fn scaled(x: Eight, factor: f32) -> Eight {
    Eight(x.0.map(|x| x * factor))
}
