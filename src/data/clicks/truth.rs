//! The model that makes the labels: logistic, linear in the features, with weights that are computed and never stored.

use libm::{exp, exp2, log1p};

use super::columns::{COLUMNS, Column};
use super::features::{Features, LEVELS};
use crate::data::rows::Block;
use crate::rng::{Stream, mix};

/// The deviation of logits over rows: chosen so that the best log loss is about 0.46 where a quarter is positive.
const SPREAD: f64 = 1.3;
/// Rows that intercept and deviation are measured on; they are in no set.
const PILOTS: u64 = 1 << 14;

/// What the randomness of a row, and of the rows that are measured on, is for.
const ROW: u64 = 0x636c_6963_6b73;
const PILOT: u64 = 0x7069_6c6f_7473;

/// Makes rows and their labels.
pub(super) struct Truth {
    seed: u64,
    columns: Vec<Column>,
    features: Features,
    weights: u64,
    /// What the sum of four times 16 random bits is multiplied by, for a feature of each level.
    scales: [f64; LEVELS],
    intercept: f64,
    gain: f64,
}

impl Truth {
    /// The model of `seed` over so many features, whose labels are positive in this share of rows.
    pub(super) fn new(seed: u64, features: usize, positives: f64) -> Self {
        let columns = Column::all();
        let features = Features::new(&columns, features);
        // Their deviation is that of four uniform numbers, 65536 / √3.
        let one = 3.0_f64.sqrt() / 65536.0;
        let scale = |level| one * exp2(level as f64 / -8.0);
        let mut truth = Self {
            seed,
            columns,
            features,
            weights: Stream::new(&[seed]).bits(),
            scales: std::array::from_fn(scale),
            intercept: 0.0,
            gain: 1.0,
        };
        let pilots: Vec<f64> = (0..PILOTS)
            .map(|i| truth.sum(&mut Stream::new(&[seed, PILOT, i]), |_| {}))
            .collect();
        let mean = pilots.iter().sum::<f64>() / PILOTS as f64;
        let squares: f64 = pilots.iter().map(|x| (x - mean) * (x - mean)).sum();
        let deviation = (squares / PILOTS as f64).sqrt();
        // With a single feature all rows are the same up to rounding, and nothing tells them apart.
        if deviation > 1e-6 {
            truth.gain = SPREAD / deviation;
        }
        let centred = pilots.iter().map(|x| (x - mean) * truth.gain);
        truth.intercept = intercept(centred, positives) - mean * truth.gain;
        truth
    }

    /// Adds row `i` to `block`, and gives the logit that its label was drawn with.
    pub(super) fn row(&self, i: u64, block: &mut Block) -> f64 {
        let mut stream = Stream::new(&[self.seed, ROW, i]);
        let sum = self.sum(&mut stream, |feature| block.feature(feature, 1.0));
        let logit = self.intercept + self.gain * sum;
        block.end_row(stream.fraction() < chance(logit));
        logit
    }

    /// Draws a row's features and adds up their weights.
    fn sum(&self, stream: &mut Stream, mut take: impl FnMut(u32)) -> f64 {
        let mut sum = 0.0;
        for column in 0..COLUMNS {
            let rank = self.columns[column].rank(stream.fraction());
            let (feature, level) = self.features.of(column, rank);
            take(feature);
            sum += self.weight(feature, level);
        }
        sum
    }

    /// A feature's weight: nearly normal, with a deviation that falls as 2^(-level / 8), about the eighth root of the rank.
    /// Rare values say less, as in logs of real clicks, and what nobody could learn from a few million rows is a small part
    /// of the whole.
    fn weight(&self, feature: u32, level: usize) -> f64 {
        let bits = mix(self.weights ^ mix(u64::from(feature)));
        let sum: u64 = (0..4).map(|part| (bits >> (16 * part)) & 0xffff).sum();
        (sum as f64 - 2.0 * 65535.0) * self.scales[level]
    }
}

/// The log loss to be expected where labels are drawn with `logit`, and that is known: the label's entropy.
pub(super) fn expected_loss(logit: f64) -> f64 {
    // From the logit's size, so that no logarithm of 0 can come up.
    let size = logit.abs();
    log1p(exp(-size)) + size * chance(-size)
}

/// The logistic function.
fn chance(logit: f64) -> f64 {
    1.0 / (1.0 + exp(-logit))
}

/// What must be added to `logits`, whose mean is 0, for a mean chance of `positives`, by bisection.
fn intercept(logits: impl Iterator<Item = f64> + Clone, positives: f64) -> f64 {
    let (mut low, mut high) = (-50.0, 50.0);
    for _ in 0..50 {
        let middle = (low + high) / 2.0;
        let sum: f64 = logits.clone().map(|logit| chance(logit + middle)).sum();
        match sum < positives * PILOTS as f64 {
            true => low = middle,
            false => high = middle,
        }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sparse::Quality;

    #[test]
    fn labels_are_as_likely_as_the_model_says() {
        for (seed, features, positives) in [
            (1, 33_762_578, 0.25),
            (2, 1 << 16, 0.25),
            (3, 64, 0.04),
            (4, 2, 0.1),
            (5, 1, 0.3),
        ] {
            let truth = Truth::new(seed, features, positives);
            let (mut rows, mut quality, mut best) = (Block::default(), Quality::default(), 0.0);
            let count = 50_000;
            for i in 0..count {
                let logit = truth.row(i, &mut rows);
                quality.add(logit as f32, rows.row(i as usize).label);
                best += expected_loss(logit) / count as f64;
            }
            let summary = quality.summary().unwrap();
            // Four deviations: of a share of labels, and of a mean of losses whose own deviation is below 0.7.
            let near = |a: f64, b: f64, n: u64| (a - b).abs() < 4.0 * (0.25 / n as f64).sqrt();
            assert!(
                near(summary.positives, summary.prediction, count),
                "{summary:?}"
            );
            assert!((summary.loss - best).abs() < 4.0 * 0.7 / (count as f64).sqrt());
            assert!((summary.prediction - positives).abs() < 0.01, "{summary:?}");
            for bin in summary.calibration {
                assert!(
                    near(bin.positives, bin.prediction, bin.count.max(1)),
                    "{bin:?}"
                );
            }
            if positives == 0.25 {
                assert!(
                    (0.44..0.47).contains(&best),
                    "{best}: the base rate's is 0.562"
                );
            }
        }
    }
}
