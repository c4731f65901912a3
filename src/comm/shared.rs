//! Memory that all ranks of a node see, as cells that are only ever touched atomically.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::Result;

/// Where the cells live; keeps them alive.
pub(super) trait Cells {
    /// The cells that local rank `owner` brought.
    fn of(&self, owner: usize) -> &[AtomicU32];
    /// Gives them back; *collective*.
    fn close(self: Box<Self>) -> Result<()>;
}

/// One slice of cells per rank, all of them visible to every rank of the node.
///
/// Relaxed loads and stores of `u32` compile to plain moves. They order nothing: a barrier, or a cell written with
/// `Release` and read with `Acquire`, must stand between a write and a read that depends on it.
pub struct Shared(pub(super) Box<dyn Cells>);

impl Shared {
    /// The cells that local rank `owner` brought.
    pub fn of(&self, owner: usize) -> &[AtomicU32] {
        self.0.of(owner)
    }

    /// Gives the memory back; *collective*. Dropped instead, it stays until the process ends.
    pub fn close(self) -> Result<()> {
        self.0.close()
    }

    /// Copies `owner`'s cells from `offset` into `out`.
    pub fn read(&self, owner: usize, offset: usize, out: &mut [f32]) {
        let cells = &self.of(owner)[offset..][..out.len()];
        for (value, cell) in out.iter_mut().zip(cells) {
            *value = f32::from_bits(cell.load(Ordering::Relaxed));
        }
    }

    /// Copies `values` into `owner`'s cells from `offset`.
    pub fn write(&self, owner: usize, offset: usize, values: &[f32]) {
        let cells = &self.of(owner)[offset..][..values.len()];
        for (cell, value) in cells.iter().zip(values) {
            cell.store(value.to_bits(), Ordering::Relaxed);
        }
    }
}
