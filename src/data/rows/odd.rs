//! Values of a shard where nearly all are 1: those of the few rows that have another one.
//!
//! A feature that comes twice in a row, or two that hashing gave one number, has the value 2: a few rows of every click log.

use std::ops::Range;

/// Rows with a value that is not 1.
pub(super) struct Odd {
    /// A bit for each row: whether it is one of them.
    marks: Vec<u64>,
    /// These rows in order, and where their values are.
    rows: Vec<(usize, Range<usize>)>,
    /// All values of these rows.
    values: Vec<f32>,
}

impl Odd {
    /// Of rows that begin and end at `indptr`, the value at each place of `at` is not 1 but that of `odd`. None if this
    /// makes no sense.
    pub(super) fn new(at: &[u64], odd: &[f32], indptr: &[u64]) -> Option<Self> {
        let (&end, rows) = (indptr.last()?, indptr.len() - 1);
        let rising = at.is_sorted_by(|a, b| a < b) && at.last().is_none_or(|&last| last < end);
        if at.len() != odd.len() || !rising || !indptr.is_sorted() {
            return None;
        }
        let mut all = Self {
            marks: vec![0; rows.div_ceil(64)],
            rows: Vec::new(),
            values: Vec::new(),
        };
        for (&at, &value) in at.iter().zip(odd) {
            let row = indptr
                .partition_point(|&begin| begin <= at)
                .checked_sub(1)?;
            if all.rows.last().is_none_or(|&(last, _)| last != row) {
                let begin = all.values.len();
                let length = (indptr[row + 1] - indptr[row]) as usize;
                all.values.resize(begin + length, 1.0);
                all.rows.push((row, begin..begin + length));
                all.marks[row / 64] |= 1 << (row % 64);
            }
            let (_, place) = all.rows.last()?;
            all.values[place.start + (at - indptr[row]) as usize] = value;
        }
        Some(all)
    }

    /// The values of row `i`, unless all are 1.
    #[inline]
    pub(super) fn of(&self, i: usize) -> Option<&[f32]> {
        if self.marks[i / 64] >> (i % 64) & 1 == 0 {
            return None;
        }
        let at = self.rows.binary_search_by_key(&i, |&(row, _)| row).ok()?;
        Some(&self.values[self.rows[at].1.clone()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_with_an_odd_value_have_all_their_values_and_others_none() {
        // Rows of 2, 0, 3 and 1 features.
        let indptr = [0, 2, 2, 5, 6];
        let odd = Odd::new(&[2, 4, 5], &[7.0, 8.0, 9.0], &indptr).unwrap();
        let expected: [Option<&[f32]>; 4] = [None, None, Some(&[7.0, 1.0, 8.0]), Some(&[9.0])];
        assert_eq!([0, 1, 2, 3].map(|i| odd.of(i)), expected);
        for (at, values) in [(&[6][..], 1), (&[3, 3], 2), (&[3, 2], 2), (&[1, 2], 1)] {
            assert!(
                Odd::new(at, &vec![2.0; values], &indptr).is_none(),
                "{at:?}"
            );
        }
        assert!(Odd::new(&[0], &[2.0], &[]).is_none());
        assert!(
            Odd::new(&[0], &[2.0], &[1, 2]).is_none(),
            "before the first row"
        );
    }
}
