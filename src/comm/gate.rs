//! Parameters in the shared memory of one node that move when enough ranks have brought gradients, whoever is late.
#![allow(unsafe_code)]

use std::ops::Range;
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Comm, Pause, Shared};
use crate::Result;

/// Cells before a rank's numbers, alone on their cache lines.
const HEAD: usize = 64;
/// Of the first rank's: who reads or writes the parameters; how many gradients are there for the next step.
const LOCK: usize = 0;
const ARRIVED: usize = 1;
/// The next step, and updates so far; each takes three cells.
const NEXT: usize = 32;
const UPDATES: usize = 36;
/// Of every rank's: whether its gradients are among them.
const PRESENT: usize = 2;
/// In the lock: a rank writes.
const WRITES: u32 = 1 << 31;

/// Parameters, numbers that belong to them, and the gradients of each rank.
///
/// Whoever reads or writes the parameters holds a lock, readers together and a writer alone. A rank's gradients are its own
/// until it arrives with them; from then on, and until the next step, they belong to whoever holds the lock as a writer.
pub struct Gate {
    memory: Shared,
    rank: usize,
    size: usize,
    len: usize,
    tail: usize,
    extra: usize,
}

/// The moment in which parameters move.
pub struct Moving<'a> {
    /// The parameters.
    pub params: &'a mut [f32],
    /// The numbers that belong to them.
    pub extra: &'a mut [f32],
    /// How often they have been moved before.
    pub updates: u64,
    /// Gradients that are there, with their tails, in rank order.
    pub arrived: Vec<&'a [f32]>,
}

impl Gate {
    /// Puts `params` into shared memory, with room for `extra` numbers and for each rank's gradients and a `tail` behind
    /// them; all ranks must be on one node; *collective*.
    pub fn new(comm: &dyn Comm, params: &[f32], extra: usize, tail: usize) -> Result<Self> {
        let (rank, size, len) = (comm.rank(), comm.size(), params.len());
        let common = if rank == 0 { len + extra } else { 0 };
        let gate = Self {
            memory: comm.shared(HEAD + len + 2 * tail + common)?,
            rank,
            size,
            len,
            tail,
            extra,
        };
        if rank == 0 {
            let start = gate.common().start;
            gate.memory.write(0, start, params);
        }
        comm.barrier();
        Ok(gate)
    }

    /// The next step.
    pub fn next(&self) -> u64 {
        self.memory.wide(0, NEXT).load(Ordering::Acquire)
    }

    /// Makes `step` the next one, if that is later.
    pub fn skip_to(&self, step: u64) {
        self.memory.wide(0, NEXT).fetch_max(step, Ordering::AcqRel);
    }

    /// Copies the parameters to `out`.
    pub fn read(&self, out: &mut [f32]) {
        self.copy(0..self.len, out);
    }

    /// Copies a range of the parameters, and of the numbers that belong to them behind, to `out`; gives how often the parameters
    /// had been moved.
    pub fn copy(&self, range: Range<usize>, out: &mut [f32]) -> u64 {
        let lock = self.cell(0, LOCK);
        let mut pause = Pause::default();
        loop {
            let seen = lock.load(Ordering::Relaxed);
            let free = seen & WRITES == 0;
            if free
                && (lock.compare_exchange_weak(
                    seen,
                    seen + 1,
                    Ordering::Acquire,
                    Ordering::Relaxed,
                ))
                .is_ok()
            {
                break;
            }
            pause.once();
        }
        let start = self.common().start;
        let cells = &self.memory.of(0)[start + range.start..start + range.end];
        // SAFETY: while a reader holds the lock nobody writes parameters.
        out.copy_from_slice(unsafe { slice::from_raw_parts(cells.as_ptr().cast(), cells.len()) });
        let updates = self.memory.wide(0, UPDATES).load(Ordering::Relaxed);
        lock.fetch_sub(1, Ordering::Release);
        updates
    }

    /// Sets numbers that belong to the parameters, from `at` on where those end, before anybody moves them.
    pub fn fill(&self, at: usize, values: &[f32]) {
        self.memory.write(0, self.common().start + at, values);
    }

    /// Counts updates from `updates` on, before anybody moves the parameters.
    pub fn go_on(&self, updates: u64) {
        (self.memory.wide(0, UPDATES)).store(updates, Ordering::Release);
    }

