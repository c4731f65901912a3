//! One rank's share of a step: load, compute, exchange.

mod end;
mod saved;

pub use end::checksum;
pub use saved::Common;

use std::ops::Range;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{Inject, Ledger, Moment, Noise, Norms, Stride, Tap, Times, evaluate, statistics};
use crate::board::{Board, Phase, Shown};
use crate::comm::{Comm, agree, block, cuts};
use crate::data::{Dataset, Loader, Place, Scaling, Steps};
use crate::exchange::{Conduct, Exchange, Kind, Spent, Start, Tail, Votes};
use crate::nn::{
    Arenas, Backend, Draw, Fault, Found, Init, LayerCost, Model, Params, ShardSums, Share, Tally,
};
use crate::observe::timeline;
use crate::optim::{Measured, Mover, Optimizer, Schedule};
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
    /// What takes batches through the model.
    pub backend: Box<dyn Backend>,
    /// Their parameters, before and after the time that an exchange holds them.
    pub params: Vec<f32>,
    /// Steps that were skipped.
    pub skipped: u64,
    /// How this rank's updates were among those of others, once the exchange has ended.
    pub conduct: Conduct,
    /// How inputs are scaled.
    pub scaling: Scaling,
    /// Where this rank's time went.
    pub times: Times,
    /// Where this rank shows what it does, if ranks are watched.
    pub board: Option<Rc<Board>>,
    /// Faults that strike this rank.
    pub inject: Vec<Inject>,
    /// Who looks at gradients now and then, if anybody does.
    pub tap: Option<Tap>,
    /// What this rank says to others in the next step, and what all said in the last.
    pub votes: Votes,
    /// See `votes`.
    pub heard: Votes,
    /// Who was late, where ranks take steps together.
    pub ledger: Ledger,
    loader: Loader,
    steps: Steps,
    reduce: Reduce,
    shards: Option<usize>,
    /// Where this rank's batch is cut into shards.
    cuts: Vec<usize>,
    rank: usize,
    seed: u64,
    mover: Mover,
    schedule: Schedule,
    on_nan: OnNan,
    /// Steps skipped since the last that was not.
    in_a_row: u64,
    /// Steps claimed by this rank's team.
    claimed: u64,
    /// The step that was claimed last, if its batch was asked for.
    requested: Option<u64>,
    /// The step whose batch was loaded while the one before was computed.
    ahead: Option<u64>,
    noise: Option<Noise>,
    /// Steps that a run had taken which this one continues, how its updates were, and the step that its batch had grown for.
    first: u64,
    past: Conduct,
    decided: Option<u64>,
}

/// What a trainer is made of.
pub struct Parts {
    /// What takes batches through the model.
    pub backend: Box<dyn Backend>,
    /// Where batches come from.
    pub loader: Loader,
    /// How inputs are scaled.
    pub scaling: Scaling,
    /// How the data is cut into steps of a team.
    pub steps: Steps,
    /// How gradients become one.
    pub reduce: Reduce,
    /// The shards that each step is computed in, where results are not to depend on the number of ranks.
    pub shards: Option<usize>,
    /// How gradients become updates.
    pub optimizer: Box<dyn Optimizer>,
    /// The learning rate of every step.
    pub schedule: Schedule,
    /// The estimate of gradient noise to keep, if there is to be one; it needs a team of two ranks or more.
    pub noise: Option<Noise>,
    /// What parameters start from.
    pub init: Init,
    /// Names them.
    pub seed: u64,
    /// What becomes of a step that is not finite.
    pub on_nan: OnNan,
}

impl Trainer {
    /// A rank with fresh parameters.
    pub fn new(comm: &dyn Comm, parts: Parts) -> Self {
        let Parts {
            backend,
            loader,
            scaling,
            steps,
            reduce,
            shards,
            optimizer,
            schedule,
            noise,
            init,
            seed,
            on_nan,
        } = parts;
        let optimizer = match noise {
            Some(_) => Box::new(Measured::new(optimizer)),
            None => optimizer,
        };
        Self {
            params: backend.model().init(init, seed),
            skipped: 0,
            conduct: Conduct::default(),
            backend,
            scaling,
            times: Times::start(),
            board: None,
            inject: Vec::new(),
            tap: None,
            votes: Votes::default(),
            heard: Votes::default(),
            ledger: Ledger::default(),
            loader,
            steps,
            reduce,
            shards,
            cuts: Vec::new(),
            rank: comm.rank(),
            seed,
            mover: Mover::new(optimizer),
            schedule,
            on_nan,
            in_a_row: 0,
            claimed: 0,
            requested: None,
            ahead: None,
            noise,
            first: 0,
            past: Conduct::default(),
            decided: None,
        }
    }

