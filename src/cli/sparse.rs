//! `phalanx train sparse`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};

use super::exchange::{Staleness, shards, staleness};
use super::optim::{RateArgs, not_negative};
use super::survive::SurviveArgs;
use super::{below_one, positive, positive_real, seconds};
use crate::commands::sparse::Settings;
use crate::commands::train::BatchSize;
use crate::data::Length;
use crate::optim::Schedule;
use crate::sparse::{ClassWeights, Kind, Rule, Shuffle};
use crate::train::Inject;
use crate::{Error, Result};

/// Logistic regression over millions of sparse features, such as click logs; under mpirun, with all its ranks.
///
/// Writes a run folder: settings.toml, metrics.csv, ranks.csv, result.toml and a folder called model.
#[derive(Args)]
#[command(group(ArgGroup::new("looked_at").args(["test", "validation"]).multiple(true)))]
pub(super) struct Sparse {
    /// The training set: a folder of shards, or one of its files (see `phalanx data import libsvm|criteo|csv|vw`).
    data: PathBuf,
    /// A test set, evaluated during training and at the end; only at the end with --validation.
    #[arg(long, value_name = "DATA")]
    test: Option<PathBuf>,
    /// Hold about this share of the training set out, chosen by the seed in stretches of up to 256 neighbours, and evaluate it
    /// during training in place of the test set; with --shuffle none, the last rows.
    #[arg(long, value_name = "SHARE", value_parser = below_one)]
    validation: Option<f64>,
    /// Passes over the data [default: 1, or 1000 with --until-loss or --early-stop].
    #[arg(long, value_name = "N", value_parser = positive, conflicts_with = "steps")]
    epochs: Option<usize>,
    /// Stop after this many steps.
    #[arg(long, value_name = "N", value_parser = positive)]
    steps: Option<usize>,
    /// Stop at the first evaluation whose test (or validation) log loss is at or below X.
    #[arg(long, value_name = "X", value_parser = positive_real, requires = "looked_at")]
    until_loss: Option<f64>,
    /// Stop after N evaluations in a row without a lower test (or validation) log loss.
    #[arg(long, value_name = "N", value_parser = positive, requires = "looked_at")]
    early_stop: Option<usize>,
    /// Rows that each rank takes in a step [default: 256].
    #[arg(long, value_name = "N", value_parser = positive, conflicts_with = "global_batch")]
    batch: Option<usize>,
    /// Rows of a step over all ranks together, where they take steps together.
    #[arg(long, value_name = "N", value_parser = positive)]
    global_batch: Option<usize>,
    /// How rows are put in order, each pass anew: steps in random order whose rows are neighbours (steps), every row by
    /// itself (rows), or as they are stored (none). Rows that are stored by label need rows.
    #[arg(long, value_enum, default_value_t = ShuffleArg::Steps)]
    shuffle: ShuffleArg,
    /// Rows with label 1 count so many times.
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = positive_real)]
    positive_weight: f64,
    /// Rows with label 0 count so many times.
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = positive_real)]
    negative_weight: f64,
    /// Names the order of rows.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Steps between two evaluations [default: an epoch].
    #[arg(long, value_name = "N", value_parser = positive)]
    eval_every: Option<usize>,
    /// Steps between two rows of metrics.csv [default: a hundredth of the run].
    #[arg(long, value_name = "N", value_parser = positive)]
    log_every: Option<usize>,
    /// The run folder [default: the next free runs/sparse-NNN].
    #[arg(long, value_name = "RUN")]
    out: Option<PathBuf>,
    /// Replace an older run in the run folder.
    #[arg(long)]
    force: bool,
    /// End the job when a rank has not moved for so long, and name it; 0 waits for ever.
    #[arg(long, value_name = "SECONDS", default_value = "120", value_parser = seconds)]
    stall_timeout: Duration,
    /// Test aid: slow:RANK:FACTOR or stall:RANK:STEP; may be given several times.
    #[arg(long, value_name = "FAULT")]
    inject: Vec<Inject>,
    /// How ranks agree: each by itself, learning from row after row (one-sided: on one node on weights in shared memory,
    /// between nodes by windows); every step together and each weight with its owner, only what rows touch being sent
    /// (owners); or every step together, all gradients being sent (all-reduce).
    #[arg(long, value_enum, default_value_t = SparseExchange::OneSided, help_heading = "Exchange")]
    exchange: SparseExchange,
    /// One-sided: the most steps that a rank may be ahead of the slowest; 0 keeps all in step, inf lets them run.
    #[arg(long, value_name = "S", value_parser = staleness, help_heading = "Exchange")]
    staleness: Option<Staleness>,
    /// In step: the same weights, bit for bit, on any number of ranks that divides --virtual-shards.
    #[arg(long, help_heading = "Exchange")]
    reproducible: bool,
    /// Parts that each step is computed in with --reproducible: a power of two.
    #[arg(long, value_name = "V", default_value_t = 8, value_parser = shards, requires = "reproducible", help_heading = "Exchange")]
    virtual_shards: usize,
    /// In step: whether the gradients of a step's rows are averaged or added up.
    #[arg(long, value_enum, default_value_t = ReduceArg::Mean, help_heading = "Exchange")]
    reduce: ReduceArg,
    /// How gradients become updates.
    #[arg(long, value_enum, default_value_t = SparseOptimizer::Adagrad, help_heading = "Optimizer and learning rate")]
    optimizer: SparseOptimizer,
    /// Pulls weights to zero in equal amounts, so that many stay there; those that no row touches are brought up to date when
    /// one does.
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = not_negative, help_heading = "Optimizer and learning rate")]
    l1: f64,
    /// Pulls weights to zero in proportion, likewise.
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = not_negative, help_heading = "Optimizer and learning rate")]
    l2: f64,
    /// Slows the first steps of each feature down, with ftrl [default: 1].
    #[arg(long, value_name = "X", value_parser = not_negative, help_heading = "Optimizer and learning rate")]
    beta: Option<f64>,
    #[command(flatten)]
    rate: RateArgs,
    #[command(flatten)]
    survive: SurviveArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum ShuffleArg {
    Steps,
    Rows,
    None,
}

