//! The features that some rows have, each once: what has to be known, and learnt, of a model for these rows.

use super::exchange::{Picked, Work, no_number, no_such_feature};
use super::logistic::note;
use crate::Result;
use crate::comm::{Comm, block};
use crate::data::rows::RowSet;
use crate::nn::Tally;

/// Features of rows in rising order, the bias behind them.
#[derive(Clone, Debug, Default)]
pub(super) struct Gathered {
    /// The features; the last is the bias, whose number is that of all features.
    pub(super) ids: Vec<u32>,
    /// For each feature of each row, in their order, its place in `ids`.
    places: Vec<u32>,
    /// Room to sort in.
    keys: Vec<u64>,
    spare: Vec<u64>,
}

impl Gathered {
    /// Replaces all by the features of `rows`.
    pub(super) fn gather(&mut self, set: &RowSet, rows: &Picked) -> Result<()> {
        self.keys.clear();
        for (number, row) in rows.iter(set).enumerate() {
            for &feature in row.indices {
                if feature as usize >= set.about.features {
                    return Err(no_such_feature(set, rows.number(number), feature));
                }
                let at = self.keys.len() as u64;
                self.keys.push(u64::from(feature) << 32 | at);
            }
        }
        sort(&mut self.keys, &mut self.spare, set.about.features as u32);
        self.ids.clear();
        self.places.resize(self.keys.len(), 0);
        for key in &self.keys {
            let (feature, at) = ((key >> 32) as u32, *key as u32);
            if self.ids.last() != Some(&feature) {
                self.ids.push(feature);
            }
            self.places[at as usize] = self.ids.len() as u32 - 1;
        }
        self.ids.push(set.about.features as u32);
        Ok(())
    }

    /// The features that each rank owns, where all and the bias are divided over the ranks of `comm`: how many.
    pub(super) fn owned(&self, comm: &dyn Comm, features: usize) -> Vec<u64> {
        let mut before = 0;
        let mut count = |rank| {
            let end = block(features + 1, comm.size(), rank).end;
            let after = self.ids.partition_point(|&id| (id as usize) < end);
            let count = after - before;
            before = after;
            count as u64
        };
        (0..comm.size()).map(&mut count).collect()
    }

    /// Adds the gradients of `rows`, which are part of those gathered and begin at feature `at` of all, to `grads`, one for
    /// each of the features; gives where the features of later rows begin.
    pub(super) fn gradients(
        &self,
        work: &Work,
        rows: &Picked,
        mut at: usize,
        (weights, grads): (&[f32], &mut [f32]),
        tally: &mut Tally,
    ) -> Result<usize> {
        let bias = self.ids.len() - 1;
        for (number, row) in rows.iter(work.set).enumerate() {
            let places = &self.places[at..at + row.indices.len()];
            at += row.indices.len();
            let value = |i: usize| row.values.map_or(1.0, |values| values[i]);
            let mut logit = weights[bias];
            for (i, &place) in places.iter().enumerate() {
                logit += weights[place as usize] * value(i);
            }
            if !logit.is_finite() {
                return Err(no_number(work, rows.number(number), logit));
            }
            let slope = note(tally, logit, row.label);
            let slope = slope * work.classes.of(row.label) * work.scale;
            for (i, &place) in places.iter().enumerate() {
                grads[place as usize] += slope * value(i);
            }
            grads[bias] += slope;
        }
        Ok(at)
    }

    /// The logits of the rows that were gathered.
    pub(super) fn logits(&self, set: &RowSet, rows: &Picked, weights: &[f32], out: &mut Vec<f32>) {
        let (mut at, bias) = (0, weights[self.ids.len() - 1]);
        out.clear();
        for row in rows.iter(set) {
            let places = &self.places[at..at + row.indices.len()];
            at += row.indices.len();
            let value = |i: usize| row.values.map_or(1.0, |values| values[i]);
            let each = places.iter().enumerate();
            let logit = each.fold(bias, |sum, (i, &place)| {
                sum + weights[place as usize] * value(i)
            });
            out.push(logit);
        }
    }

    /// The places in `ids` of the features of the rows, in their order.
    pub(super) fn places(&self) -> &[u32] {
        &self.places
    }
}

/// Sorts keys by their upper halves, which are at most `most`; equal ones stay in their order. By digits from the lowest on:
/// four bytes read and written for each of three or fewer digits, where a sort by comparisons would take some fifteen rounds.
pub(super) fn sort(keys: &mut Vec<u64>, spare: &mut Vec<u64>, most: u32) {
    const DIGIT: u32 = 11;
    let bits = u32::BITS - most.leading_zeros();
    spare.resize(keys.len(), 0);
    for digit in 0..bits.div_ceil(DIGIT) {
        let of = |key: u64| (key >> (32 + digit * DIGIT)) as usize & ((1 << DIGIT) - 1);
        let mut starts = [0u32; 1 << DIGIT];
        keys.iter().for_each(|&key| starts[of(key)] += 1);
        let mut next = 0;
        for start in &mut starts {
            next += std::mem::replace(start, next);
        }
        for &key in &*keys {
            let start = &mut starts[of(key)];
            spare[*start as usize] = key;
            *start += 1;
        }
        std::mem::swap(keys, spare);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    #[test]
    fn keys_are_sorted_and_equal_ones_keep_their_order() {
        let mut stream = Stream::new(&[1]);
        for most in [0, 1, 2047, 2048, 33_000_000, u32::MAX] {
            let key = |at: u64| stream.below(u64::from(most) + 1) << 32 | at;
            let mut keys: Vec<u64> = (0..5000).map(key).collect();
            let mut expected = keys.clone();
            expected.sort_unstable();
            sort(&mut keys, &mut Vec::new(), most);
            assert_eq!(keys, expected);
        }
    }
}
