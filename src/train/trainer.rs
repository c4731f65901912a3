//! One rank's share of a step: load, compute, exchange.

use std::time::Instant;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::{Moment, Noise, Norms, Outcome, Times, Watched, evaluate};
use crate::comm::{Comm, agree, block};
use crate::data::{Dataset, Loader, Place, Scaling, Steps};
use crate::exchange::{Exchange, Gradients, Spent};
use crate::nn::{Draw, Model, Tally};
use crate::optim::{Measured, Optimizer, Schedule, squares};
use crate::{Error, Result};

/// How the gradients of a team's ranks become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reduce {
    /// The mean over all samples of the step.
    Mean,
    /// The ranks' means added up: as `Mean` with the learning rate times the number of ranks.
    Sum,
}

/// Model, data and parameters of one rank.
pub struct Trainer {
    /// The model.
    pub model: Model,
    /// Its parameters.
    pub params: Vec<f32>,
    /// How inputs are scaled.
    pub scaling: Scaling,
    /// Where this rank's time went.
    pub times: Times,
    loader: Loader,
    steps: Steps,
    reduce: Reduce,
    rank: usize,
    seed: u64,
    optimizer: Box<dyn Optimizer>,
    schedule: Schedule,
    grads: Gradients,
    /// Steps claimed by this rank's team.
    claimed: u64,
    noise: Option<Noise>,
}

/// What a trainer is made of.
pub struct Parts {
    /// The model.
    pub model: Model,
    /// Where batches come from.
    pub loader: Loader,
    /// How inputs are scaled.
    pub scaling: Scaling,
    /// How the data is cut into steps of a team.
    pub steps: Steps,
    /// How gradients become one.
    pub reduce: Reduce,
    /// How gradients become updates.
    pub optimizer: Box<dyn Optimizer>,
    /// The learning rate of every step.
    pub schedule: Schedule,
    /// The estimate of gradient noise to keep, if there is to be one; it needs a team of two ranks or more.
    pub noise: Option<Noise>,
    /// Names the parameters to start from.
    pub seed: u64,
}

impl Trainer {
    /// A rank with fresh parameters.
    pub fn new(comm: &dyn Comm, parts: Parts) -> Self {
        let Parts {
            model,
            loader,
            scaling,
            steps,
            reduce,
            optimizer,
            schedule,
            noise,
            seed,
        } = parts;
        let optimizer = match noise {
            Some(_) => Box::new(Measured::new(optimizer)),
            None => optimizer,
        };
        Self {
            params: model.init(seed),
            grads: Gradients::new(model.params()),
            model,
            scaling,
            times: Times::start(),
            loader,
            steps,
            reduce,
            rank: comm.rank(),
            seed,
            optimizer,
            schedule,
            claimed: 0,
            noise,
        }
    }

    /// The learning rate of `step`, from 0.
    pub fn lr(&self, step: u64) -> f32 {
        self.schedule.at(step, &self.steps)
    }

    /// The steps of the run, as far as they are known.
    pub fn steps(&self) -> &Steps {
        &self.steps
    }

    /// The gradient noise scale, where it is measured and known.
    pub fn noise_scale(&self) -> Option<f64> {
        self.noise.as_ref().and_then(Noise::scale)
    }

    /// Where the run is after `taken` steps.
    pub fn moment(&self, taken: u64) -> Moment {
        let last = taken.saturating_sub(1);
        Moment {
            step: taken,
            total: self.steps.total(),
            epoch: self.steps.epochs(taken),
            samples: self.steps.seen(taken),
            lr: self.lr(last),
            batch: self.steps.batch(last),
            noise_scale: self.noise_scale(),
        }
    }

    /// A digest of the parameters' bits.
    pub fn checksum(&self) -> u64 {
        let bytes: Vec<u8> = self
            .params
            .iter()
            .flat_map(|param| param.to_le_bytes())
            .collect();
        xxh3_64(&bytes)
    }

    /// Claims a step, if one is left, and has its batch made ready; at most one step ahead. *Collective* over the team.
    pub fn claim(&mut self, exchange: &mut dyn Exchange) -> Result<Option<u64>> {
        let step = exchange.claim(self.claimed)?;
        self.claimed += 1;
        if step >= self.steps.total() {
            return Ok(None);
        }
        let team = exchange.team();
        self.grow(team, step);
        let Place { epoch, positions } = self.steps.place(step);
        let mine = block(positions.len(), team.size(), team.rank());
        let positions = positions.start + mine.start..positions.start + mine.end;
        self.loader.request(Place { epoch, positions });
        Ok(Some(step))
    }

