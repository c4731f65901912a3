//! The exchanges by name.

use std::path::Path;
use std::rc::Rc;

use super::{
    AllReduce, Averaging, Backup, Exchange, Freedom, Local, NodeShared, OnDevice, OneSided,
    Placement,
};
use crate::backend::cuda::Stream;
use crate::comm::Comm;
use crate::{Error, Result};

/// How ranks agree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Synchronous: whichever is found to be the fastest.
    Auto,
    /// Synchronous, through shared memory of each node, and by messages between nodes.
    NodeShared,
    /// Synchronous, by messages.
    AllReduce,
    /// Synchronous, by messages that a second thread sends while gradients are still computed.
    Overlapped,
    /// Synchronous, with parameters, gradients and optimizer on the ranks' devices.
    OnDevice,
    /// Synchronous, by the first ranks that are ready.
    Backup {
        /// How many.
        take: usize,
        /// Of how many.
        of: usize,
    },
    /// Asynchronous.
    OneSided(Freedom),
    /// Each rank by itself, with parameters averaged now and then.
    Local(Averaging),
}

/// What an exchange starts with besides parameters.
#[derive(Clone, Default)]
pub struct Start<'a> {
    /// Parts of a step's samples that are summed by one tree, whatever the number of ranks.
    pub shards: Option<usize>,
    /// Values that the optimizer remembers of each parameter.
    pub state: usize,
    /// Sums that it must know before an update.
    pub sums: usize,
    /// The stream of a device that parameters are to stay on, with [`Kind::OnDevice`].
    pub stream: Option<Rc<Stream>>,
    /// The folder in which every update of an asynchronous run is recorded.
    pub record: Option<&'a Path>,
    /// Steps that a run had taken which goes on here.
    pub first: u64,
}

impl Kind {
    /// Refuses what these ranks cannot do; *collective*.
    pub fn check(self, comm: &dyn Comm, shards: Option<usize>) -> Result<()> {
        let one_node = comm.local_size() == comm.size();
        let (ranks, usage) = (comm.size(), |problem: String| Err(Error::Usage(problem)));
        if let Self::Backup { take, of } = self {
            if of != ranks {
                return usage(format!(
                    "--aggregate {take}-of-{of}: there are {ranks} ranks"
                ));
            }
            if !one_node {
                return usage("--aggregate needs all ranks on one node".into());
            }
        }
        if let Self::OneSided(Freedom { racy: true, .. }) = self
            && !one_node
        {
            return usage("--racy needs all ranks on one node".into());
        }
        let Some(shards) = shards else {
            return Ok(());
        };
        if !shards.is_multiple_of(ranks) {
            return usage(format!(
                "--reproducible divides a step into {shards} shards, and {ranks} ranks cannot share them equally: use {}, or \
                 other --virtual-shards",
                powers(shards)
            ));
        }
        let each = comm.local_size();
        let mut odd = [u64::from(
            !ranks.is_multiple_of(each) || comm.local_rank() != comm.rank() % each,
        )];
        comm.max(&mut odd);
        let mut most = [each as u64, (ranks - each) as u64];
        comm.max(&mut most);
        if odd[0] > 0 || most[0] + most[1] != ranks as u64 {
            let problem = "--reproducible on several nodes needs as many ranks on each, numbered node by node: mpirun --map-by slot";
            return usage(problem.into());
        }
        Ok(())
    }

    /// As the user reads it.
    pub fn describe(self) -> String {
        match self {
            Self::Auto => "chosen by measurement".into(),
            Self::NodeShared => "node-shared (synchronous, in shared memory)".into(),
            Self::AllReduce => "all-reduce (synchronous, by messages)".into(),
            Self::Overlapped => {
                "all-reduce (synchronous, by messages), overlapped with the backward pass".into()
            }
            Self::OnDevice => {
                "on the devices (synchronous; parameters and optimizer stay there)".into()
            }
            Self::Backup { take, of } => {
                format!("backup (synchronous, the first {take} of {of} gradients of each step)")
            }
            Self::OneSided(freedom) => freedom.describe(),
            Self::Local(averaging) => averaging.describe(),
        }
    }

    /// The name of one that a measurement may choose.
    pub fn chosen_name(self) -> Option<&'static str> {
        match self {
            Self::NodeShared => Some("node-shared"),
            Self::AllReduce => Some("all-reduce"),
            _ => None,
        }
    }

    /// What `chosen_name` names.
    pub fn of_chosen(name: &str) -> Option<Self> {
        let all = [Self::NodeShared, Self::AllReduce];
        all.into_iter()
            .find(|kind| kind.chosen_name() == Some(name))
    }

    /// Whether all ranks take a step together, each with a part of its batch.
    pub fn is_synchronous(self) -> bool {
        !matches!(self, Self::OneSided(_) | Self::Local(_))
    }

    /// Whether ranks wait for each other at every step, so that they can decide together.
    pub fn is_lockstep(self) -> bool {
        matches!(
            self,
            Self::Auto | Self::NodeShared | Self::AllReduce | Self::Overlapped | Self::OnDevice
        )
    }

    /// What counts as claimed by each of so many ranks when a run goes on that had taken `first` steps.
    pub fn claimed(self, first: u64, ranks: usize) -> u64 {
        match self {
            Self::OneSided(_) | Self::Local(_) => first / ranks as u64,
            _ => first,
        }
    }

    /// Whether ranks hear each other's votes at steps that they take together.
    pub fn hears_votes(self) -> bool {
        self.is_lockstep() || matches!(self, Self::Local(_))
    }

    /// A free-running asynchronous exchange.
    pub fn one_sided(placement: Placement) -> Self {
        Self::OneSided(Freedom {
            placement,
            ..Freedom::default()
        })
    }

    /// Starts the exchange from `params`, equal on every rank; *collective*.
    pub fn start<'c>(
        self,
        comm: &'c dyn Comm,
        params: Vec<f32>,
        start: Start,
    ) -> Result<Box<dyn Exchange + 'c>> {
        self.check(comm, start.shards)?;
        Ok(match self {
            Self::Auto | Self::NodeShared => Box::new(NodeShared::new(comm, params, start.shards)?),
            Self::AllReduce => Box::new(AllReduce::new(comm, params, start.shards)),
            Self::Overlapped => Box::new(AllReduce::overlapped(comm, params)?),
            Self::OnDevice => Box::new(OnDevice::new(comm, params, start)?),
            Self::Backup { take, .. } => Box::new(Backup::new(comm, &params, take, &start)?),
            Self::OneSided(freedom) => Box::new(OneSided::new(comm, freedom, params, start)?),
            Self::Local(averaging) => Box::new(Local::new(comm, averaging, params)),
        })
    }
}

/// The powers of two up to `most`, in words.
fn powers(most: usize) -> String {
    let powers = std::iter::successors(Some(1), |n| Some(2 * n)).take_while(|&n| n <= most);
    let mut words: Vec<String> = powers.map(|n| n.to_string()).collect();
    match words.pop() {
        Some(last) if !words.is_empty() => format!("{} or {last}", words.join(", ")),
        last => last.unwrap_or_default(),
    }
}
