//! Everything that decides a run.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::Input;
use super::Strategy;
use crate::backend::{Gemm, Wanted};
use crate::checkpoint::When;
use crate::data::{Augment, Length, Steps};
use crate::exchange::Kind;
use crate::nn::{Init, Model, zoo::Choice};
use crate::observe::resources::Records;
use crate::optim::{Decay, Rule, Schedule};
use crate::train::{Inject, OnNan, Reduce, Watched};
use crate::{Error, Result};

/// What makes the batch grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Growth {
    /// The schedule: where the rate would fall.
    Schedule,
    /// The gradient noise scale.
    Noise,
}

/// Whether a run goes on that was begun before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// No: it begins.
    No,
    /// If there is a checkpoint.
    IfThere,
    /// From the newest whole checkpoint, or that of a step.
    From(Option<u64>),
}

/// How many samples a step takes.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BatchSize {
    /// On each rank.
    PerRank(usize),
    /// On all ranks together.
    Global(usize),
}

impl BatchSize {
    /// Samples of one step: of all ranks if they step together, of one rank if each steps by itself.
    pub fn of_step(self, exchange: Kind, ranks: usize) -> usize {
        match (self, exchange.is_synchronous()) {
            (Self::PerRank(each), true) => each * ranks,
            (Self::PerRank(each), false) => each,
            (Self::Global(all), true) => all,
            (Self::Global(all), false) => all.div_ceil(ranks),
        }
    }
}

/// What a run shows and writes of itself while it goes on; none of it changes its result.
#[derive(Clone, Copy, Debug)]
pub struct Observe {
    /// What ranks and hosts use.
    pub resources: Records,
    /// Event files for TensorBoard.
    pub tensorboard: Events,
    /// Whether programs read along.
    pub json: bool,
}

/// What event files hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Events {
    /// There are none.
    Off,
    /// Numbers and the picture of the model.
    Scalars,
    /// Histograms of weights and gradients too.
    On,
}

/// Everything that decides a run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The model.
    pub model: Choice,
    /// The training set.
    pub data: PathBuf,
    /// The test set.
    pub test: Option<PathBuf>,
    /// Share of the training set that is held out and watched in place of the test set.
    pub validation: Option<f64>,
    /// How long at the most.
    pub length: Length,
    /// The loss of the watched set to stop at.
    pub until_loss: Option<f64>,
    /// Evaluations without a lower loss to stop after.
    pub early_stop: Option<u64>,
    /// Whether the parameters of the lowest loss are kept.
    pub keep_best: bool,
    /// Samples of a step.
    pub batch: BatchSize,
    /// Threads of each rank.
    pub threads: usize,
    /// What computes, and whose kernels multiply.
    pub device: (Wanted, Gemm),
    /// What makes the batch grow, if anything.
    pub grow: Option<Growth>,
    /// The most samples of a step that it grows to.
    pub batch_limit: Option<usize>,
    /// Whether the gradient noise scale is measured.
    pub noise_scale: bool,
    /// How gradients become updates.
    pub rule: Rule,
    /// The learning rate of every step.
    pub schedule: Schedule,
    /// The samples of a step that the learning rate is meant for, if it is to follow their number.
    pub lr_per: Option<usize>,
    /// The longest gradient that is not shortened.
    pub clip_norm: Option<f64>,
    /// How gradients become one.
    pub reduce: Reduce,
    /// The strategy that was named, which has decided on the exchange.
    pub strategy: Option<Strategy>,
    /// How ranks agree.
    pub exchange: Kind,
    /// The shards that steps are computed in, where results are not to depend on the number of ranks.
    pub shards: Option<usize>,
    /// Whether every update is recorded.
    pub record: bool,
    /// Whether all that ranks do is noted with its time.
    pub trace: bool,
    /// Whether inputs are scaled to mean 0 and deviation 1.
    pub normalize: bool,
    /// How images are changed each time they are trained on.
    pub augment: Augment,
    /// How samples become batches.
    pub input: Input,
    /// What becomes of a step that is not finite.
    pub on_nan: OnNan,
    /// Whether methods are chosen by measurement.
    pub tune: bool,
    /// What parameters start from.
    pub init: Init,
    /// Names order and start.
    pub seed: u64,
    /// Steps between evaluations.
    pub eval_every: Option<u64>,
    /// Steps between rows of metrics.
    pub log_every: Option<u64>,
    /// Whether a run goes on.
    pub resume: Resume,
    /// From one checkpoint to the next.
    pub checkpoint_every: Option<When>,
    /// How many of the newest are kept.
    pub keep: usize,
    /// When the run stops with a checkpoint.
    pub time_limit: Option<Duration>,
    /// The command, as it was typed or as a resumed run has it.
    pub words: Vec<String>,
    /// The run folder.
    pub out: Option<PathBuf>,
    /// Whether an older run may be replaced.
    pub force: bool,
    /// How long a rank may not move before the job ends, if that is watched.
    pub stall_timeout: Option<Duration>,
    /// What is written while it runs, besides metrics.
    pub observe: Observe,
    /// Faults on demand.
    pub inject: Vec<Inject>,
}

