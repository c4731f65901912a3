//! `phalanx train`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};

use super::choice::{self, ModelArgs};
use super::device::DeviceArgs;
use super::exchange::{ExchangeArgs, ShardArgs};
use super::input::InputArgs;
use super::observe::ObserveArgs;
use super::optim::{Optim, ScheduleArg};
use super::sparse::Sparse;
use super::survive::SurviveArgs;
use super::{below_one, positive, positive_real, seconds, threads};
use crate::Result;
use crate::commands::Command;
use crate::commands::train::{BatchSize, Growth, Settings, Strategy};
use crate::data::{Augment, Length};
use crate::exchange::{Freedom, Kind, Placement};
use crate::nn::Init;
use crate::train::{Inject, OnNan, Reduce};
use crate::{Error, commands};

/// Train a model; under mpirun, with all its ranks.
///
/// `phalanx train MODEL DATA` trains networks on images, `phalanx train sparse DATA` logistic regression on sparse rows
/// (`phalanx train sparse --help`).
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct TrainCommand {
    #[command(subcommand)]
    other: Option<Other>,
    #[command(flatten)]
    train: Train,
}

#[derive(Subcommand)]
enum Other {
    Sparse(Box<Sparse>),
}

impl TrainCommand {
    pub(super) fn resolve(self) -> Result<Command> {
        match self.other {
            Some(Other::Sparse(typed)) => typed.resolve().map(Box::new).map(Command::TrainSparse),
            None => self.train.resolve().map(Box::new).map(Command::Train),
        }
    }
}

