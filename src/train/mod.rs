//! The training loop, and what it needs around it.

mod best;
mod course;
mod evaluation;
mod inject;
mod journal;
mod ledger;
mod memory;
mod noise;
mod ranks;
mod replay;
mod run_folder;
mod saver;
mod statistics;
mod trainer;

pub use best::{Best, BestSoFar};
pub use course::{Course, State};
pub use evaluation::{CHUNK, evaluate};
pub use inject::Inject;
pub use journal::{Events, Journal, Moment, Page, Tap};
pub use ledger::{Late, Lateness, Ledger, Stride, Sums};
pub(crate) use memory::available;
pub use memory::{Batches, Need, budget, readable};
pub use noise::{Noise, Norms};
pub use ranks::{RankReport, RankWork, Times};
pub use replay::Replay;
pub use run_folder::{MODEL, RunFolder, UPDATES, rank_folder};
pub use saver::{Meeting, Running, Saver, Terms};
pub use trainer::{Common, OnNan, Parts, Reduce, Trainer, checksum};

use std::time::Instant;

use serde_json::Value;

use crate::Result;
use crate::board::Phase;
use crate::checkpoint::{Checkpoint, Snapshot};
use crate::comm::{Comm, agree};
use crate::data::{Dataset, Steps};
use crate::exchange::{Exchange, Votes};
use crate::nn::Tally;

/// Which set is looked at while training goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// The test set.
    Test,
    /// A part of the training set that is not trained on.
    Validation,
}

impl Watched {
    /// As the user reads it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Test => "test",
            Self::Validation => "validation",
        }
    }
}

/// From one evaluation to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Every {
    /// So many steps.
    Steps(u64),
    /// An epoch.
    Epoch,
}

impl Every {
    /// How many evaluations are due after `taken` of `steps`.
    pub fn due(self, taken: u64, steps: &Steps) -> u64 {
        match self {
            Self::Steps(every) => taken / every,
            Self::Epoch => steps.place(taken).epoch,
        }
    }

    /// Steps of it in the first epoch of `steps`.
    pub fn at_first(self, steps: &Steps) -> u64 {
        match self {
            Self::Steps(every) => every,
            Self::Epoch => steps.in_epoch(0),
        }
    }
}

/// When to look at the watched set, and when to stop early.
pub struct Goal<'a> {
    /// The set to look at, if there is one.
    pub watch: Option<&'a Dataset>,
    /// Which set that is.
    pub watched: Watched,
    /// A test set that is evaluated once, when all else is over.
    pub test: Option<&'a Dataset>,
    /// From one evaluation to the next.
    pub eval_every: Every,
    /// Stop at the first evaluation with a loss at or below this.
    pub until_loss: Option<f64>,
    /// Stop after this many evaluations without a lower loss.
    pub early_stop: Option<u64>,
    /// End with the parameters of the lowest loss instead of the last ones.
    pub keep_best: bool,
}

impl Goal<'_> {
    /// To take all steps, and to look at no set.
    pub fn none() -> Self {
        Self {
            watch: None,
            watched: Watched::Test,
            test: None,
            eval_every: Every::Epoch,
            until_loss: None,
            early_stop: None,
            keep_best: false,
        }
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Steps taken by all ranks when the last one ended.
    pub steps: u64,
    /// Step and seconds at the evaluation that met the target loss.
    pub reached: Option<(u64, f64)>,
    /// Step of the lowest loss of the watched set, where the run ended for want of a lower one.
    pub stale: Option<u64>,
    /// Step whose parameters were kept, where the last ones were worse.
    pub kept: Option<u64>,
    /// What the watched set gave with this rank's own parameters at its last step.
    pub own: Option<Tally>,
    /// What the watched set gave with the parameters that all ranks agreed on.
    pub settled: Option<Tally>,
    /// What the test set gave with them, where another set was watched.
    pub test: Option<Tally>,
    /// Whether the run was asked to stop before its end; nothing was evaluated then.
    pub stopped: bool,
}

/// Trains until there are no more steps, the goal is met, or the run is asked to stop; from a checkpoint, if there is one;
/// *collective*.
pub fn train(
    comm: &dyn Comm,
    mut exchange: Box<dyn Exchange + '_>,
    trainer: &mut Trainer,
    goal: &Goal,
    journal: &mut Journal,
    (saver, from): (&mut Saver, Option<(&Checkpoint, &State)>),
) -> Result<Outcome> {
    let mut course = Course::new(comm, &*exchange, goal);
    if let Some((from, state)) = from {
        let taken = trainer.take_back(comm, &mut *exchange, from);
        agree(comm, taken.and_then(|()| course.go_on(from, state)))?;
    }
    saver.start(course.outcome.steps, trainer.steps(), trainer.board.clone());
    let mut run = Run {
        course,
        goal,
        journal,
        saver,
    };
    let mut stopped = false;
    let mut ahead = trainer.claim(&mut *exchange)?;
    while let Some(step) = ahead {
        ahead = trainer.claim(&mut *exchange)?;
        stopped = run.step(&mut *exchange, trainer, step)?;
        if stopped || run.course.is_met() {
            trainer.turn(Phase::Exchange);
            exchange.finish()?;
            break;
        }
    }
    exchange.leave()?;
    run.last(&mut *exchange, trainer, stopped)?;
    let Run { course, saver, .. } = run;
    if course.outcome.stopped {
        trainer.settle(comm, exchange)?;
        return Ok(course.outcome);
    }
    let outcome = end(comm, exchange, trainer, goal, course)?;
    saver.finish();
    Ok(outcome)
}