    /// Lets the batch follow the noise scale, if `step` begins an epoch behind warm-up; *collective* over the team.
    fn grow(&mut self, team: &dyn Comm, step: u64) {
        let Some(noise) = &self.noise else {
            return;
        };
        let epoch = self.steps.place(step).epoch;
        let begins = epoch > 0 && step == self.steps.first(epoch);
        if !begins || !self.schedule.is_warm(step, &self.steps) {
            return;
        }
        let (batch, first) = (self.steps.batch(step), self.steps.batch(0));
        // MPI advises, but does not promise, that all ranks get the same bits from a sum: one rank decides.
        let mut grown = [noise.grown(batch, first) as u64];
        team.broadcast(0, &mut grown);
        if grown[0] as usize > batch {
            self.steps.grow(epoch, grown[0] as usize);
        }
    }

    /// Takes the oldest step claimed and not yet taken; gives the whole team's tally.
    pub fn step(&mut self, exchange: &mut dyn Exchange, step: u64) -> Result<Tally> {
        let start = Instant::now();
        let batch = self.loader.take()?;
        let loaded = Instant::now();
        let size = exchange.team().size();
        let samples = self.steps.place(step).positions.len();
        let scale = match self.reduce {
            Reduce::Mean => 1.0 / samples as f32,
            Reduce::Sum => size as f32 / samples as f32,
        };
        let tally = self.model.gradients(
            &self.params,
            batch,
            Draw {
                seed: self.seed,
                step,
            },
            scale,
            self.grads.params(),
        );
        self.grads.set_tally(tally);
        if self.noise.is_some() && tally.count > 0 {
            // The arena holds this rank's share of the mean: c/n of its own mean, whose square counts c/n times.
            let share = tally.count as f64 / samples as f64;
            let norm = squares(self.grads.params()) / share;
            self.grads.set_norm(norm);
        }
        let computed = Instant::now();
        let mine = self.check(step, tally);
        if size == 1 {
            // Nobody else need hear of it first, and nobody should get the update.
            mine?;
            let spent = self.exchange(exchange, step)?;
            self.times
                .add(loaded - start, computed - loaded, spent, tally.count);
            return Ok(tally);
        }
        let spent = self.exchange(exchange, step)?;
        self.times
            .add(loaded - start, computed - loaded, spent, tally.count);
        self.measure(size, samples);
        let tally = self.grads.tally();
        if !tally.loss.is_finite() {
            // First the rank whose own loss it is; only a sum of good losses that overflows is everybody's.
            agree(exchange.team(), mine)?;
            agree(exchange.team(), self.check(step, tally))?;
        }
        Ok(tally)
    }

    /// What `data` gives with the present parameters, each rank of `team` taking a block; *collective* over `team`.
    pub fn evaluate(&mut self, team: &dyn Comm, data: &Dataset) -> Result<Tally> {
        let start = Instant::now();
        let tally = evaluate(team, &mut self.model, &self.params, data, &self.scaling);
        self.times.evaluate += start.elapsed();
        tally
    }

    /// Refuses parameters and results that are not finite: no step follows whose loss would show it; *collective*.
    pub fn check_end(&self, comm: &dyn Comm, watched: Watched, outcome: &Outcome) -> Result<()> {
        let results = [(watched, outcome.settled), (Watched::Test, outcome.test)];
        let losses = results.map(|(set, tally)| (set, tally.map_or(0.0, |tally| tally.loss)));
        let bad = losses.into_iter().find(|(_, loss)| !loss.is_finite());
        let odd = self.params.iter().find(|param| !param.is_finite());
        let mine = match (odd, bad) {
            (Some(&param), _) => {
                Err(self.diverged("a parameter", f64::from(param), outcome.steps, None))
            }
            (None, Some((Watched::Test, loss))) => {
                Err(self.diverged("the test loss", loss, outcome.steps, None))
            }
            (None, Some((Watched::Validation, loss))) => {
                Err(self.diverged("the validation loss", loss, outcome.steps, None))
            }
            (None, None) => Ok(()),
        };
        agree(comm, mine)
    }

    /// Ends the exchange and leaves every rank with the same parameters; *collective*.
    pub fn settle(&mut self, exchange: Box<dyn Exchange + '_>) -> Result<()> {
        exchange.settle(&mut self.params)
    }

    fn exchange(&mut self, exchange: &mut dyn Exchange, step: u64) -> Result<Spent> {
        let lr = self.lr(step);
        exchange.step(&mut self.params, &mut self.grads, lr, &mut *self.optimizer)
    }

    /// Takes note of the norms of a step that the exchange has summed.
    fn measure(&mut self, size: usize, samples: usize) {
        if let (Some(noise), Some(big)) = (&mut self.noise, self.optimizer.norm()) {
            noise.add(Norms {
                small: self.grads.norm(),
                big,
                ranks: size.min(samples),
                samples,
            });
        }
    }

    fn check(&self, step: u64, tally: Tally) -> Result<()> {
        if tally.loss.is_finite() {
            return Ok(());
        }
        Err(self.diverged("the loss", tally.loss, step + 1, Some(self.rank)))
    }

    fn diverged(&self, what: &'static str, value: f64, step: u64, rank: Option<usize>) -> Error {
        Error::Diverged {
            what,
            value,
            step,
            rank,
            lr: self.lr(step.saturating_sub(1)),
        }
    }
}
