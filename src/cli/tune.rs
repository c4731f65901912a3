//! `phalanx tune`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::commands::tune::{Replay, Settings};
use crate::tune::Model;

/// Find a good configuration with few trials: ranks, threads, batch, exchange, kind of machine.
///
/// The space of choices is a TOML file; studies/tune-lenet.toml is one, and studies/README.md says what it may have. Each trial is a
/// short real run. The first ones are spread evenly; then a model of all trials so far (a Gaussian process, or a forest) says of which
/// configuration most is expected, as CherryPick does for clouds. It stops when less than --gain is expected of any other after --least
/// trials, or when trials or time are used up; the best one then goes on from its checkpoint, if the file has a [winner]. A search that was
/// stopped goes on where it was when the same command is given again.
#[derive(Args)]
pub(super) struct Tune {
    /// The space of choices.
    #[arg(value_name = "SPACE.toml")]
    task: PathBuf,
    /// The folder for all of it [default: the file's name].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Stands for {data} in the file: where your own data sets are.
    #[arg(long, value_name = "DIR", default_value = "data")]
    data: PathBuf,
    /// What learns from trials.
    #[arg(long, value_enum, default_value = "gaussian")]
    model: ModelArg,
    /// The most trials.
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..))]
    trials: u64,
    /// The most time that trials take, such as 90s, 10m or 2h; the one that runs then is the last.
    #[arg(long, value_name = "TIME", value_parser = crate::checkpoint::time)]
    budget: Option<std::time::Duration>,
    /// Trials that are spread evenly at first.
    #[arg(long, value_name = "N", default_value_t = 3)]
    first: usize,
    /// The least number of trials before it stops by itself.
    #[arg(long, value_name = "N", default_value_t = 6)]
    least: usize,
    /// It stops when less than this share of the best is expected to be gained.
    #[arg(long, value_name = "SHARE", default_value_t = 0.1)]
    gain: f64,
    /// Names the random choices.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Trials at the same time: inside a Slurm allocation, with --mpirun "srun --mpi=pmix --exact", on nodes of their own.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=256))]
    parallel: u64,
    /// What starts ranks; `-n RANKS` is put behind it.
    #[arg(long, value_name = "WORDS", default_value = "mpirun")]
    mpirun: String,
    /// Also try configurations that have more ranks than this machine or allocation has slots.
    #[arg(long)]
    oversubscribe: bool,
    /// Do not run anything: take times from runs.csv of a `phalanx sweep` over the same values, and tell how searches with many seeds
    /// do on them, beside searches that draw.
    #[arg(long, value_name = "RUNS.csv")]
    replay: Option<PathBuf>,
    /// Searches of a replay.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = super::positive, requires = "replay")]
    seeds: usize,
    /// How near the best counts as found in a replay, as a share.
    #[arg(
        long,
        value_name = "SHARE",
        default_value_t = 0.05,
        requires = "replay"
    )]
    within: f64,
}

#[derive(Clone, Copy, ValueEnum)]
enum ModelArg {
    /// A Gaussian process with Matérn's kernel.
    Gaussian,
    /// A forest of random trees.
    Forest,
    /// None: every trial is drawn.
    Random,
}

impl Tune {
    pub(super) fn resolve(self) -> Settings {
        Settings {
            task: self.task,
            out: self.out,
            data: self.data,
            search: crate::tune::Settings {
                model: match self.model {
                    ModelArg::Gaussian => Model::Gaussian,
                    ModelArg::Forest => Model::Forest,
                    ModelArg::Random => Model::Random,
                },
                seed: self.seed,
                first: self.first.max(2),
                least: self.least,
                gain: self.gain,
                limit: None,
            },
            trials: self.trials as usize,
            budget: self.budget,
            parallel: self.parallel as usize,
            mpirun: self.mpirun.split_whitespace().map(Into::into).collect(),
            oversubscribe: self.oversubscribe,
            replay: self.replay.map(|runs| Replay {
                runs,
                seeds: self.seeds,
                within: self.within,
            }),
        }
    }
}
