//! Synchronous: every step's gradients are summed over all ranks, so that ranks never disagree.
//!
//! Cost of a step: `MPI_Allreduce` of 4·(parameters + 11) bytes, bucket by bucket, and on every rank the whole optimizer step
//! and its state. The simple, portable exchange, and the oracle of the others. Overlapped, a second thread adds up each
//! layer's gradients while those of the layers before are computed: of the all-reduce only the last layer's part is left to
//! wait for, if a core is free for that thread.

use std::time::Instant;

use super::{Exchange, Spent, Tail, saved};
use crate::Result;
use crate::checkpoint::{Checkpoint, Snapshot};
use crate::comm::{BUCKET, Comm, Courier, block, cuts};
use crate::nn::{Arenas, Grads, Params};
use crate::observe::timeline::{self, Kind};
use crate::optim::{Mover, Part};

/// One step in so many starts with a barrier, which tells waiting from exchanging; the others are split in the same
/// proportion.
const PROBE_EVERY: u64 = 16;

/// All ranks are one team.
pub struct AllReduce<'c> {
    comm: &'c dyn Comm,
    params: Vec<f32>,
    /// Gradients, and the tail behind them.
    values: Vec<f32>,
    /// Where parameters are cut into leaves.
    cuts: Vec<usize>,
    /// Whether sums do not depend on the number of ranks.
    reproducible: bool,
    /// Who adds up gradients while others are computed, if they are.
    courier: Option<Courier>,
    taken: u64,
    /// Share of the exchange that was waiting, when last measured.
    waiting: f64,
}

impl<'c> AllReduce<'c> {
    /// Takes steps from `params`, equal on every rank. With `shards`, sums are the same bits for any number of ranks that
    /// divides them.
    pub fn new(comm: &'c dyn Comm, params: Vec<f32>, shards: Option<usize>) -> Self {
        let leaves = shards.unwrap_or(1);
        Self {
            comm,
            cuts: cuts(params.len(), leaves, 0..leaves),
            reproducible: shards.is_some(),
            courier: None,
            values: vec![0.0; params.len() + Tail::LEN],
            params,
            taken: 0,
            waiting: 0.0,
        }
    }
}

impl<'c> AllReduce<'c> {
    /// As `new`, with gradients that are added up by a second thread while others are still computed; *collective*.
    pub fn overlapped(comm: &'c dyn Comm, params: Vec<f32>) -> Result<Self> {
        Ok(Self {
            courier: Some(Courier::new(comm)?),
            ..Self::new(comm, params, None)
        })
    }
}

impl Exchange for AllReduce<'_> {
    fn team(&self) -> &dyn Comm {
        self.comm
    }

    fn params(&self) -> Params<'_> {
        Params::Host(&self.params)
    }

    fn arenas(&mut self) -> Arenas<'_> {
        Arenas {
            team: self.comm,
            params: Params::Host(&self.params),
            grads: Grads::Host(&mut self.values[..self.params.len()]),
            courier: self.courier.as_mut(),
        }
    }

    fn step(&mut self, mine: Tail, lr: f32, mover: &mut Mover) -> Result<(Tail, Spent)> {
        let start = Instant::now();
        let probe = self.taken.is_multiple_of(PROBE_EVERY) && self.comm.size() > 1;
        self.taken += 1;
        if probe {
            self.comm.barrier();
        }
        let arrived = start.elapsed();
        if probe {
            timeline::span(Kind::Wait, 0, start);
        }
        let len = self.params.len();
        mine.write(&mut self.values[len..]);
        match self.reproducible {
            // Gradients have been added up meanwhile.
            _ if self.courier.is_some() => self.comm.sum(&mut self.values[len..]),
            true => self.comm.tree_sum(&mut self.values[..]),
            false => (self.values.chunks_mut(BUCKET).enumerate()).for_each(|(i, bucket)| {
                let begin = Instant::now();
                self.comm.sum(bucket);
                timeline::span(Kind::Bucket, i, begin);
            }),
        }
        let (grads, tail) = self.values.split_at(len);
        let team = Tail::read(tail);
        if team.faults == 0 {
            let gradient = |range, out: &mut [f32]| out.copy_from_slice(&grads[range]);
            let (begin, part) = (Instant::now(), Part::whole(&mut self.params, &self.cuts));
            mover.step(lr, part, gradient, |_| {});
            timeline::span(Kind::Update, 0, begin);
        }
        let total = start.elapsed();
        if probe {
            self.waiting = arrived.as_secs_f64() / total.as_secs_f64().max(1e-9);
        }
        let wait = total.mul_f64(self.waiting);
        let exchange = total - wait;
        Ok((team, Spent { exchange, wait }))
    }

    fn save(&mut self, mover: &mut Mover, to: &mut Snapshot) -> Result<()> {
        let len = self.params.len();
        let share = block(len, self.comm.size(), self.comm.rank());
        saved::save(to, mover, &self.params, 0..len, share);
        Ok(())
    }

    fn load(
        &mut self,
        mover: &mut Mover,
        updates: u64,
        from: &Checkpoint,
        _part: usize,
    ) -> Result<()> {
        saved::load(from, mover, updates, 0..self.params.len())
    }

    fn settle(mut self: Box<Self>) -> Result<Vec<f32>> {
        // MPI advises, but does not promise, that all ranks get the same bits from a sum.
        self.comm.broadcast(0, &mut self.params[..]);
        Ok(self.params)
    }
}
