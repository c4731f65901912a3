//! Local response normalisation across channels: `y = x / d^beta` with `d = k + alpha/size · Σ x²` over `size` channels.
//!
//! The window of channel c is `c − size/2 ..= c + (size − 1)/2`, cut at the ends; the sum is divided by `size` there too.
//! The planes are worked through in blocks of cells, so that the channels of a window are still in the cache.
//!
//! Cost: 8 bytes and `size` multiplications an element forward, 12 bytes and twice as many backward.

use std::ops::Range;

use super::{Work, wide};

/// Cells of a plane that are worked on together: fewer and memory is read in bits, more and they leave the cache.
const BLOCK: usize = 128;

/// One layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LocalResponse {
    /// Channels.
    pub c: usize,
    /// Cells of a plane, `h × w`.
    pub plane: usize,
    /// Channels in a window.
    pub size: usize,
    /// Weight of the mean of squares.
    pub alpha: f32,
    /// The power; of 0.5, 0.75 and 1 by square roots, of any other slowly.
    pub beta: f32,
    /// What the window adds to.
    pub k: f32,
}

impl LocalResponse {
    /// `y` from `x`, both `(n, c, h, w)`.
    pub fn forward(self, x: &[f32], y: &mut [f32]) {
        assert_eq!(x.len(), y.len(), "as many outputs as inputs");
        wide(Forward { layer: self, x, y });
    }

    /// `dx` from what went in and the gradient of what came out, all `(n, c, h, w)`:
    /// `dx = dy/d^beta − 2·alpha·beta/size · x · Σ dy·x/d^(beta+1)` over the windows that the element is in.
    ///
    /// `scratch` grows to `128 × c` once.
    pub fn backward(self, x: &[f32], dy: &[f32], dx: &mut [f32], scratch: &mut Vec<f32>) {
        assert_eq!(x.len(), dy.len(), "as many gradients as outputs");
        assert_eq!(x.len(), dx.len(), "as many gradients out as inputs");
        scratch.resize(self.c * BLOCK, 0.0);
        wide(Backward {
            layer: self,
            x,
            dy,
            dx,
            parts: scratch,
        });
    }

    /// Channels that channel `c` is divided by.
    #[inline(always)]
    fn window(self, c: usize) -> Range<usize> {
        c.saturating_sub(self.size / 2)..(c + self.size.div_ceil(2)).min(self.c)
    }

    /// Channels that channel `c` divides.
    #[inline(always)]
    fn audience(self, c: usize) -> Range<usize> {
        c.saturating_sub((self.size - 1) / 2)..(c + self.size / 2 + 1).min(self.c)
    }

    /// `d` of the cells `cells` of channel `c`, in the front of what it returns; `x` is one sample.
    #[inline(always)]
    fn divisors(self, x: &[f32], c: usize, cells: Range<usize>) -> [f32; BLOCK] {
        let mut sums = [0.0; BLOCK];
        for other in self.window(c) {
            let x = &x[other * self.plane..][cells.clone()];
            sums.iter_mut().zip(x).for_each(|(sum, x)| *sum += x * x);
        }
        let weight = self.alpha / self.size as f32;
        each(&sums, |sum| self.k + weight * sum)
    }

    /// `d^(−beta)` of each.
    #[inline(always)]
    fn powers(self, d: &[f32; BLOCK]) -> [f32; BLOCK] {
        match self.beta {
            0.5 => each(d, |d| 1.0 / d.sqrt()),
            0.75 => each(d, |d| 1.0 / (d.sqrt() * d.sqrt().sqrt())),
            1.0 => each(d, |d| 1.0 / d),
            beta => each(d, |d| d.powf(-beta)),
        }
    }

    /// The blocks of a plane.
    fn blocks(self) -> impl Iterator<Item = Range<usize>> {
        let starts = (0..self.plane).step_by(BLOCK);
        starts.map(move |start| start..(start + BLOCK).min(self.plane))
    }
}

