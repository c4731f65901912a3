//! The training loop of sparse models.

use super::exchange::Exchange;
use super::learner::{Learner, Part};
use super::quality::Summary;
use crate::Result;
use crate::board::Phase;
use crate::comm::Comm;
use crate::nn::Tally;
use crate::train::{Every, Journal};

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
    /// What the watched rows gave in the end.
    pub watched: Option<Summary>,
    /// What the test rows gave, where others were watched.
    pub test: Option<Summary>,
    /// Loss of all training rows before they were learnt from (progressive validation), over this rank's rows, or those of
    /// all ranks where they step together.
    pub progressive: Tally,
}

/// Trains until there are no more steps or the goal is met; *collective*.
pub fn train(
    comm: &dyn Comm,
    exchange: &mut dyn Exchange,
    learner: &mut Learner,
    goal: &Goal,
    journal: &mut Journal,
) -> Result<Outcome> {
    let mut outcome = Outcome::default();
    let together = exchange.is_together();
    // Ranks that go their own way leave evaluations to the first.
    let observes = together || comm.rank() == 0;
    let team = together.then_some(comm);
    let (mut evaluated, mut best, mut since) = (0, (f64::INFINITY, 0), 0);
    while let Some(step) = learner.claim(exchange)? {
        let tally = learner.step(comm, exchange, step)?;
        outcome.progressive = outcome.progressive.plus(tally);
        outcome.steps = step + 1;
        let count = goal.eval_every.due(outcome.steps, &learner.parts.steps);
        let due = observes && count > evaluated;
        let moment = learner.moment(outcome.steps);
        learner.turn(Phase::Write);
        journal.trained(&learner.times, &moment, tally, due && goal.watch.is_some())?;
        let Some(watch) = goal.watch.as_ref().filter(|_| due) else {
            continue;
        };
        evaluated = count;
        let found = learner.evaluate(team, exchange, watch)?;
        learner.turn(Phase::Write);
        journal.tested(&learner.times, &moment, tally_of(&found))?;
        let loss = found.loss;
        if goal.until_loss.is_some_and(|target| loss <= target) {
            outcome.reached = Some((outcome.steps, learner.times.elapsed()));
        }
        // A loss that is no number is not lower either.
        match loss < best.0 {
            true => (best, since) = ((loss, outcome.steps), 0),
            false => since += 1,
        }
        if goal.early_stop.is_some_and(|patience| since >= patience) {
            outcome.stale = Some(best.1);
        }
        if outcome.reached.is_some() || outcome.stale.is_some() {
            exchange.finish()?;
            break;
        }
    }
    learner.turn(Phase::Settle);
    let time = learner.time(outcome.steps, together);
    exchange.leave(time as f32)?;
    learner.conduct = exchange.conduct();
    comm.barrier();
    let mut last = |part: &Option<Part>| {
        let part = part.as_ref();
        part.map(|part| learner.evaluate(Some(comm), exchange, part))
            .transpose()
    };
    outcome.watched = last(&goal.watch)?;
    outcome.test = last(&goal.test)?;
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
