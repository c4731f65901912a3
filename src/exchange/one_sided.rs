//! Asynchronous: each rank adds its own updates to parameters in one-sided windows and waits for nobody.
//!
//! Cost of a step: one fetch-and-add for the claim, and one accumulate and one get per owner, 4·parameters bytes each
//! way in all. What an optimizer remembers (velocities, moments) is each rank's own. Steps are claimed from a shared
//! counter, so a fast rank takes more of them and none is taken twice.

use std::ops::Range;
use std::time::{Duration, Instant};

use super::{Arenas, Exchange, Spent, Tail};
use crate::Result;
use crate::comm::{Comm, Window, block};
use crate::optim::Mover;

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
    params: Vec<f32>,
    grads: Vec<f32>,
}

impl<'c> OneSided<'c> {
    /// Publishes `params`, equal on every rank; *collective*.
    pub fn new(comm: &'c dyn Comm, placement: Placement, params: Vec<f32>) -> Result<Self> {
        let mine = placement.part(params.len(), comm.size(), comm.rank());
        let window = comm.window(&params[mine])?;
        Ok(Self {
            comm,
            alone: comm.split(comm.rank()),
            window,
            placement,
            grads: vec![0.0; params.len()],
            params,
        })
    }

    /// Owners with their parts, starting behind this rank so that ranks do not queue for the same owner.
    fn parts(&self) -> impl Iterator<Item = (usize, Range<usize>)> + use<> {
        let len = self.params.len();
        let (size, rank, placement) = (self.comm.size(), self.comm.rank(), self.placement);
        (0..size)
            .map(move |i| (rank + i) % size)
            .map(move |owner| (owner, placement.part(len, size, owner)))
            .filter(|(_, part)| !part.is_empty())
    }

    fn pull(&mut self) -> Result<()> {
        self.parts()
            .try_for_each(|(owner, part)| self.window.get(owner, 0, &mut self.params[part]))
    }
}

impl Exchange for OneSided<'_> {
    fn team(&self) -> &dyn Comm {
        &*self.alone
    }

    fn claim(&mut self, _claimed: u64) -> Result<u64> {
        self.window.fetch_add(0, 1)
    }

    fn params(&self) -> &[f32] {
        &self.params
    }

    fn arenas(&mut self) -> Arenas<'_> {
        Arenas {
            team: &*self.alone,
            params: &self.params,
            grads: &mut self.grads,
        }
    }

    fn step(&mut self, mine: Tail, lr: f32, mover: &mut Mover) -> Result<(Tail, Spent)> {
        let start = Instant::now();
        if mine.faults == 0 {
            mover.deltas(lr, &self.params, &mut self.grads);
            for (owner, part) in self.parts() {
                self.window.add(owner, 0, &self.grads[part])?;
            }
        }
        self.pull()?;
        let exchange = start.elapsed();
        let wait = Duration::ZERO;
        Ok((mine, Spent { exchange, wait }))
    }

    fn finish(&mut self) -> Result<()> {
        self.window.fetch_add(0, FINISHED).map(|_| ())
    }

    fn settle(mut self: Box<Self>) -> Result<Vec<f32>> {
        self.comm.barrier();
        self.pull()?;
        self.window.close()?;
        Ok(self.params)
    }
}
