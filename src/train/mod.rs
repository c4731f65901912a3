//! The training loop, and what it needs around it.

mod best;
mod evaluation;
mod inject;
mod journal;
mod memory;
mod noise;
mod ranks;
mod replay;
mod run_folder;
mod statistics;
mod trainer;

pub use best::Best;
pub use evaluation::{CHUNK, evaluate};
pub use inject::Inject;
pub use journal::{Journal, Moment};
pub(crate) use memory::available;
pub use memory::{Batches, Need, budget, readable};
pub use noise::{Noise, Norms};
pub use ranks::{RankReport, RankWork, Times};
pub use replay::Replay;
pub use run_folder::{MODEL, RunFolder, UPDATES};
pub use trainer::{OnNan, Parts, Reduce, Trainer, checksum};

use crate::Result;
use crate::board::Phase;
use crate::comm::Comm;
use crate::data::{Dataset, Steps};
use crate::exchange::Exchange;
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
}

/// Trains until there are no more steps or the goal is met; *collective*.
pub fn train(
    comm: &dyn Comm,
    mut exchange: Box<dyn Exchange + '_>,
    trainer: &mut Trainer,
    goal: &Goal,
    journal: &mut Journal,
) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    // The ranks that take steps with rank 0 evaluate for all.
    let observes = exchange.team().size() == comm.size() || comm.rank() == 0;
    let mut evaluated = 0;
    let mut best = Best::new(goal.keep_best);
    let mut ahead = trainer.claim(&mut *exchange)?;
    while let Some(step) = ahead {
        ahead = trainer.claim(&mut *exchange)?;
        let tally = trainer.step(&mut *exchange, step)?;
        outcome.steps = step + 1;
        let count = goal.eval_every.due(outcome.steps, trainer.steps());
        let due = observes && count > evaluated;
        let moment = trainer.moment(outcome.steps);
        let tested = due && goal.watch.is_some();
        trainer.turn(Phase::Write);
        journal.trained(&trainer.times, &moment, tally, tested)?;
        let Some(watch) = goal.watch.filter(|_| due) else {
            continue;
        };
        evaluated = count;
        let tally = trainer.evaluate(exchange.team(), exchange.params(), watch)?;
        trainer.turn(Phase::Write);
        journal.tested(&trainer.times, &moment, tally)?;
        if goal
            .until_loss
            .is_some_and(|target| tally.mean_loss() <= target)
        {
            outcome.reached = Some((outcome.steps, trainer.times.elapsed()));
        }
        best.tested(outcome.steps, tally, exchange.params(), trainer.model())?;
        outcome.stale = best.stale(goal.early_stop);
        if outcome.reached.is_some() || outcome.stale.is_some() {
            trainer.turn(Phase::Exchange);
            exchange.finish()?;
            break;
        }
    }
    exchange.leave()?;
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
