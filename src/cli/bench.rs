//! `phalanx bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::choice::{self, ModelArgs};
use super::train::{ExchangeArg, PlacementArg, exchange};
use super::{positive, positive_real};
use crate::Result;
use crate::commands::bench::Settings;

/// Measure speed in a steady state.
#[derive(Subcommand)]
pub(super) enum Bench {
    Train(BenchTrain),
}

/// Samples a second of training; start it under mpirun with the ranks to measure.
#[derive(Args)]
pub(super) struct BenchTrain {
    /// The model: softmax, mlp, lenet, alexnet or flowers [default: softmax].
    #[arg(long, value_name = "MODEL", value_parser = choice::name, conflicts_with = "model_file")]
    model: Option<String>,
    #[command(flatten)]
    choice: ModelArgs,
    /// The data set [default: 60,000 drawn digits, made for the purpose and removed].
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Samples that each rank takes in a step.
    #[arg(long, value_name = "N", default_value = "100", value_parser = positive)]
    batch: usize,
    /// How ranks agree.
    #[arg(long, value_enum, default_value_t = ExchangeArg::Auto)]
    exchange: ExchangeArg,
    /// Who holds the parameters of a one-sided exchange.
    #[arg(long, value_enum, default_value_t = PlacementArg::Sharded)]
    placement: PlacementArg,
    /// How long to measure, after a quarter of it to warm up.
    #[arg(long, value_name = "S", default_value = "5", value_parser = positive_real)]
    seconds: f64,
    /// Print one line of JSON instead of a table.
    #[arg(long)]
    json: bool,
}

impl Bench {
    pub(super) fn resolve(self) -> Result<Settings> {
        let Self::Train(typed) = self;
        Ok(Settings {
            model: typed
                .choice
                .resolve(typed.model.or(Some("softmax".into())))?,
            data: typed.data,
            batch: typed.batch,
            exchange: exchange(typed.exchange, typed.placement)?,
            seconds: typed.seconds,
            json: typed.json,
        })
    }
}
