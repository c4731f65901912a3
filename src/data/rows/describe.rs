//! What is in a set of rows: counts, ranges, checksum.

use xxhash_rust::xxh3::Xxh3;

use super::{Row, RowSet};
use crate::observe::Progress;
use crate::{Error, Result};

/// Rows between two looks at whether the user wants to stop.
const LOOK: usize = 1 << 14;

/// What reading a whole set tells.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Rows with label 1.
    pub positives: u64,
    /// Features that occur.
    pub used: u64,
    /// Features of the row that has most.
    pub longest: usize,
    /// Smallest and largest value.
    pub range: (f32, f32),
    /// XXH3 over all rows in order: the label as a byte, the number of features as a `u64`, their numbers as `u32`, their
    /// values as `f32`, all with the lowest byte first. The same however the set is cut into shards, and whether ones are
    /// stored or not.
    pub checksum: u64,
}

/// Rows that a fingerprint looks at, evenly spread.
const LOOKED_AT: usize = 1024;

impl RowSet {
    /// In words, what it holds, told cheaply: its size, and a digest of some rows. The same however it is cut into shards.
    pub fn fingerprint(&self) -> String {
        let (mut hash, mut bytes) = (Xxh3::new(), Vec::new());
        let count = self.len().min(LOOKED_AT);
        for i in 0..count {
            bytes.clear();
            spell(self.stored_row(i * self.len() / count), &mut bytes);
            hash.update(&bytes);
        }
        format!(
            "{} rows of {} features, {} in all, {:016x}",
            self.len(),
            self.about.features,
            self.nonzeros(),
            hash.digest()
        )
    }
}

/// Adds a row to `bytes` as checksums take it.
fn spell(row: Row, bytes: &mut Vec<u8>) {
    bytes.push(u8::from(row.label));
    bytes.extend((row.indices.len() as u64).to_le_bytes());
    bytes.extend(row.indices.iter().flat_map(|index| index.to_le_bytes()));
    for at in 0..row.indices.len() {
        let value = row.values.map_or(1.0, |values| values[at]);
        bytes.extend(value.to_le_bytes());
    }
}

/// Reads every row once; a feature beyond the last or a value that is not finite is an error.
pub fn describe(set: &RowSet) -> Result<Summary> {
    let mut hash = Xxh3::new();
    let mut summary = Summary {
        positives: 0,
        used: 0,
        longest: 0,
        range: (f32::INFINITY, f32::NEG_INFINITY),
        checksum: 0,
    };
    let mut seen = vec![0u64; set.about.features.div_ceil(64)];
    let mut bytes = Vec::new();
    let progress = Progress::new("reading", set.len() as u64);
    for (i, row) in set.rows(0..set.len()).enumerate() {
        if i % LOOK == 0 {
            crate::interrupt::check()?;
            progress.add(LOOK.min(set.len() - i) as u64);
        }
        let bad = |problem: String| {
            let hint = "make or import the set again; see data/README.md for the format";
            Error::file(&set.path, format!("row {i} has {problem}"), hint)
        };
        bytes.clear();
        spell(row, &mut bytes);
        for &index in row.indices {
            if index as usize >= set.about.features {
                let most = set.about.features - 1;
                return Err(bad(format!("feature {index}, expected 0 to {most}")));
            }
            seen[index as usize / 64] |= 1 << (index % 64);
        }
        for at in 0..row.indices.len() {
            let value = row.values.map_or(1.0, |values| values[at]);
            if !value.is_finite() {
                return Err(bad(format!("value {value}, which is not finite")));
            }
            summary.range = (summary.range.0.min(value), summary.range.1.max(value));
        }
        hash.update(&bytes);
        summary.positives += u64::from(row.label);
        summary.longest = summary.longest.max(row.indices.len());
    }
    summary.used = seen.iter().map(|word| u64::from(word.count_ones())).sum();
    summary.checksum = hash.digest();
    Ok(summary)
}
