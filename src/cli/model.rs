//! `phalanx model`.

use clap::Subcommand;

use super::choice::{self, ModelArgs};
use super::data::shape;
use super::positive;
use crate::Result;
use crate::commands::model::Settings;
use crate::data::Shape;

/// Look at models.
#[derive(Subcommand)]
pub(super) enum ModelCommand {
    /// Print a model's layers, shapes, parameters, work and memory.
    ///
    /// A --model-file is TOML. It gives a `name` and a list of layers, each `[[layer]]` with a `kind`: conv2d (outputs, kernel, stride,
    /// pad), linear (outputs; the last one without), max_pool and average_pool (kernel, stride, pad), global_average_pool,
    /// batch_norm (momentum, eps, across_ranks), local_response (size, alpha, beta, k), dropout (rate), flatten, relu, tanh.
    Show {
        /// The model: softmax, mlp, lenet, alexnet or flowers; left out with --model-file.
        #[arg(value_parser = choice::name, required_unless_present = "model_file", conflicts_with = "model_file")]
        model: Option<String>,
        #[command(flatten)]
        choice: ModelArgs,
        /// Channels, height and width of an image [default: what the model was made for].
        #[arg(long, value_name = "CxHxW", value_parser = shape)]
        input: Option<Shape>,
        /// Number of classes [default: what the model was made for].
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        classes: Option<u32>,
        /// Samples that a rank takes in a step.
        #[arg(long, value_name = "N", default_value = "100", value_parser = positive)]
        batch: usize,
    },
}

impl ModelCommand {
    pub(super) fn resolve(self) -> Result<Settings> {
        let Self::Show {
            model,
            choice,
            input,
            classes,
            batch,
        } = self;
        let model = choice.resolve(model)?;
        let (home, many) = model.home();
        Ok(Settings {
            model,
            input: input.unwrap_or(home),
            classes: classes.unwrap_or(many),
            batch,
        })
    }
}
