//! Max pooling: the largest value of each window, and where it was.
//!
//! Of equal values the first in rows from the top counts; padding is below every value; a NaN is above all, and of
//! several the last counts.
//!
//! Cost: 4 bytes for each value of x, 8 for each of y. Storing where the maximum was costs the forward pass little and
//! makes the backward pass read a fourth of what it would read to find it again.

use super::super::{Work, wide};
use super::Geometry;

/// Maxima of `x: (n, c, h, w)` into `y: (n, c, oh, ow)`; `places`, as many, take where in its plane each was.
pub fn forward(g: Geometry, x: &[f32], y: &mut [f32], places: &mut [u32]) {
    assert_eq!(y.len(), places.len(), "one place an output");
    if g.planes(x, y) > 0 && !y.is_empty() {
        wide(Forward { g, x, y, places });
    }
}

struct Forward<'a> {
    g: Geometry,
    x: &'a [f32],
    y: &'a mut [f32],
    places: &'a mut [u32],
}

impl Work for Forward<'_> {
    #[inline(always)]
    fn run(self) {
        let g = self.g;
        let outputs = g.oh() * g.ow();
        let values = self.y.chunks_exact_mut(outputs);
        let results = values.zip(self.places.chunks_exact_mut(outputs));
        for (x, (y, places)) in self.x.chunks_exact(g.h * g.w).zip(results) {
            let rows = y.chunks_exact_mut(g.ow());
            let rows = rows.zip(places.chunks_exact_mut(g.ow()));
            for (oy, (values, places)) in rows.enumerate() {
                let mut best = Best { values, places };
                let window = g.window(oy, g.h);
                best.reset(g, window.start * g.w);
                window.for_each(|iy| best.take_row(g, &x[iy * g.w..][..g.w], iy * g.w));
            }
        }
    }
}

/// `dx: (n, c, h, w)` from `dy: (n, c, oh, ow)`: each output gives `dy` to the place of its maximum.
pub fn backward(g: Geometry, places: &[u32], dy: &[f32], dx: &mut [f32]) {
    assert_eq!(dy.len(), places.len(), "one place an output");
    let planes = g.planes(dx, dy);
    dx.fill(0.0);
    if planes == 0 || dy.is_empty() {
        return;
    }
    let outputs = g.oh() * g.ow();
    let gradients = dy.chunks_exact(outputs).zip(places.chunks_exact(outputs));
    for (dx, (dy, places)) in dx.chunks_exact_mut(g.h * g.w).zip(gradients) {
        for (dy, &place) in dy.iter().zip(places) {
            dx[place as usize] += dy;
        }
    }
}

/// The best so far of one row of outputs.
struct Best<'a> {
    values: &'a mut [f32],
    places: &'a mut [u32],
}

impl Best<'_> {
    /// Nothing seen; a window full of −∞ has its maximum in its first cell. `row` is where its first row starts.
    #[inline(always)]
    fn reset(&mut self, g: Geometry, row: usize) {
        self.values.fill(f32::NEG_INFINITY);
        for (ox, place) in self.places.iter_mut().enumerate() {
            *place = (row + (ox * g.stride).saturating_sub(g.pad)) as u32;
        }
    }

    /// Looks at one row of the plane, which starts at `base`.
    #[inline(always)]
    fn take_row(&mut self, g: Geometry, x: &[f32], base: usize) {
        let inside = g.inside();
        for ox in (0..inside.start).chain(inside.end..self.values.len()) {
            for ix in g.window(ox, g.w) {
                let best = (self.values[ox], self.places[ox]);
                (self.values[ox], self.places[ox]) = larger(best, x[ix], (base + ix) as u32);
            }
        }
        if inside.is_empty() {
            return;
        }
        let start = inside.start * g.stride - g.pad;
        let (x, base) = (&x[start..], (base + start) as u32);
        let mut inner = Best {
            values: &mut self.values[inside.clone()],
            places: &mut self.places[inside],
        };
        match (g.k, g.stride) {
            (2, 2) => inner.take_twos(x, base),
            (3, 2) => inner.take_threes(x, base),
            _ => (0..g.k).for_each(|kx| inner.take_column(g, &x[kx..], base + kx as u32)),
        }
    }

    #[inline(always)]
    fn take_twos(&mut self, x: &[f32], base: u32) {
        let outputs = self.values.iter_mut().zip(self.places.iter_mut());
        for (j, ((value, place), x)) in (0u32..).zip(outputs.zip(x.as_chunks::<2>().0)) {
            let at = base + 2 * j;
            let best = larger((*value, *place), x[0], at);
            (*value, *place) = larger(best, x[1], at + 1);
        }
    }

    #[inline(always)]
    fn take_threes(&mut self, x: &[f32], base: u32) {
        let threes = x.as_chunks::<2>().0.iter().zip(x[1..].as_chunks::<2>().0);
        let outputs = self.values.iter_mut().zip(self.places.iter_mut());
        for (j, ((value, place), (a, b))) in (0u32..).zip(outputs.zip(threes)) {
            let at = base + 2 * j;
            let best = larger((*value, *place), a[0], at);
            let best = larger(best, b[0], at + 1);
            (*value, *place) = larger(best, b[1], at + 2);
        }
    }

    /// [`Best::take_column`] of windows one cell apart.
    #[inline(always)]
    fn take_neighbours(&mut self, x: &[f32], base: u32) {
        let outputs = self.values.iter_mut().zip(self.places.iter_mut());
        for (at, ((value, place), &x)) in (base..).zip(outputs.zip(x)) {
            (*value, *place) = larger((*value, *place), x, at);
        }
    }

    /// One column of every window.
    #[inline(always)]
    fn take_column(&mut self, g: Geometry, x: &[f32], base: u32) {
        if g.stride == 1 {
            return self.take_neighbours(x, base);
        }
        let outputs = self.values.iter_mut().zip(self.places.iter_mut());
        let column = x.iter().step_by(g.stride);
        for (j, ((value, place), &x)) in (0u32..).zip(outputs.zip(column)) {
            (*value, *place) = larger((*value, *place), x, base + g.stride as u32 * j);
        }
    }
}

