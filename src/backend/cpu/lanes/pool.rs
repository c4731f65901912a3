//! Pooling in lanes: every pixel is a vector, so that windows need no shuffles.
//!
//! What is read has no frame; what is written lies in any planes.
#![allow(unsafe_code)]

use super::super::Work;
use super::super::isa::Vectors;
use super::super::pool::Geometry;
use super::Planes;

/// `y = Σ x / k²` over each window.
pub(super) fn average<I: Vectors>(
    isa: I,
    g: Geometry,
    x: &[I::Vector],
    y: (&mut [I::Vector], &Planes),
) {
    isa.run(Average { isa, g, x, y });
}

/// `dx` from `dy`; where there are bits, only what they keep.
pub(super) fn average_back<I: Vectors>(
    isa: I,
    g: Geometry,
    dy: &[I::Vector],
    dx: (&mut [I::Vector], &Planes),
    bits: Option<&[I::Bits]>,
) {
    isa.run(AverageBack {
        isa,
        g,
        dy,
        dx,
        bits,
    });
}

/// Maxima; `places` take which cell of its window each was.
pub(super) fn max<I: Vectors>(
    isa: I,
    g: Geometry,
    x: &[I::Vector],
    y: (&mut [I::Vector], &Planes),
    places: &mut [u8],
) {
    isa.run(Max {
        isa,
        g,
        x,
        y,
        places,
    });
}

/// `dx` from `dy`: each output gives `dy` to the place of its maximum.
pub(super) fn max_back<I: Vectors>(
    isa: I,
    g: Geometry,
    places: &[u8],
    dy: &[I::Vector],
    dx: (&mut [I::Vector], &Planes),
) {
    isa.run(MaxBack {
        isa,
        g,
        places,
        dy,
        dx,
    });
}

struct Average<'a, I: Vectors> {
    isa: I,
    g: Geometry,
    x: &'a [I::Vector],
    y: (&'a mut [I::Vector], &'a Planes),
}

impl<I: Vectors> Work for Average<'_, I> {
    #[inline(always)]
    fn run(self) {
        let (isa, g, (y, to)) = (self.isa, self.g, self.y);
        let share = isa.splat(1.0 / (g.k * g.k) as f32);
        for (c, x) in self.x.chunks_exact(g.h * g.w).enumerate() {
            for oy in 0..g.oh() {
                let y = &mut y[to.row(c, oy)];
                if (g.k, g.stride, g.pad) == (2, 2, 0) {
                    let (upper, lower) = x[2 * oy * g.w..][..2 * g.w].split_at(g.w);
                    let (upper, lower) = (upper.as_chunks::<2>().0, lower.as_chunks::<2>().0);
                    for (y, (a, b)) in y.iter_mut().zip(upper.iter().zip(lower)) {
                        let upper = isa.add(isa.load(&a[0]), isa.load(&a[1]));
                        let lower = isa.add(isa.load(&b[0]), isa.load(&b[1]));
                        isa.store(y, isa.mul(isa.add(upper, lower), share));
                    }
                    continue;
                }
                for (ox, y) in y.iter_mut().enumerate() {
                    let mut sum = isa.splat(0.0);
                    for iy in g.window(oy, g.h) {
                        for x in &x[iy * g.w..][g.window(ox, g.w)] {
                            sum = isa.add(sum, isa.load(x));
                        }
                    }
                    isa.store(y, isa.mul(sum, share));
                }
            }
        }
    }
}

struct AverageBack<'a, I: Vectors> {
    isa: I,
    g: Geometry,
    dy: &'a [I::Vector],
    dx: (&'a mut [I::Vector], &'a Planes),
    bits: Option<&'a [I::Bits]>,
}

