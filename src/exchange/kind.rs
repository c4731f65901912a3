//! The exchanges by name.

use super::{AllReduce, Exchange, NodeShared, OneSided, Placement};
use crate::comm::Comm;
use crate::{Error, Result};

/// How ranks agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Synchronous: node-shared where all ranks are on one node, else all-reduce.
    Auto,
    /// Synchronous, through shared memory of one node.
    NodeShared,
    /// Synchronous, by messages.
    AllReduce,
    /// Asynchronous.
    OneSided(Placement),
}

impl Kind {
    /// What it is for these ranks.
    pub fn resolve(self, comm: &dyn Comm) -> Result<Self> {
        let one_node = comm.local_size() == comm.size();
        match self {
            Self::Auto if one_node => Ok(Self::NodeShared),
            Self::Auto => Ok(Self::AllReduce),
            Self::NodeShared if !one_node => {
                let problem = "--exchange node-shared needs all ranks on one node: use all-reduce";
                Err(Error::Usage(problem.into()))
            }
            other => Ok(other),
        }
    }

    /// As the user reads it.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Auto => "chosen when the ranks are known",
            Self::NodeShared => "node-shared (synchronous, in shared memory)",
            Self::AllReduce => "all-reduce (synchronous, by messages)",
            Self::OneSided(Placement::Sharded) => {
                "one-sided (asynchronous), parameters sharded over all ranks"
            }
            Self::OneSided(Placement::Rank0) => "one-sided (asynchronous), parameters on rank 0",
        }
    }

    /// Whether all ranks take a step together, each with a part of its batch.
    pub fn is_synchronous(self) -> bool {
        !matches!(self, Self::OneSided(_))
    }

    /// Starts the exchange from `params`, equal on every rank; *collective*.
    pub fn start<'c>(self, comm: &'c dyn Comm, params: Vec<f32>) -> Result<Box<dyn Exchange + 'c>> {
        Ok(match self.resolve(comm)? {
            Self::NodeShared => Box::new(NodeShared::new(comm, &params)?),
            Self::Auto | Self::AllReduce => Box::new(AllReduce::new(comm, params)),
            Self::OneSided(placement) => Box::new(OneSided::new(comm, placement, params)?),
        })
    }
}
