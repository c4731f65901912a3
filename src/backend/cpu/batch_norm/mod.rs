//! Batch normalisation: each channel of `x: (n, c, h, w)` brought to mean 0 and variance 1, then scaled and shifted.
//!
//! Both passes come in two parts with a sum between them, which ranks may add up: what is normalised is then the batch
//! of all ranks together. Sums are of doubles: a variance from them keeps its digits however far off the mean is.
//!
//! Cost: 4 + 8 bytes an element forward (sums, then read and write), 8 + 12 backward.

mod statistics;

pub use statistics::{Running, Statistics};

use super::{Work, wide};

/// Sizes of one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channels {
    /// Channels.
    pub c: usize,
    /// Cells of a plane, `h × w`.
    pub plane: usize,
}

impl Channels {
    /// What ranks add up before they normalise, `sums: (2c + 1)`: of each channel the sum, of each the sum of squares,
    /// and the number of elements of a channel.
    pub fn sums(self, x: &[f32], sums: &mut [f64]) {
        assert_eq!(sums.len(), 2 * self.c + 1, "sums, squares and a count");
        sums.fill(0.0);
        sums[2 * self.c] = (x.len() / self.c) as f64;
        let (sum, squares) = sums.split_at_mut(self.c);
        for (x, channel) in self.planes(x).zip(self.order()) {
            wide(PlaneSums {
                a: x,
                b: x,
                offset: 0.0,
                sum: &mut sum[channel],
                products: &mut squares[channel],
            });
        }
    }

    /// `y = (x − mean) · inv_std · gamma + beta`.
    pub fn forward(
        self,
        x: &[f32],
        stats: &Statistics,
        gamma: &[f32],
        beta: &[f32],
        y: &mut [f32],
    ) {
        assert_eq!(x.len(), y.len(), "as many outputs as inputs");
        let planes = self.planes(x).zip(y.chunks_exact_mut(self.plane));
        for ((x, y), c) in planes.zip(self.order()) {
            let (mean, factor, shift) = (stats.mean[c], stats.inv_std[c] * gamma[c], beta[c]);
            // The mean first: folded into the shift it would cost digits.
            let value = |x: f32| (x - mean) * factor + shift;
            wide(|| y.iter_mut().zip(x).for_each(|(y, &x)| *y = value(x)));
        }
    }

    /// What ranks add up before they compute `dx`, `sums: (2c)`: of each channel `Σ dy`, of each `Σ dy·x̂`, with x̂ the
    /// normalised x. Before they are added up they are the gradients of beta and of gamma.
    pub fn backward_sums(self, x: &[f32], dy: &[f32], stats: &Statistics, sums: &mut [f64]) {
        assert_eq!(sums.len(), 2 * self.c, "two sums a channel");
        assert_eq!(x.len(), dy.len(), "as many gradients as outputs");
        sums.fill(0.0);
        let (sum, products) = sums.split_at_mut(self.c);
        let planes = self.planes(x).zip(self.planes(dy));
        for ((x, dy), channel) in planes.zip(self.order()) {
            wide(PlaneSums {
                a: dy,
                b: x,
                offset: f64::from(stats.mean[channel]),
                sum: &mut sum[channel],
                products: &mut products[channel],
            });
        }
        for (product, inv_std) in products.iter_mut().zip(&stats.inv_std) {
            *product *= f64::from(*inv_std);
        }
    }

    /// `dx = gamma · inv_std · (dy − Σdy/count − x̂ · Σ(dy·x̂)/count)`, with the sums and the count of all ranks.
    pub fn backward(self, x: &[f32], dy: &[f32], layer: Gradient, dx: &mut [f32]) {
        assert_eq!(x.len(), dy.len(), "as many gradients as outputs");
        assert_eq!(x.len(), dx.len(), "as many gradients out as inputs");
        let planes = self.planes(x).zip(self.planes(dy));
        let planes = planes.zip(dx.chunks_exact_mut(self.plane));
        for (((x, dy), dx), c) in planes.zip(self.order()) {
            let (mean, inv_std) = (layer.stats.mean[c], layer.stats.inv_std[c]);
            let constant = (layer.sums[c] / layer.count) as f32;
            let slope = (layer.sums[self.c + c] / layer.count) as f32 * inv_std;
            let factor = layer.gamma[c] * inv_std;
            let value = |x: f32, dy: f32| factor * (dy - constant - (x - mean) * slope);
            wide(|| {
                let inputs = x.iter().zip(dy);
                dx.iter_mut()
                    .zip(inputs)
                    .for_each(|(dx, (&x, &dy))| *dx = value(x, dy));
            });
        }
    }

