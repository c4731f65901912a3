//! One rank's share of a step: load, compute, exchange.

use std::time::Instant;

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::{Outcome, Times, evaluate, statistics};
use crate::comm::{Comm, agree, block};
use crate::data::{Dataset, Loader, Place, Scaling, Steps};
use crate::exchange::{Arenas, Exchange, Kind, Tail};
use crate::nn::{Draw, Fault, Model, Tally};
use crate::optim::{Mover, Optimizer, Schedule};
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

/// What becomes of a step whose loss or gradient is not finite; its update is never made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnNan {
    /// The run ends.
    Stop,
    /// The run goes on with the next step.
    Skip,
}

/// Steps that may be skipped in a row: after so many, parameters are to blame and not a batch.
const PATIENCE: u64 = 100;

/// Model, data and parameters of one rank.
pub struct Trainer {
    /// The model.
    pub model: Model,
    /// Its parameters, before and after the time that an exchange holds them.
    pub params: Vec<f32>,
    /// Steps that were skipped.
    pub skipped: u64,
    /// How inputs are scaled.
    pub scaling: Scaling,
    /// Where this rank's time went.
    pub times: Times,
    loader: Loader,
    steps: Steps,
    reduce: Reduce,
    rank: usize,
    seed: u64,
    mover: Mover,
    schedule: Schedule,
    total: u64,
    on_nan: OnNan,
    /// Steps skipped since the last that was not.
    in_a_row: u64,
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
    /// What becomes of a step that is not finite.
    pub on_nan: OnNan,
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
            on_nan,
        } = parts;
        Self {
            params: model.init(seed),
            skipped: 0,
            model,
            scaling,
            times: Times::start(),
            loader,
            steps,
            reduce,
            rank: comm.rank(),
            seed,
            mover: Mover::new(optimizer),
            schedule,
            total,
            on_nan,
            in_a_row: 0,
        }
    }

    /// Hands the parameters to an exchange of this kind; *collective*.
    pub fn start<'c>(&mut self, comm: &'c dyn Comm, kind: Kind) -> Result<Box<dyn Exchange + 'c>> {
        kind.start(comm, self.total, std::mem::take(&mut self.params))
    }

    /// The learning rate of `step`, from 0.
    pub fn lr(&self, step: u64) -> f32 {
        self.schedule.at(step, self.steps.per_epoch(), self.total)
    }

    /// A digest of the bits of parameters and state.
    pub fn checksum(&self) -> u64 {
        let bytes: Vec<u8> = self
            .params
            .iter()
            .chain(&self.model.state())
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

    /// Takes the oldest step claimed and not yet taken; gives the whole team's tally, which is empty if it was skipped.
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
        let seed = self.seed;
        let Arenas {
            team,
            params,
            grads,
        } = exchange.arenas();
        let draw = Draw { seed, step };
        let tally = (self.model).gradients(params, batch, draw, scale, Some(team), grads);
        let fault = self.model.fault(params, batch, tally, grads);
        let mine = Tail {
            tally,
            faults: u64::from(fault.is_some()),
        };
        let computed = Instant::now();
        let lr = self.lr(step);
        let (team, spent) = exchange.step(mine, lr, &mut self.mover)?;
        self.times
            .add(loaded - start, computed - loaded, spent, tally.count);
        if team.faults > 0 {
            self.skip(exchange.team(), step, fault)?;
            return Ok(Tally::default());
        }
        self.in_a_row = 0;
        if !team.tally.loss.is_finite() {
            // A sum of good losses that overflows is everybody's.
            return Err(self.diverged("the loss".into(), team.tally.loss, step + 1, None));
        }
        Ok(team.tally)
    }

    /// What follows from a fault on some rank of the team; *collective* over it.
    fn skip(&mut self, team: &dyn Comm, step: u64, mine: Option<Fault>) -> Result<()> {
        self.skipped += 1;
        self.in_a_row += 1;
        let mine = match mine {
            None => Ok(()),
            Some(fault) => Err(self.diverged(fault.what, fault.value, step + 1, Some(self.rank))),
        };
        if self.on_nan == OnNan::Stop || self.in_a_row >= PATIENCE {
            return agree(team, mine);
        }
        if let Err(error) = mine {
            log::warn!("step skipped: {error}");
        }
        Ok(())
    }

    /// The test result of `params`, each rank of `team` taking a block; *collective* over `team`.
    pub fn evaluate(&mut self, team: &dyn Comm, params: &[f32], test: &Dataset) -> Result<Tally> {
        let start = Instant::now();
        statistics::average(team, &mut self.model, self.times.steps);
        let tally = evaluate(team, &mut self.model, params, test, &self.scaling);
        self.times.evaluate += start.elapsed();
        tally
    }

    /// The test result of the parameters that an exchange has given back; *collective*.
    pub fn evaluate_settled(&mut self, comm: &dyn Comm, test: &Dataset) -> Result<Tally> {
        let params = std::mem::take(&mut self.params);
        let tally = self.evaluate(comm, &params, test);
        self.params = params;
        tally
    }

    /// Refuses parameters and test results that are not finite: no step follows whose loss would show it; *collective*.
    pub fn check_end(&self, comm: &dyn Comm, outcome: &Outcome) -> Result<()> {
        let loss = outcome.settled.map_or(0.0, |tally| tally.loss);
        let mine = match self.model.in_params(&self.params) {
            Some(fault) => Err(self.diverged(fault.what, fault.value, outcome.steps, None)),
            None if !loss.is_finite() => {
                Err(self.diverged("the test loss".into(), loss, outcome.steps, None))
            }
            None => Ok(()),
        };
        agree(comm, mine)
    }

    /// Ends the exchange and takes the parameters back, they and the model's state the same on every rank; *collective*.
    pub fn settle(&mut self, comm: &dyn Comm, exchange: Box<dyn Exchange + '_>) -> Result<()> {
        statistics::average(comm, &mut self.model, self.times.steps);
        self.params = exchange.settle()?;
        Ok(())
    }

    fn diverged(&self, what: String, value: f64, step: u64, rank: Option<usize>) -> Error {
        Error::Diverged {
            what,
            value,
            step,
            rank,
            lr: self.lr(step.saturating_sub(1)),
        }
    }
}
