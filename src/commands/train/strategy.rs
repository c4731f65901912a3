//! Ways to share training by the names that people know.

use std::fmt;

use crate::comm::Comm;
use crate::{Error, Result};

/// A way to share training: which exchange, who holds parameters, and what a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// One rank.
    OneDevice,
    /// The ranks of one node, in step.
    Mirrored,
    /// Ranks of any nodes, in step.
    MultiWorker,
    /// Each rank by itself, with parameters on rank 0.
    ParameterServer,
}

impl Strategy {
    /// Whether `--batch` is that of all ranks together, as where the names are from.
    pub fn splits_batch(self) -> bool {
        self != Self::ParameterServer
    }

    /// What to type for it.
    fn name(self) -> &'static str {
        match self {
            Self::OneDevice => "one-device",
            Self::Mirrored => "mirrored",
            Self::MultiWorker => "multi-worker",
            Self::ParameterServer => "parameter-server",
        }
    }

    /// Refuses ranks that it is not for; *collective*.
    pub(super) fn check(self, comm: &dyn Comm) -> Result<()> {
        let ranks = comm.size();
        let mut apart = [u64::from(comm.local_size() < ranks)];
        comm.max(&mut apart);
        let problem = match self {
            Self::OneDevice if ranks > 1 => {
                format!("is for one rank, and {ranks} were started: take mirrored, or start one")
            }
            Self::Mirrored if apart[0] > 0 => {
                "is for the ranks of one node, and these are on several: take multi-worker".into()
            }
            _ => return Ok(()),
        };
        Err(Error::Usage(format!(
            "--strategy {} {problem}",
            self.name()
        )))
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let meaning = match self {
            Self::OneDevice => "a rank by itself: nothing is exchanged",
            Self::Mirrored => {
                "every rank of the node has the model; they split each batch and agree every step in shared memory"
            }
            Self::MultiWorker => {
                "every rank has the model; they split each batch and agree every step, the faster way of those measured at the start"
            }
            Self::ParameterServer => {
                "rank 0 holds the parameters; each rank takes batches of its own, and nobody waits"
            }
        };
        write!(f, "{}: {meaning}", self.name())
    }
}