    /// This rank's gradients and the tail behind them.
    pub fn grads(&mut self) -> &mut [f32] {
        assert_eq!(
            self.cell(self.rank, PRESENT).load(Ordering::Relaxed),
            0,
            "gradients are being used"
        );
        // SAFETY: they are this rank's until it arrives, and this object is borrowed meanwhile.
        unsafe { self.floats(self.rank, self.own()) }
    }

    /// Brings this rank's gradients to `step`; tells whether they are in time. The rank with which `take` of them are there
    /// does `work`, which gives the tail of all and whether the parameters have moved, and begins the next step.
    pub fn arrive(
        &mut self,
        step: u64,
        take: usize,
        work: impl FnOnce(Moving) -> (Vec<f32>, bool),
    ) -> bool {
        self.lock();
        if self.next() != step {
            self.unlock();
            return false;
        }
        self.cell(self.rank, PRESENT).store(1, Ordering::Relaxed);
        let arrived = self.cell(0, ARRIVED).fetch_add(1, Ordering::Relaxed) + 1;
        if arrived as usize == take {
            self.close(work);
        }
        self.unlock();
        true
    }

    /// The tail of all gradients of the last step that this rank has arrived at, once a later one is the next.
    pub fn result(&self, out: &mut [f32]) {
        self.memory
            .read(self.rank, HEAD + self.len + self.tail, out);
    }

    /// Takes gradients back that no step will use any more.
    pub fn withdraw(&mut self) {
        self.lock();
        if self.cell(self.rank, PRESENT).swap(0, Ordering::Relaxed) == 1 {
            self.cell(0, ARRIVED).fetch_sub(1, Ordering::Relaxed);
        }
        self.unlock();
    }

    /// Gives the memory back; *collective*.
    pub fn close_all(self) -> Result<()> {
        self.memory.close()
    }

    /// Moves the parameters; this rank holds the lock.
    fn close(&mut self, work: impl FnOnce(Moving) -> (Vec<f32>, bool)) {
        let present: Vec<usize> = (0..self.size)
            .filter(|&rank| self.cell(rank, PRESENT).load(Ordering::Relaxed) == 1)
            .collect();
        let counter = self.memory.wide(0, UPDATES);
        // SAFETY: this rank holds the lock as a writer: nobody else touches the parameters, nor gradients that have arrived,
        // whose owners wait. The ranges do not overlap.
        let (tail, moved) = unsafe {
            let common = self.floats(0, self.common());
            let (params, extra) = common.split_at_mut(self.len);
            let arrived = present.iter();
            let arrived = arrived
                .map(|&rank| &*self.floats(rank, self.own()))
                .collect();
            let updates = counter.load(Ordering::Relaxed);
            work(Moving {
                params,
                extra,
                updates,
                arrived,
            })
        };
        for &rank in &present {
            self.memory.write(rank, HEAD + self.len + self.tail, &tail);
            self.cell(rank, PRESENT).store(0, Ordering::Relaxed);
        }
        self.cell(0, ARRIVED).store(0, Ordering::Relaxed);
        counter.fetch_add(u64::from(moved), Ordering::Relaxed);
        self.memory.wide(0, NEXT).fetch_add(1, Ordering::Release);
    }

    fn lock(&self) {
        let lock = self.cell(0, LOCK);
        let mut pause = Pause::default();
        while lock
            .compare_exchange_weak(0, WRITES, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            pause.once();
        }
    }

    fn unlock(&self) {
        self.cell(0, LOCK).store(0, Ordering::Release);
    }

    fn cell(&self, rank: usize, i: usize) -> &AtomicU32 {
        &self.memory.of(rank)[i]
    }

    /// A rank's gradients and the tail behind them.
    fn own(&self) -> Range<usize> {
        HEAD..HEAD + self.len + self.tail
    }

    /// The parameters and what belongs to them, in the first rank's cells.
    fn common(&self) -> Range<usize> {
        let start = HEAD + self.len + 2 * self.tail;
        start..start + self.len + self.extra
    }

    /// Cells as floats.
    ///
    /// # Safety
    /// Nobody else may touch them while the slice lives.
    #[allow(clippy::mut_from_ref)]
    unsafe fn floats(&self, rank: usize, range: Range<usize>) -> &mut [f32] {
        let cells = &self.memory.of(rank)[range];
        // SAFETY: a cell has the size and alignment of a float, any bits are one, atomics may be written through a shared
        // reference, and nobody else touches them by contract.
        unsafe { slice::from_raw_parts_mut(cells.as_ptr().cast_mut().cast(), cells.len()) }
    }
}
