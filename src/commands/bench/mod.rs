//! `phalanx bench`: speed in a steady state.

pub mod costs;
pub mod exchange;
pub mod input;
pub mod kernels;
mod layers;
pub mod matmul;
mod row;
mod set;
pub mod sparse;
mod steady;
pub mod train;

use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use crate::comm::{Comm, Shared};
use crate::{Error, Result};

/// What to measure.
pub enum Settings {
    /// Training.
    Train(train::Settings),
    /// How ranks agree, without training.
    Exchange(exchange::Settings),
    /// Sparse training.
    Sparse(sparse::Settings),
    /// Products of matrices.
    Matmul(matmul::Settings),
    /// Kernels of a GPU.
    Kernels(kernels::Settings),
    /// How photos become batches.
    Input(Box<input::Settings>),
}

/// Measures and prints; *collective*.
pub fn run(comm: &dyn Comm, settings: &Settings) -> Result<()> {
    match settings {
        Settings::Train(settings) => train::run(comm, settings),
        Settings::Exchange(settings) => exchange::run(comm, settings),
        Settings::Sparse(settings) => sparse::run(comm, settings),
        Settings::Matmul(settings) => matmul::run(comm, settings),
        Settings::Kernels(settings) => kernels::run(comm, settings),
        Settings::Input(settings) => input::run(comm, settings),
    }
}

/// The middle one of some values; no number if there are none.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    crate::study::median(values.collect()).unwrap_or(f64::NAN)
}

/// The numbers of ranks to measure with; without any, all.
fn check_ranks(comm: &dyn Comm, asked: &[usize]) -> Result<Vec<usize>> {
    let most = asked.iter().max();
    if let Some(most) = most.filter(|&&most| most > comm.size()) {
        let problem = format!(
            "--ranks {most} needs as many: start this under mpirun -n {most}, not {}",
            comm.size()
        );
        return Err(Error::Usage(problem));
    }
    Ok(match asked {
        [] => vec![comm.size()],
        ranks => ranks.to_vec(),
    })
}

/// The greatest of the ranks' numbers; *collective*.
fn agreed(comm: &dyn Comm, mine: u64) -> u64 {
    let mut number = [mine];
    comm.max(&mut number);
    number[0]
}

/// Where ranks that do not take part in a measurement wait for the others: asleep, where all are on one node, because in a
/// barrier they would take a core.
struct Waiting<'c> {
    comm: &'c dyn Comm,
    /// Measurements that are over.
    over: Option<Shared>,
    waited: u32,
}

impl<'c> Waiting<'c> {
    /// *Collective*.
    fn new(comm: &'c dyn Comm) -> Result<Self> {
        let one_node = comm.local_size() == comm.size();
        let over = one_node.then(|| comm.shared(1)).transpose()?;
        Ok(Self {
            comm,
            over,
            waited: 0,
        })
    }

    /// Returns once every rank is here, the first of which takes part in every measurement.
    fn for_all(&mut self) {
        self.waited += 1;
        if let Some(over) = &self.over {
            let over = &over.of(0)[0];
            if self.comm.rank() == 0 {
                over.store(self.waited, Ordering::Release);
            }
            while over.load(Ordering::Acquire) < self.waited {
                thread::sleep(Duration::from_millis(5));
            }
        }
        self.comm.barrier();
    }

    /// Gives the memory back; *collective*.
    fn close(self) -> Result<()> {
        self.over.map_or(Ok(()), Shared::close)
    }
}
