//! Synchronous: every step's gradients are summed over all ranks, so that ranks never disagree.
//!
//! Cost of a step: one `MPI_Allreduce` of 4·(parameters + 4) bytes. The simple, portable exchange.

use std::time::Instant;

use super::{Exchange, Gradients, Spent};
use crate::Result;
use crate::comm::Comm;
use crate::optim::Optimizer;

/// One step in so many starts with a barrier, which tells waiting from exchanging; the others are split in the same
/// proportion.
const PROBE_EVERY: u64 = 16;

/// All ranks are one team.
pub struct AllReduce<'c> {
    comm: &'c dyn Comm,
    taken: u64,
    /// Share of the exchange that was waiting, when last measured.
    waiting: f64,
}

impl<'c> AllReduce<'c> {
    /// Takes steps from parameters that are already equal on every rank.
    pub fn new(comm: &'c dyn Comm) -> Self {
        Self {
            comm,
            taken: 0,
            waiting: 0.0,
        }
    }
}

impl Exchange for AllReduce<'_> {
    fn team(&self) -> &dyn Comm {
        self.comm
    }

    fn step(
        &mut self,
        params: &mut [f32],
        grads: &mut Gradients,
        lr: f32,
        optimizer: &mut dyn Optimizer,
    ) -> Result<Spent> {
        let start = Instant::now();
        let probe = self.taken.is_multiple_of(PROBE_EVERY) && self.comm.size() > 1;
        self.taken += 1;
        if probe {
            self.comm.barrier();
        }
        let arrived = start.elapsed();
        self.comm.sum(grads.all());
        let delta = grads.params();
        optimizer.step(lr, 0, params, delta, |_| {});
        params
            .iter_mut()
            .zip(delta)
            .for_each(|(param, delta)| *param += *delta);
        let total = start.elapsed();
        if probe {
            self.waiting = arrived.as_secs_f64() / total.as_secs_f64().max(1e-9);
        }
        let wait = total.mul_f64(self.waiting);
        Ok(Spent {
            exchange: total - wait,
            wait,
        })
    }

    fn finish(&mut self) -> Result<()> {
        // A team decides together: the loop ends on every rank at the same step.
        Ok(())
    }

    fn settle(self: Box<Self>, params: &mut [f32]) -> Result<()> {
        // MPI advises, but does not promise, that all ranks get the same bits from a sum.
        self.comm.broadcast(0, params);
        Ok(())
    }
}
