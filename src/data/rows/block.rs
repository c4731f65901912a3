//! Rows in memory, on their way into a shard.

use std::collections::BTreeMap;

use super::Row;
use crate::backend::cpu::{Work, wide};

/// Rows one behind the other. Within a row features are in order and each is there once.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Block {
    /// Where each row ends.
    ends: Vec<u64>,
    pub(super) indices: Vec<u32>,
    /// As many as indices, or none as long as every value is 1.
    pub(super) values: Vec<f32>,
    /// Whether some value is not 1, and so all are stored.
    spelled: bool,
    pub(super) labels: Vec<u8>,
    /// What features are called, of those that got a name.
    pub(super) names: BTreeMap<u32, String>,
    /// The features of the row that is being made, and their values.
    row: Vec<u32>,
    row_values: Vec<f32>,
}

/// Of so many values, one that is not 1 is stored by itself.
const FEW: usize = 16;
/// Features up to which a row of ones is put in order by counting, for each, those below it: with eight compared at once
/// that is faster than any sort.
const COUNTED: usize = 64;

impl Block {
    /// Adds a feature to the row that is being made.
    #[inline]
    pub fn feature(&mut self, index: u32, value: f32) {
        self.row.push(index);
        self.row_values.push(value);
    }

    /// Calls a feature `name`, unless it has one: of several that meet in one number, the first gives the name.
    pub fn name(&mut self, index: u32, name: impl FnOnce() -> String) {
        self.names.entry(index).or_insert_with(name);
    }

    /// Forgets the row that is being made.
    pub fn forget_row(&mut self) {
        self.row.clear();
        self.row_values.clear();
    }

    /// Ends the row that is being made: its features are put in order, and those that came several times are added up. What
    /// comes of it does not depend on the order they came in.
    pub fn end_row(&mut self, label: bool) {
        let ones = self.row_values.iter().all(|&value| value == 1.0);
        let counted = ones && self.row.len() <= COUNTED;
        if !(counted && order(&mut self.row, &mut self.indices)) {
            self.sort_row(ones);
        } else if self.spelled {
            self.values.resize(self.indices.len(), 1.0);
        }
        self.forget_row();
        self.ends.push(self.indices.len() as u64);
        self.labels.push(u8::from(label));
    }

    /// Adds the row that is being made, whatever is in it.
    fn sort_row(&mut self, ones: bool) {
        // Each feature's number above the bits of its value: one fast sort of integers puts all in order.
        let both = self.row.iter().zip(&self.row_values);
        let mut row: Vec<u64> = both
            .map(|(&index, value)| u64::from(index) << 32 | u64::from(value.to_bits()))
            .collect();
        row.sort_unstable();
        let number = |feature: &u64| (feature >> 32) as u32;
        let value = |feature: &u64| f32::from_bits(*feature as u32);
        let repeated = row
            .windows(2)
            .fold(false, |any, two| any | (number(&two[0]) == number(&two[1])));
        if repeated || !ones {
            self.spell_values();
        }
        if repeated {
            row.chunk_by(|a, b| number(a) == number(b))
                .for_each(|same| {
                    self.indices.push(number(&same[0]));
                    self.values.push(same.iter().map(value).sum());
                });
        } else {
            self.indices.extend(row.iter().map(number));
            if self.spelled {
                self.values.extend(row.iter().map(value));
            }
        }
    }

    /// Rows that are complete.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether no row is complete.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Row `i`.
    pub fn row(&self, i: usize) -> Row<'_> {
        let begin = if i == 0 { 0 } else { self.ends[i - 1] as usize };
        let range = begin..self.ends[i] as usize;
        Row {
            indices: &self.indices[range.clone()],
            values: (!self.values.is_empty()).then(|| &self.values[range]),
            label: self.labels[i] == 1,
        }
    }

    /// Rows with label 1.
    pub fn positives(&self) -> usize {
        self.labels.iter().map(|&label| usize::from(label)).sum()
    }

    /// Features of all rows.
    pub fn indices(&self) -> &[u32] {
        &self.indices
    }

    /// Forgets all rows, and keeps their memory.
    pub fn clear(&mut self) {
        self.ends.clear();
        self.indices.clear();
        self.values.clear();
        self.spelled = false;
        self.labels.clear();
        self.names.clear();
        self.forget_row();
    }

    /// Which values are not 1, unless they are so many that all may as well be stored.
    pub(super) fn odd(&self) -> Option<Vec<u64>> {
        let is_odd = |value: &f32| *value != 1.0;
        let count = self.values.iter().filter(|value| is_odd(value)).count();
        (count <= self.values.len() / FEW).then(|| {
            let values = self.values.iter().enumerate();
            let odd = values.filter(|(_, value)| is_odd(value));
            odd.map(|(at, _)| at as u64).collect()
        })
    }

    /// Where each row begins, and the last ends.
    pub(super) fn indptr(&self) -> Vec<u64> {
        std::iter::once(0)
            .chain(self.ends.iter().copied())
            .collect()
    }

    /// From now on values are stored.
    fn spell_values(&mut self) {
        if !self.spelled {
            self.spelled = true;
            self.values.resize(self.indices.len(), 1.0);
        }
    }
}

