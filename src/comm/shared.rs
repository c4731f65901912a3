//! Memory that all ranks of a node see, as cells that are only ever touched atomically.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::Result;

/// Where the cells live; keeps them alive.
pub(super) trait Cells {
    /// The cells that local rank `owner` brought.
    fn of(&self, owner: usize) -> &[AtomicU32];
    /// Asks for huge pages, where it can; gives the bytes that are in them.
    fn enlarge_pages(&self) -> usize {
        0
    }
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

    /// A number of 64 bits somewhere in the first three of `owner`'s cells from `offset` on; it begins at zero. Nobody may
    /// use these cells otherwise.
    ///
    /// # Panics
    /// Panics if there are fewer than three cells.
    pub fn wide(&self, owner: usize, offset: usize) -> &AtomicU64 {
        let cells = &self.of(owner)[offset..][..3];
        // Mappings are aligned to pages in every process alike, so that all ranks find the same place.
        let odd = cells.as_ptr().addr() % align_of::<AtomicU64>() / size_of::<AtomicU32>();
        // SAFETY: the two cells from `odd` on are eight bytes, aligned, alive as long as these cells, and by contract only
        // ever used as this number.
        unsafe { &*cells[odd..].as_ptr().cast::<AtomicU64>() }
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
