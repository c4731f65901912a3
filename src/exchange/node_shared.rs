//! Synchronous on one node: ranks add up gradients in shared memory, each its slice, without a message.
//!
//! Cost of a step with n parameters and P ranks: two meetings, and 4·n·(1 + 1 + 1/P + 1) bytes written and read by each
//! rank: its gradients out, its slice of everyone's in, its slice of the parameters out, all parameters in. Sums run
//! over ranks in rank order, on one rank only, so the result repeats and is the same bits everywhere.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use super::{Exchange, Gradients, Spent};
use crate::Result;
use crate::comm::{Comm, Shared, block};
use crate::optim::Optimizer;

/// Cells before a rank's numbers: how often it has arrived, alone on its cache lines.
const HEAD: usize = 32;
/// Looks at a peer before the core is offered to others: ranks may be more than cores.
const LOOKS: u32 = 300;

/// All ranks of one node are one team.
pub struct NodeShared<'c> {
    comm: &'c dyn Comm,
    /// Of each rank: its arrivals, its gradients with the tally, its slice of the parameters.
    memory: Shared,
    /// Meetings so far.
    met: u32,
    next: u64,
    end: u64,
    other: Gradients,
}

impl<'c> NodeShared<'c> {
    /// Takes `steps` steps from `params`, equal on every rank; all ranks must be on one node; *collective*.
    pub fn new(comm: &'c dyn Comm, steps: u64, params: &[f32]) -> Result<Self> {
        let mut other = Gradients::new(params.len());
        let slice = block(params.len(), comm.size(), comm.rank());
        let memory = comm.shared(HEAD + other.all().len() + slice.len())?;
        Ok(Self {
            comm,
            memory,
            met: 0,
            next: 0,
            end: steps,
            other,
        })
    }

    /// Returns once every rank has come here as often as this one; what they wrote before is then seen.
    fn meet(&mut self) {
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
    }
}

impl Exchange for NodeShared<'_> {
    fn team(&self) -> &dyn Comm {
        self.comm
    }

    fn claim(&mut self) -> Result<Option<u64>> {
        let claimed = (self.next < self.end).then_some(self.next);
        self.next += 1;
        Ok(claimed)
    }

    fn step(
        &mut self,
        params: &mut [f32],
        grads: &mut Gradients,
        optimizer: &mut dyn Optimizer,
    ) -> Result<Spent> {
        let start = Instant::now();
        let (rank, size, n) = (self.comm.rank(), self.comm.size(), params.len());
        let behind = HEAD + grads.all().len();
        self.memory.write(rank, HEAD, grads.all());
        let written = start.elapsed();
        self.meet();
        let met = start.elapsed();

        let slice = block(n, size, rank);
        for part in [slice.clone(), n..grads.all().len()] {
            let sums = &mut grads.all()[part.clone()];
            self.memory.read(0, HEAD + part.start, sums);
            for peer in 1..size {
                let theirs = &mut self.other.all()[part.clone()];
                self.memory.read(peer, HEAD + part.start, theirs);
                sums.iter_mut()
                    .zip(theirs)
                    .for_each(|(sum, theirs)| *sum += *theirs);
            }
        }
        let (mine, delta) = (&mut params[slice.clone()], &mut grads.params()[slice]);
        optimizer.update(mine, delta);
        mine.iter_mut()
            .zip(delta)
            .for_each(|(param, delta)| *param += *delta);
        self.memory.write(rank, behind, mine);
        let stepped = start.elapsed();
        self.meet();
        let met_again = start.elapsed();
        for peer in (0..size).filter(|&peer| peer != rank) {
            self.memory
                .read(peer, behind, &mut params[block(n, size, peer)]);
        }
        let wait = (met - written) + (met_again - stepped);
        Ok(Spent {
            exchange: start.elapsed() - wait,
            wait,
        })
    }

    fn finish(&mut self) -> Result<()> {
        // A team decides together: the loop ends on every rank at the same step.
        Ok(())
    }

    fn settle(self: Box<Self>, _params: &mut [f32]) -> Result<()> {
        self.memory.close()
    }
}
