//! `phalanx predict` and `phalanx inspect`.

use std::path::PathBuf;

use clap::Args;

use super::positive;
use crate::commands::{inspect, predict};

/// The probability of label 1 for each row, by a sparse model; under mpirun, with all its ranks.
///
/// Writes a line for each row, in their order, and tells on stderr how predictions and labels agree.
#[derive(Args)]
pub(super) struct Predict {
    /// The run folder that `phalanx train sparse` wrote.
    run: PathBuf,
    /// The rows.
    data: PathBuf,
    /// The file to write [default: stdout].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace an existing file.
    #[arg(long)]
    force: bool,
}

impl Predict {
    pub(super) fn resolve(self) -> predict::Settings {
        predict::Settings {
            run: self.run,
            data: self.data,
            out: self.out,
            force: self.force,
        }
    }
}

/// The largest weights of a sparse model, with the names of features where the import kept them.
#[derive(Args)]
pub(super) struct Inspect {
    /// The run folder that `phalanx train sparse` wrote.
    run: PathBuf,
    /// How many of each sign to show.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = positive)]
    top: usize,
    /// The set that has the names [default: the one that was trained on].
    #[arg(long, value_name = "DATA")]
    data: Option<PathBuf>,
    /// Print one line of JSON instead of tables.
    #[arg(long)]
    json: bool,
}

impl Inspect {
    pub(super) fn resolve(self) -> inspect::Settings {
        inspect::Settings {
            run: self.run,
            top: self.top,
            data: self.data,
            json: self.json,
        }
    }
}
