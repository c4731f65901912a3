//! Asynchronous: each rank adds its own updates to parameters in one-sided windows and waits for nobody.
//!
//! Cost of a step: one fetch-and-add for the claim, and one accumulate and one get per owner, 4·parameters bytes each
//! way in all. What an optimizer remembers (velocities, moments) is each rank's own. Steps are claimed from a shared counter, so a fast rank takes more of them and none is taken twice.

use std::ops::Range;
use std::time::Instant;

use super::{Exchange, Gradients, Spent};
use crate::Result;
use crate::comm::{Comm, Window, block};
use crate::optim::Optimizer;

/// Added to the counter to end the run; no run has so many steps.
const FINISHED: u64 = 1 << 60;

/// Who holds the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Every rank a block of them.
    Sharded,
    /// Rank 0 all of them, as a parameter server would.
    Rank0,
}

impl Placement {
    /// The part of `0..len` that `owner` of `size` ranks holds.
    fn part(self, len: usize, size: usize, owner: usize) -> Range<usize> {
        match (self, owner) {
            (Self::Sharded, _) => block(len, size, owner),
            (Self::Rank0, 0) => 0..len,
            (Self::Rank0, _) => len..len,
        }
    }
}

/// Every rank is a team of its own.
pub struct OneSided<'c> {
    comm: &'c dyn Comm,
    alone: Box<dyn Comm>,
    window: Box<dyn Window>,
    placement: Placement,
}

impl<'c> OneSided<'c> {
    /// Publishes `params`, equal on every rank; *collective*.
    pub fn new(comm: &'c dyn Comm, placement: Placement, params: &[f32]) -> Result<Self> {
        let mine = placement.part(params.len(), comm.size(), comm.rank());
        let window = comm.window(&params[mine])?;
        Ok(Self {
            comm,
            alone: comm.split(comm.rank()),
            window,
            placement,
        })
    }

    /// Owners with their parts, starting behind this rank so that ranks do not queue for the same owner.
    fn parts(&self, len: usize) -> impl Iterator<Item = (usize, Range<usize>)> + use<> {
        let (size, rank, placement) = (self.comm.size(), self.comm.rank(), self.placement);
        (0..size)
            .map(move |i| (rank + i) % size)
            .map(move |owner| (owner, placement.part(len, size, owner)))
            .filter(|(_, part)| !part.is_empty())
    }

    fn pull(&self, params: &mut [f32]) -> Result<()> {
        self.parts(params.len())
            .try_for_each(|(owner, part)| self.window.get(owner, 0, &mut params[part]))
    }
}

impl Exchange for OneSided<'_> {
    fn team(&self) -> &dyn Comm {
        &*self.alone
    }

    fn claim(&mut self, _claimed: u64) -> Result<u64> {
        self.window.fetch_add(0, 1)
    }

    fn step(
        &mut self,
        params: &mut [f32],
        grads: &mut Gradients,
        lr: f32,
        optimizer: &mut dyn Optimizer,
    ) -> Result<Spent> {
        let start = Instant::now();
        let delta = grads.params();
        optimizer.step(lr, 0, params, delta, |_| {});
        for (owner, part) in self.parts(params.len()) {
            self.window.add(owner, 0, &delta[part])?;
        }
        self.pull(params)?;
        Ok(Spent {
            exchange: start.elapsed(),
            ..Spent::default()
        })
    }

    fn finish(&mut self) -> Result<()> {
        self.window.fetch_add(0, FINISHED).map(|_| ())
    }

    fn settle(self: Box<Self>, params: &mut [f32]) -> Result<()> {
        self.comm.barrier();
        self.pull(params)?;
        self.window.close()
    }
}
