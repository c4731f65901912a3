//! One rank's share of a step: load, compute, exchange.

use std::time::Instant;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::{Outcome, Times, Watched, evaluate};
use crate::comm::{Comm, agree, block};
use crate::data::{Dataset, Loader, Place, Scaling, Steps};
use crate::exchange::{Exchange, Gradients, Spent};
use crate::nn::{Draw, Model, Tally};
use crate::optim::{Optimizer, Schedule};
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
    total: u64,
    grads: Gradients,
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
    /// Steps of the run.
    pub total: u64,
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
            total,
            seed,
        } = parts;
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
            total,
        }
    }

    /// The learning rate of `step`, from 0.
    pub fn lr(&self, step: u64) -> f32 {
        self.schedule.at(step, self.steps.per_epoch(), self.total)
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

    /// Claims a step and has its batch made ready; at most one step ahead.
    pub fn claim(&mut self, exchange: &mut dyn Exchange) -> Result<Option<u64>> {
        let claimed = exchange.claim()?;
        if let Some(step) = claimed {
            let team = exchange.team();
            let Place { epoch, positions } = self.steps.place(step);
            let mine = block(positions.len(), team.size(), team.rank());
            let positions = positions.start + mine.start..positions.start + mine.end;
            self.loader.request(Place { epoch, positions });
        }
        Ok(claimed)
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