// Without a branch, so that eight windows can be looked at together.
#[inline(always)]
fn larger(best: (f32, u32), x: f32, at: u32) -> (f32, u32) {
    let take = (x > best.0) | x.is_nan();
    (
        if take { x } else { best.0 },
        if take { at } else { best.1 },
    )
}

#[cfg(test)]
mod tests {
    use super::super::tests::{SHAPES, cells, geometry};
    use super::*;
    use crate::rng::Stream;

    /// Values with many ties.
    fn random(len: usize) -> Vec<f32> {
        let mut stream = Stream::new(&[len as u64]);
        (0..len).map(|_| stream.below(9) as f32 - 4.0).collect()
    }

    #[test]
    fn maxima_and_gradients_are_those_of_plain_loops() {
        for shape in SHAPES {
            let g = geometry(shape);
            let (plane, outputs) = (g.h * g.w, g.oh() * g.ow());
            let (x, dy) = (random(2 * g.c * plane), random(2 * g.c * outputs));
            let (mut y, mut places) = (vec![f32::NAN; dy.len()], vec![u32::MAX; dy.len()]);
            let mut dx = vec![f32::NAN; x.len()];
            forward(g, &x, &mut y, &mut places);
            backward(g, &places, &dy, &mut dx);
            let mut truth = vec![0.0f32; x.len()];
            for o in 0..dy.len() {
                let plane = &x[o / outputs * plane..][..plane];
                let window = cells(g, o % outputs / g.ow(), o % g.ow());
                let top = window.iter().map(|&at| plane[at]).fold(f32::MIN, f32::max);
                let first = *window.iter().find(|&&at| plane[at] == top).unwrap();
                assert_eq!((y[o], places[o]), (top, first as u32), "{g:?} {o}");
                truth[o / outputs * plane.len() + first] += dy[o];
            }
            assert_eq!(dx, truth, "{g:?}");
        }
    }

    fn pool_3_by_3(x: [f32; 9]) -> (f32, u32) {
        let (mut y, mut places) = ([0.0], [0]);
        forward(geometry([1, 3, 3, 3, 2, 0]), &x, &mut y, &mut places);
        (y[0], places[0])
    }

    #[test]
    fn ties_go_to_the_first_and_a_nan_wins() {
        let (a, n) = (f32::NEG_INFINITY, f32::NAN);
        assert_eq!(pool_3_by_3([0., 1., 2., 3., 7., 7., 7., 0., 7.]), (7.0, 4));
        assert_eq!(pool_3_by_3([a; 9]), (a, 0));
        let (y, place) = pool_3_by_3([9., 1., n, 3., n, 9., 9., 0., 9.]);
        assert!(y.is_nan() && place == 4, "{y} {place}");
    }

    #[test]
    fn padding_is_below_every_value() {
        let g = geometry([1, 2, 2, 2, 2, 1]);
        let (mut y, mut places) = ([0.0; 4], [9; 4]);
        let low = [-1.0, f32::NEG_INFINITY, -3.0, -4.0];
        forward(g, &low, &mut y, &mut places);
        assert_eq!((y, places), (low, [0, 1, 2, 3]));
    }

    #[test]
    fn gradients_match_central_differences() {
        let g = geometry([1, 7, 9, 3, 2, 0]);
        // All apart by more than the step: no maximum changes its place.
        let x: Vec<f32> = (0..63).map(|i| (i * 29 % 63) as f32).collect();
        let dy = random(g.oh() * g.ow());
        let pool = |x: &[f32]| {
            let (mut y, mut places) = (vec![0.0; dy.len()], vec![0; dy.len()]);
            forward(g, x, &mut y, &mut places);
            let terms = y.iter().zip(&dy).map(|(y, dy)| f64::from(y * dy));
            (terms.sum::<f64>(), places)
        };
        let mut dx = vec![9.0; 63];
        backward(g, &pool(&x).1, &dy, &mut dx);
        for i in 0..x.len() {
            let (mut up, mut down) = (x.clone(), x.clone());
            up[i] += 0.25;
            down[i] -= 0.25;
            let slope = (pool(&up).0 - pool(&down).0) / 0.5;
            assert!((slope - f64::from(dx[i])).abs() < 1e-9, "{i}");
        }
    }

    #[test]
    fn a_batch_of_nothing_is_fine() {
        let g = geometry(SHAPES[1]);
        forward(g, &[], &mut [], &mut []);
        backward(g, &[], &[], &mut []);
    }
}
