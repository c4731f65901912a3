//! A recorded asynchronous run, taken again update by update.
//!
//! The parameters are in stripes, and each stripe counts its updates. The record tells of every update of every rank which
//! count each stripe had when the rank read it, and when the rank added to it. A rank's next update is computed once all
//! stripes that it was computed from are there, and added to each stripe when its count is the recorded one. Whatever order
//! that leaves open makes no difference to any number.

use crate::comm::{Stripes, stripe};
use crate::data::{Loader, Place, Steps};
use crate::exchange::{Record, Update};
use crate::nn::{Crew, Draw};
use crate::optim::{Mover, Schedule};
use crate::{Error, Result};

use super::statistics;

/// What all ranks of the run had in common.
pub struct Replay {
    /// The model.
    pub crew: Crew,
    /// Where batches come from.
    pub loader: Loader,
    /// How the data was cut into steps of a rank.
    pub steps: Steps,
    /// The learning rate of every step.
    pub schedule: Schedule,
    /// Names the random numbers of steps.
    pub seed: u64,
}

/// The parameters as they were.
struct Common {
    params: Vec<f32>,
    /// Updates of each stripe so far.
    counts: Vec<u32>,
}

/// What one rank was.
struct Worker {
    record: Record,
    mover: Mover,
    params: Vec<f32>,
    /// Updates that each stripe had had when it was copied to `params`.
    seen: Vec<u32>,
    /// Gradients, and then what they become.
    deltas: Vec<f32>,
    /// The state of its model.
    state: Vec<f32>,
    taken: u64,
    /// The update that is being added, and to which stripes it has been.
    adding: Option<(Update, Vec<bool>)>,
    /// The one behind it.
    next: Option<Update>,
}

impl Replay {
    /// Makes all updates that the ranks' records tell of, from `init`; `progress` is told of each. Gives the
    /// parameters, and leaves the model in the state that all ranks agreed on.
    pub fn run(
        &mut self,
        init: Vec<f32>,
        ranks: Vec<(Record, Mover)>,
        mut progress: impl FnMut(u64),
    ) -> Result<Vec<f32>> {
        let stripes = Stripes::count_of(init.len());
        let state = self.crew.model().state();
        let worker = |(mut record, mover): (Record, Mover)| {
            Ok(Worker {
                next: record.take()?,
                record,
                mover,
                params: init.clone(),
                seen: vec![0; stripes],
                deltas: vec![0.0; init.len()],
                state: state.clone(),
                taken: 0,
                adding: None,
            })
        };
        let mut workers = ranks.into_iter().map(worker).collect::<Result<Vec<_>>>()?;
        let mut common = Common {
            params: init.clone(),
            counts: vec![0; stripes],
        };
        let mut made = 0;
        while workers.iter().any(|worker| !worker.is_done()) {
            let before = made;
            for i in 0..workers.len() {
                let computed = self.compute(&mut workers[i])?;
                progress(computed);
                made += computed + add(&mut workers, i, &mut common);
            }
            if made == before {
                return Err(Error::Mismatch {
                    what: format!("update {} of the record", made_so_far(&workers) + 1),
                    expected: "one made to parameters that the updates before lead to".into(),
                    got: "none: the record does not fit together".into(),
                    hint: "a file of the record is damaged, or of another run",
                });
            }
        }
        let states = workers
            .iter()
            .map(|worker| (&worker.state[..], worker.taken));
        if let Some(mean) = statistics::mean(states).filter(|mean| !mean.is_empty()) {
            self.crew.set_state(&mean);
        }
        Ok(common.params)
    }

    /// Computes a worker's next update, if all it needs is there; tells whether it did.
    fn compute(&mut self, worker: &mut Worker) -> Result<u64> {
        if worker.adding.is_some() {
            return Ok(0);
        }
        let Some(update) = worker.next.take_if(|next| next.read == worker.seen) else {
            return Ok(0);
        };
        let step = update.step;
        if step >= self.steps.total() || update.divisor == 0 {
            return Err(Error::Mismatch {
                what: "an update of the record".into(),
                expected: format!("one of {} steps, with a rate", self.steps.total()),
                got: format!("step {step}, and a rate divided by {}", update.divisor),
                hint: "a file of the record is damaged, or of another run",
            });
        }
        let Place { epoch, positions } = self.steps.place(step);
        let scale = 1.0 / positions.len() as f32;
        self.loader.request(Place { epoch, positions });
        let batch = self.loader.take()?;
        let draw = Draw {
            seed: self.seed,
            step,
        };
        if !worker.state.is_empty() {
            self.crew.set_state(&worker.state);
        }
        let alone = &crate::comm::threads_of_one_rank(1)[0];
        let (params, deltas) = (&worker.params, &mut worker.deltas);
        (self.crew).gradients(params, batch, draw, scale, alone, deltas);
        if !worker.state.is_empty() {
            worker.state = self.crew.model().state();
        }
        let lr = self.schedule.at(step, &self.steps) / update.divisor as f32;
        worker.mover.deltas(lr, params, deltas);
        worker.taken += 1;
        worker.next = worker.record.take()?;
        let none = vec![false; update.added.len()];
        worker.adding = Some((update, none));
        Ok(1)
    }
}

/// Updates that were computed.
fn made_so_far(workers: &[Worker]) -> u64 {
    workers.iter().map(|worker| worker.taken).sum()
}

impl Worker {
    fn is_done(&self) -> bool {
        self.adding.is_none() && self.next.is_none()
    }

    /// Copies a stripe if this worker read it at its present count, and does not add to it before.
    fn look(&mut self, i: usize, common: &Common) {
        let adds = self.adding.as_ref().is_some_and(|(_, added)| !added[i]);
        let wants = self
            .next
            .as_ref()
            .is_some_and(|next| next.read[i] == common.counts[i]);
        if wants && !adds {
            let range = stripe(i, common.params.len());
            self.params[range.clone()].copy_from_slice(&common.params[range]);
            self.seen[i] = common.counts[i];
        }
    }
}

/// Adds what worker `i` is adding to all stripes whose turn it is; gives their number.
fn add(workers: &mut [Worker], i: usize, common: &mut Common) -> u64 {
    let mut made = 0;
    for s in 0..common.counts.len() {
        let worker = &mut workers[i];
        let Some((update, added)) = &mut worker.adding else {
            return made;
        };
        if added[s] || update.added[s] != common.counts[s] {
            continue;
        }
        let range = stripe(s, common.params.len());
        let pairs = common.params[range.clone()]
            .iter_mut()
            .zip(&worker.deltas[range]);
        pairs.for_each(|(param, delta)| *param += delta);
        common.counts[s] = common.counts[s].wrapping_add(1);
        added[s] = true;
        if added.iter().all(|&added| added) {
            worker.adding = None;
        }
        workers.iter_mut().for_each(|worker| worker.look(s, common));
        made += 1;
    }
    made
}