    fn planes(self, x: &[f32]) -> std::slice::ChunksExact<'_, f32> {
        assert_eq!(x.len() % (self.c * self.plane), 0, "samples of {self:?}");
        x.chunks_exact(self.plane)
    }

    /// The channel of each plane, without end.
    fn order(self) -> impl Iterator<Item = usize> {
        (0..self.c).cycle()
    }
}

/// What the backward pass needs besides x and dy.
#[derive(Clone, Copy, Debug)]
pub struct Gradient<'a> {
    /// As in the forward pass.
    pub stats: &'a Statistics,
    /// As in the forward pass.
    pub gamma: &'a [f32],
    /// From [`Channels::backward_sums`], added up over ranks.
    pub sums: &'a [f64],
    /// Elements of a channel, of all ranks: the last of what [`Channels::sums`] gave, added up.
    pub count: f64,
}

/// Adds `Σ a` and `Σ a·(b − offset)` of one plane.
struct PlaneSums<'a> {
    a: &'a [f32],
    b: &'a [f32],
    offset: f64,
    sum: &'a mut f64,
    products: &'a mut f64,
}

impl Work for PlaneSums<'_> {
    #[inline(always)]
    fn run(self) {
        // Many sums side by side, because one would wait for each addition before the next.
        const LANES: usize = 16;
        let (mut sums, mut products) = ([0.0f64; LANES], [0.0f64; LANES]);
        let (rows, rest) = self.a.as_chunks::<LANES>();
        let (others, other_rest) = self.b.as_chunks::<LANES>();
        for (a, b) in rows.iter().zip(others) {
            for lane in 0..LANES {
                let (a, b) = (f64::from(a[lane]), f64::from(b[lane]));
                sums[lane] += a;
                products[lane] += a * (b - self.offset);
            }
        }
        for (lane, (a, b)) in rest.iter().zip(other_rest).enumerate() {
            let (a, b) = (f64::from(*a), f64::from(*b));
            sums[lane] += a;
            products[lane] += a * (b - self.offset);
        }
        *self.sum += sums.iter().sum::<f64>();
        *self.products += products.iter().sum::<f64>();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    const EPS: f64 = 1e-3;

    fn random(len: usize, key: u64) -> Vec<f64> {
        let mut stream = Stream::new(&[key]);
        let values = (0..len).map(|_| f64::from(stream.between(-1.0, 3.0)));
        values.collect()
    }

    fn floats(values: &[f64]) -> Vec<f32> {
        values.iter().map(|&v| v as f32).collect()
    }

    /// Adds up what "ranks" with the parts of a batch have, as an all-reduce would.
    fn added(parts: &[&[f32]], len: usize, sums: impl Fn(usize, &mut [f64])) -> Vec<f64> {
        let mut total = vec![0.0; len];
        for rank in 0..parts.len() {
            let mut own = vec![f64::NAN; len];
            sums(rank, &mut own);
            total.iter_mut().zip(&own).for_each(|(t, own)| *t += own);
        }
        total
    }

    /// From the definition, in doubles.
    fn truth(g: Channels, x: &[f64], gamma: &[f64], beta: &[f64]) -> Vec<f64> {
        let of = |c: usize| (0..x.len()).filter(move |i| i / g.plane % g.c == c);
        let mut y = vec![0.0; x.len()];
        for c in 0..g.c {
            let count = of(c).count() as f64;
            let mean = of(c).map(|i| x[i]).sum::<f64>() / count;
            let variance = of(c).map(|i| (x[i] - mean).powi(2)).sum::<f64>() / count;
            for i in of(c) {
                y[i] = (x[i] - mean) / (variance + EPS).sqrt() * gamma[c] + beta[c];
            }
        }
        y
    }

    /// Three ranks with 2, 0 and 1 samples: outputs and gradients are those of the whole batch.
    fn check(g: Channels) {
        let sample = g.c * g.plane;
        let (x, dy) = (random(3 * sample, 1), random(3 * sample, 2));
        let (gamma, beta) = (random(g.c, 3), random(g.c, 4));
        let (fx, fdy, fgamma) = (floats(&x), floats(&dy), floats(&gamma));
        let (xs, dys) = (fx.split_at(2 * sample), fdy.split_at(2 * sample));
        let (xs, dys) = ([xs.0, &[], xs.1], [dys.0, &[], dys.1]);

        let sums = added(&xs, 2 * g.c + 1, |rank, own| g.sums(xs[rank], own));
        assert_eq!(sums[2 * g.c], (3 * g.plane) as f64);
        let mut stats = Statistics::new(g.c);
        stats.of_batch(&sums, EPS as f32);
        let mut y = vec![f32::NAN; x.len()];
        g.forward(&fx, &stats, &fgamma, &floats(&beta), &mut y);
        for (i, (y, truth)) in y.iter().zip(truth(g, &x, &gamma, &beta)).enumerate() {
            assert!(
                (f64::from(*y) - truth).abs() < 1e-5,
                "{g:?} {i} {y} {truth}"
            );
        }

        let backward_sums = |rank: usize, own: &mut [f64]| {
            g.backward_sums(xs[rank], dys[rank], &stats, own);
        };
        let layer = Gradient {
            stats: &stats,
            gamma: &fgamma,
            sums: &added(&xs, 2 * g.c, backward_sums),
            count: sums[2 * g.c],
        };
        let mut dx = vec![f32::NAN; x.len()];
        g.backward(&fx, &fdy, layer, &mut dx);
        let loss = |x: &[f64], gamma: &[f64], beta: &[f64]| {
            let y = truth(g, x, gamma, beta);
            y.iter().zip(&dy).map(|(y, dy)| y * dy).sum::<f64>()
        };
        let slope = |values: &[f64], i: usize, loss: &dyn Fn(&[f64]) -> f64| {
            let moved = |step: f64| {
                let mut values = values.to_vec();
                values[i] += step;
                loss(&values)
            };
            (moved(1e-5) - moved(-1e-5)) / 2e-5
        };
        for i in (0..x.len()).step_by(13) {
            let slope = slope(&x, i, &|x| loss(x, &gamma, &beta));
            assert!(
                (slope - f64::from(dx[i])).abs() < 1e-5,
                "{g:?} dx {i} {slope} {}",
                dx[i]
            );
        }
        for c in 0..g.c {
            let of_beta = slope(&beta, c, &|beta| loss(&x, &gamma, beta));
            let of_gamma = slope(&gamma, c, &|gamma| loss(&x, gamma, &beta));
            assert!((of_beta - layer.sums[c]).abs() < 1e-4, "{g:?} beta {c}");
            assert!(
                (of_gamma - layer.sums[g.c + c]).abs() < 1e-3,
                "{g:?} gamma {c}"
            );
        }
    }

    #[test]
    fn ranks_together_normalise_as_one_and_gradients_match_central_differences() {
        for (c, plane) in [(1, 1), (3, 1), (2, 16), (3, 37), (5, 49), (1, 100)] {
            check(Channels { c, plane });
        }
    }

    #[test]
    fn evaluation_is_a_scale_and_a_shift() {
        let g = Channels { c: 2, plane: 2 };
        let running = Running {
            mean: vec![1.0, -2.0],
            var: vec![3.0, 15.0],
        };
        let mut stats = Statistics::new(2);
        stats.of_run(&running, 1.0);
        let mut y = [9.0; 4];
        g.forward(
            &[1.0, 3.0, 2.0, -2.0],
            &stats,
            &[2.0, 4.0],
            &[0.5, 1.0],
            &mut y,
        );
        assert_eq!(y, [0.5, 2.5, 5.0, 1.0]);
    }

    #[test]
    fn a_mean_far_off_costs_no_digits() {
        let g = Channels { c: 1, plane: 4 };
        let mut sums = [0.0; 3];
        g.sums(&[10_000.0, 10_001.0, 10_002.0, 10_003.0], &mut sums);
        let mut stats = Statistics::new(1);
        stats.of_batch(&sums, 0.0);
        assert_eq!(stats.mean, [10_001.5]);
        assert!(
            (stats.inv_std[0] - 1.0 / 1.25f32.sqrt()).abs() < 1e-6,
            "{stats:?}"
        );
    }
}
