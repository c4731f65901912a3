//! The folder of a matrix that ranks wrote: what its files are called, and the table that says which block is where.

use std::ops::Range;

/// The file that joins the blocks, and the data set in it.
pub(super) const FILE: &str = "matrix.h5";
pub(super) const TABLE: &str = "matrix";
/// The table beside it that says where the blocks are: a row of six numbers for each.
pub(super) const BLOCKS: &str = "blocks";
/// Numbers of a row of that table.
pub(super) const WIDTH: usize = 6;

const PREFIX: &str = "blocks-";

/// A block of the matrix, and the rank that wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub rank: usize,
    /// Which of that rank's, from 0.
    pub number: usize,
    pub rows: Range<usize>,
    pub cols: Range<usize>,
}

impl Part {
    /// Name of the file that it is in.
    pub(super) fn file(&self) -> String {
        file_name(self.rank)
    }

    /// Name of the data set that it is in that file.
    pub(super) fn table(&self) -> String {
        table_name(self.number)
    }

    /// How many numbers it has.
    pub(super) fn area(&self) -> u128 {
        self.rows.len() as u128 * self.cols.len() as u128
    }

    pub(super) fn to_row(&self) -> [u64; WIDTH] {
        let Self {
            rank,
            number,
            rows,
            cols,
        } = self;
        [
            *rank,
            *number,
            rows.start,
            rows.len(),
            cols.start,
            cols.len(),
        ]
        .map(|n| n as u64)
    }

    pub(super) fn from_row(row: &[u64; WIDTH]) -> Self {
        let [rank, number, row, rows, col, cols] = row.map(|n| n as usize);
        Self {
            rank,
            number,
            rows: row..row.saturating_add(rows),
            cols: col..col.saturating_add(cols),
        }
    }
}

pub(super) fn file_name(rank: usize) -> String {
    format!("{PREFIX}{rank:05}.h5")
}

pub(super) fn table_name(number: usize) -> String {
    format!("block-{number}")
}

/// Whether a file of that name may be in the folder.
pub(super) fn belongs(name: &str) -> bool {
    name == FILE || (name.starts_with(PREFIX) && name.ends_with(".h5"))
}