impl Settings {
    /// The set that is looked at while training goes on.
    pub(in crate::commands) fn watched(&self) -> Watched {
        match self.validation {
            Some(_) => Watched::Validation,
            None => Watched::Test,
        }
    }

    /// Whether the gradient noise scale is measured, to be shown or to be followed.
    pub(super) fn measures_noise(&self) -> bool {
        self.noise_scale || self.grow == Some(Growth::Noise)
    }

    /// The most samples of a step, were memory without end; refuses growth and measurement that these ranks cannot do.
    pub(super) fn limit(&self, steps: &Steps, exchange: Kind, ranks: usize) -> Result<usize> {
        let alone = ranks < 2 && self.shards.is_none();
        if self.measures_noise() && (alone || !exchange.is_lockstep()) {
            let problem = "the gradient noise scale compares the gradients of ranks that take a step together: \
                it needs 2 ranks or more, and an exchange in which they do, such as node-shared";
            return Err(Error::Usage(problem.into()));
        }
        let batch = steps.batch(0);
        match (self.grow, self.batch_limit) {
            (None, _) => Ok(batch),
            (Some(_), None) => Ok((steps.samples() / 10).max(batch)),
            (Some(_), Some(limit)) if limit < batch => Err(Error::Usage(format!(
                "--batch-limit {limit} is below the {batch} samples that a step begins with"
            ))),
            (Some(_), Some(limit)) => Ok(limit),
        }
    }

    /// The schedule for `batch` samples a step.
    pub(super) fn schedule(&self, batch: usize) -> Result<Schedule> {
        let mut schedule = self.schedule.clone();
        if let Some(base) = self.lr_per {
            schedule = schedule.scaled(batch, base);
        }
        let lr = schedule.lr;
        if !lr.is_normal() {
            let problem = format!(
                "--lr {:?} meant for --lr-per {} samples is {lr:?} for the {batch} of a step",
                self.schedule.lr,
                self.lr_per.unwrap_or(batch),
            );
            return Err(Error::Usage(problem));
        }
        if let Decay::Cosine { floor } = schedule.decay
            && floor > lr
        {
            let problem = format!("--lr-floor {floor:?} is above the learning rate {lr:?}");
            return Err(Error::Usage(problem));
        }
        Ok(schedule)
    }
}

impl Settings {
    /// What is asked for that a device cannot do.
    pub(super) fn unfit(&self) -> Option<&'static str> {
        let asked = [
            (self.threads > 1, "--threads divides a batch over cores"),
            (
                self.shards.is_some(),
                "--reproducible adds up in shards, on the CPU",
            ),
            (
                self.exchange == Kind::Overlapped,
                "--overlap is for gradients that the CPU computes (those of a GPU are copied while others are computed anyway)",
            ),
            (
                self.record,
                "--record is for the CPU, which `phalanx replay` computes on",
            ),
        ];
        let found = asked.into_iter().find(|(there, _)| *there);
        found.map(|(_, what)| what)
    }

    /// Sums of gradients that wait for their other half on a rank that adds up several shards.
    pub(super) fn spare_sums(&self, ranks: usize) -> usize {
        let each = self.shards.unwrap_or(1) / (ranks * self.threads);
        self.threads * each.max(1).ilog2() as usize
    }

    /// Refuses shards that threads cannot share, or that a model computes across.
    pub(super) fn check_shards(&self, model: &Model, ranks: usize) -> Result<()> {
        if self.exchange == Kind::Overlapped {
            return self.check_overlap(model);
        }
        let Some(shards) = self.shards else {
            return Ok(());
        };
        let threads = self.threads;
        if !shards.is_multiple_of(ranks * threads) {
            return Err(Error::Usage(format!(
                "--reproducible divides a step into {shards} shards, and {ranks} ranks of {threads} threads cannot share them equally"
            )));
        }
        if model.spec.sums_across_ranks() {
            let problem = "--reproducible computes every shard by itself: batch normalisation across ranks cannot be in it";
            return Err(Error::Usage(problem.into()));
        }
        Ok(())
    }
}

impl Settings {
    /// Refuses what a second thread that talks to other ranks cannot be beside.
    fn check_overlap(&self, model: &Model) -> Result<()> {
        let beside = [
            (self.threads > 1, "--threads"),
            (self.measures_noise(), "the gradient noise scale"),
            (
                model.spec.sums_across_ranks(),
                "batch normalisation across ranks",
            ),
        ];
        match beside.iter().find(|(there, _)| *there) {
            Some((_, what)) => Err(Error::Usage(format!(
                "--overlap and {what} do not go together: both talk to other ranks, or look at gradients, while these are added up"
            ))),
            None => Ok(()),
        }
    }
}
