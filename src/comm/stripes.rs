//! Parameters in the shared memory of one node that any rank may add to at any time, stripe by stripe.
#![allow(unsafe_code)]

use std::ops::Range;
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Comm, Pause, Shared};
use crate::Result;
use crate::backend::cpu::wide;

/// Values of a stripe: few enough that nobody waits long for it, and enough to make its lock cost nothing.
const STRIPE: usize = 4096;
/// Cells before the values of a stripe: its lock and how many updates it has had, alone on their cache lines.
const HEAD: usize = 32;

/// Values that all ranks of a node add to.
///
/// Exact: each stripe has a lock, taken by compare-and-swap, and whoever holds it adds whole vectors; no addition is lost,
/// and all updates of a stripe have an order, which is their number. A compare-and-swap for every single value would cost
/// about as many nanoseconds as there are values and order nothing.
///
/// Racy: values are loaded, added to and stored without a lock, as in Hogwild!: of additions at the same moment, one may be
/// lost.
pub struct Stripes {
    memory: Shared,
    len: usize,
    racy: bool,
}

/// The values of stripe `i` of so many.
pub fn stripe(i: usize, values: usize) -> Range<usize> {
    i * STRIPE..values.min((i + 1) * STRIPE)
}

impl Stripes {
    /// Puts `values`, equal on every rank, into shared memory; all ranks must be on one node; *collective*.
    pub fn new(comm: &dyn Comm, values: &[f32], racy: bool) -> Result<Self> {
        let len = values.len();
        let cells = len.div_ceil(STRIPE) * HEAD + len;
        let memory = comm.shared(if comm.rank() == 0 { cells } else { 0 })?;
        let stripes = Self { memory, len, racy };
        if comm.rank() == 0 {
            for stripe in 0..stripes.count() {
                let range = stripes.range(stripe);
                let cells = stripes.cells(stripe).1.iter();
                let pairs = cells.zip(&values[range]);
                pairs.for_each(|(cell, value)| cell.store(value.to_bits(), Ordering::Relaxed));
            }
        }
        comm.barrier();
        Ok(stripes)
    }

    /// How many stripes.
    pub fn count(&self) -> usize {
        Self::count_of(self.len)
    }

    /// How many stripes so many values have.
    pub fn count_of(values: usize) -> usize {
        values.div_ceil(STRIPE)
    }

    /// The values of a stripe.
    pub fn range(&self, i: usize) -> Range<usize> {
        stripe(i, self.len)
    }

    /// Adds `delta` to a stripe, and copies the sums to `out`. Gives how many updates the stripe had had before.
    pub fn add(&self, stripe: usize, delta: &[f32], out: &mut [f32]) -> u32 {
        if self.racy {
            let (head, cells) = self.cells(stripe);
            for ((cell, delta), out) in cells.iter().zip(delta).zip(out) {
                *out = f32::from_bits(cell.load(Ordering::Relaxed)) + delta;
                cell.store(out.to_bits(), Ordering::Relaxed);
            }
            return head[1].fetch_add(1, Ordering::Relaxed);
        }
        self.locked(stripe, |values, updates| {
            let triples = values.iter_mut().zip(delta).zip(out);
            wide(|| {
                triples.for_each(|((value, delta), out)| {
                    *value += delta;
                    *out = *value;
                });
            });
            updates.store(
                updates.load(Ordering::Relaxed).wrapping_add(1),
                Ordering::Relaxed,
            );
        })
    }

    /// Copies a stripe to `out`. Gives how many updates it has had.
    pub fn read(&self, stripe: usize, out: &mut [f32]) -> u32 {
        if self.racy {
            let (head, cells) = self.cells(stripe);
            let pairs = out.iter_mut().zip(cells);
            pairs.for_each(|(out, cell)| *out = f32::from_bits(cell.load(Ordering::Relaxed)));
            return head[1].load(Ordering::Relaxed);
        }
        self.locked(stripe, |values, _| out.copy_from_slice(values))
    }

    /// Gives the memory back; *collective*.
    pub fn close(self) -> Result<()> {
        self.memory.close()
    }

    /// A stripe's lock and number of updates, and its values.
    fn cells(&self, stripe: usize) -> (&[AtomicU32], &[AtomicU32]) {
        let start = stripe * (HEAD + STRIPE);
        let cells = &self.memory.of(0)[start..][..HEAD + self.range(stripe).len()];
        cells.split_at(HEAD)
    }

    /// Does `work` on the values of a stripe while nobody else does, and gives how many updates there were before.
    fn locked(&self, stripe: usize, work: impl FnOnce(&mut [f32], &AtomicU32)) -> u32 {
        let (head, cells) = self.cells(stripe);
        let [lock, updates, ..] = head else {
            unreachable!("a head has {HEAD} cells")
        };
        let mut pause = Pause::default();
        while lock
            .compare_exchange_weak(0, 1, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            pause.once();
        }
        let before = updates.load(Ordering::Relaxed);
        let place = cells.as_ptr().cast_mut().cast();
        // SAFETY: a cell has the size and alignment of a float and any bits are one; exact stripes are only touched by who
        // holds the lock.
        work(
            unsafe { slice::from_raw_parts_mut(place, cells.len()) },
            updates,
        );
        lock.store(0, Ordering::Release);
        before
    }
}
