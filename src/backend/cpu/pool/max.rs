//! Max pooling: the largest value of each window, and where it was.
//!
//! Of equal values the first in rows from the top counts; padding is below every value; a NaN is above all, and of
//! several the last counts.
//!
//! Cost: 4 bytes for each value of x, 8 for each of y. Storing where the maximum was is the faster choice: to find it
//! again would double the time of the backward pass.

use super::Geometry;

/// Outputs that are found together.
pub(super) const LANES: usize = 8;

/// Maxima of `x: (n, c, h, w)` into `y: (n, c, oh, ow)`; `places`, as many, take where in its plane each was.
pub fn forward(g: Geometry, x: &[f32], y: &mut [f32], places: &mut [u32]) {
    assert_eq!(y.len(), places.len(), "one place an output");
    if g.planes(x, y) == 0 || y.is_empty() {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if super::super::has_avx2() {
        return super::max_avx2::forward(g, x, y, places);
    }
    each_block(g, x, y, places, |oy, ox, plane| {
        Best::of_block(g, plane, oy, ox)
    });
}

/// Writes what `block` finds in each plane for the outputs from `ox` on in row `oy`.
#[inline(always)]
pub(super) fn each_block(
    g: Geometry,
    x: &[f32],
    y: &mut [f32],
    places: &mut [u32],
    block: impl Fn(usize, usize, &[f32]) -> Best,
) {
    let outputs = g.oh() * g.ow();
    let lanes = LANES.min(g.ow());
    let results = y
        .chunks_exact_mut(outputs)
        .zip(places.chunks_exact_mut(outputs));
    for (x, (y, places)) in x.chunks_exact(g.h * g.w).zip(results) {
        for (oy, row) in (0..outputs).step_by(g.ow()).enumerate() {
            for start in (0..g.ow()).step_by(LANES) {
                // The last block moves back to be whole, and finds again what the one before found.
                let ox = start.min(g.ow() - lanes);
                let best = block(oy, ox, x);
                y[row + ox..][..lanes].copy_from_slice(&best.values[..lanes]);
                places[row + ox..][..lanes].copy_from_slice(&best.places[..lanes]);
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

/// Maxima of neighbouring outputs of a row, side by side in one vector.
pub(super) struct Best {
    pub values: [f32; LANES],
    pub places: [u32; LANES],
}

impl Best {
    /// Of the outputs from `ox` on in row `oy`; beyond the end of the row anything.
    #[inline(always)]
    pub fn of_block(g: Geometry, x: &[f32], oy: usize, ox: usize) -> Self {
        let rows = g.window(oy, g.h);
        // Where the lanes' windows start, left of the plane perhaps; places are counted from there until the end.
        let left = (ox * g.stride).wrapping_sub(g.pad);
        let lefts: [u32; LANES] =
            std::array::from_fn(|lane| left.wrapping_add(lane * g.stride) as u32);
        let first = (rows.start * g.w) as u32;
        let mut best = Self {
            values: [f32::NEG_INFINITY; LANES],
            // A window full of −∞ has its maximum in its first cell, which is not padding.
            places: lefts.map(|left| {
                let outside = if (left as i32) < 0 {
                    left.wrapping_neg()
                } else {
                    0
                };
                first + outside
            }),
        };
        for iy in rows {
            let row = &x[iy * g.w..][..g.w];
            best.take_row(g, row, left, (iy * g.w) as u32);
        }
        for (place, left) in best.places.iter_mut().zip(lefts) {
            *place = place.wrapping_add(left);
        }
        best
    }

    /// Looks at one row of the plane; the windows start in its column `left`, and the row itself at `place`.
    #[inline(always)]
    fn take_row(&mut self, g: Geometry, row: &[f32], left: usize, place: u32) {
        for kx in 0..g.k {
            let cell = |lane: usize| {
                let at = left.wrapping_add(lane * g.stride + kx);
                row.get(at).copied().unwrap_or(f32::NEG_INFINITY)
            };
            self.take(std::array::from_fn(cell), place + kx as u32);
        }
    }

    /// Looks at one cell of each window. Without a branch, so that all lanes take it together.
    #[inline(always)]
    fn take(&mut self, x: [f32; LANES], place: u32) {
        let lanes = self.values.iter_mut().zip(&mut self.places);
        for ((value, best), x) in lanes.zip(x) {
            let take = (x > *value) | x.is_nan();
            *value = if take { x } else { *value };
            *best = if take { place } else { *best };
        }
    }
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
    fn machines_without_wide_vectors_find_the_same() {
        for shape in SHAPES {
            let g = geometry(shape);
            let mut x = random(2 * g.c * g.h * g.w);
            x.iter_mut().step_by(11).for_each(|x| *x = f32::NAN);
            x.iter_mut().step_by(5).for_each(|x| *x = f32::NEG_INFINITY);
            let len = 2 * g.c * g.oh() * g.ow();
            let (mut y, mut places) = (vec![0.0; len], vec![0; len]);
            let (mut plain, mut plain_places) = (vec![1.0; len], vec![1; len]);
            forward(g, &x, &mut y, &mut places);
            each_block(g, &x, &mut plain, &mut plain_places, |oy, ox, plane| {
                Best::of_block(g, plane, oy, ox)
            });
            let bits = |y: &[f32]| y.iter().map(|y| y.to_bits()).collect::<Vec<_>>();
            assert_eq!((bits(&y), places), (bits(&plain), plain_places), "{g:?}");
        }
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
