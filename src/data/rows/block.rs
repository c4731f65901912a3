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
        let begin = self.begin();
        for feature in row.drain(..) {
            let (index, value) = ((feature >> 32) as u32, f32::from_bits(feature as u32));
            if self.indices.len() > begin && self.indices.last() == Some(&index) {
                self.spell_values();
                *self.values.last_mut().expect("as many as indices") += value;
                continue;
            }
            if value != 1.0 {
                self.spell_values();
            }
            self.indices.push(index);
            if !self.values.is_empty() || value != 1.0 {
                self.values.push(value);
            }
        }
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

    /// Where the features of the next row begin.
    fn begin(&self) -> usize {
        self.ends.last().map_or(0, |&end| end as usize)
    }

    /// From now on values are stored.
    fn spell_values(&mut self) {
        if self.values.is_empty() {
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
