//! The training loop of sparse models.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::exchange::Exchange;
use super::learner::{Learner, Part};
use super::quality::Summary;
use crate::board::Phase;
use crate::checkpoint::{Checkpoint, Snapshot};
use crate::comm::Comm;
use crate::data::Steps;
use crate::exchange::Votes;
use crate::nn::Tally;
use crate::train::{Every, Journal, Page, Running, Saver};
use crate::{Error, Result};

/// When to look at the watched rows, and when to stop early.
pub struct Goal<'a> {
    /// What to look at, if anything.
    pub watch: Option<Part<'a>>,
    /// Test rows that are evaluated once, when all else is over.
    pub test: Option<Part<'a>>,
    /// From one evaluation to the next.
    pub eval_every: Every,
    /// Stop at the first evaluation with a log loss at or below this.
    pub until_loss: Option<f64>,
    /// Stop after this many evaluations without a lower log loss.
    pub early_stop: Option<u64>,
}

/// How a run ended.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Steps taken by all ranks when the last one ended.
    pub steps: u64,
    /// Step and seconds at the evaluation that met the target.
    pub reached: Option<(u64, f64)>,
    /// Step of the lowest loss, where the run ended for want of a lower one.
    pub stale: Option<u64>,
    /// Whether the run was asked to stop before its end; nothing was evaluated then.
    pub stopped: bool,
    /// What the watched rows gave in the end.
    pub watched: Option<Summary>,
    /// What the test rows gave, where others were watched.
    pub test: Option<Summary>,
    /// Loss of all training rows before they were learnt from (progressive validation), over this rank's rows, or those of
    /// all ranks where they step together.
    pub progressive: Tally,
}

/// How evaluations went, as a checkpoint's manifest has it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    /// Evaluations so far.
    evaluated: u64,
    /// The lowest loss and the step of it; none before the first.
    best: Option<(f64, u64)>,
    /// Evaluations since.
    since: u64,
    /// The loss of the last one, if it was a number.
    loss: Option<f64>,
    /// Where the journal was.
    journal: Page,
}

impl State {
    fn new() -> Self {
        Self {
            evaluated: 0,
            best: None,
            since: 0,
            loss: None,
            journal: Page::default(),
        }
    }

    /// What a checkpoint says.
    pub fn of(from: &Checkpoint) -> Result<Self> {
        serde_json::from_value(from.manifest.state["run"].clone()).map_err(|error| {
            let problem = format!("its state is not understood: {error}");
            Error::file(from.path(), problem, "it was written by another phalanx")
        })
    }

    /// Where the journal was.
    pub fn page(&self) -> Page {
        self.journal
    }

    /// Takes note of an evaluation after `steps`, the `count`th that was due.
    fn evaluated(&mut self, count: u64, steps: u64, loss: f64) {
        self.evaluated = count;
        self.loss = Some(loss).filter(|loss| loss.is_finite());
        // A loss that is no number is not lower either.
        match self.best.is_none_or(|(best, _)| loss < best) && loss.is_finite() {
            true => (self.best, self.since) = (Some((loss, steps)), 0),
            false => self.since += 1,
        }
    }
}

/// A run while it goes on.
struct Sparse<'a, 'b> {
    exchange: &'a mut dyn Exchange,
    learner: &'a mut Learner<'b>,
    outcome: &'a Outcome,
    state: &'a State,
    journal: &'a Journal,
}

fn sparse<'a, 'b>(
    exchange: &'a mut dyn Exchange,
    learner: &'a mut Learner<'b>,
    (outcome, state): (&'a Outcome, &'a State),
    journal: &'a Journal,
) -> Sparse<'a, 'b> {
    Sparse {
        exchange,
        learner,
        outcome,
        state,
        journal,
    }
}

