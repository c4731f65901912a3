//! `phalanx replay`.

use std::path::PathBuf;

use clap::Args;

use crate::commands::replay::Settings;

/// Repeat a recorded asynchronous run on one rank, update by update, and compare the parameters bit for bit.
///
/// The run must have been trained with --record, and its data must still be where it was. Every rank's updates are made again
/// from the same samples and the same parameters, in the order in which they were made: what was wrong then is wrong again,
/// and can be looked at.
#[derive(Args)]
pub(super) struct Replay {
    /// The run folder.
    run: PathBuf,
    /// Write the model that results to this file.
    #[arg(long, value_name = "MODEL")]
    out: Option<PathBuf>,
}

impl Replay {
    pub(super) fn resolve(self) -> Settings {
        Settings {
            run: self.run,
            out: self.out,
        }
    }
}
