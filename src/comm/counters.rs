//! Numbers that every rank may read and add to at any time, without anybody's help.

use std::sync::atomic::Ordering;

use super::{Comm, Shared};
use crate::Result;

/// Cells from one counter to the next: each has cache lines of its own.
const APART: usize = 32;

/// Numbers that all ranks have in common; they begin at zero.
pub trait Counters {
    /// Adds `amount` to counter `i` and gives what it was before. What a rank wrote into shared memory before it adds is
    /// seen by those who read the counter afterwards.
    fn add(&self, i: usize, amount: u64) -> Result<u64>;
    /// All counters, from the first on, each as it is now.
    fn read(&self, out: &mut [u64]) -> Result<()>;
    /// Gives the memory back; *collective*. Dropped instead, it stays until the process ends.
    fn close(self: Box<Self>) -> Result<()>;
}

impl dyn Comm + '_ {
    /// `len` numbers that all ranks of the group count with: in shared memory on one node, else on rank 0 by messages;
    /// *collective*.
    pub fn counters(&self, len: usize) -> Result<Box<dyn Counters>> {
        if self.local_size() < self.size() {
            return self.far_counters(len);
        }
        let cells = if self.rank() == 0 { len * APART } else { 0 };
        Ok(Box::new(NearCounters(self.shared(cells)?)))
    }
}

/// Counters in the cells of the first rank.
struct NearCounters(Shared);

impl Counters for NearCounters {
    fn add(&self, i: usize, amount: u64) -> Result<u64> {
        Ok(self
            .0
            .wide(0, i * APART)
            .fetch_add(amount, Ordering::AcqRel))
    }

    fn read(&self, out: &mut [u64]) -> Result<()> {
        let each = out.iter_mut().enumerate();
        each.for_each(|(i, value)| *value = self.0.wide(0, i * APART).load(Ordering::Acquire));
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.0.close()
    }
}
