//! The columns of a click log, and how often each of their values comes: a few very often, most hardly ever.

use libm::{erfc, exp2, pow};

/// How many columns a row has, and so features.
pub(super) const COLUMNS: usize = NUMBERS.len() + CARDINALITIES.len();

/// Columns of whole numbers: mean and deviation of their logarithms.
const NUMBERS: [(f64, f64); 13] = [
    (0.5, 1.2),
    (1.5, 1.8),
    (1.8, 1.4),
    (1.5, 1.1),
    (7.0, 2.2),
    (3.0, 1.7),
    (1.2, 1.5),
    (2.2, 1.1),
    (3.9, 1.4),
    (0.1, 0.7),
    (0.5, 1.0),
    (0.3, 1.3),
    (1.6, 1.1),
];

/// Columns of words: how many different ones there are, as in Criteo's Kaggle set of display advertising.
const CARDINALITIES: [u32; 26] = [
    1460, 583, 10_131_227, 2_202_608, 305, 24, 12_517, 633, 3, 93_145, 5683, 8_351_593, 3194, 27,
    14_992, 5_461_306, 10, 5652, 2173, 4, 7_046_547, 18, 15, 286_181, 105, 142_572,
];

/// Two buckets for each doubling: the last of them begins at about a million.
const BUCKETS: i32 = 41;

/// How often the values of one column come. They are called by their ranks: 0 is the most common.
pub(super) enum Column {
    /// A number in buckets: the chance of each rank and all before it.
    Number(Vec<f64>),
    /// A word by Zipf's law with exponent 1.1, cut off behind the last rank.
    Word {
        values: u32,
        /// 1 - (values + 1)^-0.1.
        span: f64,
    },
}

impl Column {
    /// All columns of a row.
    pub(super) fn all() -> Vec<Self> {
        let numbers = NUMBERS.iter().map(|&(mean, deviation)| {
            let mut chances: Vec<f64> = (0..BUCKETS)
                .map(|bucket| chance(bucket, mean, deviation))
                .filter(|&chance| chance > 0.0)
                .collect();
            chances.sort_by(|a, b| b.total_cmp(a));
            let upto = |sum: &mut f64, chance: f64| {
                *sum += chance;
                Some(*sum)
            };
            Self::Number(chances.into_iter().scan(0.0, upto).collect())
        });
        let words = CARDINALITIES.iter().map(|&values| Self::Word {
            values,
            span: 1.0 - pow(f64::from(values) + 1.0, -0.1),
        });
        numbers.chain(words).collect()
    }

    /// How many values there are.
    pub(super) fn values(&self) -> u32 {
        match self {
            Self::Number(upto) => upto.len() as u32,
            Self::Word { values, .. } => *values,
        }
    }

    /// The rank that `u`, uniform in 0..1, stands for.
    pub(super) fn rank(&self, u: f64) -> u32 {
        match self {
            Self::Number(upto) => {
                // The common ones come first: most searches end after a few steps.
                let rank = upto.iter().position(|&chance| u < chance);
                rank.unwrap_or(upto.len() - 1) as u32
            }
            // The inverse of P(below rank r) = (1 - (r + 1)^-0.1) / span, without a logarithm.
            Self::Word { values, span } => {
                let root = 1.0 - u * span;
                let fifth = root * root * (root * root) * root;
                let rank = (1.0 / (fifth * fifth)) as u32;
                rank.clamp(1, *values) - 1
            }
        }
    }
}

/// The chance that the whole part n of a log-normal number has 2 log₂(1 + n) in `bucket`.
fn chance(bucket: i32, mean: f64, deviation: f64) -> f64 {
    let first = |bucket: i32| exp2(f64::from(bucket) / 2.0).ceil() - 1.0;
    let below = |number: f64| match number {
        n if n <= 0.0 => 0.0,
        n => 0.5 * erfc((mean - libm::log(n)) / (deviation * std::f64::consts::SQRT_2)),
    };
    let end = match bucket + 1 {
        BUCKETS => 1.0,
        next => below(first(next)),
    };
    end - below(first(bucket))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    #[test]
    fn values_come_as_often_as_their_law_says() {
        let mut stream = Stream::new(&[3]);
        let draws = 200_000;
        for column in Column::all() {
            let mut counts = [0u32; 8];
            for _ in 0..draws {
                let rank = column.rank(stream.fraction());
                assert!(rank < column.values());
                if let Some(count) = counts.get_mut(rank as usize) {
                    *count += 1;
                }
            }
            for (rank, &count) in counts.iter().enumerate().take(column.values() as usize) {
                let chance = match &column {
                    Column::Number(upto) => {
                        upto[rank] - if rank > 0 { upto[rank - 1] } else { 0.0 }
                    }
                    Column::Word { span, .. } => {
                        let upto = |r: usize| (1.0 - (r as f64 + 1.0).powf(-0.1)) / span;
                        upto(rank + 1) - upto(rank)
                    }
                };
                let expected = chance * f64::from(draws);
                let apart = (f64::from(count) - expected).abs();
                // Five deviations of a count, over some 300 counts.
                assert!(
                    apart < 5.0 * expected.sqrt() + 3.0,
                    "{count}, not {expected}"
                );
            }
        }
    }

    #[test]
    fn chances_of_buckets_sum_to_one() {
        for (mean, deviation) in NUMBERS {
            let sum: f64 = (0..BUCKETS).map(|b| chance(b, mean, deviation)).sum();
            assert!((sum - 1.0).abs() < 1e-12, "{sum}");
        }
    }
}