impl<I: Vectors> Work for AverageBack<'_, I> {
    #[inline(always)]
    fn run(self) {
        let (isa, g, (dx, to)) = (self.isa, self.g, self.dx);
        let share = isa.splat(1.0 / (g.k * g.k) as f32);
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
                    for (([left, right], dy), bits) in pairs.zip(dy).zip(bits) {
                        let dy = isa.mul(isa.load(dy), share);
                        isa.store(left, isa.keep(dy, bits[0]));
                        isa.store(right, isa.keep(dy, bits[1]));
                    }
                    dx[2 * g.ow()..].fill(I::Vector::default());
                    continue;
                }
                let above = g.over(iy, g.oh());
                for (ix, dx) in dx.iter_mut().step_by(to.step).enumerate() {
                    let mut sum = isa.splat(0.0);
                    for oy in above.clone() {
                        for dy in &dy[oy * g.ow()..][g.over(ix, g.ow())] {
                            sum = isa.add(sum, isa.load(dy));
                        }
                    }
                    sum = isa.mul(sum, share);
                    if let Some(bits) = bits.get(ix) {
                        sum = isa.keep(sum, *bits);
                    }
                    isa.store(dx, sum);
                }
            }
        }
    }
}

struct Max<'a, I: Vectors> {
    isa: I,
    g: Geometry,
    x: &'a [I::Vector],
    y: (&'a mut [I::Vector], &'a Planes),
    places: &'a mut [u8],
}

impl<I: Vectors> Work for Max<'_, I> {
    #[inline(always)]
    fn run(self) {
        let (isa, g, (y, to)) = (self.isa, self.g, self.y);
        let mut places = self.places.chunks_exact_mut(I::LANES);
        for (c, x) in self.x.chunks_exact(g.h * g.w).enumerate() {
            for oy in 0..g.oh() {
                for (ox, y) in y[to.row(c, oy)].iter_mut().enumerate() {
                    let (rows, columns) = (g.window(oy, g.h), g.window(ox, g.w));
                    // A window full of −∞ has its maximum in its first cell, which is not padding.
                    let mut best = (isa.splat(f32::NEG_INFINITY), isa.splat(0.0));
                    for (p, iy) in rows.enumerate() {
                        let row = &x[iy * g.w..][columns.clone()];
                        for (q, x) in row.iter().enumerate() {
                            let cell = (p * columns.len() + q) as f32;
                            best = isa.larger(best, (isa.load(x), isa.splat(cell)));
                        }
                    }
                    isa.store(y, best.0);
                    let places = places.next().expect("a place for each output");
                    let mut cells = I::Vector::default();
                    isa.store(&mut cells, best.1);
                    for (place, cell) in places.iter_mut().zip(cells.as_ref()) {
                        *place = *cell as u8;
                    }
                }
            }
        }
    }
}

struct MaxBack<'a, I: Vectors> {
    isa: I,
    g: Geometry,
    places: &'a [u8],
    dy: &'a [I::Vector],
    dx: (&'a mut [I::Vector], &'a Planes),
}

impl<I: Vectors> Work for MaxBack<'_, I> {
    #[inline(always)]
    fn run(self) {
        let (isa, g, (dx, to)) = (self.isa, self.g, self.dx);
        let mut outputs = self.dy.iter().zip(self.places.chunks_exact(I::LANES));
        for c in 0..g.c {
            for iy in 0..g.h {
                let row = dx[to.row(c, iy)].iter_mut().step_by(to.step);
                row.for_each(|dx| *dx = I::Vector::default());
            }
            for (oy, ox) in (0..g.oh()).flat_map(|oy| (0..g.ow()).map(move |ox| (oy, ox))) {
                let (rows, columns) = (g.window(oy, g.h), g.window(ox, g.w));
                let (dy, places) = outputs.next().expect("a place for each output");
                // SAFETY: there is a byte for each lane.
                let places = unsafe { isa.load_bytes(places.as_ptr()) };
                let dy = isa.load(dy);
                for (p, iy) in rows.enumerate() {
                    for (q, ix) in columns.clone().enumerate() {
                        let cell = isa.splat((p * columns.len() + q) as f32);
                        let dx = &mut dx[to.place(c, iy, ix)];
                        let taken = isa.where_equal(places, cell, dy);
                        isa.store(dx, isa.add(isa.load(dx), taken));
                    }
                }
            }
        }
    }
}
