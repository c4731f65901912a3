//! Ranks that train in a steady state, some steps at a time.

use std::time::Instant;

use crate::Result;
use crate::comm::Comm;
use crate::exchange::{Exchange, Kind};
use crate::train::{Course, Goal, Journal, Meeting, Run, Saver, Trainer};

/// One of them, with more steps before it than it ever takes.
pub(super) struct Steady<'c> {
    pub(super) comm: &'c dyn Comm,
    pub(super) trainer: Trainer,
    exchange: Box<dyn Exchange + 'c>,
    kind: Kind,
    /// The step that was claimed last and is still to be taken.
    ahead: Option<u64>,
    /// Steps that this rank, or where they are claimed by whoever is free all ranks, may take.
    end: u64,
    taken: u64,
}

impl<'c> Steady<'c> {
    /// *Collective*.
    pub(super) fn start(comm: &'c dyn Comm, mut trainer: Trainer, kind: Kind) -> Result<Self> {
        Ok(Self {
            exchange: trainer.start(comm, kind, None)?,
            comm,
            trainer,
            kind,
            ahead: None,
            end: 0,
            taken: 0,
        })
    }

    /// How ranks meet while they train.
    pub(super) fn meeting(&self) -> Meeting {
        Meeting::of(self.kind)
    }

    /// Takes `count` steps on every rank, or as many in all where ranks wait for nobody: then a fast one takes more. Gives the
    /// seconds from the first start to the last end; *collective*.
    pub(super) fn take(&mut self, count: u64) -> Result<f64> {
        self.take_with(count, &mut Journal::none(), &mut Saver::none())
    }

    /// The same with what goes along with a run; *collective*.
    pub(super) fn take_with(
        &mut self,
        count: u64,
        journal: &mut Journal,
        saver: &mut Saver,
    ) -> Result<f64> {
        // A bound makes fast ranks wait for slow ones all the same.
        let free = matches!(self.kind, Kind::OneSided(freedom) if freedom.bound.is_none());
        let ranks = if free { self.comm.size() as u64 } else { 1 };
        self.end += count * ranks;
        let (goal, exchange) = (Goal::none(), &mut *self.exchange);
        let mut run = Run {
            course: Course::new(self.comm, exchange, &goal),
            goal: &goal,
            journal,
            saver,
        };
        self.comm.barrier();
        let start = Instant::now();
        if self.ahead.is_none() {
            self.ahead = self.trainer.claim(exchange)?;
        }
        loop {
            let step = self.ahead.expect("there are steps without end");
            let place = if free { step } else { self.taken };
            if place >= self.end {
                break;
            }
            self.ahead = self.trainer.claim(exchange)?;
            run.step(exchange, &mut self.trainer, step)?;
            self.taken += 1;
        }
        self.comm.barrier();
        Ok(start.elapsed().as_secs_f64())
    }

    /// Ends the exchange; *collective*.
    pub(super) fn settle(self) -> Result<Trainer> {
        let Self {
            comm,
            mut trainer,
            exchange,
            ..
        } = self;
        trainer.settle(comm, exchange)?;
        Ok(trainer)
    }
}
