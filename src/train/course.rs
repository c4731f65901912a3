//! How far a run has come: what the loop knows besides parameters.

use serde::{Deserialize, Serialize};

use super::best::BestSoFar;
use super::journal::Page;
use super::{Best, Common, Goal, Journal, Outcome, Trainer};
use crate::board::Phase;
use crate::checkpoint::{Checkpoint, Snapshot};
use crate::comm::Comm;
use crate::exchange::Exchange;
use crate::nn::Tally;
use crate::{Error, Result};

/// What the loop carries from step to step.
pub struct Course {
    /// What it has come to.
    pub outcome: Outcome,
    /// Whether this rank looks at the watched set: those that take steps with the first one do for all.
    observes: bool,
    /// Evaluations so far.
    evaluated: u64,
    pub(super) best: Best,
    /// The loss of the last one.
    loss: Option<f64>,
}

/// What a checkpoint's manifest says of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    trainer: Common,
    evaluated: u64,
    best: BestSoFar,
    loss: Option<f64>,
    journal: Page,
}

impl Course {
    /// The begin of a run.
    pub fn new(comm: &dyn Comm, exchange: &dyn Exchange, goal: &Goal) -> Self {
        Self {
            outcome: Outcome::default(),
            observes: exchange.team().size() == comm.size() || comm.rank() == 0,
            evaluated: 0,
            best: Best::new(goal.keep_best),
            loss: None,
        }
    }

    /// Goes on from a checkpoint.
    pub fn go_on(&mut self, from: &Checkpoint, state: &State) -> Result<()> {
        self.outcome.steps = from.manifest.step;
        self.evaluated = state.evaluated;
        self.loss = state.loss;
        match self.observes {
            true => self.best.go_on(from, state.best),
            false => Ok(()),
        }
    }

    /// After `step`: takes note of it, and looks at the watched set if that is due.
    pub fn look(
        &mut self,
        exchange: &mut dyn Exchange,
        trainer: &mut Trainer,
        goal: &Goal,
        journal: &mut Journal,
        (step, tally): (u64, Tally),
    ) -> Result<()> {
        self.outcome.steps = step + 1;
        let count = goal.eval_every.due(self.outcome.steps, trainer.steps());
        let due = self.observes && count > self.evaluated;
        let moment = trainer.moment(self.outcome.steps);
        let tested = due && goal.watch.is_some();
        trainer.turn(Phase::Write);
        journal.hear(moment.step, tested, || exchange.conduct());
        journal.trained(&trainer.times, &moment, tally, tested)?;
        if let Some(tap) = &mut trainer.tap {
            let tensors = trainer.backend.model().tensors();
            journal.spread(moment.step, tap.take(tensors, exchange.params())?);
        }
        let Some(watch) = goal.watch.filter(|_| due) else {
            return Ok(());
        };
        self.evaluated = count;
        let tally = trainer.evaluate(exchange.team(), exchange.params(), watch)?;
        trainer.turn(Phase::Write);
        journal.tested(&trainer.times, &moment, tally)?;
        let loss = tally.mean_loss();
        if goal.until_loss.is_some_and(|target| loss <= target) {
            self.outcome.reached = Some((self.outcome.steps, trainer.times.elapsed()));
        }
        self.loss = Some(loss);
        let (steps, params) = (self.outcome.steps, exchange.params());
        self.best.tested(steps, tally, params, trainer.model())?;
        self.outcome.stale = self.best.stale(goal.early_stop);
        Ok(())
    }

    /// Whether there is no need for more steps.
    pub fn is_met(&self) -> bool {
        self.outcome.reached.is_some() || self.outcome.stale.is_some()
    }

    /// The loss of the last evaluation, if it is a number.
    pub(super) fn score(&self) -> Option<f64> {
        self.loss.filter(|loss| loss.is_finite())
    }

    /// What a manifest says of it.
    pub(super) fn state(&self, trainer: &Trainer, journal: &Journal) -> State {
        State {
            trainer: trainer.common(),
            evaluated: self.evaluated,
            best: self.best.so_far(),
            loss: self.score(),
            journal: journal.page(),
        }
    }

    /// Copies what this rank gives to a checkpoint.
    pub(super) fn save(&self, comm: &dyn Comm, team: usize, to: &mut Snapshot) {
        match (team == comm.size(), comm.rank()) {
            (true, rank) => self.best.save(to, (team, rank)),
            (false, 0) => self.best.save(to, (1, 0)),
            (false, _) => {}
        }
    }
}

impl State {
    /// What a checkpoint says.
    pub fn of(from: &Checkpoint) -> Result<Self> {
        serde_json::from_value(from.manifest.state["run"].clone()).map_err(|error| {
            let problem = format!("its state is not understood: {error}");
            Error::file(from.path(), problem, "it was written by another phalanx")
        })
    }

    /// What the trainer had in common with those of other ranks.
    pub fn trainer(&self) -> Common {
        self.trainer.clone()
    }

    /// Where the journal was.
    pub fn page(&self) -> Page {
        self.journal
    }
}