// A loop, because `array::map` over this many was measured to be slower.
#[inline(always)]
fn each(values: &[f32; BLOCK], f: impl Fn(f32) -> f32) -> [f32; BLOCK] {
    let mut results = [0.0; BLOCK];
    let pairs = results.iter_mut().zip(values);
    pairs.for_each(|(result, &value)| *result = f(value));
    results
}

struct Forward<'a> {
    layer: LocalResponse,
    x: &'a [f32],
    y: &'a mut [f32],
}

impl Work for Forward<'_> {
    #[inline(always)]
    fn run(self) {
        let layer = self.layer;
        let sample = layer.c * layer.plane;
        for (x, y) in self
            .x
            .chunks_exact(sample)
            .zip(self.y.chunks_exact_mut(sample))
        {
            for cells in layer.blocks() {
                for c in 0..layer.c {
                    let powers = layer.powers(&layer.divisors(x, c, cells.clone()));
                    let x = &x[c * layer.plane..][cells.clone()];
                    let y = &mut y[c * layer.plane..][cells.clone()];
                    let pairs = x.iter().zip(powers);
                    y.iter_mut().zip(pairs).for_each(|(y, (x, p))| *y = x * p);
                }
            }
        }
    }
}

struct Backward<'a> {
    layer: LocalResponse,
    x: &'a [f32],
    dy: &'a [f32],
    dx: &'a mut [f32],
    parts: &'a mut [f32],
}

impl Work for Backward<'_> {
    #[inline(always)]
    fn run(self) {
        let layer = self.layer;
        let sample = layer.c * layer.plane;
        let inputs = self
            .x
            .chunks_exact(sample)
            .zip(self.dy.chunks_exact(sample));
        for ((x, dy), dx) in inputs.zip(self.dx.chunks_exact_mut(sample)) {
            for cells in layer.blocks() {
                direct(layer, (x, dy), &cells, dx, self.parts);
                through_divisors(layer, x, &cells, dx, self.parts);
            }
        }
    }
}

/// `dx = dy/d^beta`, and in `parts: (c, BLOCK)` what each channel has for those that it is divided by.
#[inline(always)]
fn direct(
    layer: LocalResponse,
    (x, dy): (&[f32], &[f32]),
    cells: &Range<usize>,
    dx: &mut [f32],
    parts: &mut [f32],
) {
    for (c, parts) in parts.chunks_exact_mut(BLOCK).enumerate() {
        let d = layer.divisors(x, c, cells.clone());
        let powers = layer.powers(&d);
        let first = c * layer.plane;
        let pairs = x[first..][cells.clone()]
            .iter()
            .zip(&dy[first..][cells.clone()]);
        let scales = powers.iter().zip(&d);
        let outputs = dx[first..][cells.clone()].iter_mut().zip(parts);
        for ((dx, part), ((x, dy), (power, d))) in outputs.zip(pairs.zip(scales)) {
            *dx = dy * power;
            *part = *dx * x / d;
        }
    }
}

