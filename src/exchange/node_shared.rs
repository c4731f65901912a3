//! Synchronous on one node: ranks add up gradients in shared memory, each its slice, without a message.
//!
//! Cost of a step with n parameters and P ranks: two meetings, and 4·n·(1 + 1 + 1/P + 1) bytes written and read by each
//! rank: its gradients out, its slice of everyone's in, its slice of the parameters out, all parameters in. Sums run
//! over ranks in rank order, on one rank only, so the result repeats and is the same bits everywhere. Optimizer and its
//! state are spread over ranks with the slices; one that must know norms costs an `MPI_Allreduce` of these few numbers.

use std::time::Instant;

use super::{Exchange, Gradients, Spent};
use crate::Result;
use crate::comm::{Comm, Slices, block};
use crate::optim::Optimizer;

/// All ranks of one node are one team.
pub struct NodeShared<'c> {
    comm: &'c dyn Comm,
    slices: Slices<'c>,
}

impl<'c> NodeShared<'c> {
    /// Takes steps from `params`, equal on every rank; all ranks must be on one node; *collective*.
    pub fn new(comm: &'c dyn Comm, params: &[f32]) -> Result<Self> {
        let slices = Slices::new(comm, params.len(), Gradients::TAIL)?;
        Ok(Self { comm, slices })
    }
}

impl Exchange for NodeShared<'_> {
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
        let comm = self.comm;
        let at = block(params.len(), comm.size(), comm.rank()).start;
        let wait = self.slices.round(grads.all(), params, |delta, params| {
            optimizer.step(lr, at, params, delta, |sums| comm.sum(sums));
            params
                .iter_mut()
                .zip(delta)
                .for_each(|(param, delta)| *param += *delta);
        });
        Ok(Spent {
            exchange: start.elapsed().saturating_sub(wait),
            wait,
        })
    }

    fn finish(&mut self) -> Result<()> {
        // A team decides together: the loop ends on every rank at the same step.
        Ok(())
    }

    fn settle(self: Box<Self>, _params: &mut [f32]) -> Result<()> {
        self.slices.close()
    }
}
