//! Sums in the shared memory of one node, each rank its slice: no message, no lock, no system call.
#![allow(unsafe_code)]

use std::ops::Range;
use std::rc::Rc;
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::{Comm, Pause, Shared, block, tree_sum};
use crate::Result;
use crate::observe::timeline::{self, Kind};

/// Cells before a rank's numbers: how often it has arrived, alone on its cache lines.
const HEAD: usize = 32;

/// Parameters that all ranks of a node have in common, and gradients of each; each rank moves its slice of the
/// parameters by the sum of everybody's gradients.
///
/// A round is divided by two meetings of all ranks. Before the first, each rank writes its own gradients and reads
/// parameters; between them, it reads everybody's gradients and writes its own slice of the parameters; behind them, it
/// reads parameters again. In no phase does a rank read what another may write: that is what lets plain slices, which
/// compilers turn into vectors, take the place of atomics.
pub struct Slices {
    comm: Rc<dyn Comm>,
    /// The parameters, which the first rank brings.
    params: Shared,
    /// Of each rank, how often it has arrived, its gradients and its tail.
    memory: Shared,
    /// Parameters.
    len: usize,
    /// How they are divided.
    division: Division,
    /// Values behind a rank's gradients.
    tail: usize,
    /// Meetings so far.
    met: u32,
}

/// How parameters are divided into slices.
#[derive(Clone, Copy, Debug)]
pub struct Division {
    /// Ranks of the node that own a slice, the first ones; a multiple of them are `leaves`.
    pub owners: usize,
    /// Blocks of the parameters that slices consist of, as many on any number of ranks.
    pub leaves: usize,
}

impl Division {
    /// The leaves of the slice of a rank of the node.
    pub fn of(self, rank: usize) -> Range<usize> {
        let each = self.leaves / self.owners;
        let owned = |rank: usize| rank.min(self.owners) * each;
        owned(rank)..owned(rank + 1)
    }
}

/// The phase in which parameters move.
pub struct Round<'a> {
    /// This rank's slice of the parameters.
    pub params: &'a mut [f32],
    /// Where it begins.
    pub at: usize,
    sums: Sums<'a>,
}

/// Sums over ranks, by the tree over ranks.
#[derive(Clone, Copy)]
pub struct Sums<'a> {
    slices: &'a Slices,
    at: usize,
    len: usize,
}

impl Slices {
    /// Puts `params` into shared memory, with room for each rank's gradients and a `tail` behind them; `comm` must be
    /// ranks of one node; *collective*.
    pub fn new(
        comm: Rc<dyn Comm>,
        params: Vec<f32>,
        tail: usize,
        division: Division,
    ) -> Result<Self> {
        let len = params.len();
        let is_first = comm.rank() == 0;
        let common = comm.shared(if is_first { len } else { 0 })?;
        if is_first {
            common.write(0, 0, &params);
        }
        // Every rank's own parameters are gone before there are gradients: a node never holds both.
        drop(params);
        let memory = comm.shared(HEAD + len + tail)?;
        let mut slices = Self {
            comm,
            params: common,
            memory,
            len,
            division,
            tail,
            met: 0,
        };
        slices.meet();
        Ok(slices)
    }

    /// Gives the memory back, and every rank the parameters for its own; *collective*.
    pub fn settle(self) -> Result<Vec<f32>> {
        // As at the start: gradients go before copies come.
        self.memory.close()?;
        let mut params = vec![0.0; self.len];
        self.params.read(0, 0, &mut params);
        self.params.close()?;
        Ok(params)
    }

    /// The parameters.
    pub fn params(&self) -> &[f32] {
        // SAFETY: parameters are written in rounds only, which take this object for themselves and end on all ranks
        // together.
        unsafe { floats(self.params.of(0)) }
    }

    /// The parameters, and this rank's gradients with the tail behind them.
    pub fn arenas(&mut self) -> (&[f32], &mut [f32]) {
        let grads = HEAD..HEAD + self.len + self.tail;
        let cells = &self.memory.of(self.comm.rank())[grads];
        // SAFETY: outside of rounds nobody else touches a rank's gradients; atomics may be written through a shared
        // reference. Parameters are elsewhere, and nobody writes them as long as this object is borrowed.
        let grads =
            unsafe { slice::from_raw_parts_mut(cells.as_ptr().cast_mut().cast(), cells.len()) };
        (self.params(), grads)
    }