/// Adds `row` to `all` in order, unless something is in it twice.
fn order(row: &mut Vec<u32>, all: &mut Vec<u32>) -> bool {
    struct Order<'a> {
        row: &'a [u32],
        blocks: &'a [[u32; 8]],
        ordered: &'a mut [u32],
        steps: &'a mut u32,
    }
    impl Work for Order<'_> {
        #[inline(always)]
        fn run(self) {
            let mut steps = 0;
            for block in self.blocks {
                let mut below = [0; 8];
                for &other in self.row {
                    let lanes = below.iter_mut().zip(block);
                    lanes.for_each(|(below, &x)| *below += u32::from(other < x));
                }
                for (&below, &x) in below.iter().zip(block) {
                    self.ordered[below as usize] = x;
                    steps += below;
                }
            }
            *self.steps = steps;
        }
    }
    let (start, count, mut steps) = (all.len(), row.len(), 0);
    // What fills the last block goes behind the row: everything is below it, but an equal one.
    row.resize(count.next_multiple_of(8), u32::MAX);
    all.resize(start + count + 1, 0);
    wide(Order {
        row: &row[..count],
        blocks: row.as_chunks().0,
        ordered: &mut all[start..],
        steps: &mut steps,
    });
    let filled = (row.len() - count) * count;
    row.truncate(count);
    all.truncate(start + count);
    // Of different numbers, one has none below it, one has one, and so on; of equal ones, both have fewer.
    let distinct = steps as usize == count * count.saturating_sub(1) / 2 + filled;
    if !distinct {
        all.truncate(start);
    }
    distinct
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_put_in_order_and_repeated_features_are_summed() {
        let mut block = Block::default();
        block.feature(7, 1.0);
        block.feature(3, 1.0);
        block.end_row(true);
        assert_eq!(block.row(0).values, None, "ones are not stored");
        block.end_row(false);
        block.feature(9, 1.0);
        block.feature(7, 0.5);
        block.feature(9, 2.0);
        block.end_row(false);
        for feature in [40, 30, 50, 20] {
            block.feature(feature, 1.0);
        }
        block.end_row(false);
        // The same feature at a row's end and the next row's begin stays two.
        block.feature(50, 1.0);
        block.end_row(true);
        assert_eq!(block.len(), 5);
        assert_eq!(block.row(0).values, Some(&[1.0, 1.0][..]));
        assert_eq!(block.row(1).indices, [0u32; 0]);
        assert_eq!(block.row(2).indices, [7, 9]);
        assert_eq!(block.row(2).values, Some(&[0.5, 3.0][..]));
        assert_eq!(block.row(3).indices, [20, 30, 40, 50]);
        assert_eq!(block.row(3).values, Some(&[1.0; 4][..]));
        assert_eq!(
            (block.row(4).indices, block.row(4).label),
            (&[50][..], true)
        );
        assert_eq!(block.indptr(), [0, 2, 2, 4, 8, 9]);
    }

    #[test]
    fn rows_of_any_length_are_put_in_order() {
        for length in (0..=COUNTED + 2).chain([1000]) {
            let mut block = Block::default();
            let mut features: Vec<u32> = (0..length as u32)
                .map(|i| i.wrapping_mul(0x9e37_79b9))
                .collect();
            features.iter().for_each(|&index| block.feature(index, 1.0));
            block.end_row(true);
            features.sort_unstable();
            assert_eq!(block.indices(), features);
            assert_eq!(block.row(0).values, None);
        }
    }
}