/// Writes a run folder: settings.toml, metrics.csv, ranks.csv, result.toml, model.h5, and checkpoints where they are asked for.
#[derive(Args)]
#[command(allow_missing_positional = true)]
#[command(group(ArgGroup::new("watched").args(["test", "validation"]).multiple(true)))]
pub(super) struct Train {
    /// The model: softmax, mlp, lenet, alexnet or flowers; left out with --model-file.
    #[arg(value_parser = choice::name, required_unless_present_any = ["model_file", "resume"], conflicts_with = "model_file")]
    model: Option<String>,
    /// The training set: an HDF5 file or a folder of shards (see `phalanx data`), or with --shape a folder of photos.
    #[arg(required = true)]
    data: Option<PathBuf>,
    #[command(flatten)]
    choice: ModelArgs,
    /// A test set, evaluated during training and at the end; only at the end with --validation.
    #[arg(long, value_name = "DATA")]
    test: Option<PathBuf>,
    /// Hold this share of the training set out, chosen by the seed as `phalanx data split` does, and evaluate it during
    /// training in place of the test set.
    #[arg(long, value_name = "SHARE", value_parser = below_one)]
    validation: Option<f64>,
    /// Stop after this many passes over the data [default: 5, or 1000 with --until-loss or --early-stop].
    #[arg(long, value_name = "N", value_parser = positive, conflicts_with = "steps")]
    epochs: Option<usize>,
    /// Stop after this many steps (updates of the parameters).
    #[arg(long, value_name = "N", value_parser = positive)]
    steps: Option<usize>,
    /// Stop at the first evaluation whose test (or validation) loss is at or below X.
    #[arg(long, value_name = "X", value_parser = positive_real, requires = "watched")]
    until_loss: Option<f64>,
    /// Stop after N evaluations in a row without a lower test (or validation) loss.
    #[arg(long, value_name = "N", value_parser = positive, requires = "watched")]
    early_stop: Option<usize>,
    /// Keep the parameters of the evaluation with the lowest test (or validation) loss instead of the last ones.
    #[arg(long, requires = "watched")]
    keep_best: bool,
    /// Samples that each rank takes in a step [default: 100].
    #[arg(long, value_name = "N", value_parser = positive, conflicts_with = "global_batch")]
    batch: Option<usize>,
    /// Samples of a step over all ranks together.
    #[arg(long, value_name = "N", value_parser = positive)]
    global_batch: Option<usize>,
    /// Threads that each rank splits its batch over; give it as many cores, as in mpirun --map-by slot:PE=T.
    #[arg(long, value_name = "T", default_value_t = 1, value_parser = threads)]
    threads: usize,
    #[command(flatten)]
    device: DeviceArgs,
    /// Grow the batch: where --schedule step would multiply the rate by its factor, the batch is divided by it instead
    /// (schedule), or to the gradient noise scale that ranks measure, at most twice as large each epoch (noise).
    #[arg(long, value_enum, value_name = "BY")]
    grow_batch: Option<GrowthArg>,
    /// Samples of a step over all ranks that --grow-batch does not exceed; from there on the rate falls
    /// [default: a tenth of the training set].
    #[arg(long, value_name = "N", value_parser = positive, requires = "grow_batch")]
    batch_limit: Option<usize>,
    /// Measure the gradient noise scale: about the largest batch that is worth its samples. Needs 2 ranks or more.
    #[arg(long)]
    noise_scale: bool,
    /// How the ranks' gradients become one: the mean over all samples, or the sum of the ranks' means.
    #[arg(long, value_enum, default_value_t = ReduceArg::Mean)]
    reduce: ReduceArg,
    /// A way to share training by the name that people know, in place of --exchange and --placement: a rank alone (one-device), the ranks
    /// of one node in step (mirrored), ranks of any nodes in step (multi-worker), or each by itself with parameters on rank 0
    /// (parameter-server). With the first three, --batch is that of all ranks together.
    #[arg(long, value_enum, conflicts_with_all = ["exchange", "placement", "overlap", "sync_every", "aggregate"], help_heading = "Exchange")]
    strategy: Option<StrategyArg>,
    #[command(flatten)]
    exchange: ExchangeArgs,
    #[command(flatten)]
    shards: ShardArgs,
    /// One-sided: record every update in the run folder, so that `phalanx replay RUN` can repeat the run bit for bit.
    #[arg(long, help_heading = "Exchange")]
    record: bool,
    /// Scale inputs to mean 0 and deviation 1 per channel, with the training set's figures.
    #[arg(long)]
    normalize: bool,
    /// Change images at random each time they are trained on, never those that are evaluated: flip (left and right),
    /// flip-vertical, rotate (by right angles), tilt=15 (by up to so many degrees), crop=0.3 (a part with at least that share
    /// of the area, enlarged), colour=0.2 (brightness, contrast and saturation by up to that share); numbers may be left
    /// out. The same for any number of ranks.
    #[arg(long, value_name = "LIST")]
    augment: Option<Augment>,
    #[command(flatten)]
    input: InputArgs,
    /// What becomes of a step whose loss or gradient is not a finite number: the run ends, or goes on without it. Its
    /// update is made in neither case.
    #[arg(long, value_enum, default_value_t = OnNanArg::Stop)]
    on_nan: OnNanArg,
    /// Choose the methods of convolutions by their sizes alone, not by measuring at the start: methods differ in the last
    /// bits, and so do runs for which the measurement came out differently.
    #[arg(long)]
    no_tune: bool,
    /// What weights start from: uniform as in PyTorch, or normal after He et al. with logits of zero, so that deep stacks of
    /// rectifiers such as alexnet learn from the first steps on.
    #[arg(long, value_enum, default_value_t = InitArg::Uniform)]
    init: InitArg,
    /// Names the order of samples and the parameters to start from.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Steps between two evaluations [default: an epoch, or 100 with --until-loss].
    #[arg(long, value_name = "N", value_parser = positive)]
    eval_every: Option<usize>,
    /// Steps between two rows of metrics.csv [default: a tenth of --eval-every].
    #[arg(long, value_name = "N", value_parser = positive)]
    log_every: Option<usize>,
    /// The run folder [default: the next free runs/MODEL-NNN].
    #[arg(long, value_name = "RUN")]
    out: Option<PathBuf>,
    /// Replace an older run in the run folder.
    #[arg(long)]
    force: bool,
    /// Note what every rank does from when to when, and write it to trace.json in the run folder for ui.perfetto.dev: load, each layer
    /// forward and backward, exchange, waiting, updates, evaluation, checkpoints. Long runs keep the first and the last spans of
    /// each rank, 400,000 of all ranks together, and say how many were dropped. Layers are told where a rank computes on one thread.
    #[arg(long)]
    trace: bool,
    #[command(flatten)]
    survive: SurviveArgs,
    /// End the job when a rank has not moved for so long: name it and what it was doing, write every rank's state to
    /// stalled.json in the run folder, exit with code 3; 0 waits for ever.
    #[arg(long, value_name = "SECONDS", default_value = "120", value_parser = seconds)]
    stall_timeout: Duration,
    /// Test aid: have rank RANK compute FACTOR times as long (slow:RANK:FACTOR), get every batch later (load:RANK:MILLISECONDS),
    /// or sleep for ever in a step (stall:RANK:STEP); may be given several times.
    #[arg(long, value_name = "FAULT")]
    inject: Vec<Inject>,
    #[command(flatten)]
    observe: ObserveArgs,
    #[command(flatten)]
    optim: Optim,
}

#[derive(Clone, Copy, ValueEnum)]
enum GrowthArg {
    Schedule,
    Noise,
}

#[derive(Clone, Copy, ValueEnum)]
enum ReduceArg {
    Mean,
    Sum,
}

#[derive(Clone, Copy, ValueEnum)]
enum InitArg {
    Uniform,
    He,
}

#[derive(Clone, Copy, ValueEnum)]
enum StrategyArg {
    OneDevice,
    Mirrored,
    MultiWorker,
    ParameterServer,
}