/// What goes along with the steps of a rank: notes, evaluations, checkpoints.
pub struct Run<'a, 'c> {
    /// How far it has come.
    pub course: Course,
    /// Where it is to go.
    pub goal: &'a Goal<'a>,
    /// Who takes note of it.
    pub journal: &'a mut Journal,
    /// Who writes checkpoints of it.
    pub saver: &'a mut Saver<'c>,
}

impl Run<'_, '_> {
    /// Takes a step that was claimed, and does what is due after it; tells whether the run is to stop here.
    pub fn step(
        &mut self,
        exchange: &mut dyn Exchange,
        trainer: &mut Trainer,
        step: u64,
    ) -> Result<bool> {
        let Self {
            course,
            goal,
            journal,
            saver,
        } = self;
        trainer.votes = saver.votes();
        let tally = trainer.step(exchange, step)?;
        course.look(exchange, trainer, goal, journal, (step, tally))?;
        let begin = Instant::now();
        let mut run = dense(exchange, trainer, course, journal);
        let stopped = !course.is_met() && saver.turn(step, &mut run)?;
        trainer.saved(begin);
        Ok(stopped)
    }

    /// When no step is taken any more: the last checkpoint; *collective*.
    fn last(
        &mut self,
        exchange: &mut dyn Exchange,
        trainer: &mut Trainer,
        stopped: bool,
    ) -> Result<()> {
        let Self {
            course,
            journal,
            saver,
            ..
        } = self;
        course.outcome.stopped = saver.is_stopped(stopped);
        let begin = Instant::now();
        let mut run = dense(exchange, trainer, course, journal);
        saver.last(course.outcome.stopped, &mut run)?;
        trainer.saved(begin);
        Ok(())
    }
}

/// What checkpoints are written of.
struct Dense<'a> {
    exchange: &'a mut dyn Exchange,
    trainer: &'a mut Trainer,
    course: &'a Course,
    journal: &'a Journal,
}

fn dense<'a>(
    exchange: &'a mut dyn Exchange,
    trainer: &'a mut Trainer,
    course: &'a Course,
    journal: &'a Journal,
) -> Dense<'a> {
    Dense {
        exchange,
        trainer,
        course,
        journal,
    }
}

impl Running for Dense<'_> {
    fn kind(&self) -> &'static str {
        "dense"
    }

    fn steps(&self) -> &Steps {
        self.trainer.steps()
    }

    fn heard(&self) -> Votes {
        self.trainer.heard
    }

    fn taken(&self) -> u64 {
        self.course.outcome.steps
    }

    fn reached(&self, step: u64) -> u64 {
        self.exchange.reached(step)
    }

    fn score(&self) -> Option<f64> {
        self.course.score()
    }

    fn state(&self) -> Value {
        let state = self.course.state(self.trainer, self.journal);
        serde_json::to_value(state).expect("plain values")
    }

    fn save(&mut self, comm: &dyn Comm, to: &mut Snapshot) -> Result<()> {
        let team = self.exchange.team().size();
        self.trainer.save(self.exchange, to)?;
        self.course.save(comm, team, to);
        Ok(())
    }
}

/// Makes all ranks equal when no step is left, and looks at the result; *collective*.
fn end(
    comm: &dyn Comm,
    exchange: Box<dyn Exchange + '_>,
    trainer: &mut Trainer,
    goal: &Goal,
    course: Course,
) -> Result<Outcome> {
    let Course {
        mut outcome, best, ..
    } = course;
    let together = exchange.team().size() == comm.size();
    outcome.own = goal
        .watch
        .map(|watch| trainer.evaluate(exchange.team(), exchange.params(), watch))
        .transpose()?;
    trainer.settle(comm, exchange)?;
    outcome.settled = match goal.watch {
        Some(watch) if !together => Some(trainer.evaluate_settled(comm, watch)?),
        _ => outcome.own,
    };
    trainer.turn(Phase::Settle);
    outcome.kept = best.restore(
        comm,
        outcome.settled,
        &mut trainer.params,
        &mut *trainer.backend,
    )?;
    if let Some(watch) = goal.watch.filter(|_| outcome.kept.is_some()) {
        outcome.settled = Some(trainer.evaluate_settled(comm, watch)?);
    }
    outcome.test = goal
        .test
        .map(|test| trainer.evaluate_settled(comm, test))
        .transpose()?;
    trainer.turn(Phase::Settle);
    trainer.check_end(comm, goal.watched, &outcome)?;
    Ok(outcome)
}
