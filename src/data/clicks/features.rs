//! Which number a value of a column has as a feature.
//!
//! Values of all columns are numbered so that common ones come first: by level, which is the whole part of log₂(1 + rank),
//! then by column. The first of them have a feature each, and if there are fewer features than values, the others share
//! those. So each feature has one level of its own, and one weight in the true model: that model is linear in the features
//! however few they are. Numbers are then scattered over all features, as hashing would do it.

use super::columns::Column;
use crate::rng::mix;

/// Levels that ranks can have.
pub(super) const LEVELS: usize = 32;

/// The map from values to features.
pub(super) struct Features {
    count: u64,
    columns: usize,
    /// The number of the first value of each level and, inside of it, column.
    starts: Vec<u64>,
    /// Without a divisor in common with `count`.
    factor: u64,
    shift: u32,
}

impl Features {
    /// Of `count` features.
    pub(super) fn new(columns: &[Column], count: usize) -> Self {
        let mut starts = Vec::with_capacity(LEVELS * columns.len());
        let mut next = 0;
        for level in 0..LEVELS {
            let first = (1u64 << level) - 1;
            for column in columns {
                starts.push(next);
                let end = u64::from(column.values()).min(2 * first + 1);
                next += end.saturating_sub(first);
            }
        }
        let count = count as u64;
        let bits = u64::BITS - (count - 1).leading_zeros();
        // Any large factor would do; this is a prime, so that only its multiples have a divisor in common with it.
        let factor = match count % 2_654_435_761 {
            0 => 1,
            _ => 2_654_435_761,
        };
        Self {
            count,
            columns: columns.len(),
            starts,
            factor,
            shift: (bits / 2).max(1),
        }
    }

    /// The feature of the value of `rank` in `column`, and the level that belongs to that feature.
    pub(super) fn of(&self, column: usize, rank: u32) -> (u32, usize) {
        let place = u64::from(rank) + 1;
        let level = place.ilog2();
        let start = self.starts[level as usize * self.columns + column];
        let number = start + place - (1 << level);
        if number < self.count {
            return (self.scatter(number), level as usize);
        }
        let number = ((u128::from(mix(number)) * u128::from(self.count)) >> 64) as u64;
        let at = self.starts.partition_point(|&start| start <= number) - 1;
        (self.scatter(number), at / self.columns)
    }

    /// Another number below `count` for each number below it.
    fn scatter(&self, number: u64) -> u32 {
        let mut number = number * self.factor % self.count;
        // One to one on whole bits, and again in the rare case that it leaves the range.
        loop {
            number ^= number >> self.shift;
            if number < self.count {
                return (number * self.factor % self.count) as u32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn small() -> Vec<Column> {
        let word = |values| Column::Word { values, span: 0.5 };
        vec![word(3), word(500), word(40), word(40)]
    }

    #[test]
    fn values_have_a_feature_each_where_there_are_enough() {
        for count in [583, 584, 1000, 1024] {
            let (columns, mut seen) = (small(), HashMap::new());
            let features = Features::new(&columns, count);
            for (column, about) in columns.iter().enumerate() {
                for rank in 0..about.values() {
                    let (feature, own) = features.of(column, rank);
                    assert!((feature as usize) < count && own == (rank + 1).ilog2() as usize);
                    assert_eq!(seen.insert(feature, (column, rank)), None);
                }
            }
        }
    }

    #[test]
    fn of_too_few_features_the_common_values_have_their_own() {
        for count in [1, 2, 7, 64, 100] {
            let (columns, mut levels) = (small(), HashMap::new());
            let features = Features::new(&columns, count);
            for (column, about) in columns.iter().enumerate() {
                for rank in 0..about.values() {
                    let (feature, own) = features.of(column, rank);
                    assert!((feature as usize) < count && own <= (rank + 1).ilog2() as usize);
                    assert_eq!(*levels.entry(feature).or_insert(own), own, "one level each");
                }
            }
            assert_eq!(levels.len(), count, "all features are used");
        }
    }
}
