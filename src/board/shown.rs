//! Ranks that talk to each other in the middle of something else.

use super::{Board, Phase};
use crate::Result;
use crate::comm::{Comm, Counters, Data, Op, Shared, Window};

/// A group whose collectives show on the board that this rank exchanges, and behind them what it did before: batch
/// normalisation across ranks waits for the others while it computes.
pub struct Shown<'a> {
    /// The group.
    pub comm: &'a dyn Comm,
    /// Where to show it, if ranks are watched.
    pub board: Option<&'a Board>,
    /// What it does between the collectives.
    pub phase: Phase,
}

impl Shown<'_> {
    fn show<T>(&self, talk: impl FnOnce(&dyn Comm) -> T) -> T {
        let Some(board) = self.board else {
            return talk(self.comm);
        };
        board.turn(Phase::Exchange);
        let answer = talk(self.comm);
        board.turn(self.phase);
        answer
    }
}

impl Comm for Shown<'_> {
    fn rank(&self) -> usize {
        self.comm.rank()
    }

    fn size(&self) -> usize {
        self.comm.size()
    }

    fn local_rank(&self) -> usize {
        self.comm.local_rank()
    }

    fn local_size(&self) -> usize {
        self.comm.local_size()
    }

    fn barrier(&self) {
        self.show(|comm| comm.barrier());
    }

    fn all_reduce(&self, data: Data, op: Op) {
        self.show(|comm| comm.all_reduce(data, op));
    }

    fn broadcast_data(&self, data: Data, root: usize) {
        self.show(|comm| comm.broadcast_data(data, root));
    }

    fn swap_data(&self, data: Data, peer: usize) {
        self.show(|comm| comm.swap_data(data, peer));
    }

    fn gather(&self, mine: &[u8]) -> Vec<Vec<u8>> {
        self.show(|comm| comm.gather(mine))
    }

    fn deal_counts(&self, mine: &[u64]) -> Vec<u64> {
        self.show(|comm| comm.deal_counts(mine))
    }

    fn deal(&self, words: &[u32], counts: &[u64], from: &[u64], got: &mut Vec<u32>) {
        self.show(|comm| comm.deal(words, counts, from, got));
    }

    fn split(&self, color: usize) -> Box<dyn Comm> {
        self.show(|comm| comm.split(color))
    }

    fn node(&self) -> Box<dyn Comm> {
        self.show(|comm| comm.node())
    }

    fn window(&self, init: &[f32]) -> Result<Box<dyn Window>> {
        self.show(|comm| comm.window(init))
    }

    fn far_counters(&self, len: usize) -> Result<Box<dyn Counters>> {
        self.show(|comm| comm.far_counters(len))
    }

    fn shared(&self, len: usize) -> Result<Shared> {
        self.show(|comm| comm.shared(len))
    }
}