impl StrategyArg {
    fn resolve(self) -> Strategy {
        match self {
            Self::OneDevice => Strategy::OneDevice,
            Self::Mirrored => Strategy::Mirrored,
            Self::MultiWorker => Strategy::MultiWorker,
            Self::ParameterServer => Strategy::ParameterServer,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum OnNanArg {
    Stop,
    Skip,
}

/// Refuses to record updates that have no order.
fn check_record(record: bool, exchange: Kind) -> Result<()> {
    let has_order = |freedom: Freedom| !freedom.racy && freedom.placement == Placement::Sharded;
    match exchange {
        _ if !record => Ok(()),
        Kind::OneSided(freedom) if has_order(freedom) => Ok(()),
        Kind::OneSided(_) => {
            let problem = "--record needs exact additions in memory that ranks have in common: leave --racy and --placement out";
            Err(Error::Usage(problem.into()))
        }
        _ => {
            let problem = "--record needs --exchange one-sided: a synchronous run repeats itself without a record";
            Err(Error::Usage(problem.into()))
        }
    }
}

impl Train {
    pub(super) fn resolve(self) -> Result<Settings> {
        let endless = self.is_endless();
        self.check()?;
        let strategy = self.strategy.map(StrategyArg::resolve);
        let exchange = self.exchange.resolve(strategy)?;
        check_record(self.record, exchange)?;
        self.survive.check(self.record)?;
        if self.record && self.keep_best {
            let problem = "--record and --keep-best do not go together: a replay ends where the run did, not at its best";
            return Err(Error::Usage(problem.into()));
        }
        Ok(commands::train::Settings {
            model: self.choice.resolve(self.model)?,
            data: self.data.expect("clap asks for it"),
            test: self.test,
            validation: self.validation,
            length: match (self.epochs, self.steps) {
                (_, Some(steps)) => Length::Steps(steps as u64),
                (Some(epochs), None) => Length::Epochs(epochs as u64),
                (None, None) if endless => Length::Epochs(1000),
                (None, None) => Length::Epochs(5),
            },
            until_loss: self.until_loss,
            early_stop: self.early_stop.map(|n| n as u64),
            keep_best: self.keep_best,
            batch: match (self.global_batch, self.batch.unwrap_or(100)) {
                (Some(batch), _) => BatchSize::Global(batch),
                (None, batch) if strategy.is_some_and(Strategy::splits_batch) => {
                    BatchSize::Global(batch)
                }
                (None, batch) => BatchSize::PerRank(batch),
            },
            threads: self.threads,
            device: self.device.resolve(),
            grow: self.grow_batch.map(|by| match by {
                GrowthArg::Schedule => Growth::Schedule,
                GrowthArg::Noise => Growth::Noise,
            }),
            batch_limit: self.batch_limit,
            noise_scale: self.noise_scale,
            rule: self.optim.rule()?,
            schedule: self.optim.schedule()?,
            lr_per: self.optim.rate.lr_per,
            clip_norm: self.optim.clip_norm,
            reduce: match self.reduce {
                ReduceArg::Mean => Reduce::Mean,
                ReduceArg::Sum => Reduce::Sum,
            },
            strategy,
            exchange,
            shards: self.shards.resolve(exchange)?,
            record: self.record,
            trace: self.trace,
            normalize: self.normalize,
            augment: self.augment.unwrap_or_default(),
            input: self.input.resolve()?,
            on_nan: match self.on_nan {
                OnNanArg::Stop => OnNan::Stop,
                OnNanArg::Skip => OnNan::Skip,
            },
            tune: !self.no_tune && !self.shards.is_reproducible(),
            init: match self.init {
                InitArg::Uniform => Init::Uniform,
                InitArg::He => Init::He,
            },
            seed: self.seed,
            eval_every: self.eval_every.map(|n| n as u64),
            log_every: self.log_every.map(|n| n as u64),
            resume: self.survive.resume(),
            checkpoint_every: self.survive.checkpoint_every,
            keep: self.survive.keep,
            time_limit: self.survive.time_limit,
            words: std::env::args().collect(),
            out: self.out,
            force: self.force,
            stall_timeout: Some(self.stall_timeout).filter(|time| !time.is_zero()),
            observe: self.observe.resolve(),
            inject: self.inject,
        })
    }

    /// Whether only the loss of an evaluation ends the run.
    fn is_endless(&self) -> bool {
        let waits = self.until_loss.is_some() || self.early_stop.is_some();
        waits && self.epochs.is_none() && self.steps.is_none()
    }

    /// Refuses options that are good each by itself and mean nothing together.
    fn check(&self) -> Result<()> {
        if self.is_endless() && matches!(self.optim.rate.schedule, ScheduleArg::Cosine) {
            let problem = "--schedule cosine ends with the run: with --until-loss or --early-stop, give --epochs or --steps";
            return Err(Error::Usage(problem.into()));
        }
        if self.optim.rate.lr_per.is_some() && matches!(self.reduce, ReduceArg::Sum) {
            let problem =
                "--lr-per and --reduce sum both raise the rate with the number of ranks: give one";
            return Err(Error::Usage(problem.into()));
        }
        if matches!(self.grow_batch, Some(GrowthArg::Schedule)) {
            if !matches!(self.optim.rate.schedule, ScheduleArg::Step) {
                let problem = "--grow-batch schedule needs --schedule step: it grows the batch where that would lower the rate";
                return Err(Error::Usage(problem.into()));
            }
            // Less than that would grow a batch by no sample at all, many times over.
            if self
                .optim
                .rate
                .decay_factor
                .is_some_and(|factor| factor > 0.9)
            {
                let problem = "--grow-batch schedule needs a --decay-factor of at most 0.9";
                return Err(Error::Usage(problem.into()));
            }
        }
        Ok(())
    }
}