/// `dx −= 2·alpha·beta/size · x · Σ parts`.
#[inline(always)]
fn through_divisors(
    layer: LocalResponse,
    x: &[f32],
    cells: &Range<usize>,
    dx: &mut [f32],
    parts: &[f32],
) {
    let factor = 2.0 * layer.alpha * layer.beta / layer.size as f32;
    for c in 0..layer.c {
        let mut sums = [0.0; BLOCK];
        for other in layer.audience(c) {
            let parts = &parts[other * BLOCK..][..BLOCK];
            sums.iter_mut()
                .zip(parts)
                .for_each(|(sum, part)| *sum += part);
        }
        let x = &x[c * layer.plane..][cells.clone()];
        let dx = &mut dx[c * layer.plane..][cells.clone()];
        let pairs = x.iter().zip(sums);
        dx.iter_mut()
            .zip(pairs)
            .for_each(|(dx, (x, sum))| *dx -= factor * x * sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    fn layer(c: usize, plane: usize, size: usize, beta: f32) -> LocalResponse {
        LocalResponse {
            c,
            plane,
            size,
            alpha: 0.3,
            beta,
            k: 1.5,
        }
    }

    fn layers() -> [LocalResponse; 6] {
        [
            layer(8, 130, 5, 0.75),
            layer(3, 64, 5, 0.75),
            layer(7, 9, 4, 0.5),
            layer(1, 1, 1, 1.0),
            layer(2, 65, 2, 0.6),
            layer(5, 70, 3, 1.0),
        ]
    }

    fn random(len: usize, key: u64) -> Vec<f64> {
        let mut stream = Stream::new(&[key]);
        (0..len)
            .map(|_| f64::from(stream.between(-2.0, 2.0)))
            .collect()
    }

    fn floats(values: &[f64]) -> Vec<f32> {
        values.iter().map(|&v| v as f32).collect()
    }

    /// From the definition, in doubles.
    fn truth(l: LocalResponse, x: &[f64]) -> Vec<f64> {
        let at = |i: usize| {
            let c = (i / l.plane % l.c) as isize;
            let first = c - (l.size / 2) as isize;
            let inside = (first..first + l.size as isize).filter(|o| (0..l.c as isize).contains(o));
            let squares = inside.map(|o| {
                let other = i as isize + (o - c) * l.plane as isize;
                x[other as usize] * x[other as usize]
            });
            let mean = squares.sum::<f64>() / l.size as f64;
            x[i] / (f64::from(l.k) + f64::from(l.alpha) * mean).powf(f64::from(l.beta))
        };
        (0..x.len()).map(at).collect()
    }

    #[test]
    fn outputs_are_those_of_the_definition() {
        for l in layers() {
            let x = random(2 * l.c * l.plane, 1);
            let mut y = vec![f32::NAN; x.len()];
            l.forward(&floats(&x), &mut y);
            for (i, (y, truth)) in y.iter().zip(truth(l, &x)).enumerate() {
                assert!((f64::from(*y) - truth).abs() < 1e-6, "{l:?} {i}");
            }
        }
    }

    #[test]
    fn gradients_match_central_differences() {
        for l in layers() {
            let (x, dy) = (random(2 * l.c * l.plane, 2), random(2 * l.c * l.plane, 3));
            let mut dx = vec![f32::NAN; x.len()];
            l.backward(&floats(&x), &floats(&dy), &mut dx, &mut Vec::new());
            // Every 17th: of each layer some in all channels.
            for i in (0..x.len()).step_by(17) {
                let loss = |step: f64| {
                    let mut x = x.clone();
                    x[i] += step;
                    let y = truth(l, &x);
                    y.iter().zip(&dy).map(|(y, dy)| y * dy).sum::<f64>()
                };
                let slope = (loss(1e-5) - loss(-1e-5)) / 2e-5;
                assert!((slope - f64::from(dx[i])).abs() < 2e-6, "{l:?} {i}");
            }
        }
    }

    #[test]
    fn an_even_window_reaches_further_to_the_channels_before() {
        // Of size 2, channel c is divided by c − 1 and c: with these figures y = x / (3 + Σ x²).
        let l = LocalResponse {
            c: 3,
            plane: 1,
            size: 2,
            alpha: 2.0,
            beta: 1.0,
            k: 3.0,
        };
        let mut y = [0.0; 3];
        l.forward(&[1.0, 2.0, 3.0], &mut y);
        assert_eq!(y, [1.0 / 4.0, 2.0 / 8.0, 3.0 / 16.0]);
    }

    #[test]
    fn a_batch_of_nothing_is_fine() {
        layer(3, 4, 5, 0.75).forward(&[], &mut []);
        layer(3, 4, 5, 0.75).backward(&[], &[], &mut [], &mut Vec::new());
    }
}
