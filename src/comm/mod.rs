//! Ranks and how they talk: the one seam between phalanx and MPI.
//!
//! [`Comm`] has two implementations: [`MpiComm`] for real jobs, and [`ThreadComm`] for threads of one process: those of
//! one rank ([`threads_of_one_rank`]), or ranks as threads ([`run_ranks`]) for tests without a launcher. Both pass the
//! same checks.

mod agree;
mod common;
mod cores;
mod counters;
mod courier;
mod facts;
mod gate;
mod mpi;
mod on_device;
mod parts;
mod pause;
mod rma;
mod shared;
mod slices;
mod starter;
mod stripes;
mod threads;
mod tree;

pub use agree::{agree, path_of_first};
pub use cores::cores;
pub use counters::Counters;
pub use courier::Courier;
pub use facts::{Library, lenient, parameter, window_component};
pub use gate::{Gate, Moving};
pub use mpi::{MpiComm, abort};
pub use parts::{Parts, Plain};
pub use pause::Pause;
pub use shared::Shared;
pub use slices::{Division, Round, Slices, Sums};
pub use starter::{Start, Starter};
pub use stripes::{Stripes, stripe};
pub use threads::{ThreadComm, run_nodes, run_ranks, threads_of_one_rank};
pub use tree::tree_sum;
pub(crate) use tree::{middle as tree_middle, plus};

use std::ops::{AddAssign, Range};

use crate::Result;
use crate::backend::cuda::{View, ViewMut};

/// Values that are summed over ranks at once: enough to be worth a message, and few enough to stay in a cache.
pub const BUCKET: usize = 1 << 18;

/// A slice of one of the types that ranks exchange.
pub enum Data<'a> {
    /// Parameters, gradients.
    F32(&'a mut [f32]),
    /// Sums of losses, times, matrix blocks.
    F64(&'a mut [f64]),
    /// Counts.
    U64(&'a mut [u64]),
}

impl<'a> From<&'a mut [f32]> for Data<'a> {
    fn from(values: &'a mut [f32]) -> Self {
        Self::F32(values)
    }
}

impl<'a> From<&'a mut [f64]> for Data<'a> {
    fn from(values: &'a mut [f64]) -> Self {
        Self::F64(values)
    }
}

impl<'a> From<&'a mut [u64]> for Data<'a> {
    fn from(values: &'a mut [u64]) -> Self {
        Self::U64(values)
    }
}

/// How values of several ranks become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Their sum.
    Sum,
    /// The greatest.
    Max,
}

/// A group of ranks. Everything but the four questions about places is *collective*: all ranks call it, in the same order.
pub trait Comm {
    /// This rank's place in the group, from 0.
    fn rank(&self) -> usize;
    /// How many ranks the group has.
    fn size(&self) -> usize;
    /// This rank's place among the ranks of the group on its node.
    fn local_rank(&self) -> usize;
    /// How many ranks of the group are on this node.
    fn local_size(&self) -> usize;
    /// Returns once every rank has called it.
    fn barrier(&self);
    /// Replaces `data` on every rank by the reduction over ranks; call it through `sum` and `max`.
    fn all_reduce(&self, data: Data, op: Op);
    /// Replaces `data` on every rank by root's; call it through `broadcast`.
    fn broadcast_data(&self, data: Data, root: usize);
    /// Replaces `data` by that of `peer`, of the same length, which gets this rank's; all ranks are in pairs. Call it
    /// through `tree_sum`.
    fn swap_data(&self, data: Data, peer: usize);
    /// Every rank's bytes, in rank order; lengths may differ.
    fn gather(&self, mine: &[u8]) -> Vec<Vec<u8>>;
    /// What each rank has for this one, where `mine` has a number for each rank.
    fn deal_counts(&self, mine: &[u64]) -> Vec<u64>;
    /// Sends each rank its part of `words`, of `counts` words each and in rank order, and replaces `got` by the parts that
    /// ranks sent here, in rank order, of `from` words each.
    fn deal(&self, words: &[u32], counts: &[u64], from: &[u64], got: &mut Vec<u32>);
    /// The ranks that gave the same `color`, in the order they have here.
    fn split(&self, color: usize) -> Box<dyn Comm>;
    /// The ranks of this group on the same node.
    fn node(&self) -> Box<dyn Comm>;
    /// Opens a copy of `init` to one-sided access by every rank.
    fn window(&self, init: &[f32]) -> Result<Box<dyn Window>>;
    /// `len` numbers on rank 0 that every rank counts with; call it through `counters`.
    fn far_counters(&self, len: usize) -> Result<Box<dyn Counters>>;
    /// `len` zeroed cells on each rank that all ranks see; the group must be on one node.
    fn shared(&self, len: usize) -> Result<Shared>;
    /// Whether values in the memory of devices can be added up without a copy of them on the host.
    fn sums_on_devices(&self) -> bool {
        false
    }
    /// Sets `to` to the sum over ranks of `from`, both in the memory of devices, which have nothing to do with them any more.
    fn sum_on_device(&self, _from: View<f32>, _to: ViewMut<f32>) -> Result<()> {
        unreachable!("only asked of those that can")
    }
}

