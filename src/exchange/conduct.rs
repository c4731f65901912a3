//! How a rank's updates were among those of others, for reports.

use serde::{Deserialize, Serialize};

/// What an exchange without a common step has to tell of one rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conduct {
    /// For each update: how many steps the slowest rank was behind this one when the parameters were read that the update
    /// was computed from. This is what a bound on staleness bounds.
    pub behind: Histogram,
    /// For each update: how many updates of others were made between that reading and this update.
    pub missed: Histogram,
    /// Gradients that came too late and were thrown away, or were not even computed.
    pub dropped: u64,
    /// Updates that counted.
    pub updates: u64,
    /// Seconds that this rank waited for each other one, because of a bound on staleness; empty if there is none.
    #[serde(default)]
    pub waited: Vec<f64>,
}

impl Conduct {
    /// Counts all that `other` has counted.
    pub fn merge(&mut self, other: &Self) {
        self.behind.merge(&other.behind);
        self.missed.merge(&other.missed);
        self.dropped += other.dropped;
        self.updates += other.updates;
        if self.waited.len() < other.waited.len() {
            self.waited.resize(other.waited.len(), 0.0);
        }
        let pairs = self.waited.iter_mut().zip(&other.waited);
        pairs.for_each(|(time, more)| *time += more);
    }
}

/// How often each small number occurred.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// Of 0, 1, 2 …
    counts: Vec<u64>,
    /// Numbers past all those.
    beyond: u64,
    /// The greatest number.
    most: u64,
    /// The sum of all.
    sum: u64,
}

impl Histogram {
    /// Numbers that are told apart.
    const LEN: usize = 64;

    /// Counts `value`.
    pub fn add(&mut self, value: u64) {
        // At once: steps are counted where nothing is to be allocated.
        if self.counts.is_empty() {
            self.counts = vec![0; Self::LEN];
        }
        match self.counts.get_mut(value as usize) {
            Some(count) => *count += 1,
            None => self.beyond += 1,
        }
        self.most = self.most.max(value);
        self.sum += value;
    }

    /// Counts all that `other` has counted.
    pub fn merge(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        let pairs = self.counts.iter_mut().zip(&other.counts);
        pairs.for_each(|(count, more)| *count += more);
        self.beyond += other.beyond;
        self.most = self.most.max(other.most);
        self.sum += other.sum;
    }

    /// How many numbers it has counted.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum::<u64>() + self.beyond
    }

    /// The greatest.
    pub fn most(&self) -> u64 {
        self.most
    }

    /// Their mean; 0 if there are none.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.total().max(1) as f64
    }

    /// The mean of those that were counted since it was as `before`; nothing if there are none.
    pub fn mean_since(&self, before: &Self) -> Option<f64> {
        let count = self.total().checked_sub(before.total());
        let count = count.filter(|&count| count > 0)?;
        Some(self.sum.saturating_sub(before.sum) as f64 / count as f64)
    }

    /// How often 0, 1, 2 … occurred, up to the last that did or could be told apart.
    pub fn counts(&self) -> &[u64] {
        let end = self.counts.iter().rposition(|&count| count > 0);
        &self.counts[..end.map_or(0, |last| last + 1)]
    }

    /// As the user reads it: the share of each range of numbers that occurred, such as `0: 12.0 %, 2–3: 88.0 %`.
    pub fn describe(&self) -> String {
        let total = self.total().max(1) as f64;
        let share = |count: u64| format!("{:.1} %", 100.0 * count as f64 / total);
        let mut words = Vec::new();
        let (mut start, mut end) = (0, 1);
        while start < self.counts.len() {
            let count = self.counts[start..end].iter().sum();
            let numbers = match end - start {
                1 => start.to_string(),
                _ => format!("{start}–{}", end - 1),
            };
            if count > 0 {
                words.push(format!("{numbers}: {}", share(count)));
            }
            (start, end) = (end, 2 * end);
        }
        if self.beyond > 0 {
            let above = Self::LEN - 1;
            words.push(format!("above {above}: {}", share(self.beyond)));
        }
        words.join(", ")
    }
}

/// How unequal shares are, after Gini: 0 if all are equal, towards 1 if one has all.
pub fn gini(shares: &[u64]) -> f64 {
    let mut sorted = shares.to_vec();
    sorted.sort_unstable();
    let (n, total) = (sorted.len() as f64, sorted.iter().sum::<u64>() as f64);
    if total == 0.0 {
        return 0.0;
    }
    let weighed = (sorted.iter().zip(1..)).map(|(&share, place)| f64::from(place) * share as f64);
    2.0 * weighed.sum::<f64>() / (n * total) - (n + 1.0) / n
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_shares_have_gini_0_and_one_owner_of_all_nearly_1() {
        assert!(gini(&[5, 5, 5, 5]).abs() < 1e-12);
        assert!((gini(&[0, 0, 0, 8]) - 0.75).abs() < 1e-12);
        // Half of the mean absolute difference over the mean: |1−3| over all ordered pairs of two, 2·2/4 / 2 / 2.
        assert!((gini(&[3, 1]) - 0.25).abs() < 1e-12);
        assert_eq!(gini(&[0, 0]), 0.0);
    }

    #[test]
    fn numbers_beyond_the_last_counter_are_counted_too() {
        let mut histogram = Histogram::default();
        (0..4).for_each(|i| histogram.add([0, 2, 2, 1000][i]));
        let mut twice = histogram.clone();
        twice.merge(&histogram);
        assert_eq!(
            (twice.total(), twice.most(), twice.mean()),
            (8, 1000, 251.0)
        );
        assert_eq!(twice.counts(), [2, 0, 4]);
        assert_eq!(twice.mean_since(&histogram), Some(251.0));
        assert_eq!(twice.mean_since(&twice), None);
        assert_eq!(
            histogram.describe(),
            "0: 25.0 %, 2–3: 50.0 %, above 63: 25.0 %"
        );
    }
}
