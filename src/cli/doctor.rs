//! `phalanx doctor`.

use clap::Args;

use crate::comm::Start;
use crate::commands::doctor::Settings;

/// Tell what this machine and its MPI offer, test it, and say what to change; alone, or under mpirun with any ranks.
///
/// Shows MPI and how the ranks were started, their hosts and cores, memory, CPU and storage, and tests that concurrent
/// one-sided additions are exact and how long ranks take to meet. Each line is good, a note (slower than it could be) or a
/// problem. Takes some seconds. Exit code 1 if a test went wrong or MPI does not bring the ranks together, else 0.
#[derive(Args)]
pub(super) struct Doctor {
    /// Print one JSON object instead of tables.
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub(super) fn resolve(self, start: &Start) -> Settings {
        Settings {
            json: self.json,
            start: start.clone(),
        }
    }
}
