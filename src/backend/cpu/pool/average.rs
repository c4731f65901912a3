//! Average pooling, `y = Σ x / k²` over each window, padding counted as zeros; and the mean of whole planes.
//!
//! Cost: 4 bytes for each value of x and of y, either way.

use super::super::{Work, wide};
use super::Geometry;

/// Means of the windows of `x: (n, c, h, w)` into `y: (n, c, oh, ow)`.
pub fn forward(g: Geometry, x: &[f32], y: &mut [f32]) {
    if g.planes(x, y) > 0 && !y.is_empty() {
        wide(Forward { g, x, y });
    }
}

/// `dx: (n, c, h, w)` from `dy: (n, c, oh, ow)`: each output gives `dy / k²` to every cell of its window.
pub fn backward(g: Geometry, dy: &[f32], dx: &mut [f32]) {
    if g.planes(dx, dy) > 0 && !dy.is_empty() {
        wide(Backward { g, dy, dx });
    } else {
        dx.fill(0.0);
    }
}

struct Forward<'a> {
    g: Geometry,
    x: &'a [f32],
    y: &'a mut [f32],
}

impl Work for Forward<'_> {
    #[inline(always)]
    fn run(self) {
        let g = self.g;
        let cells = (g.k * g.k) as f32;
        let outputs = self.y.chunks_exact_mut(g.oh() * g.ow());
        for (x, y) in self.x.chunks_exact(g.h * g.w).zip(outputs) {
            for (oy, y) in y.chunks_exact_mut(g.ow()).enumerate() {
                y.fill(0.0);
                let window = g.window(oy, g.h);
                window.for_each(|iy| collect(g, &x[iy * g.w..][..g.w], y));
                y.iter_mut().for_each(|y| *y /= cells);
            }
        }
    }
}

struct Backward<'a> {
    g: Geometry,
    dy: &'a [f32],
    dx: &'a mut [f32],
}

impl Work for Backward<'_> {
    #[inline(always)]
    fn run(self) {
        let g = self.g;
        let cells = (g.k * g.k) as f32;
        let gradients = self.dy.chunks_exact(g.oh() * g.ow());
        for (dx, dy) in self.dx.chunks_exact_mut(g.h * g.w).zip(gradients) {
            for (iy, dx) in dx.chunks_exact_mut(g.w).enumerate() {
                dx.fill(0.0);
                for oy in g.over(iy, g.oh()) {
                    spread(g, &dy[oy * g.ow()..][..g.ow()], dx);
                }
                dx.iter_mut().for_each(|dx| *dx /= cells);
            }
        }
    }
}

/// Adds one row of x to the outputs whose windows it is in.
#[inline(always)]
fn collect(g: Geometry, x: &[f32], y: &mut [f32]) {
    let inside = g.inside();
    let edges = (0..inside.start).chain(inside.end..y.len());
    edges.for_each(|ox| y[ox] += x[g.window(ox, g.w)].iter().sum::<f32>());
    if inside.is_empty() {
        return;
    }
    let x = &x[inside.start * g.stride - g.pad..];
    let y = &mut y[inside];
    match (g.k, g.stride) {
        (2, 2) => {
            let pairs = y.iter_mut().zip(x.as_chunks::<2>().0);
            pairs.for_each(|(y, x)| *y += x[0] + x[1]);
        }
        (3, 2) => {
            let threes = x.as_chunks::<2>().0.iter().zip(x[1..].as_chunks::<2>().0);
            let outputs = y.iter_mut().zip(threes);
            outputs.for_each(|(y, (a, b))| *y += a[0] + b[0] + b[1]);
        }
        (_, 1) => {
            for kx in 0..g.k {
                y.iter_mut().zip(&x[kx..]).for_each(|(y, x)| *y += x);
            }
        }
        _ => {
            for kx in 0..g.k {
                let column = x[kx..].iter().step_by(g.stride);
                y.iter_mut().zip(column).for_each(|(y, x)| *y += x);
            }
        }
    }
}

/// Adds one row of dy to the cells of one row of dx that its windows cover.
#[inline(always)]
fn spread(g: Geometry, dy: &[f32], dx: &mut [f32]) {
    let inside = g.inside();
    for ox in (0..inside.start).chain(inside.end..dy.len()) {
        let window = &mut dx[g.window(ox, g.w)];
        window.iter_mut().for_each(|dx| *dx += dy[ox]);
    }
    if inside.is_empty() {
        return;
    }
    let dx = &mut dx[inside.start * g.stride - g.pad..];
    let dy = &dy[inside];
    match (g.k, g.stride) {
        (2, 2) => add_pairs(dx, dy),
        (3, 2) => {
            // The third column of a window is the first of the next.
            dx[0] += dy[0];
            dx[1] += dy[0];
            add_overlapping(&mut dx[2..], dy);
            dx[2 * dy.len()] += dy[dy.len() - 1];
        }
        (_, 1) => {
            for kx in 0..g.k {
                let cells = dx[kx..].iter_mut().zip(dy);
                cells.for_each(|(dx, dy)| *dx += dy);
            }
        }
        _ => {
            for kx in 0..g.k {
                let column = dx[kx..].iter_mut().step_by(g.stride);
                column.zip(dy).for_each(|(dx, dy)| *dx += dy);
            }
        }
    }
}

#[inline(always)]
fn add_pairs(dx: &mut [f32], dy: &[f32]) {
    for (dx, dy) in dx.as_chunks_mut::<2>().0.iter_mut().zip(dy) {
        *dx = [dx[0] + dy, dx[1] + dy];
    }
}

