//! Who has taken which steps, where each rank goes its own way: numbers that all ranks see.

use std::time::{Duration, Instant};

use super::{Conduct, FINISHED};
use crate::Result;
use crate::comm::{Comm, Counters, Pause};
use crate::observe::timeline::{self, Kind};

/// Counters: steps claimed by all, updates made by all, and then each rank's steps begun and steps ended.
const CLAIMED: usize = 0;
const UPDATES: usize = 1;
const RANKS: usize = 2;

/// Hands out steps, bounds how far a rank runs ahead of the slowest, and takes note of how stale updates were.
///
/// A step goes: [`begin`](Self::begin), which reads what others did, compute, [`in_step`](Self::in_step),
/// [`update`](Self::update) around the update itself, [`end`](Self::end).
pub struct Clock<'c> {
    comm: &'c dyn Comm,
    counters: Box<dyn Counters>,
    /// The most steps that a rank may be ahead of the slowest when it reads parameters.
    bound: Option<u64>,
    /// What all counters were when last read.
    counts: Vec<u64>,
    /// Steps that this rank has ended.
    ended: u64,
    /// Steps that the slowest rank had ended, and updates of all, when the parameters were last read.
    slowest: u64,
    updates: u64,
    conduct: Conduct,
}

impl<'c> Clock<'c> {
    /// Nobody has taken a step yet, of those from `first` on; *collective*.
    pub fn new(comm: &'c dyn Comm, bound: Option<u64>, first: u64) -> Result<Self> {
        let counts = vec![0; RANKS + 2 * comm.size()];
        let counters = comm.counters(counts.len())?;
        let clock = Self {
            comm,
            counters,
            bound,
            counts,
            ended: 0,
            slowest: 0,
            updates: 0,
            conduct: Conduct {
                waited: vec![0.0; bound.map_or(0, |_| comm.size())],
                ..Conduct::default()
            },
        };
        if first > 0 {
            clock.go_on(first)?;
        }
        Ok(clock)
    }

    /// Steps before `first` are taken already; *collective*, before anybody claims one.
    pub fn go_on(&self, first: u64) -> Result<()> {
        if self.comm.rank() == 0 {
            self.counters.add(CLAIMED, first)?;
        }
        self.comm.barrier();
        Ok(())
    }

    /// A step that nobody else takes; this rank has `claimed` so many before.
    pub fn claim(&mut self, claimed: u64) -> Result<u64> {
        let first = self.counters.add(CLAIMED, 1)?;
        let (size, rank) = (self.comm.size() as u64, self.comm.rank() as u64);
        Ok(match self.bound {
            // In step, ranks take turns: what they take at the same time is what ranks in step would share.
            Some(0) if first < FINISHED => claimed * size + rank,
            _ => first,
        })
    }

    /// Waits for the slowest rank if the bound asks for it, and then has `read` read what others did. It is told whether
    /// there was a wait, since when others may have done more. Only behind it this rank counts as one that has read: with a
    /// bound of 0, others update no sooner. Gives the time of the wait.
    pub fn begin(&mut self, read: impl FnOnce(bool) -> Result<()>) -> Result<Duration> {
        let start = Instant::now();
        let least = self.ended.saturating_sub(self.bound.unwrap_or(u64::MAX));
        let behind = self.slowest < least;
        if behind {
            self.slowest = self.wait(1, least)?;
            self.updates = self.counts[UPDATES];
        }
        let waited = start.elapsed();
        read(behind)?;
        self.count(0, 1)?;
        Ok(waited)
    }

    /// Updates that others made since this rank last read parameters.
    pub fn missed(&self) -> Result<u64> {
        let mut counts = [0; RANKS];
        self.counters.read(&mut counts)?;
        Ok(counts[UPDATES].saturating_sub(self.updates))
    }

    /// With a bound of 0, waits until nobody has to read any more what the update will change; gives the time of that.
    pub fn in_step(&mut self) -> Result<Duration> {
        let begin = Instant::now();
        if self.bound == Some(0) {
            self.wait(0, self.ended + 1)?;
        }
        Ok(begin.elapsed())
    }

    /// Does `work`, which makes this rank's update and reads what others did, and takes note of how stale it was.
    pub fn update<T>(&mut self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let behind = self.ended.saturating_sub(self.slowest);
        self.slowest = self.least(1)?.1;
        let before = self.counters.add(UPDATES, 1)?;
        let result = work()?;
        let missed = before.saturating_sub(self.updates);
        self.counters.read(&mut self.counts[..RANKS])?;
        self.updates = self.counts[UPDATES];
        self.conduct.behind.add(behind);
        self.conduct.missed.add(missed);
        self.conduct.updates += 1;
        Ok(result)
    }

    /// This rank has ended a step.
    pub fn end(&mut self) -> Result<()> {
        self.count(1, 1)?;
        self.ended += 1;
        Ok(())
    }

    /// Any step claimed from now on is past the end of every run.
    pub fn finish(&mut self) -> Result<()> {
        self.counters.add(CLAIMED, FINISHED).map(|_| ())
    }

    /// This rank takes no more steps: nobody is to wait for them.
    pub fn leave(&mut self) -> Result<()> {
        self.count(0, FINISHED)?;
        self.count(1, FINISHED)?;
        Ok(())
    }

    /// How this rank's updates were among those of others.
    pub fn conduct(&self) -> &Conduct {
        &self.conduct
    }

    /// Gives the counters back; *collective*.
    pub fn close(self) -> Result<()> {
        self.counters.close()
    }

    /// Of the other ranks, the one that has begun (0) or ended (1) the fewest steps, and how many.
    fn least(&mut self, ended: usize) -> Result<(usize, u64)> {
        self.counters.read(&mut self.counts)?;
        let ranks = self.counts[RANKS..].chunks_exact(2).enumerate();
        let others = ranks.filter(|(rank, _)| *rank != self.comm.rank());
        let steps = others.map(|(rank, counts)| (rank, counts[ended]));
        let fewest = steps.min_by_key(|&(_, steps)| steps);
        Ok(fewest.unwrap_or((self.comm.rank(), FINISHED)))
    }

    /// Waits until every other rank has begun or ended so many steps; takes note of whom it waited for, which is the last of them.
    fn wait(&mut self, ended: usize, steps: u64) -> Result<u64> {
        let (start, mut whom) = (Instant::now(), None);
        let mut pause = Pause::default();
        loop {
            let (rank, least) = self.least(ended)?;
            if least >= steps {
                timeline::span(Kind::Wait, 0, start);
                if let Some(time) = whom.and_then(|rank: usize| self.conduct.waited.get_mut(rank)) {
                    *time += start.elapsed().as_secs_f64();
                }
                return Ok(least);
            }
            whom = Some(rank);
            pause.once();
        }
    }

    fn count(&mut self, ended: usize, amount: u64) -> Result<u64> {
        let mine = RANKS + 2 * self.comm.rank() + ended;
        self.counters.add(mine, amount)
    }
}
