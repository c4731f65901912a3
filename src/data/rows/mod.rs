//! Rows of sparse features with a label of 0 or 1: click logs and other wide data, stored by rows (CSR).

mod block;
mod describe;
mod mapped;
mod odd;
mod set;
mod shard;
mod stretches;
mod together;

pub use block::Block;
pub use describe::{Summary, describe};
pub use set::{About, RowSet, Rows, SetFolder};
pub use together::write_together;

/// The format's name in the files.
const FORMAT: &str = "phalanx rows";
/// The format's version that this program writes, and the newest it reads.
const VERSION: u32 = 2;
/// The most features a set may have: an index is a `u32`.
pub const MOST_FEATURES: usize = 1 << 32;

/// One row: the features that are not zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row<'a> {
    /// Their numbers.
    pub indices: &'a [u32],
    /// Their values; all are 1 without.
    pub values: Option<&'a [f32]>,
    /// Whether the label is 1.
    pub label: bool,
}