    /// Hands the parameters to an exchange of this kind, and has it record all updates in the folder `record`, if there is
    /// one; *collective*.
    pub fn start<'c>(
        &mut self,
        comm: &'c dyn Comm,
        kind: Kind,
        record: Option<&Path>,
    ) -> Result<Box<dyn Exchange + 'c>> {
        let start = Start {
            shards: self.shards,
            state: self.mover.state(),
            sums: self.mover.sums(),
            stream: self.backend.stream(),
            record,
            first: self.first,
        };
        self.claimed = kind.claimed(self.first, comm.size());
        kind.start(comm, std::mem::take(&mut self.params), start)
    }

    /// The model, in the state that all threads have.
    pub fn model(&self) -> &Model {
        self.backend.model()
    }

    /// Shows on the board what this rank begins to do.
    pub fn turn(&self, phase: Phase) {
        if let Some(board) = &self.board {
            board.turn(phase);
        }
    }

    /// Starts to add up the time of each layer, of the first thread.
    pub fn watch(&mut self) {
        self.backend.watch();
    }

    /// What each layer did since `watch`.
    pub fn costs(&self) -> Vec<LayerCost> {
        self.backend.costs()
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

    /// Claims a step, if one is left, and has its batch made ready; at most one step ahead. *Collective* over the team.
    pub fn claim(&mut self, exchange: &mut dyn Exchange) -> Result<Option<u64>> {
        self.turn(Phase::Exchange);
        let step = exchange.claim(self.claimed)?;
        self.claimed += 1;
        if step >= self.steps.total() {
            return Ok(None);
        }
        // What was decided before a checkpoint is not decided again with what was measured since.
        if self.decided != Some(step) {
            self.grow(exchange.team(), step);
        }
        let Place { epoch, positions } = self.steps.place(step);
        let (n, (rank, size)) = (positions.len(), exchange.place());
        let mine = match self.shards {
            None => block(n, size, rank),
            Some(all) => {
                let shards = own(all, size, rank);
                block(n, all, shards.start).start..block(n, all, shards.end - 1).end
            }
        };
        let positions = positions.start + mine.start..positions.start + mine.end;
        self.loader.request(Place { epoch, positions });
        self.requested = Some(step);
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

    /// Takes the oldest step claimed and not yet taken; gives the whole team's tally, which is empty if it was skipped.
    pub fn step(&mut self, exchange: &mut dyn Exchange, step: u64) -> Result<Tally> {
        let start = Instant::now();
        let board = self.board.clone();
        let show = |phase| {
            if let Some(board) = &board {
                board.mark(step + 1, phase);
            }
        };
        self.heard = Votes::default();
        timeline::step(step + 1);
        show(Phase::Load);
        if self.ahead != Some(step) {
            self.loader.take()?;
        }
        self.inject.iter().for_each(|fault| fault.hold());
        let loaded = Instant::now();
        timeline::between(timeline::Kind::Load, 0, start, loaded);
        show(Phase::Exchange);
        let Some(wait) = exchange.ready(step)? else {
            let spent = Spent {
                wait: loaded.elapsed(),
                ..Spent::default()
            };
            self.times.add(loaded - start, Duration::ZERO, spent, 0);
            return Ok(Tally::default());
        };
        let ready = Instant::now();
        self.ledger.begin();
        show(Phase::Compute);
        let (rank, size) = exchange.place();
        let samples = self.steps.place(step).positions.len();
        let scale = match self.reduce {
            Reduce::Mean => 1.0 / samples as f32,
            Reduce::Sum => size as f32 / samples as f32,
        };
        if let Some(all) = self.shards {
            self.cuts = cuts(samples, all, own(all, size, rank));
        }
        let seed = self.seed;
        let arenas = exchange.arenas();
        let team = Shown {
            comm: arenas.team,
            board: board.as_deref(),
            phase: Phase::Compute,
        };
        let arenas = Arenas {
            team: &team,
            ..arenas
        };
        let share = Share {
            batch: self.loader.batch(),
            cuts: &self.cuts,
            draw: Draw { seed, step },
            scale,
            measured: self.noise.as_ref().map(|_| samples),
        };
        self.backend.begin(&share, arenas)?;
        self.look_ahead(step)?;
        let Arenas { params, grads, .. } = exchange.arenas();
        let Found { sums, fault } = self.backend.end(params, grads)?;
        if let Some(tap) = &mut self.tap {
            let tensors = self.backend.model().tensors();
            tap.gradients(step + 1, &self.steps, tensors, exchange.arenas())?;
        }
        let ShardSums { tally, norm } = sums;
        let mine = Tail {
            tally,
            faults: u64::from(fault.is_some()),
            share: tally.count as f64 / samples as f64,
            norm,
            votes: self.votes,
        };
        // Before a fault strikes: what it sleeps is no want of a core.
        self.ledger.computed(ready.elapsed());
        for fault in &self.inject {
            fault.strike(step + 1, ready);
        }
        let computed = Instant::now();
        let (load, compute) = (loaded - start, computed - ready);
        timeline::between(timeline::Kind::Compute, 0, ready, computed);
        show(Phase::Exchange);
        let lr = self.lr(step);
        let (team, mut spent) = exchange.step(mine, lr, &mut self.mover)?;
        timeline::span(timeline::Kind::Exchange, 0, computed);
        self.heard = team.votes;
        spent.wait += wait;
        spent.exchange += (ready - loaded).saturating_sub(wait);
        self.times.add(load, compute, spent, tally.count);
        let stride = Stride {
            start,
            load,
            compute,
            wait: spent.wait,
        };
        self.ledger.stepped(exchange.team(), stride);
        if team.faults > 0 {
            self.skip(exchange.team(), step, fault)?;
            return Ok(Tally::default());
        }
        self.in_a_row = 0;
        self.measure(team.norm, self.shards.unwrap_or(size), samples);
        if !team.tally.loss.is_finite() {
            // A sum of good losses that overflows is everybody's.
            return Err(self.diverged("the loss".into(), team.tally.loss, step + 1, None));
        }
        Ok(team.tally)
    }

    /// Loads the batch behind that of `step`, while a device computes.
    fn look_ahead(&mut self, step: u64) -> Result<()> {
        self.ahead = self.requested.filter(|&next| next != step);
        match self.ahead.filter(|_| self.backend.stages()) {
            Some(next) => self.backend.stage(next, self.loader.take()?),
            None => {
                self.ahead = None;
                Ok(())
            }
        }
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

    /// What `data` gives with `params`, each rank of `team` taking a block; *collective* over `team`.
    pub fn evaluate(&mut self, team: &dyn Comm, params: Params, data: &Dataset) -> Result<Tally> {
        let start = Instant::now();
        self.turn(Phase::Wait);
        let backend = &mut *self.backend;
        statistics::average(team, backend, self.times.steps)?;
        let blocks = self.shards.unwrap_or(team.size());
        let how = (blocks, self.board.as_deref());
        let tally = evaluate(team, backend, params, data, &self.scaling, how);
        self.times.evaluate += start.elapsed();
        timeline::span(timeline::Kind::Evaluate, 0, start);
        self.ledger.left();
        tally
    }

    /// Takes note of the norms of a step that the exchange has summed.
    fn measure(&mut self, small: f64, shares: usize, samples: usize) {
        if let (Some(noise), Some(big)) = (&mut self.noise, self.mover.norm()) {
            noise.add(Norms {
                small,
                big,
                ranks: shares.min(samples),
                samples,
            });
        }
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

/// The shards, of `all`, that a rank computes.
fn own(all: usize, ranks: usize, rank: usize) -> Range<usize> {
    let each = all / ranks;
    rank * each..(rank + 1) * each
}