impl dyn Comm + '_ {
    /// Replaces `values` on every rank by the sum over ranks; *collective*.
    pub fn sum<'a, T>(&self, values: &'a mut [T])
    where
        Data<'a>: From<&'a mut [T]>,
    {
        self.all_reduce(values.into(), Op::Sum);
    }

    /// Replaces `values` on every rank by the greatest over ranks; *collective*.
    pub fn max<'a, T>(&self, values: &'a mut [T])
    where
        Data<'a>: From<&'a mut [T]>,
    {
        self.all_reduce(values.into(), Op::Max);
    }

    /// As `sum`, by one binary tree over the ranks whatever MPI would do: the same bits on every rank, at every repetition,
    /// and on any number of ranks that hold whole subtrees. Their number must be a power of two, P; costs log₂ P messages
    /// of all values; *collective*.
    pub fn tree_sum<T>(&self, values: &mut [T])
    where
        T: Copy + Default + AddAssign,
        for<'a> Data<'a>: From<&'a mut [T]>,
    {
        assert!(self.size().is_power_of_two(), "a tree of whole pairs");
        if self.size() == 1 {
            return;
        }
        let mut theirs = vec![T::default(); values.len().min(BUCKET)];
        for values in values.chunks_mut(BUCKET) {
            let theirs = &mut theirs[..values.len()];
            let mut distance = 1;
            while distance < self.size() {
                theirs.copy_from_slice(values);
                self.swap_data((&mut *theirs).into(), self.rank() ^ distance);
                let pairs = values.iter_mut().zip(&*theirs);
                pairs.for_each(|(value, &other)| *value += other);
                distance *= 2;
            }
        }
    }

    /// Replaces `values` on every rank by root's; *collective*.
    pub fn broadcast<'a, T>(&self, root: usize, values: &'a mut [T])
    where
        Data<'a>: From<&'a mut [T]>,
    {
        self.broadcast_data(values.into(), root);
    }
}

/// Memory on each rank that any rank may use without its help.
pub trait Window {
    /// Reads `out.len()` values of `owner`'s memory from `offset`, each atomically.
    fn get(&self, owner: usize, offset: usize, out: &mut [f32]) -> Result<()>;
    /// Adds `delta` into `owner`'s memory from `offset`, each element atomically, and copies the sums to `out`.
    fn add(&self, owner: usize, offset: usize, delta: &[f32], out: &mut [f32]) -> Result<()>;
    /// Reads as many stretches of `width` values of `owner`'s memory as there are `places`, which count stretches; each
    /// value atomically. No place is there twice.
    fn get_at(&self, owner: usize, places: &[u32], width: usize, out: &mut [f32]) -> Result<()>;
    /// Adds `delta` to such stretches, each element atomically.
    fn add_at(&self, owner: usize, places: &[u32], width: usize, delta: &[f32]) -> Result<()>;
    /// Gives the memory back; *collective*. Dropped instead, it stays until the process ends.
    fn close(self: Box<Self>) -> Result<()>;
}

/// The node of each rank, numbered in the order of their first ranks; *collective*.
pub fn nodes(comm: &dyn Comm) -> Vec<usize> {
    // A node is known by its first rank.
    let mut first = [comm.rank() as u64];
    comm.node().broadcast(0, &mut first);
    let firsts = comm.gather(&first[0].to_le_bytes());
    let mut known: Vec<&Vec<u8>> = Vec::new();
    let number = |first| {
        let at = known.iter().position(|&other| other == first);
        at.unwrap_or_else(|| {
            known.push(first);
            known.len() - 1
        })
    };
    firsts.iter().map(number).collect()
}

/// The block of `0..len` that `rank` owns; sizes differ by at most one.
pub fn block(len: usize, size: usize, rank: usize) -> Range<usize> {
    let (base, extra) = (len / size, len % size);
    let start = rank * base + rank.min(extra);
    start..start + base + usize::from(rank < extra)
}

/// Where some of the `all` blocks of `0..len` begin and end, counted from the first of them.
pub fn cuts(len: usize, all: usize, blocks: Range<usize>) -> Vec<usize> {
    let end = match blocks.end {
        0 => 0,
        end => block(len, all, end - 1).end,
    };
    let starts = blocks.map(|i| block(len, all, i).start);
    let begin = starts.clone().next().unwrap_or(end);
    starts.chain([end]).map(|cut| cut - begin).collect()
}

#[cfg(test)]
mod tests {
    use super::{block, nodes, run_nodes};

    #[test]
    fn every_rank_knows_the_nodes_of_all() {
        for asked in [&[0, 0, 0][..], &[0, 0, 1], &[0, 1, 2, 2], &[0, 1, 0, 1]] {
            let all = run_nodes(asked, nodes);
            assert!(all.iter().all(|found| found == asked), "{all:?}");
        }
    }

    #[test]
    fn blocks_tile_the_range_and_differ_by_at_most_one() {
        for (len, size) in [(0, 3), (7, 3), (8, 4), (2, 5), (60_000, 7)] {
            let blocks: Vec<_> = (0..size).map(|rank| block(len, size, rank)).collect();
            assert_eq!((blocks[0].start, blocks[size - 1].end), (0, len));
            assert!(blocks.windows(2).all(|pair| pair[0].end == pair[1].start));
            let longest = blocks.iter().map(ExactSizeIterator::len).max();
            let shortest = blocks.iter().map(ExactSizeIterator::len).min();
            assert!(longest.unwrap() - shortest.unwrap() <= 1);
        }
    }
}