/// How ranks agree, as it is typed.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(super) enum SparseExchange {
    OneSided,
    Owners,
    AllReduce,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum ReduceArg {
    Mean,
    Sum,
}

/// How gradients become updates, as it is typed.
#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(super) enum SparseOptimizer {
    Sgd,
    Adagrad,
    Ftrl,
}

impl SparseExchange {
    /// Without a bound on staleness.
    pub(super) fn kind(self) -> Kind {
        match self {
            Self::OneSided => Kind::OneSided { bound: None },
            Self::Owners => Kind::Owners,
            Self::AllReduce => Kind::AllReduce,
        }
    }
}

impl SparseOptimizer {
    pub(super) fn rule(self, l1: f32, l2: f32, beta: f32) -> Rule {
        match self {
            Self::Sgd => Rule::Sgd { l1, l2 },
            Self::Adagrad => Rule::Adagrad { l1, l2 },
            Self::Ftrl => Rule::Ftrl { beta, l1, l2 },
        }
    }
}

impl Sparse {
    pub(super) fn resolve(self) -> Result<Settings> {
        self.check()?;
        let endless = self.until_loss.is_some() || self.early_stop.is_some();
        let schedule = self.rate.schedule(0.1)?;
        let changes = schedule != Schedule::constant(schedule.lr);
        if self.optimizer == SparseOptimizer::Ftrl && changes {
            return usage(
                "ftrl sets the rate of each feature by itself: leave --schedule and warm-up out",
            );
        }
        Ok(Settings {
            length: match (self.epochs, self.steps) {
                (_, Some(steps)) => Length::Steps(steps as u64),
                (Some(epochs), None) => Length::Epochs(epochs as u64),
                (None, None) => Length::Epochs(if endless { 1000 } else { 1 }),
            },
            until_loss: self.until_loss,
            early_stop: self.early_stop.map(|n| n as u64),
            batch: match self.global_batch {
                Some(batch) => BatchSize::Global(batch),
                None => BatchSize::PerRank(self.batch.unwrap_or(256)),
            },
            shuffle: match self.shuffle {
                ShuffleArg::Steps => Shuffle::Steps,
                ShuffleArg::Rows => Shuffle::Rows,
                ShuffleArg::None => Shuffle::None,
            },
            classes: ClassWeights {
                negative: self.negative_weight as f32,
                positive: self.positive_weight as f32,
            },
            kind: match self.staleness {
                Some(Staleness(bound)) => Kind::OneSided { bound },
                None => self.exchange.kind(),
            },
            shards: self.reproducible.then_some(self.virtual_shards),
            sum: self.reduce == ReduceArg::Sum,
            rule: self.rule(),
            schedule,
            lr_per: self.rate.lr_per,
            data: self.data,
            test: self.test,
            validation: self.validation,
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
            inject: self.inject,
        })
    }

    fn rule(&self) -> Rule {
        let beta = self.beta.unwrap_or(1.0) as f32;
        self.optimizer.rule(self.l1 as f32, self.l2 as f32, beta)
    }

    /// Refuses options that are good each by itself and mean nothing together.
    fn check(&self) -> Result<()> {
        let alone = self.exchange == SparseExchange::OneSided;
        if self.staleness.is_some() && !alone {
            return usage(
                "--staleness needs --exchange one-sided: in the others no rank goes its own way",
            );
        }
        if self.reproducible && alone {
            return usage("--reproducible needs ranks in step: --exchange owners or all-reduce");
        }
        if alone && (self.global_batch.is_some() || self.reduce == ReduceArg::Sum) {
            return usage(
                "--global-batch and --reduce sum need ranks in step: --exchange owners or all-reduce",
            );
        }
        if self.beta.is_some() && self.optimizer != SparseOptimizer::Ftrl {
            return usage("--beta needs --optimizer ftrl");
        }
        if self.rate.lr_per.is_some() && (alone || self.reduce == ReduceArg::Sum) {
            return usage(
                "--lr-per is for means over the rows of a step: --exchange owners or all-reduce, --reduce mean",
            );
        }
        Ok(())
    }
}

fn usage<T>(problem: &str) -> Result<T> {
    Err(Error::Usage(problem.into()))
}
