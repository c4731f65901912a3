//! The gradient noise scale (McCandlish et al. 2018), and a batch that follows it.
//!
//! A gradient over b samples has the expected squared norm |G|² + tr(Σ)/b, where G is the true gradient and Σ the
//! covariance of one sample's. Each rank's gradient gives this for a small batch, their mean for a large one, and two
//! equations have two unknowns. The simple noise scale tr(Σ)/|G|² is the batch from which on a larger one is hardly
//! better: below it, noise is the greater part of a step.

use serde::{Deserialize, Serialize};

/// Steps over which estimates are averaged: a single one is mostly noise.
const WINDOW: u64 = 300;
/// Steps before an average is told.
const FIRST: u64 = 30;
/// How much the batch may grow at once.
const MOST: usize = 2;

/// What a step tells of gradients, all of them scaled alike.
#[derive(Clone, Copy, Debug)]
pub struct Norms {
    /// Squared norms of the ranks' mean gradients, averaged with their samples as weights.
    pub small: f64,
    /// The squared norm of the mean gradient of all samples.
    pub big: f64,
    /// Ranks that had samples.
    pub ranks: usize,
    /// Samples of the step.
    pub samples: usize,
}

/// A running estimate of the noise scale.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Noise {
    /// The most samples a batch may grow to; none if it does not grow.
    #[serde(skip)]
    limit: Option<usize>,
    steps: u64,
    /// Averages of |G|² and tr(Σ); each by itself, as a mean of quotients would not be the quotient of means.
    gradient: f64,
    variance: f64,
}

impl Noise {
    /// Nothing measured yet. With a `limit` the batch follows the noise scale up to it.
    pub fn new(limit: Option<usize>) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    /// Goes on with what another has measured.
    pub fn go_on(&mut self, measured: Self) {
        let limit = self.limit;
        *self = Self { limit, ..measured };
    }

    /// Takes note of a step. With b·|g|² weighed by b, ranks with unequal shares count as `ranks` equal ones.
    pub fn add(&mut self, norms: Norms) {
        let Norms { small, big, .. } = norms;
        if norms.ranks < 2 || !(small.is_finite() && big.is_finite()) {
            return;
        }
        let (ranks, samples) = (norms.ranks as f64, norms.samples as f64);
        let gradient = (ranks * big - small) / (ranks - 1.0);
        let variance = samples * (small - big) / (ranks - 1.0);
        self.steps += 1;
        let weight = 1.0 / self.steps.min(WINDOW) as f64;
        self.gradient += weight * (gradient - self.gradient);
        self.variance += weight * (variance - self.variance);
    }

    /// The noise scale in samples, once it is known; none as well while noise hides the gradient altogether.
    pub fn scale(&self) -> Option<f64> {
        let known = self.steps >= FIRST && self.gradient > 0.0 && self.variance >= 0.0;
        known.then_some(self.variance / self.gradient)
    }

    /// The batch after one of `batch` samples, in a run that began with `first`: the noise scale in whole multiples of
    /// `first`, at most twice `batch` and at most the limit, and never less than `batch`.
    pub fn grown(&self, batch: usize, first: usize) -> usize {
        let (Some(limit), Some(scale)) = (self.limit, self.scale()) else {
            return batch;
        };
        let most = (MOST * batch).min(limit);
        let wanted = (scale as usize).min(most);
        (wanted / first * first).max(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    /// Norms of a step whose ranks have `shares` samples each with gradient (1, 1, …) and noise of deviation `sigma` in
    /// each of `n` directions; scaled as a sum of ranks' means would be.
    fn step(stream: &mut Stream, n: usize, sigma: f64, shares: &[usize]) -> Norms {
        let samples: usize = shares.iter().sum();
        let normal = |stream: &mut Stream| {
            let uniform = |stream: &mut Stream| (stream.bits() >> 11) as f64 / (1u64 << 53) as f64;
            (0..12).map(|_| uniform(stream)).sum::<f64>() - 6.0
        };
        let (mut small, mut mean) = (0.0, vec![0.0; n]);
        for &share in shares {
            let weight = share as f64 / samples as f64;
            let deviation = sigma / (share as f64).sqrt();
            let own: Vec<f64> = (0..n).map(|_| 1.0 + deviation * normal(stream)).collect();
            small += weight * own.iter().map(|g| g * g).sum::<f64>();
            mean.iter_mut()
                .zip(&own)
                .for_each(|(m, g)| *m += weight * g);
        }
        Norms {
            small,
            big: mean.iter().map(|g| g * g).sum(),
            ranks: shares.len(),
            samples,
        }
    }

    #[test]
    fn gradients_of_known_covariance_have_the_known_scale() {
        // tr(Σ) = 50·20² and |G|² = 50: a scale of 400 samples, above and below the batch.
        for shares in [&[50, 50][..], &[40, 40, 39], &[1000, 999]] {
            let mut stream = Stream::new(&[shares.len() as u64]);
            let mut noise = Noise::new(None);
            (0..3000).for_each(|_| noise.add(step(&mut stream, 50, 20.0, shares)));
            let scale = noise.scale().unwrap();
            assert!((330.0..480.0).contains(&scale), "{shares:?}: {scale}");
        }
    }

    #[test]
    fn the_estimate_follows_the_gradient() {
        let mut stream = Stream::new(&[1]);
        let mut noise = Noise::new(None);
        assert_eq!(noise.scale(), None, "nothing is known at first");
        for (sigma, low, high) in [(5.0, 22.0, 28.0), (20.0, 340.0, 470.0)] {
            (0..2000).for_each(|_| noise.add(step(&mut stream, 50, sigma, &[64; 4])));
            let scale = noise.scale().unwrap();
            assert!((low..high).contains(&scale), "deviation {sigma}: {scale}");
        }
    }

    #[test]
    fn the_batch_follows_the_scale_in_multiples_and_never_shrinks() {
        let scaled = |limit, scale| Noise {
            limit,
            steps: FIRST,
            gradient: 1.0,
            variance: scale,
        };
        let grown = |scale, batch| scaled(Some(1000), scale).grown(batch, 60);
        assert_eq!(grown(59.0, 60), 60, "below the batch");
        assert_eq!(grown(500.0, 60), 120, "at most twice as much");
        assert_eq!(grown(200.0, 120), 180, "a multiple of the first");
        assert_eq!(grown(90.0, 480), 480, "never less");
        assert_eq!(grown(5e9, 960), 960, "up to the limit");
        assert_eq!(scaled(None, 500.0).grown(60, 60), 60, "measured only");
        let hidden = Noise {
            gradient: -1.0,
            ..scaled(Some(1000), 500.0)
        };
        assert_eq!((hidden.scale(), hidden.grown(60, 60)), (None, 60));
    }

    #[test]
    fn a_step_of_one_rank_or_without_a_number_tells_nothing() {
        let mut noise = Noise::new(None);
        let norms = Norms {
            small: 2.0,
            big: 1.0,
            ranks: 1,
            samples: 8,
        };
        let odd = Norms {
            small: f64::NAN,
            ranks: 2,
            ..norms
        };
        (0..FIRST).for_each(|_| noise.add(norms));
        (0..FIRST).for_each(|_| noise.add(odd));
        assert_eq!(noise.steps, 0);
    }
}