    /// One round, in which `work` may move this rank's slice of the parameters; *collective*. Returns the time spent
    /// waiting for others.
    pub fn round(&mut self, work: impl FnOnce(Round)) -> Duration {
        let first = self.meet();
        let mine = self.mine();
        let at = mine.start;
        let cells = &self.params.of(0)[mine];
        // SAFETY: between the meetings this rank alone touches its slice of the parameters.
        let params =
            unsafe { slice::from_raw_parts_mut(cells.as_ptr().cast_mut().cast(), cells.len()) };
        let len = cells.len();
        let sums = Sums {
            slices: self,
            at,
            len,
        };
        work(Round { params, at, sums });
        first + self.meet()
    }

    /// This rank's slice.
    pub fn mine(&self) -> Range<usize> {
        let leaves = self.division.of(self.comm.rank());
        let start = |leaf: usize| match leaf {
            leaf if leaf == self.division.leaves => self.len,
            leaf => block(self.len, self.division.leaves, leaf).start,
        };
        start(leaves.start)..start(leaves.end)
    }

    /// Returns once every rank has come here as often as this one; what they wrote before is then seen.
    fn meet(&mut self) -> Duration {
        let start = Instant::now();
        self.met = self.met.wrapping_add(1);
        let arrivals = |rank: usize| -> &AtomicU32 { &self.memory.of(rank)[0] };
        arrivals(self.comm.rank()).store(self.met, Ordering::Release);
        for rank in 0..self.comm.size() {
            let mut pause = Pause::default();
            // A peer is at most one meeting ahead, so it is late exactly if it is one behind.
            while arrivals(rank).load(Ordering::Acquire) == self.met.wrapping_sub(1) {
                pause.once();
            }
        }
        timeline::span(Kind::Wait, 0, start);
        start.elapsed()
    }

    /// Cells of `owner` as floats.
    ///
    /// # Safety
    /// No rank may write them while the slice lives.
    unsafe fn of(&self, owner: usize, range: Range<usize>) -> &[f32] {
        // SAFETY: nobody writes by contract.
        unsafe { floats(&self.memory.of(owner)[range]) }
    }
}

/// Cells as floats.
///
/// # Safety
/// No rank may write them while the slice lives.
unsafe fn floats(cells: &[AtomicU32]) -> &[f32] {
    // SAFETY: a cell has the size and alignment of a float, any bits are one, and nobody writes by contract.
    unsafe { slice::from_raw_parts(cells.as_ptr().cast(), cells.len()) }
}

impl<'a> Round<'a> {
    /// What other ranks have written.
    pub fn sums(&self) -> Sums<'a> {
        self.sums
    }
}

impl<'a> Sums<'a> {
    /// The sums of gradients in a range, counted from this rank's slice on.
    pub fn grads(self, range: Range<usize>, sums: &mut [f32]) {
        self.add_up(self.at + range.start..self.at + range.end, sums);
    }

    /// The sums of the tails.
    pub fn tail(self, sums: &mut [f32]) {
        let len = self.slices.len;
        self.add_up(len..len + self.slices.tail, sums);
    }

    /// Replaces this rank's own gradients in its slice by the sums, passes them to `change` bucket by bucket, and gives
    /// them. Nobody else reads them in this round.
    pub fn settle(self, bucket: usize, mut change: impl FnMut(&mut [f32])) -> &'a [f32] {
        let (rank, start) = (self.slices.comm.rank(), HEAD + self.at);
        let cells = &self.slices.memory.of(rank)[start..start + self.len];
        let mut sums = vec![0.0; bucket.min(self.len)];
        for begin in (0..self.len).step_by(bucket.max(1)) {
            let range = begin..self.len.min(begin + bucket);
            let sums = &mut sums[..range.len()];
            self.grads(range.clone(), sums);
            change(sums);
            let place = cells[range].as_ptr().cast_mut().cast();
            // SAFETY: between the meetings this rank alone reads or writes its slice of its own gradients, and no
            // reference to them is alive here.
            unsafe { slice::from_raw_parts_mut(place, sums.len()) }.copy_from_slice(sums);
        }
        // SAFETY: as above; whoever calls reads them until the round ends and writes them no more.
        unsafe { self.slices.of(rank, start..start + self.len) }
    }

    fn add_up(self, range: Range<usize>, sums: &mut [f32]) {
        let part = |peer: usize| {
            // SAFETY: only rounds give sums, and in them nobody writes gradients, but a rank its own slice of its own,
            // which it reads here before.
            unsafe { (self.slices).of(peer, HEAD + range.start..HEAD + range.end) }
        };
        tree_sum(self.slices.comm.size(), part, sums);
    }
}