impl Running for Sparse<'_, '_> {
    fn kind(&self) -> &'static str {
        "sparse"
    }

    fn steps(&self) -> &Steps {
        &self.learner.parts.steps
    }

    fn heard(&self) -> Votes {
        self.learner.heard
    }

    fn taken(&self) -> u64 {
        self.outcome.steps
    }

    fn score(&self) -> Option<f64> {
        self.state.loss
    }

    fn state(&self) -> Value {
        let state = State {
            journal: self.journal.page(),
            ..self.state.clone()
        };
        serde_json::to_value(state).expect("plain values")
    }

    fn save(&mut self, _comm: &dyn Comm, to: &mut Snapshot) -> Result<()> {
        let past = (self.outcome.steps, self.outcome.progressive);
        self.learner.save(self.exchange, past, to)
    }
}

/// Trains until there are no more steps, the goal is met or the run is asked to stop; from a checkpoint, if there is one;
/// *collective*.
pub fn train(
    comm: &dyn Comm,
    exchange: &mut dyn Exchange,
    learner: &mut Learner,
    goal: &Goal,
    journal: &mut Journal,
    (saver, from): (&mut Saver, Option<(&Checkpoint, &State)>),
) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let mut state = State::new();
    if let Some((from, before)) = from {
        outcome.progressive = learner.go_on(comm, exchange, from)?;
        outcome.steps = from.manifest.step;
        state = before.clone();
    }
    let together = exchange.is_together();
    // Ranks that go their own way leave evaluations to the first.
    let observes = together || comm.rank() == 0;
    let team = together.then_some(comm);
    saver.start(outcome.steps, &learner.parts.steps, learner.board.clone());
    while let Some(step) = learner.claim(exchange)? {
        learner.votes = saver.votes();
        let tally = learner.step(comm, exchange, step)?;
        outcome.progressive = outcome.progressive.plus(tally);
        outcome.steps = step + 1;
        let count = goal.eval_every.due(outcome.steps, &learner.parts.steps);
        let watch = goal.watch.as_ref();
        let watch = watch.filter(|_| observes && count > state.evaluated);
        let moment = learner.moment(outcome.steps);
        learner.turn(Phase::Write);
        journal.trained(&learner.times, &moment, tally, watch.is_some())?;
        if let Some(watch) = watch {
            let found = learner.evaluate(team, exchange, watch)?;
            learner.turn(Phase::Write);
            journal.tested(&learner.times, &moment, tally_of(&found))?;
            state.evaluated(count, outcome.steps, found.loss);
            if goal.until_loss.is_some_and(|target| found.loss <= target) {
                outcome.reached = Some((outcome.steps, learner.times.elapsed()));
            }
            if goal.early_stop.is_some_and(|most| state.since >= most) {
                outcome.stale = Some(state.best.map_or(0, |(_, step)| step));
            }
        }
        let met = outcome.reached.is_some() || outcome.stale.is_some();
        let mut run = sparse(exchange, learner, (&outcome, &state), journal);
        outcome.stopped = !met && saver.turn(step, &mut run)?;
        if met || outcome.stopped {
            exchange.finish()?;
            break;
        }
    }
    learner.turn(Phase::Settle);
    let time = learner.time(outcome.steps, together);
    exchange.leave(time as f32)?;
    learner.conduct = learner.conduct(exchange);
    comm.barrier();
    outcome.stopped = saver.is_stopped(outcome.stopped);
    let mut run = sparse(exchange, learner, (&outcome, &state), journal);
    saver.last(outcome.stopped, &mut run)?;
    if outcome.stopped {
        return Ok(outcome);
    }
    let mut last = |part: &Option<Part>| {
        let part = part.as_ref();
        part.map(|part| learner.evaluate(Some(comm), exchange, part))
            .transpose()
    };
    outcome.watched = last(&goal.watch)?;
    outcome.test = last(&goal.test)?;
    saver.finish();
    Ok(outcome)
}

/// What was found as losses and right answers are counted elsewhere.
pub fn tally_of(found: &Summary) -> Tally {
    Tally {
        loss: found.loss * found.count as f64,
        correct: (found.accuracy * found.count as f64).round() as u64,
        count: found.count,
    }
}
