//! The middle of measurements, and how sure it is.

use crate::rng::Stream;

/// Resamples for an interval.
const RESAMPLES: u64 = 2000;

/// The middle of repeated measurements.
#[derive(Clone, Debug, PartialEq)]
pub struct Middle {
    /// The middle one.
    pub median: f64,
    /// The interval that holds the true median in 19 of 20 such studies, as far as so few tell; only of two or more.
    pub interval: Option<(f64, f64)>,
}

impl Middle {
    /// Of some measurements; nothing of none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let middle = median(values.to_vec())?;
        let interval = (values.len() > 1).then(|| {
            let mut stream = Stream::new(&[0x626f_6f74, values.len() as u64]);
            let mut medians: Vec<f64> = (0..RESAMPLES)
                .filter_map(|_| {
                    let again = values
                        .iter()
                        .map(|_| values[stream.below(values.len() as u64) as usize]);
                    median(again.collect())
                })
                .collect();
            medians.sort_by(f64::total_cmp);
            let at = |share: f64| medians[((medians.len() - 1) as f64 * share).round() as usize];
            (at(0.025), at(0.975))
        });
        Some(Self {
            median: middle,
            interval,
        })
    }
}

/// The one in the middle, or between the two there; nothing of nothing.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() % 2 {
        _ if values.is_empty() => None,
        0 => Some((values[middle - 1] + values[middle]) / 2.0),
        _ => Some(values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_median_is_within_its_values_and_narrows() {
        let values = |n: usize| -> Vec<f64> {
            let mut stream = Stream::new(&[3]);
            (0..n).map(|_| f64::from(stream.normal())).collect()
        };
        let width = |n: usize| {
            let middle = Middle::of(&values(n)).unwrap();
            let (low, high) = middle.interval.unwrap();
            assert!(low <= middle.median && middle.median <= high);
            high - low
        };
        assert!(width(100) < width(10) / 2.0);
        assert_eq!(Middle::of(&[]), None);
        assert_eq!(Middle::of(&[4.0]).unwrap().interval, None);
        // Twice the same measurements, the same interval.
        assert_eq!(Middle::of(&values(7)), Middle::of(&values(7)));
    }
}
