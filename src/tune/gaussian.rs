//! A Gaussian process with Matérn's kernel of smoothness 5/2: what is known at some places says what to expect at others.

use ndarray::{Array1, Array2};

use super::{Belief, Surrogate};
use crate::linalg::Factors;

/// Lengths along an axis over which values go together, in widths of the axis; the middle one is the likeliest before any trial.
const LENGTHS: [f64; 7] = [0.15, 0.3, 0.5, 0.8, 1.3, 2.2, 4.0];
const USUAL: f64 = 0.8;
/// How far lengths may be from the usual one: a deviation of the logarithm.
const SPREAD: f64 = 0.8;
/// Shares of the variance that are noise.
const NOISES: [f64; 4] = [1e-4, 1e-3, 1e-2, 1e-1];
/// Sweeps over all lengths when they are chosen.
const SWEEPS: usize = 4;

/// What is learnt from values at places.
pub struct Gaussian {
    places: Vec<Vec<f64>>,
    /// For each coordinate, its axis.
    owners: Vec<usize>,
    kernel: Kernel,
    fit: Fit,
    mean: f64,
}

/// What decides how values go together.
#[derive(Clone)]
struct Kernel {
    /// By axis.
    lengths: Vec<f64>,
    noise: f64,
}

/// What follows of it.
struct Fit {
    factors: Factors,
    /// K⁻¹ (y − mean).
    weights: Array1<f64>,
    variance: f64,
    /// The logarithm of how likely the values are, up to a constant.
    likelihood: f64,
}

impl Gaussian {
    /// Learns from `values` at `places`, where coordinate c belongs to axis `owners[c]`; nothing is learnt of no value.
    pub fn learn(places: &[Vec<f64>], owners: &[usize], values: &[f64]) -> Option<Self> {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let centred: Array1<f64> = values.iter().map(|value| value - mean).collect();
        let axes = owners.iter().max().map_or(0, |last| last + 1);
        let try_kernel = |kernel: &Kernel| fit(places, owners, kernel, &centred);
        let mut best: Option<(Kernel, Fit)> = None;
        for noise in NOISES {
            let mut kernel = Kernel {
                lengths: vec![USUAL; axes],
                noise,
            };
            let Some(mut fitted) = try_kernel(&kernel) else {
                continue;
            };
            for _ in 0..SWEEPS {
                let before = fitted.likelihood;
                for axis in 0..axes {
                    for length in LENGTHS {
                        let mut other = kernel.clone();
                        other.lengths[axis] = length;
                        let found = try_kernel(&other);
                        if let Some(found) = found.filter(|f| f.likelihood > fitted.likelihood) {
                            (kernel, fitted) = (other, found);
                        }
                    }
                }
                if fitted.likelihood == before {
                    break;
                }
            }
            if best
                .as_ref()
                .is_none_or(|(_, best)| fitted.likelihood > best.likelihood)
            {
                best = Some((kernel, fitted));
            }
        }
        let (kernel, fit) = best?;
        Some(Self {
            places: places.to_vec(),
            owners: owners.to_vec(),
            kernel,
            fit,
            mean,
        })
    }
}

impl Surrogate for Gaussian {
    fn believe(&self, at: &[f64]) -> Belief {
        let near: Array1<f64> = (self.places.iter())
            .map(|place| matern(distance(place, at, &self.owners, &self.kernel.lengths)))
            .collect();
        let known = near.dot(&self.fit.factors.solve(&near));
        let rest = (1.0 - known).max(0.0);
        Belief {
            mean: self.mean + near.dot(&self.fit.weights),
            deviation: (self.fit.variance * rest).sqrt(),
        }
    }
}

/// The distance of two places, in lengths.
fn distance(a: &[f64], b: &[f64], owners: &[usize], lengths: &[f64]) -> f64 {
    let squares = a.iter().zip(b).zip(owners).map(|((a, b), &axis)| {
        let along = (a - b) / lengths[axis];
        along * along
    });
    squares.sum::<f64>().sqrt()
}

/// How much values go together that are so many lengths apart.
fn matern(distance: f64) -> f64 {
    let d = 5f64.sqrt() * distance;
    (1.0 + d + d * d / 3.0) * (-d).exp()
}

/// What a kernel makes of values, if its matrix has factors.
fn fit(places: &[Vec<f64>], owners: &[usize], kernel: &Kernel, y: &Array1<f64>) -> Option<Fit> {
    let n = places.len();
    if n == 0 {
        return None;
    }
    let together = Array2::from_shape_fn((n, n), |(i, j)| {
        let noise = if i == j { kernel.noise } else { 0.0 };
        matern(distance(&places[i], &places[j], owners, &kernel.lengths)) + noise
    });
    let factors = Factors::of(together)?;
    let weights = factors.solve(y);
    // The variance that makes the values likeliest, held away from nothing: values may all be equal.
    let variance = (y.dot(&weights) / n as f64).max(1e-12);
    let prior: f64 = (kernel.lengths.iter())
        .map(|length| ((length / USUAL).ln() / SPREAD).powi(2) / 2.0)
        .sum();
    let likelihood = -0.5 * (n as f64 * variance.ln() + factors.ln_det()) - prior;
    Some(Fit {
        factors,
        weights,
        variance,
        likelihood,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(n: usize) -> Vec<Vec<f64>> {
        (0..n).map(|i| vec![i as f64 / (n - 1) as f64]).collect()
    }

    #[test]
    fn matern_is_one_at_nothing_and_falls() {
        assert_eq!(matern(0.0), 1.0);
        // (1 + √5 + 5/3) e^-√5.
        assert!((matern(1.0) - 0.523_994_1).abs() < 1e-6);
    }

    #[test]
    fn it_knows_where_it_was_and_doubts_where_it_was_not() {
        let places = line(6);
        let values: Vec<f64> = places.iter().map(|x| (3.0 * x[0]).sin()).collect();
        let learnt = Gaussian::learn(&places, &[0], &values).unwrap();
        for (place, value) in places.iter().zip(&values) {
            let belief = learnt.believe(place);
            assert!((belief.mean - value).abs() < 0.02, "{belief:?} {value}");
        }
        let between = learnt.believe(&[0.5]);
        assert!((between.mean - 1.5f64.sin()).abs() < 0.05, "{between:?}");
        let beyond = learnt.believe(&[2.0]);
        assert!(beyond.deviation > 5.0 * between.deviation);
    }

    #[test]
    fn an_axis_that_does_not_matter_is_found_out() {
        let mut places = Vec::new();
        let mut values = Vec::new();
        for i in 0..4 {
            for j in 0..4 {
                let (x, y) = (f64::from(i) / 3.0, f64::from(j) / 3.0);
                places.push(vec![x, y]);
                values.push((4.0 * x).sin());
            }
        }
        let learnt = Gaussian::learn(&places, &[0, 1], &values).unwrap();
        let lengths = &learnt.kernel.lengths;
        assert!(lengths[1] > 2.0 * lengths[0], "{lengths:?}");
    }

    #[test]
    fn equal_values_and_one_value_are_no_trouble() {
        for n in [2, 5] {
            let learnt = Gaussian::learn(&line(n), &[0], &vec![3.0; n]).unwrap();
            assert!((learnt.believe(&[0.3]).mean - 3.0).abs() < 1e-6);
        }
        let one = Gaussian::learn(&[vec![0.5]], &[0], &[2.0]).unwrap();
        assert!((one.believe(&[0.9]).mean - 2.0).abs() < 1e-6);
        assert!(Gaussian::learn(&[], &[0], &[]).is_none());
    }
}
