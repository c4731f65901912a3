//! Synchronous on one node: ranks add up gradients in shared memory, each its slice, without a message.
//!
//! Parameters are there once for the whole node, and gradients are computed where others can read them: nothing is
//! copied. Cost of a step with n parameters and P ranks: two meetings, and 4·n·(1 + 2/P) bytes read or written by each
//! rank: its slice of everyone's gradients, and its slice of the parameters. Sums run over ranks in rank order, on one
//! rank only, so the result repeats and is the same bits everywhere. Optimizer and its state are spread over ranks with
//! the slices; one that must know norms reads gradients twice and costs an `MPI_Allreduce` of these few numbers.

use std::time::Instant;

use super::{Arenas, Exchange, Spent, Tail};
use crate::Result;
use crate::comm::{Comm, Slices};
use crate::optim::Mover;

/// All ranks of one node are one team.
pub struct NodeShared<'c> {
    comm: &'c dyn Comm,
    slices: Slices<'c>,
}

impl<'c> NodeShared<'c> {
    /// Takes steps from `params`, equal on every rank; all ranks must be on one node; *collective*.
    pub fn new(comm: &'c dyn Comm, params: &[f32]) -> Result<Self> {
        let slices = Slices::new(comm, params, Tail::LEN)?;
        Ok(Self { comm, slices })
    }
}

impl Exchange for NodeShared<'_> {
    fn team(&self) -> &dyn Comm {
        self.comm
    }

    fn params(&self) -> &[f32] {
        self.slices.params()
    }

    fn arenas(&mut self) -> Arenas<'_> {
        let (params, values) = self.slices.arenas();
        let grads = &mut values[..params.len()];
        let team = self.comm;
        Arenas {
            team,
            params,
            grads,
        }
    }

    fn step(&mut self, mine: Tail, lr: f32, mover: &mut Mover) -> Result<(Tail, Spent)> {
        let start = Instant::now();
        let (params, values) = self.slices.arenas();
        mine.write(&mut values[params.len()..]);
        let mut team = Tail::default();
        let comm = self.comm;
        let wait = self.slices.round(|round| {
            let sums = round.sums();
            let mut tail = [0.0; Tail::LEN];
            sums.tail(&mut tail);
            team = Tail::read(&tail);
            if team.faults == 0 {
                let gradient = |range, out: &mut [f32]| sums.grads(range, out);
                mover.step(lr, round.at, round.params, gradient, |sums| comm.sum(sums));
            }
        });
        let exchange = start.elapsed().saturating_sub(wait);
        Ok((team, Spent { exchange, wait }))
    }

    fn finish(&mut self) -> Result<()> {
        // A team decides together: the loop ends on every rank at the same step.
        Ok(())
    }

    fn settle(self: Box<Self>) -> Result<Vec<f32>> {
        let params = self.slices.params().to_vec();
        self.slices.close()?;
        Ok(params)
    }
}
