//! `phalanx eval`.

use std::path::PathBuf;

use clap::Args;

use super::device::DeviceArgs;
use super::export::FitChoice;
use super::threads;
use crate::commands::eval::Settings;

/// Loss and accuracy of a trained model on a data set.
#[derive(Args)]
pub(super) struct Eval {
    /// The run folder that `phalanx train` wrote.
    run: PathBuf,
    /// The data set, or a folder of photos with a folder for each class.
    data: PathBuf,
    /// What becomes of photos with other proportions than the model's [default: what became of those that it was trained on].
    #[arg(long, value_enum)]
    fit: Option<FitChoice>,
    /// Threads that each rank splits its samples over.
    #[arg(long, value_name = "T", default_value_t = 1, value_parser = threads)]
    threads: usize,
    #[command(flatten)]
    device: DeviceArgs,
    /// Print one line of JSON instead of a table.
    #[arg(long)]
    json: bool,
}

impl Eval {
    pub(super) fn resolve(self) -> Settings {
        Settings {
            run: self.run,
            data: self.data,
            fit: self.fit.map(FitChoice::resolve),
            threads: self.threads,
            device: self.device.resolve(),
            json: self.json,
        }
    }
}
