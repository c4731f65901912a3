//! Numbers that each rank of a node writes once, and that all of them then read where they are.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::Range;
use std::slice;

use super::{Comm, Shared};
use crate::Result;

/// Bytes of a cache line, at which each rank's numbers begin.
const LINE: usize = 64;
/// Cells of one.
const CELLS: usize = LINE / size_of::<u32>();

/// Numbers of which any bits are one.
pub trait Plain: Copy + private::Sealed {}

mod private {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

impl Plain for f32 {}
impl Plain for f64 {}

/// Numbers of all ranks of a node, in memory that they have in common.
///
/// Each rank's are written by itself while these are made, before anybody can read; afterwards nobody can write. That is
/// what lets plain slices take the place of atomics.
pub struct Parts<T> {
    memory: Shared,
    /// Each rank's cells.
    cells: Vec<Range<usize>>,
    /// Its numbers.
    lens: Vec<usize>,
    numbers: PhantomData<T>,
}

impl<T: Plain> Parts<T> {
    /// Makes room for `len` zeros of this rank, lets `fill` write them, and waits for the others; all ranks of `node` are on
    /// one node. An error of one rank is its own: ranks have to agree on what they do about it; *collective*.
    pub fn fill(
        node: &dyn Comm,
        len: usize,
        fill: impl FnOnce(&mut [T]) -> Result<()>,
    ) -> Result<Self> {
        let lens: Vec<usize> = node
            .gather(&len.to_le_bytes())
            .into_iter()
            .map(|bytes| usize::from_le_bytes(bytes.try_into().expect("all send as many bytes")))
            .collect();
        let mut end = 0;
        let cells: Vec<Range<usize>> = lens
            .iter()
            .map(|len| {
                let begin = end;
                end += (len * size_of::<T>() / size_of::<u32>()).next_multiple_of(CELLS);
                begin..end
            })
            .collect();
        // One line more, as the memory may not begin at one.
        let memory = node.common(end + CELLS)?;
        let parts = Self {
            memory,
            cells,
            lens,
            numbers: PhantomData,
        };
        let mine = parts.place(node.rank());
        // SAFETY: the place is this rank's alone until all have met below, and nobody has been given a reference to it.
        let filled = fill(unsafe { slice::from_raw_parts_mut(mine.cast_mut(), len) });
        node.barrier();
        filled.map(|()| parts)
    }

    /// The numbers of a rank of the node.
    pub fn of(&self, rank: usize) -> &[T] {
        // SAFETY: so many are there, aligned, and nobody writes them once `fill` has returned on this rank, because it returns
        // when all ranks have written.
        unsafe { slice::from_raw_parts(self.place(rank), self.lens[rank]) }
    }

    /// Gives the memory back; *collective*.
    pub fn close(self) -> Result<()> {
        self.memory.close()
    }

    /// Where a rank's numbers begin.
    fn place(&self, rank: usize) -> *const T {
        let all = self.memory.of(0);
        // Mappings begin at pages in every process alike, so that all ranks find the same place.
        let skip = all.as_ptr().align_offset(LINE).min(CELLS);
        all[skip..][self.cells[rank].clone()].as_ptr().cast()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use crate::comm::run_ranks;

    #[test]
    fn all_ranks_read_what_each_has_written() {
        run_ranks(4, |comm| {
            let rank = comm.rank();
            let parts = Parts::fill(comm, 3 * rank, |mine: &mut [f64]| {
                assert!(mine.iter().all(|&x| x == 0.0));
                mine.fill(rank as f64 + 0.5);
                Ok(())
            })
            .unwrap();
            for other in 0..4 {
                assert_eq!(parts.of(other), vec![other as f64 + 0.5; 3 * other]);
                assert_eq!(parts.of(other).as_ptr().addr() % LINE, 0);
            }
            comm.barrier();
            parts.close().unwrap();
        });
    }

    #[test]
    fn a_rank_that_cannot_fill_its_part_keeps_nobody_waiting() {
        let failed = run_ranks(3, |comm| {
            let parts = Parts::fill(comm, 5, |_: &mut [f32]| match comm.rank() {
                1 => Err(Error::Usage("no".into())),
                _ => Ok(()),
            });
            parts.is_err()
        });
        assert_eq!(failed, [false, true, false]);
    }
}
