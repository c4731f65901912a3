//! Which model, as `train`, `bench train` and `model show` take it.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::nn::zoo::{self, Activation, Choice, Options};
use crate::{Error, Result};

/// What is said about a model beside its name.
#[derive(Args)]
pub(super) struct ModelArgs {
    /// A TOML file that lists the model's layers, instead of a name (see `phalanx help model show`).
    #[arg(long, value_name = "FILE")]
    model_file: Option<PathBuf>,
    /// What follows the hidden layers of mlp and lenet [default: relu].
    #[arg(long, value_enum)]
    activation: Option<ActivationArg>,
    /// Give alexnet the local response normalisation that it had at first.
    #[arg(long)]
    response_norm: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum ActivationArg {
    Relu,
    Tanh,
}

impl ModelArgs {
    /// The model called `name`, or that of the file.
    pub(super) fn resolve(self, name: Option<String>) -> Result<Choice> {
        let options = Options {
            activation: self.activation.map(|activation| match activation {
                ActivationArg::Relu => Activation::Relu,
                ActivationArg::Tanh => Activation::Tanh,
            }),
            response_norm: self.response_norm,
        };
        match (self.model_file, name) {
            (Some(_), _) if options != Options::default() => Err(Error::Usage(
                "--activation and --response-norm are for models with a name: write the layers into the file".into(),
            )),
            (Some(path), _) => Ok(Choice::File(path)),
            (None, Some(name)) => {
                let choice = Choice::Named(name, options);
                choice.spec()?;
                Ok(choice)
            }
            (None, None) => Err(Error::Usage("give a model or a --model-file".into())),
        }
    }
}

/// A model's name.
pub(super) fn name(text: &str) -> Result<String, String> {
    if zoo::NAMES.contains(&text) {
        return Ok(text.into());
    }
    let names = zoo::NAMES.join(", ");
    let hint = if text.ends_with(".toml") {
        format!("; a file is given as --model-file {text}")
    } else {
        String::new()
    };
    Err(format!("expected one of {names}{hint}"))
}
