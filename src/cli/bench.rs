//! `phalanx bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::choice::{self, ModelArgs};
use super::train::{ExchangeArg, PlacementArg, exchange};
use super::{positive, positive_real, threads};
use crate::commands::bench::Settings;
use crate::train::Inject;
use crate::{Error, Result};

/// Measure speed in a steady state.
#[derive(Subcommand)]
pub(super) enum Bench {
    Train(BenchTrain),
}

/// Samples a second of training; start it under mpirun with the ranks to measure.
///
/// Prints a row for each number of ranks and batch size: seconds a step, samples/s, GFLOP/s and their share of the ranks'
/// measured peak, where the ranks' time went, and the peak of their memory.
#[derive(Args)]
pub(super) struct BenchTrain {
    /// The model: softmax, mlp, lenet, alexnet or flowers [default: softmax].
    #[arg(long, value_name = "MODEL", value_parser = choice::name, conflicts_with = "model_file")]
    model: Option<String>,
    #[command(flatten)]
    choice: ModelArgs,
    /// The data set [default: drawn digits, or painted images of the size that the model was made for; removed again].
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Samples that each rank takes in a step: one number, or several such as 32,64,128.
    #[arg(long, value_name = "LIST", default_value = "100", value_delimiter = ',', value_parser = positive)]
    batch: Vec<usize>,
    /// Threads that each rank splits its batch over.
    #[arg(long, value_name = "T", default_value_t = 1, value_parser = threads)]
    threads: usize,
    /// How many of the ranks take part, such as 1,2,4 to see how speed grows with ranks [default: all].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = positive)]
    ranks: Vec<usize>,
    /// How ranks agree.
    #[arg(long, value_enum, default_value_t = ExchangeArg::Auto)]
    exchange: ExchangeArg,
    /// Who holds the parameters of a one-sided exchange.
    #[arg(long, value_enum, default_value_t = PlacementArg::Sharded)]
    placement: PlacementArg,
    /// How long each measurement takes, after a quarter of it to warm up.
    #[arg(long, value_name = "S", default_value = "5", value_parser = positive_real)]
    seconds: f64,
    /// Tell for each layer and pass the time, GFLOP/s, share of the peak and memory traffic, of the first rank's first thread.
    #[arg(long)]
    by_layer: bool,
    /// Choose the methods of convolutions by their sizes alone, not by measuring at the start.
    #[arg(long)]
    no_tune: bool,
    /// Test aid: have rank RANK compute FACTOR times as long; may be given several times.
    #[arg(long, value_name = "slow:RANK:FACTOR")]
    inject: Vec<Inject>,
    /// Print a line of JSON for each measurement instead of a table.
    #[arg(long)]
    json: bool,
}

impl Bench {
    pub(super) fn resolve(self) -> Result<Settings> {
        let Self::Train(typed) = self;
        let stall = |fault: &&Inject| matches!(fault, Inject::Stall { .. });
        if let Some(stall) = typed.inject.iter().find(stall) {
            let problem =
                format!("--inject {stall}: a bench would never end; use it with `phalanx train`");
            return Err(Error::Usage(problem));
        }
        Ok(Settings {
            model: typed
                .choice
                .resolve(typed.model.or(Some("softmax".into())))?,
            data: typed.data,
            batches: typed.batch,
            threads: typed.threads,
            ranks: typed.ranks,
            exchange: exchange(typed.exchange, typed.placement)?,
            seconds: typed.seconds,
            by_layer: typed.by_layer,
            tune: !typed.no_tune,
            json: typed.json,
            inject: typed.inject,
        })
    }
}
