//! Rows in another order than they are stored in: some held out, in stretches of neighbours, behind the others.

use std::ops::Range;

use crate::data::split::chosen;

/// The most rows of a stretch: so many neighbours are read as fast as all would be.
const MOST: usize = 256;
/// Stretches that a set is cut into at the least, as far as it has rows.
const LEAST: usize = 1000;

/// Stretches of rows, by their numbers, in order.
pub(super) struct Stretches {
    size: usize,
    numbers: Vec<u32>,
}

impl Stretches {
    /// Of a set of so many `rows`, with about `share` of them, chosen by `seed`, behind the others; and how many these are.
    pub(super) fn held_out(rows: usize, share: f64, seed: u64) -> (Self, usize) {
        let size = (rows / LEAST).clamp(1, MOST);
        // What is left over is shorter than a stretch and must be the last.
        let (count, over) = (rows / size, rows % size);
        let held = (share * rows as f64 - over as f64) / size as f64;
        let held = (held.round().max(0.0) as usize).min(count);
        let aside = chosen(count, held, seed);
        let all = 0..count as u32;
        let (last, mut numbers): (Vec<u32>, _) = all.partition(|&i| aside[i as usize]);
        numbers.extend(last);
        numbers.push(count as u32);
        let stretches = Self { size, numbers };
        (stretches, rows - held * size - over)
    }

    /// Where row `i` is stored.
    pub(super) fn stored(&self, i: usize) -> usize {
        self.numbers[i / self.size] as usize * self.size + i % self.size
    }

    /// Where the first of the rows `range`, and those that lie behind it in order and in its stretch, are stored.
    pub(super) fn run(&self, range: &Range<usize>) -> Range<usize> {
        let start = self.stored(range.start);
        let len = range.len().min(self.size - range.start % self.size);
        start..start + len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_on_one_side_and_the_share_is_nearly_as_asked() {
        for rows in [1, 2, 9, 999, 1000, 1999, 5003, 300_007] {
            for share in [0.001, 0.1, 0.5, 0.99] {
                let (stretches, before) = Stretches::held_out(rows, share, 3);
                let stored: Vec<usize> = (0..rows).map(|i| stretches.stored(i)).collect();
                assert!(stored[..before].is_sorted() && stored[before..].is_sorted());
                let mut all = stored.clone();
                all.sort_unstable();
                assert!(all.into_iter().eq(0..rows), "{rows} rows, {share}");
                let held = (rows - before) as f64;
                let off = (held - share * rows as f64).abs();
                assert!(off <= (rows as f64 / 1000.0).max(1.0), "{held} of {rows}");
                let mut left = 0..rows;
                while !left.is_empty() {
                    let run = stretches.run(&left);
                    assert_eq!(
                        stored[left.start..][..run.len()],
                        run.clone().collect::<Vec<_>>()
                    );
                    left.start += run.len();
                }
            }
        }
        let side = |seed| {
            let (stretches, before) = Stretches::held_out(100_000, 0.1, seed);
            (before..100_000)
                .map(|i| stretches.stored(i))
                .collect::<Vec<_>>()
        };
        assert_eq!(side(1), side(1));
        assert_ne!(side(1), side(2));
    }
}
