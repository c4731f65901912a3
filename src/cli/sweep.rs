//! `phalanx sweep`.

use std::path::PathBuf;

use clap::Args;

use crate::commands::sweep::{Settings, Way};

/// Run a study: many runs of one file, repeated with seeds, and their table.
///
/// A study is a TOML file with a command, values for its options and the figures to tell; studies/ has some ready to run, and
/// studies/README.md says what a study may have. All runs are made one after the other in an order that is drawn, each in a folder of
/// its own below OUT. A study that was stopped goes on where it was when the same command is given again; runs that failed are kept and
/// told, and tried again with --retry. OUT then has table.md, table.csv and table.tex, runs.csv with every figure of every run, plots,
/// and report.html with all of it.
#[derive(Args)]
pub(super) struct Sweep {
    /// The study.
    #[arg(value_name = "STUDY.toml")]
    study: PathBuf,
    /// The folder for all of it [default: the study's name, in full size with -full behind it].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The study in the size that it has under [full].
    #[arg(long)]
    full: bool,
    /// Stands for {data} in the study: where your own data sets are.
    #[arg(long, value_name = "DIR", default_value = "data")]
    data: PathBuf,
    /// Say what would be run, and run nothing.
    #[arg(long)]
    dry_run: bool,
    /// Try runs again that failed.
    #[arg(long)]
    retry: bool,
    /// Names the order of runs.
    #[arg(long, value_name = "N", default_value_t = 1)]
    order: u64,
    /// What starts ranks; `-n RANKS` is put behind it.
    #[arg(long, value_name = "WORDS", default_value = "mpirun")]
    mpirun: String,
    /// Also run configurations that have more ranks than this machine or allocation has slots.
    #[arg(long)]
    oversubscribe: bool,
    /// Submit the runs as one job array, and a job that makes the tables when all have ended.
    #[arg(long, conflicts_with_all = ["dry_run", "collect", "only"])]
    slurm: bool,
    /// Options for sbatch, such as "--partition=short --time=1:00:00".
    #[arg(
        long,
        value_name = "WORDS",
        requires = "slurm",
        default_value = "",
        allow_hyphen_values = true
    )]
    sbatch: String,
    /// Jobs of the array that run at the same time.
    #[arg(long, value_name = "N", requires = "slurm", default_value_t = 4)]
    at_once: usize,
    /// Make tables, plots and page of what there is, and run nothing.
    #[arg(long, conflicts_with = "dry_run")]
    collect: bool,
    /// Make this run only, by its number in --dry-run's list: what the jobs of an array do.
    #[arg(long, value_name = "N", hide = true, conflicts_with = "collect")]
    only: Option<usize>,
}

impl Sweep {
    pub(super) fn resolve(self) -> Settings {
        let words = |text: &str| {
            text.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        let way = match (self.dry_run, self.collect, self.only, self.slurm) {
            (true, ..) => Way::Tell,
            (_, true, ..) => Way::Collect,
            (_, _, Some(number), _) => Way::Only(number),
            (_, _, _, true) => Way::Slurm {
                sbatch: words(&self.sbatch),
                at_once: self.at_once.max(1),
            },
            _ => Way::Here,
        };
        Settings {
            study: self.study,
            out: self.out,
            full: self.full,
            data: self.data,
            retry: self.retry,
            order: self.order,
            mpirun: words(&self.mpirun),
            oversubscribe: self.oversubscribe,
            way,
        }
    }
}
