//! Rows in memory, on their way into a shard.

use std::collections::BTreeMap;

use super::Row;

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
    /// The row that is being made: each feature's number above the bits of its value, so that one fast sort of integers
    /// puts it in order.
    row: Vec<u64>,
}

impl Block {
    /// Adds a feature to the row that is being made.
    pub fn feature(&mut self, index: u32, value: f32) {
        self.row
            .push(u64::from(index) << 32 | u64::from(value.to_bits()));
    }

    /// Calls a feature `name`, unless it has one: of several that meet in one number, the first gives the name.
    pub fn name(&mut self, index: u32, name: impl FnOnce() -> String) {
        self.names.entry(index).or_insert_with(name);
    }

    /// Forgets the row that is being made.
    pub fn forget_row(&mut self) {
        self.row.clear();
    }

    /// Ends the row that is being made: its features are put in order, and those that came several times are added up. What
    /// comes of it does not depend on the order they came in.
    pub fn end_row(&mut self, label: bool) {
        let mut row = std::mem::take(&mut self.row);
        row.sort_unstable();
        let number = |feature: &u64| (feature >> 32) as u32;
        let value = |feature: &u64| f32::from_bits(*feature as u32);
        let repeated = row
            .windows(2)
            .fold(false, |any, two| any | (number(&two[0]) == number(&two[1])));
        if repeated || row.iter().any(|feature| value(feature) != 1.0) {
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
        row.clear();
        self.row = row;
        self.ends.push(self.indices.len() as u64);
        self.labels.push(u8::from(label));
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
        self.row.clear();
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
        // The same feature at a row's end and the next row's begin stays two.
        block.feature(9, 1.0);
        block.end_row(true);
        assert_eq!(block.len(), 4);
        assert_eq!(block.row(0).values, Some(&[1.0, 1.0][..]));
        assert_eq!(block.row(1).indices, [0u32; 0]);
        assert_eq!(block.row(2).indices, [7, 9]);
        assert_eq!(block.row(2).values, Some(&[0.5, 3.0][..]));
        assert_eq!((block.row(3).indices, block.row(3).label), (&[9][..], true));
        assert_eq!(block.indptr(), [0, 2, 2, 4, 5]);
    }
}
