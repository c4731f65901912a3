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
use std::path::Path;
use std::time::{Duration, Instant};

use self::record::Recorder;
use self::store::{Far, Near, Store};
use super::{Arenas, Conduct, Exchange, FINISHED, Spent, Tail};
use crate::Result;
use crate::comm::{Comm, Counters, Pause, block};
use crate::optim::Mover;

/// Counters: steps claimed by all, updates made by all, and then each rank's steps begun and steps ended.
const CLAIMED: usize = 0;
const UPDATES: usize = 1;
const RANKS: usize = 2;

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
    counters: Box<dyn Counters>,
    freedom: Freedom,
    params: Vec<f32>,
    grads: Vec<f32>,
    /// What all counters were when last read.
    counts: Vec<u64>,
    /// The step that is being taken, and how many this rank has ended.
    step: u64,
    ended: u64,
    /// Steps that the slowest rank had ended, and updates of all, when the parameters were last read.
    slowest: u64,
    updates: u64,
    conduct: Conduct,
    recorder: Option<Recorder>,
}

impl<'c> OneSided<'c> {
    /// Publishes `params`, equal on every rank, and records updates in the folder `record`, if any; *collective*.
    pub fn new(
        comm: &'c dyn Comm,
        freedom: Freedom,
        params: Vec<f32>,
        record: Option<&Path>,
    ) -> Result<Self> {
        let near = comm.local_size() == comm.size() && freedom.placement == Placement::Sharded;
        let store: Box<dyn Store> = match near {
            true => Box::new(Near::new(comm, &params, freedom.racy)?),
            false => Box::new(Far::new(comm, &params, freedom.placement)?),
        };
        let counts = vec![0; RANKS + 2 * comm.size()];
        let recorder = record.map(|folder| Recorder::create(folder, comm.rank()));
        Ok(Self {
            comm,
            alone: comm.split(comm.rank()),
            store,
            counters: comm.counters(counts.len())?,
            freedom,
            grads: vec![0.0; params.len()],
            params,
            counts,
            step: 0,
            ended: 0,
            slowest: 0,
            updates: 0,
            conduct: Conduct::default(),
            recorder: recorder.transpose()?,
        })
    }

    /// Of the other ranks, the steps that each has begun (0) or ended (1): the fewest.
    fn least(&mut self, ended: usize) -> Result<u64> {
        self.counters.read(&mut self.counts)?;
        let ranks = self.counts[RANKS..].chunks_exact(2).enumerate();
        let others = ranks.filter(|(rank, _)| *rank != self.comm.rank());
        let steps = others.map(|(_, counts)| counts[ended]);
        Ok(steps.min().unwrap_or(FINISHED))
    }

    /// Waits until every other rank has begun or ended so many steps.
    fn wait(&mut self, ended: usize, steps: u64) -> Result<u64> {
        let mut pause = Pause::default();
        loop {
            let least = self.least(ended)?;
            if least >= steps {
                return Ok(least);
            }
            pause.once();
        }
    }

    fn count(&mut self, ended: usize, amount: u64) -> Result<u64> {
        let mine = RANKS + 2 * self.comm.rank() + ended;
        self.counters.add(mine, amount)
    }

    /// Makes this rank's update, from gradients at the rate `lr`; gives the time that it waited for others.
    fn update(&mut self, lr: f32, mover: &mut Mover) -> Result<Duration> {
        let divisor = match self.freedom.divide {
            true => {
                self.counters.read(&mut self.counts[..RANKS])?;
                1 + self.counts[UPDATES].saturating_sub(self.updates)
            }
            false => 1,
        };
        mover.deltas(lr / divisor as f32, &self.params, &mut self.grads);
        let begin = Instant::now();
        if self.freedom.bound == Some(0) {
            // In step: nobody's update may be in the parameters that others still have to read.
            self.wait(0, self.ended + 1)?;
        }
        let waited = begin.elapsed();
        let behind = self.ended.saturating_sub(self.slowest);
        self.slowest = self.least(1)?;
        let before = self.counters.add(UPDATES, 1)?;
        self.store.add(&self.grads, &mut self.params)?;
        let missed = before.saturating_sub(self.updates);
        self.counters.read(&mut self.counts[..RANKS])?;
        self.updates = self.counts[UPDATES];
        self.conduct.behind.add(behind);
        self.conduct.missed.add(missed);
        self.conduct.updates += 1;
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
        let first = self.counters.add(CLAIMED, 1)?;
        let (size, rank) = (self.comm.size() as u64, self.comm.rank() as u64);
        Ok(match self.freedom.bound {
            // In step, ranks take turns: what they take at the same time is what ranks in step would share.
            Some(0) if first < FINISHED => claimed * size + rank,
            _ => first,
        })
    }

    fn ready(&mut self, step: u64) -> Result<Option<Duration>> {
        self.step = step;
        let start = Instant::now();
        let least = self
            .ended
            .saturating_sub(self.freedom.bound.unwrap_or(u64::MAX));
        if self.slowest < least {
            self.slowest = self.wait(1, least)?;
            self.updates = self.counts[UPDATES];
            self.store.pull(&mut self.params)?;
        }
        self.count(0, 1)?;
        Ok(Some(start.elapsed()))
    }

    fn params(&self) -> &[f32] {
        &self.params
    }

    fn arenas(&mut self) -> Arenas<'_> {
        Arenas {
            team: &*self.alone,
            params: &self.params,
            grads: &mut self.grads,
            courier: None,
        }
    }

    fn step(&mut self, mine: Tail, lr: f32, mover: &mut Mover) -> Result<(Tail, Spent)> {
        let start = Instant::now();
        let wait = match mine.faults {
            0 => self.update(lr, mover)?,
            _ => Duration::ZERO,
        };
        self.count(1, 1)?;
        self.ended += 1;
        let exchange = start.elapsed().saturating_sub(wait);
        Ok((mine, Spent { exchange, wait }))
    }

    fn finish(&mut self) -> Result<()> {
        self.counters.add(CLAIMED, FINISHED).map(|_| ())
    }

    fn leave(&mut self) -> Result<()> {
        self.count(0, FINISHED)?;
        self.count(1, FINISHED)?;
        Ok(())
    }

    fn conduct(&self) -> Conduct {
        self.conduct.clone()
    }

    fn settle(mut self: Box<Self>) -> Result<Vec<f32>> {
        if let Some(recorder) = self.recorder.take() {
            recorder.finish()?;
        }
        self.comm.barrier();
        self.store.pull(&mut self.params)?;
        self.comm.barrier();
        self.store.close()?;
        self.counters.close()?;
        Ok(self.params)
    }
}
