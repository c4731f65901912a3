//! The best evaluation so far: what to keep, and when there has been no better one for too long.

use serde::{Deserialize, Serialize};

use crate::Result;
use crate::checkpoint::{Checkpoint, Snapshot};
use crate::comm::{Comm, block};
use crate::nn::{Backend, Model, Params, Tally};

/// The lowest loss of a run's watched set, on the ranks that evaluate.
pub struct Best {
    loss: f64,
    step: u64,
    /// Evaluations since it.
    since: u64,
    /// Its parameters and the model's state, if they are to be kept.
    kept: Option<(Vec<f32>, Vec<f32>)>,
}

/// In checkpoints: the best parameters, and the model's state that goes with them.
const PARAMETERS: &str = "best_parameters";
const STATE: &str = "best_model_state";

/// What a checkpoint says of the best evaluation; no loss if there was none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BestSoFar {
    loss: Option<f64>,
    step: u64,
    since: u64,
}

impl Best {
    /// What a checkpoint says of it.
    pub fn so_far(&self) -> BestSoFar {
        BestSoFar {
            loss: Some(self.loss).filter(|loss| loss.is_finite()),
            step: self.step,
            since: self.since,
        }
    }

    /// Copies what was kept: each of `size` ranks that kept the same gives a block of it.
    pub fn save(&self, to: &mut Snapshot, (size, rank): (usize, usize)) {
        let Some((params, state)) = &self.kept else {
            return;
        };
        for (name, values) in [(PARAMETERS, params), (STATE, state)] {
            let (mine, of) = (block(values.len(), size, rank), values.len());
            to.common(name, mine.start, mine.len(), of)
                .copy_from_slice(&values[mine]);
        }
    }

    /// Goes on from a checkpoint.
    pub fn go_on(&mut self, from: &Checkpoint, so_far: BestSoFar) -> Result<()> {
        self.loss = so_far.loss.unwrap_or(f64::INFINITY);
        (self.step, self.since) = (so_far.step, so_far.since);
        if let Some((params, state)) = &mut self.kept {
            for (name, values) in [(PARAMETERS, params), (STATE, state)] {
                values.resize(from.len(name).unwrap_or(0), 0.0);
                from.read(name, 0..values.len(), values)?;
            }
        }
        Ok(())
    }

    /// Nothing evaluated yet; `keep` says whether parameters will be asked for.
    pub fn new(keep: bool) -> Self {
        Self {
            loss: f64::INFINITY,
            step: 0,
            since: 0,
            kept: keep.then(Default::default),
        }
    }

    /// Takes note of an evaluation of `params` and of `model`'s state after `step` steps.
    pub fn tested(&mut self, step: u64, tally: Tally, params: Params, model: &Model) -> Result<()> {
        // A loss that is no number is not lower either.
        let lower = tally.mean_loss() < self.loss;
        if !lower {
            self.since += 1;
            return Ok(());
        }
        (self.loss, self.step, self.since) = (tally.mean_loss(), step, 0);
        if let Some((kept, state)) = &mut self.kept {
            params.read(kept)?;
            *state = model.state();
        }
        Ok(())
    }

    /// The step of the best evaluation, if `patience` evaluations since were no better.
    pub fn stale(&self, patience: Option<u64>) -> Option<u64> {
        patience
            .is_some_and(|patience| self.since >= patience)
            .then_some(self.step)
    }

    /// Gives every rank the best parameters and their state, where they are better than those that gave `last`, and
    /// tells their step; *collective*.
    pub fn restore(
        &self,
        comm: &dyn Comm,
        last: Option<Tally>,
        params: &mut [f32],
        backend: &mut dyn Backend,
    ) -> Result<Option<u64>> {
        let last = last.map_or(f64::NEG_INFINITY, |tally| tally.mean_loss());
        // Rank 0 always evaluates: what it holds is what all get.
        let better = self.kept.is_some() && self.loss < last;
        let mut step = [if better { self.step } else { 0 }];
        comm.broadcast(0, &mut step);
        if step[0] == 0 {
            return Ok(None);
        }
        let mut state = backend.model().state();
        if let Some((kept, of_kept)) = self.kept.as_ref().filter(|_| comm.rank() == 0) {
            params.copy_from_slice(kept);
            state.copy_from_slice(of_kept);
        }
        comm.broadcast(0, params);
        comm.broadcast(0, &mut state);
        backend.set_state(&state)?;
        Ok(Some(step[0]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::run_ranks;
    use crate::data::Shape;
    use crate::nn::{Crew, Spec};

    /// Two parameters and, of one channel, a running mean and a variance.
    fn model() -> Model {
        let text = "name = \"a\"\n[[layer]]\nkind = \"batch_norm\"\n";
        let pixel = Shape { c: 1, h: 1, w: 1 };
        Spec::parse(text).unwrap().build(pixel, 1).unwrap()
    }

    fn tally(loss: f64) -> Tally {
        Tally {
            loss,
            correct: 0,
            count: 1,
        }
    }

    #[test]
    fn patience_counts_evaluations_since_the_best() {
        let mut best = Best::new(false);
        let stale = [3.0, 2.0, 2.0, 2.5, f64::NAN, 1.0].map(|loss| {
            let params = Params::Host(&[]);
            best.tested((10.0 * loss) as u64, tally(loss), params, &model())
                .unwrap();
            best.stale(Some(2))
        });
        assert_eq!(stale, [None, None, None, Some(20), Some(20), None]);
        assert_eq!(best.stale(None), None);
    }

    #[test]
    fn every_rank_gets_the_best_parameters_and_state_of_the_first() {
        run_ranks(3, |comm| {
            let mut best = Best::new(true);
            let mut crew = Crew::new(model(), 2).unwrap();
            if comm.rank() == 0 {
                crew.set_state(&[5.0, 6.0]);
                for (step, loss, params) in [(10, 1.0, [7.0, 8.0]), (20, 2.0, [9.0, 9.0])] {
                    best.tested(step, tally(loss), Params::Host(&params), crew.model())
                        .unwrap();
                }
            }
            crew.set_state(&[0.0, 1.0]);
            let mut params = [0.0; 2];
            let worse = best.restore(comm, Some(tally(0.5)), &mut params, &mut crew);
            let worse = worse.unwrap();
            assert_eq!((worse, params), (None, [0.0; 2]));
            assert_eq!(crew.model().state(), [0.0, 1.0]);
            let kept = best.restore(comm, Some(tally(3.0)), &mut params, &mut crew);
            let kept = kept.unwrap();
            assert_eq!((kept, params), (Some(10), [7.0, 8.0]));
            assert_eq!(crew.model().state(), [5.0, 6.0]);
        });
    }
}
