//! `phalanx top`.

use std::path::PathBuf;

use clap::Args;

use crate::commands::top::Settings;

/// Show what the ranks of a run do at this moment: step, samples/s, phase, CPU, memory and where their time goes.
///
/// Reads what each rank writes into the run folder once a second (unless it trains with --resources off), from any machine that
/// sees the folder. On a terminal the view is alive: q ends it, arrows go through the ranks. A run that has ended, failed or was
/// killed is told, the latter two with exit code 1.
#[derive(Args)]
pub(super) struct Top {
    /// The run folder.
    run: PathBuf,
    /// Print the table once and end; so it does where stdout is no terminal.
    #[arg(long)]
    once: bool,
}

impl Top {
    pub(super) fn resolve(self) -> Settings {
        Settings {
            run: self.run,
            once: self.once,
        }
    }
}
