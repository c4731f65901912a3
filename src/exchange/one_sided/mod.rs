//! Asynchronous: each rank adds its own updates to parameters that all have in common, and waits for nobody, or for nobody
//! but the slowest.
//!
//! Cost of a step on one node: some counters, and 4·parameters bytes read, written and copied in shared memory. Between
//! nodes: one call to each owner, 4·parameters bytes there and back in all, and a call for each of four counters. What an
//! optimizer remembers (velocities, moments) is each rank's own. Steps are claimed from a counter, so a fast rank takes more
//! of them and none is taken twice.

mod record;
mod store;

pub use record::{Record, Update};

use std::ops::Range;
use std::time::{Duration, Instant};

use self::record::Recorder;
use self::store::{Far, Near, Store};
use super::{Clock, Conduct, Exchange, Spent, Start, Tail, saved};
use crate::Result;
use crate::checkpoint::{Checkpoint, Snapshot};
use crate::comm::{Comm, block};
use crate::nn::{Arenas, Grads, Params};
use crate::optim::Mover;

/// Who holds the parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Nobody in particular where all ranks are on one node, else every rank a block of them.
    #[default]
    Sharded,
    /// Rank 0 all of them, as a parameter server would; others reach them by messages.
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

/// What ranks may do without asking others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Freedom {
    /// Who holds the parameters.
    pub placement: Placement,
    /// Whether additions at the same moment may be lost.
    pub racy: bool,
    /// The most steps that a rank may be ahead of the slowest when it reads parameters.
    pub bound: Option<u64>,
    /// Whether an update is divided by one plus the updates that it missed.
    pub divide: bool,
}

impl Freedom {
    pub(super) fn describe(self) -> String {
        let place = match self.placement {
            Placement::Sharded => "shared by all ranks",
            Placement::Rank0 => "on rank 0",
        };
        let mut words = vec![format!("one-sided (asynchronous), parameters {place}")];
        if self.racy {
            words.push("racy".into());
        }
        if let Some(bound) = self.bound {
            words.push(format!("staleness at most {bound}"));
        }
        if self.divide {
            words.push("rate divided by staleness".into());
        }
        words.join(", ")
    }
}

/// Every rank is a team of its own.
pub struct OneSided<'c> {
    comm: &'c dyn Comm,
    alone: Box<dyn Comm>,
    store: Box<dyn Store>,
    clock: Clock<'c>,
    freedom: Freedom,
    params: Vec<f32>,
    grads: Vec<f32>,
    /// The step that is being taken.
    step: u64,
    recorder: Option<Recorder>,
}

impl<'c> OneSided<'c> {
    /// Publishes `params`, equal on every rank, and records updates in a folder, if there is one; *collective*.
    pub fn new(
        comm: &'c dyn Comm,
        freedom: Freedom,
        params: Vec<f32>,
        start: Start,
    ) -> Result<Self> {
        let near = comm.local_size() == comm.size() && freedom.placement == Placement::Sharded;
        let store: Box<dyn Store> = match near {
            true => Box::new(Near::new(comm, &params, freedom.racy)?),
            false => Box::new(Far::new(comm, &params, freedom.placement)?),
        };
        let recorder = start
            .record
            .map(|folder| Recorder::create(folder, comm.rank()));
        Ok(Self {
            comm,
            alone: comm.split(comm.rank()),
            store,
            clock: Clock::new(comm, freedom.bound, start.first)?,
            freedom,
            grads: vec![0.0; params.len()],
            params,
            step: 0,
            recorder: recorder.transpose()?,
        })
    }

    /// Makes this rank's update, from gradients at the rate `lr`; gives the time that it waited for others.
    fn update(&mut self, lr: f32, mover: &mut Mover) -> Result<Duration> {
        let divisor = match self.freedom.divide {
            true => 1 + self.clock.missed()?,
            false => 1,
        };
        mover.deltas(lr / divisor as f32, &self.params, &mut self.grads);
        let waited = self.clock.in_step()?;
        let (store, grads, params) = (&mut self.store, &self.grads, &mut self.params);
        self.clock.update(|| store.add(grads, params))?;
        if let Some(recorder) = &mut self.recorder {
            recorder.write(self.step, divisor, self.store.versions())?;
        }
        Ok(waited)
    }
}

impl Exchange for OneSided<'_> {
    fn team(&self) -> &dyn Comm {
        &*self.alone
    }

    fn claim(&mut self, claimed: u64) -> Result<u64> {
        self.clock.claim(claimed)
    }

    fn ready(&mut self, step: u64) -> Result<Option<Duration>> {
        self.step = step;
        let start = Instant::now();
        let (store, params) = (&mut self.store, &mut self.params);
        self.clock.begin(|behind| match behind {
            true => store.pull(params),
            false => Ok(()),
        })?;
        Ok(Some(start.elapsed()))
    }

    fn params(&self) -> Params<'_> {
        Params::Host(&self.params)
    }

    fn arenas(&mut self) -> Arenas<'_> {
        Arenas {
            team: &*self.alone,
            params: Params::Host(&self.params),
            grads: Grads::Host(&mut self.grads),
            courier: None,
        }
    }

    fn step(&mut self, mine: Tail, lr: f32, mover: &mut Mover) -> Result<(Tail, Spent)> {
        let start = Instant::now();
        let wait = match mine.faults {
            0 => self.update(lr, mover)?,
            _ => Duration::ZERO,
        };
        self.clock.end()?;
        let exchange = start.elapsed().saturating_sub(wait);
        Ok((mine, Spent { exchange, wait }))
    }

    fn finish(&mut self) -> Result<()> {
        self.clock.finish()
    }

    fn leave(&mut self) -> Result<()> {
        self.clock.leave()
    }

    fn conduct(&self) -> Conduct {
        self.clock.conduct().clone()
    }

    fn save(&mut self, mover: &mut Mover, to: &mut Snapshot) -> Result<()> {
        let share = block(self.params.len(), self.comm.size(), self.comm.rank());
        saved::save_own(to, mover, &self.params, share);
        Ok(())
    }

    fn load(
        &mut self,
        mover: &mut Mover,
        updates: u64,
        from: &Checkpoint,
        part: usize,
    ) -> Result<()> {
        saved::load_own(from, part, mover, updates, self.params.len())
    }

    fn settle(mut self: Box<Self>) -> Result<Vec<f32>> {
        if let Some(recorder) = self.recorder.take() {
            recorder.finish()?;
        }
        self.comm.barrier();
        self.store.pull(&mut self.params)?;
        self.comm.barrier();
        self.store.close()?;
        self.clock.close()?;
        Ok(self.params)
    }
}
