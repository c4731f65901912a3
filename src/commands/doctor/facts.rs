//! What is known about a set-up: all that advice is made from.

use serde::{Deserialize, Serialize};

use super::latency::Latency;
use super::machine::Host;
use super::speed::Speed;
use super::trials::Trials;
use crate::comm::{Comm, Library, Start, cores, lenient, parameter, window_component};
use crate::h5;

/// Everything.
#[derive(Clone, Debug, Serialize)]
pub struct Facts {
    /// How the first rank was started.
    pub start: Start,
    /// The MPI library.
    pub library: Library,
    /// How it is set up.
    pub setup: Setup,
    /// Each rank, in order.
    pub ranks: Vec<Rank>,
    /// Each host, in the order of their first ranks.
    pub hosts: Vec<Host>,
    /// What one rank alone can do.
    pub speed: Speed,
    /// Whether sums are exact.
    pub trials: Trials,
    /// How long ranks take to meet.
    pub latency: Latency,
    /// The version of HDF5.
    pub hdf5: String,
    /// `HDF5_USE_FILE_LOCKING`, where set.
    pub locking: Option<String>,
}

/// How MPI is set up, as far as it tells.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Setup {
    /// What serves windows over all ranks.
    pub windows: Option<String>,
    /// Whether a rank that waits lets others have its core.
    pub yields: Option<bool>,
    /// Open MPI's choice of one-sided components.
    pub osc: Option<String>,
    /// Open MPI's choice of layers for messages.
    pub pml: Option<String>,
    /// Open MPI's choice of transports.
    pub btl: Option<String>,
    /// Bytes of a message that goes through shared memory in one copy.
    pub eager: Option<String>,
}

impl Setup {
    /// Asks MPI; *collective*.
    fn ask() -> Self {
        let flag = |name: &str| parameter(name).map(|value| value != "0");
        Self {
            windows: lenient(window_component),
            // MPICH looks so many times before it yields; zero means never.
            yields: flag("mpi_yield_when_idle").or_else(|| flag("MPIR_CVAR_POLLS_BEFORE_YIELD")),
            osc: parameter("osc"),
            pml: parameter("pml"),
            btl: parameter("btl"),
            eager: parameter("btl_vader_eager_limit"),
        }
    }
}

/// One rank.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Rank {
    /// Its host.
    pub host: String,
    /// Its number on its host.
    pub local: usize,
    /// The cores that it may use, as the system lists them.
    pub cpus: String,
    /// How many they are, divided by the ranks that may use the same ones.
    pub cores: f64,
    /// GB/s that it reads and writes while all ranks copy.
    pub copy: f64,
    /// GFLOP/s that it reaches while all ranks compute.
    pub gflops: f64,
}

impl Facts {
    /// Reads what can be read; *collective*.
    pub(super) fn gather(comm: &dyn Comm, start: &Start) -> Self {
        let host = Host::read();
        let mine = Rank {
            host: host.name.clone(),
            local: comm.local_rank(),
            cpus: super::machine::allowed_cpus(),
            cores: cores(comm),
            copy: 0.0,
            gflops: 0.0,
        };
        let ranks: Vec<Rank> = all(comm, Some(&mine));
        let first = (comm.local_rank() == 0).then_some(&host);
        Self {
            start: start.clone(),
            library: Library::ask(),
            setup: Setup::ask(),
            ranks,
            hosts: all(comm, first),
            speed: Speed::default(),
            trials: Trials::default(),
            latency: Latency::default(),
            hdf5: h5::version(),
            locking: std::env::var("HDF5_USE_FILE_LOCKING").ok(),
        }
    }

    /// Ranks that the world has.
    pub fn size(&self) -> usize {
        self.ranks.len()
    }

    /// Whether ranks have less than a core each, somewhere.
    pub fn crowded(&self) -> bool {
        self.ranks.iter().any(|rank| rank.cores < 1.0)
    }
}

/// What ranks have to say, in their order, without those that say nothing; *collective*.
pub(super) fn all<T: Serialize + for<'a> Deserialize<'a>>(
    comm: &dyn Comm,
    mine: Option<&T>,
) -> Vec<T> {
    let bytes = mine.map(|mine| serde_json::to_vec(mine).expect("plain values"));
    let all = comm.gather(&bytes.unwrap_or_default());
    let said = all.iter().filter(|bytes| !bytes.is_empty());
    said.map(|bytes| serde_json::from_slice(bytes).expect("what a rank of this program wrote"))
        .collect()
}
