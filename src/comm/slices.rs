//! Sums in the shared memory of one node, each rank its slice: no message, no lock, no system call.
#![allow(unsafe_code)]

use std::ops::Range;
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::{Comm, Shared, block};
use crate::Result;

/// Cells before a rank's numbers: how often it has arrived, alone on its cache lines.
const HEAD: usize = 32;
/// Looks at a peer before the core is offered to others: ranks may be more than cores.
const LOOKS: u32 = 300;

/// Values of all ranks become sums, and what each rank makes of its slice of the sums is spread to all.
///
/// A round has three phases, divided by two meetings of all ranks. First each rank writes its own values, then each
/// reads everybody's and writes its own result, then each reads everybody's results. In no phase does a rank read what
/// another may write: that is what lets plain copies, which compilers turn into vectors, take the place of atomics.
pub struct Slices<'c> {
    comm: &'c dyn Comm,
    memory: Shared,
    /// Values that are cut into slices; those behind are summed on every rank.
    len: usize,
    /// All values of a rank.
    values: usize,
    /// Meetings so far.
    met: u32,
}

impl<'c> Slices<'c> {
    /// For `len` values cut into slices and `tail` behind them; all ranks must be on one node; *collective*.
    pub fn new(comm: &'c dyn Comm, len: usize, tail: usize) -> Result<Self> {
        let values = len + tail;
        let memory = comm.shared(HEAD + values + block(len, comm.size(), comm.rank()).len())?;
        Ok(Self {
            comm,
            memory,
            len,
            values,
            met: 0,
        })
    }

    /// Gives the memory back; *collective*.
    pub fn close(self) -> Result<()> {
        self.memory.close()
    }

    /// One round; *collective*. In `values` this rank's slice and the tail become sums over ranks, in rank order.
    /// `update` gets the slice of the sums and the same slice of `spread`; what it leaves in the latter goes to all.
    /// Returns the time spent waiting for others.
    pub fn round(
        &mut self,
        values: &mut [f32],
        spread: &mut [f32],
        update: impl FnOnce(&mut [f32], &mut [f32]),
    ) -> Duration {
        assert!(
            values.len() == self.values && spread.len() == self.len,
            "sizes as agreed"
        );
        let (rank, size) = (self.comm.rank(), self.comm.size());
        let mine = block(self.len, size, rank);
        // SAFETY: first phase: this rank alone touches its own values.
        unsafe { self.own(HEAD..HEAD + self.values) }.copy_from_slice(values);
        let first = self.meet();
        for part in [mine.clone(), self.len..self.values] {
            let sums = &mut values[part.clone()];
            for peer in 0..size {
                // SAFETY: second phase: values are written by nobody.
                let theirs = unsafe { self.of(peer, HEAD + part.start..HEAD + part.end) };
                match peer {
                    0 => sums.copy_from_slice(theirs),
                    _ => sums
                        .iter_mut()
                        .zip(theirs)
                        .for_each(|(sum, value)| *sum += value),
                }
            }
        }
        update(&mut values[mine.clone()], &mut spread[mine.clone()]);
        let result = HEAD + self.values;
        // SAFETY: second phase: this rank alone touches its own result.
        unsafe { self.own(result..result + mine.len()) }.copy_from_slice(&spread[mine]);
        let second = self.meet();
        for peer in (0..size).filter(|&peer| peer != rank) {
            let theirs = block(self.len, size, peer);
            // SAFETY: third phase: results are written by nobody before all ranks have met again.
            let result = unsafe { self.of(peer, result..result + theirs.len()) };
            spread[theirs].copy_from_slice(result);
        }
        first + second
    }

    /// Returns once every rank has come here as often as this one; what they wrote before is then seen.
    fn meet(&mut self) -> Duration {
        let start = Instant::now();
        self.met = self.met.wrapping_add(1);
        let arrivals = |rank: usize| -> &AtomicU32 { &self.memory.of(rank)[0] };
        arrivals(self.comm.rank()).store(self.met, Ordering::Release);
        for rank in 0..self.comm.size() {
            let mut looks = 0;
            // A peer is at most one meeting ahead, so it is late exactly if it is one behind.
            while arrivals(rank).load(Ordering::Acquire) == self.met.wrapping_sub(1) {
                looks += 1;
                if looks < LOOKS {
                    std::hint::spin_loop()
                } else {
                    std::thread::yield_now()
                }
            }
        }
        start.elapsed()
    }

    /// Cells of `owner` as floats.
    ///
    /// # Safety
    /// No rank may write them while the slice lives.
    unsafe fn of(&self, owner: usize, range: Range<usize>) -> &[f32] {
        let cells = &self.memory.of(owner)[range];
        // SAFETY: a cell has the size and alignment of a float, any bits are one, and nobody writes by contract.
        unsafe { slice::from_raw_parts(cells.as_ptr().cast(), cells.len()) }
    }

    /// This rank's own cells as floats.
    ///
    /// # Safety
    /// No rank may read or write them while the slice lives.
    unsafe fn own(&mut self, range: Range<usize>) -> &mut [f32] {
        let cells = &self.memory.of(self.comm.rank())[range];
        // SAFETY: as in `of`; atomics may be written through a shared reference, and nobody else touches by contract.
        unsafe { slice::from_raw_parts_mut(cells.as_ptr().cast_mut().cast(), cells.len()) }
    }
}