#[inline(always)]
fn add_overlapping(dx: &mut [f32], dy: &[f32]) {
    let pairs = dx.as_chunks_mut::<2>().0.iter_mut();
    for (dx, (left, right)) in pairs.zip(dy.iter().zip(&dy[1..])) {
        *dx = [dx[0] + (left + right), dx[1] + right];
    }
}

/// Mean of each plane: `y: (n, c)` from `x: (n, c, h, w)` with `plane = h × w`.
pub fn global(plane: usize, x: &[f32], y: &mut [f32]) {
    assert_eq!(y.len() * plane, x.len(), "one output a plane");
    wide(|| {
        for (y, x) in y.iter_mut().zip(x.chunks_exact(plane)) {
            // Many sums side by side: fast, and closer to the truth than one after the other.
            let (rows, rest) = x.as_chunks::<16>();
            let mut sums = [0.0f32; 16];
            for row in rows {
                sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
            }
            let sum = sums.iter().sum::<f32>() + rest.iter().sum::<f32>();
            *y = sum / plane as f32;
        }
    });
}

/// `dx: (n, c, h, w)` from `dy: (n, c)`: each output gives `dy / plane` to every cell of its plane.
pub fn global_backward(plane: usize, dy: &[f32], dx: &mut [f32]) {
    assert_eq!(dy.len() * plane, dx.len(), "one output a plane");
    for (dx, dy) in dx.chunks_exact_mut(plane).zip(dy) {
        dx.fill(dy / plane as f32);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{SHAPES, cells, geometry};
    use super::*;
    use crate::rng::Stream;

    fn random(len: usize) -> Vec<f32> {
        let mut stream = Stream::new(&[len as u64]);
        (0..len).map(|_| stream.between(-2.0, 2.0)).collect()
    }

    #[test]
    fn means_and_gradients_are_those_of_plain_loops() {
        for shape in SHAPES {
            let g = geometry(shape);
            let (plane, outputs) = (g.h * g.w, g.oh() * g.ow());
            let (x, dy) = (random(2 * g.c * plane), random(2 * g.c * outputs));
            let mut y = vec![f32::NAN; dy.len()];
            let mut dx = vec![f32::NAN; x.len()];
            forward(g, &x, &mut y);
            backward(g, &dy, &mut dx);
            let mut truth = vec![0.0f64; x.len()];
            for o in 0..dy.len() {
                let window = cells(g, o % outputs / g.ow(), o % g.ow());
                let places = window.iter().map(|cell| o / outputs * plane + cell);
                let sum: f64 = places.clone().map(|at| f64::from(x[at])).sum();
                let mean = sum / (g.k * g.k) as f64;
                assert!((mean - f64::from(y[o])).abs() < 1e-6, "{g:?} {o}");
                places.for_each(|at| truth[at] += f64::from(dy[o]) / (g.k * g.k) as f64);
            }
            for (at, (truth, dx)) in truth.iter().zip(&dx).enumerate() {
                assert!((truth - f64::from(*dx)).abs() < 2e-6, "{g:?} {at}");
            }
        }
    }

    #[test]
    fn padding_counts_as_zeros() {
        let g = geometry([1, 2, 2, 2, 2, 1]);
        let mut y = [0.0; 4];
        forward(g, &[4.0, 8.0, 12.0, 16.0], &mut y);
        assert_eq!(y, [1.0, 2.0, 3.0, 4.0]);
        let mut dx = [9.0; 4];
        backward(g, &y, &mut dx);
        assert_eq!(dx, [0.25, 0.5, 0.75, 1.0]);
    }

    #[test]
    fn gradients_match_central_differences() {
        // Linear in x: a wide step costs nothing, and doubles keep the digits.
        let g = geometry([1, 5, 7, 3, 2, 1]);
        let (x, dy) = (random(35), random(g.oh() * g.ow()));
        let mut dx = vec![0.0; 35];
        backward(g, &dy, &mut dx);
        for i in 0..x.len() {
            let loss = |step: f32| {
                let (mut x, mut y) = (x.clone(), vec![0.0; dy.len()]);
                x[i] += step;
                forward(g, &x, &mut y);
                let terms = y.iter().zip(&dy).map(|(y, dy)| f64::from(y * dy));
                terms.sum::<f64>()
            };
            let slope = (loss(0.5) - loss(-0.5)) / 1.0;
            assert!((slope - f64::from(dx[i])).abs() < 1e-5, "{i}");
        }
    }

    #[test]
    fn global_means_and_their_gradients() {
        for plane in [1, 15, 16, 49, 169] {
            let x = random(3 * plane);
            let mut y = [0.0; 3];
            global(plane, &x, &mut y);
            for (x, y) in x.chunks(plane).zip(y) {
                let mean = x.iter().map(|&x| f64::from(x)).sum::<f64>() / plane as f64;
                assert!((mean - f64::from(y)).abs() < 1e-6, "{plane}");
            }
            let mut dx = vec![9.0; 3 * plane];
            global_backward(plane, &y, &mut dx);
            assert!((0..3 * plane).all(|i| dx[i] == y[i / plane] / plane as f32));
        }
    }

    #[test]
    fn a_batch_of_nothing_is_fine() {
        forward(geometry(SHAPES[0]), &[], &mut []);
        backward(geometry(SHAPES[0]), &[], &mut []);
        global(4, &[], &mut []);
        global_backward(4, &[], &mut []);
    }
}
