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

/// Parameters that all ranks of a node have in common, and gradients of each; each rank moves its slice of the
/// parameters by the sum of everybody's gradients.
///
/// A round is divided by two meetings of all ranks. Before the first, each rank writes its own gradients and reads
/// parameters; between them, it reads everybody's gradients and writes its own slice of the parameters; behind them, it
/// reads parameters again. In no phase does a rank read what another may write: that is what lets plain slices, which
/// compilers turn into vectors, take the place of atomics.
pub struct Slices<'c> {
    comm: &'c dyn Comm,
    memory: Shared,
    /// Parameters.
    len: usize,
    /// Values behind a rank's gradients.
    tail: usize,
    /// Meetings so far.
    met: u32,
}

/// The phase in which parameters move.
pub struct Round<'a> {
    /// This rank's slice of the parameters.
    pub params: &'a mut [f32],
    /// Where it begins.
    pub at: usize,
    sums: Sums<'a>,
}

/// Sums over ranks, in rank order.
#[derive(Clone, Copy)]
pub struct Sums<'a> {
    slices: &'a Slices<'a>,
    at: usize,
}

impl<'c> Slices<'c> {
    /// Puts `params` into shared memory, with room for each rank's gradients and a `tail` behind them; all ranks must be
    /// on one node; *collective*.
    pub fn new(comm: &'c dyn Comm, params: &[f32], tail: usize) -> Result<Self> {
        let len = params.len();
        // The first rank brings the parameters.
        let extra = if comm.rank() == 0 { len } else { 0 };
        let memory = comm.shared(HEAD + len + tail + extra)?;
        let mut slices = Self {
            comm,
            memory,
            len,
            tail,
            met: 0,
        };
        if comm.rank() == 0 {
            let place = slices.place();
            // SAFETY: nobody reads parameters before the meeting.
            unsafe { slices.own(place) }.copy_from_slice(params);
        }
        slices.meet();
        Ok(slices)
    }

    /// Gives the memory back; *collective*.
    pub fn close(self) -> Result<()> {
        self.memory.close()
    }

    /// The parameters.
    pub fn params(&self) -> &[f32] {
        // SAFETY: parameters are written in rounds only, which take this object for themselves and end on all ranks
        // together.
        unsafe { self.of(0, self.place()) }
    }

    /// The parameters, and this rank's gradients with the tail behind them.
    pub fn arenas(&mut self) -> (&[f32], &mut [f32]) {
        let grads = HEAD..HEAD + self.len + self.tail;
        let cells = &self.memory.of(self.comm.rank())[grads];
        // SAFETY: as in `own`: outside of rounds nobody else touches a rank's gradients. They do not overlap with the
        // parameters, which nobody writes as long as this object is borrowed.
        let grads =
            unsafe { slice::from_raw_parts_mut(cells.as_ptr().cast_mut().cast(), cells.len()) };
        (self.params(), grads)
    }

    /// One round, in which `work` may move this rank's slice of the parameters; *collective*. Returns the time spent
    /// waiting for others.
    pub fn round(&mut self, work: impl FnOnce(Round)) -> Duration {
        let first = self.meet();
        let mine = block(self.len, self.comm.size(), self.comm.rank());
        let (at, start) = (mine.start, self.place().start);
        let cells = &self.memory.of(0)[start + mine.start..start + mine.end];
        // SAFETY: between the meetings this rank alone touches its slice of the parameters.
        let params =
            unsafe { slice::from_raw_parts_mut(cells.as_ptr().cast_mut().cast(), cells.len()) };
        let sums = Sums { slices: self, at };
        work(Round { params, at, sums });
        first + self.meet()
    }

    /// Where the first rank's cells hold the parameters.
    fn place(&self) -> Range<usize> {
        let start = HEAD + self.len + self.tail;
        start..start + self.len
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

impl<'a> Round<'a> {
    /// What other ranks have written.
    pub fn sums(&self) -> Sums<'a> {
        self.sums
    }
}

impl Sums<'_> {
    /// The sums of gradients in a range, counted from this rank's slice on.
    pub fn grads(self, range: Range<usize>, sums: &mut [f32]) {
        self.add_up(self.at + range.start..self.at + range.end, sums);
    }

    /// The sums of the tails.
    pub fn tail(self, sums: &mut [f32]) {
        let len = self.slices.len;
        self.add_up(len..len + self.slices.tail, sums);
    }

    fn add_up(self, range: Range<usize>, sums: &mut [f32]) {
        for peer in 0..self.slices.comm.size() {
            // SAFETY: only rounds give sums, and in them nobody writes gradients.
            let theirs = unsafe { (self.slices).of(peer, HEAD + range.start..HEAD + range.end) };
            match peer {
                0 => sums.copy_from_slice(theirs),
                _ => sums
                    .iter_mut()
                    .zip(theirs)
                    .for_each(|(sum, value)| *sum += value),
            }
        }
    }
}
