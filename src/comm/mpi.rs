//! `Comm` over an MPI communicator, and the start and end of the job.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::io::Write;
use std::rc::Rc;
use std::time::Duration;

use mpi::Threading;
use mpi::collective::SystemOperation;
use mpi::datatype::{Partition, PartitionMut};
use mpi::environment::Universe;
use mpi::topology::{Color, SimpleCommunicator};
use mpi::traits::*;

use super::{Comm, Counters, Data, Op, Shared, Window, on_device, rma};
use crate::backend::cuda::{View, ViewMut};
use crate::{Error, Result, interrupt};

/// How long a process waits that ends without MPI's end, for others to be out of MPI.
const GRACE: Duration = Duration::from_millis(500);
/// How long `MPI_Finalize` may take where it may take for ever.
const PATIENCE: Duration = Duration::from_secs(5);
/// Elements handed to MPI in one call: its counts are C ints.
const MOST: usize = 1 << 30;

/// Open MPI's parameters that phalanx sets unless the user did; other MPIs do not read them.
pub(super) const PREFERRED: [(&str, &str); 2] = [
    // Debian disables the one component that serves windows between hosts without special hardware.
    ("OMPI_MCA_osc", "^ucx"),
    // Inside a node, messages up to this size are copied through shared memory at once. The default of 4 KiB makes an
    // all-reduce of a small model (31 KB) a negotiation with system calls, more than twice as slow.
    ("OMPI_MCA_btl_vader_eager_limit", "65536"),
];

/// Variables by which Open MPI takes a process for a task of srun. It then insists on a PMI, and ends the process where srun offers
/// none: also one that was started alone, as by `srun -n 1` or in a shell of `salloc`.
const STEP: [&str; 2] = ["SLURM_STEP_ID", "SLURM_STEPID"];
/// Variables that a PMI sets.
const PMI: [&str; 3] = ["PMIX_RANK", "PMI_RANK", "PMI_FD"];

/// The ranks of an MPI communicator.
pub struct MpiComm {
    comm: SimpleCommunicator,
    local: (usize, usize),
    /// What a reduction sends from: rsmpi offers no reduction in place.
    scratch: RefCell<Scratch>,
    /// Last, so that MPI ends after everything that lives in it.
    universe: Rc<Universe>,
}

#[derive(Default)]
struct Scratch {
    f32: Vec<f32>,
    f64: Vec<f64>,
    u64: Vec<u64>,
}

impl MpiComm {
    /// Starts MPI and gives the world of all ranks. From here on a panic on any rank ends the job.
    pub fn start() -> Result<Self> {
        for (name, value) in PREFERRED {
            if std::env::var_os(name).is_none() {
                // SAFETY: called by the main thread, before there is another one that reads or sets variables.
                unsafe { std::env::set_var(name, value) };
            }
        }
        if PMI.iter().all(|name| std::env::var_os(name).is_none()) {
            // SAFETY: as above.
            STEP.iter()
                .for_each(|name| unsafe { std::env::remove_var(name) });
        }
        let (universe, _) = mpi::initialize_with_threading(Threading::Serialized)
            .ok_or_else(|| Error::Usage("MPI was started twice in one process".into()))?;
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            print(info);
            abort(1);
        }));
        Ok(Self::wrap(universe.world(), Rc::new(universe)))
    }

    /// Ends MPI once every rank is done; *collective*.
    ///
    /// MPICH before 4.2 may stay in `MPI_Finalize` for ever where several nodes speak through UCX: to close a connection
    /// it needs an answer of the other rank, which may wait for all ranks already and then gives none. There, processes
    /// end without it after a while; not at once, because MPICH's mpiexec kills the other ranks of a node when one has
    /// ended so.
    pub fn finish(self, code: u8) {
        // Of processes that end so, the first may take the others along: what they have to say must be said.
        let _ = std::io::stdout().flush();
        self.barrier();
        let library = mpi::environment::library_version().unwrap_or_default();
        if self.size() > self.local_size() && may_hang_at_end(&library) {
            // The others may still be on their way out of the barrier, and would take a closed connection for a failure.
            std::thread::sleep(GRACE);
            let leave = move || {
                std::thread::sleep(PATIENCE);
                interrupt::leave(code);
            };
            let started = std::thread::Builder::new().spawn(leave);
            if started.is_err() {
                interrupt::leave(code);
            }
        }
    }

    fn wrap(comm: SimpleCommunicator, universe: Rc<Universe>) -> Self {
        let node = comm.split_shared(comm.rank());
        Self {
            local: (node.rank() as usize, node.size() as usize),
            comm,
            scratch: RefCell::default(),
            universe,
        }
    }

    fn reduce<T: Equivalence + Copy>(&self, values: &mut [T], scratch: &mut Vec<T>, op: Op) {
        if self.size() == 1 {
            return;
        }
        let op = match op {
            Op::Sum => SystemOperation::sum(),
            Op::Max => SystemOperation::max(),
        };
        for part in values.chunks_mut(MOST) {
            scratch.clear();
            scratch.extend_from_slice(part);
            self.comm.all_reduce_into(&scratch[..], part, op);
        }
    }

    fn swap<T: Equivalence + Copy>(&self, values: &mut [T], scratch: &mut Vec<T>, peer: usize) {
        let peer = self.comm.process_at_rank(peer as i32);
        for part in values.chunks_mut(MOST) {
            scratch.clear();
            scratch.extend_from_slice(part);
            mpi::point_to_point::send_receive_into(&scratch[..], &peer, part, &peer);
        }
    }

    fn copy<T: Equivalence>(&self, values: &mut [T], root: usize) {
        let root = self.comm.process_at_rank(root as i32);
        for part in values.chunks_mut(MOST) {
            root.broadcast_into(part);
        }
    }
}

/// Counts of parts as MPI takes them, and where each part begins.
fn layout(counts: &[u64]) -> (Vec<i32>, Vec<i32>) {
    let all = counts.iter().sum::<u64>();
    assert!(all <= MOST as u64, "a step's words are far below 4 GiB");
    let counts: Vec<i32> = counts.iter().map(|&count| count as i32).collect();
    let starts = starts(&counts);
    (counts, starts)
}

/// Where each part begins.
fn starts(counts: &[i32]) -> Vec<i32> {
    let begin = |next: &mut i32, &count: &i32| Some(std::mem::replace(next, *next + count));
    counts.iter().scan(0, begin).collect()
}

/// Whether `library`, as MPI describes itself, is MPICH before 4.2.
fn may_hang_at_end(library: &str) -> bool {
    let mut words = library.split_whitespace();
    if words.next() != Some("MPICH") {
        return false;
    }
    let mut numbers = words.nth(1).unwrap_or_default().split('.');
    let mut number = || numbers.next()?.parse().ok();
    (number(), number()) < (Some(4), Some(2))
}

/// Whether a thread other than the first may call MPI, while the first does not; so also where there is no MPI.
pub(super) fn other_threads_may_talk() -> bool {
    !mpi::environment::is_initialized()
        || mpi::environment::threading_support() >= Threading::Serialized
}

/// Ends every rank of the job: a rank that cannot go on must not leave its peers waiting.
pub fn abort(code: u8) -> ! {
    if mpi::environment::is_initialized() && !mpi::environment::is_finalized() {
        SimpleCommunicator::world().abort(i32::from(code));
    }
    std::process::exit(i32::from(code))
}

impl Comm for MpiComm {
    fn rank(&self) -> usize {
        self.comm.rank() as usize
    }

    fn size(&self) -> usize {
        self.comm.size() as usize
    }

    fn local_rank(&self) -> usize {
        self.local.0
    }

    fn local_size(&self) -> usize {
        self.local.1
    }

    fn barrier(&self) {
        self.comm.barrier();
    }

    fn all_reduce(&self, data: Data, op: Op) {
        let scratch = &mut *self.scratch.borrow_mut();
        match data {
            Data::F32(values) => self.reduce(values, &mut scratch.f32, op),
            Data::F64(values) => self.reduce(values, &mut scratch.f64, op),
            Data::U64(values) => self.reduce(values, &mut scratch.u64, op),
        }
    }

    fn sums_on_devices(&self) -> bool {
        on_device::supported()
    }

    fn sum_on_device(&self, from: View<f32>, to: ViewMut<f32>) -> Result<()> {
        on_device::sum(self.comm.as_raw(), from, to)
    }

    fn broadcast_data(&self, data: Data, root: usize) {
        match data {
            Data::F32(values) => self.copy(values, root),
            Data::F64(values) => self.copy(values, root),
            Data::U64(values) => self.copy(values, root),
        }
    }

    fn swap_data(&self, data: Data, peer: usize) {
        let scratch = &mut *self.scratch.borrow_mut();
        match data {
            Data::F32(values) => self.swap(values, &mut scratch.f32, peer),
            Data::F64(values) => self.swap(values, &mut scratch.f64, peer),
            Data::U64(values) => self.swap(values, &mut scratch.u64, peer),
        }
    }

    fn gather(&self, mine: &[u8]) -> Vec<Vec<u8>> {
        let mut counts = vec![0i32; self.size()];
        let count = i32::try_from(mine.len()).expect("gathered messages are far below 2 GiB");
        self.comm.all_gather_into(&count, &mut counts[..]);
        let starts = starts(&counts);
        let mut all = vec![0u8; counts.iter().map(|&count| count as usize).sum()];
        // Open MPI refuses to gather nothing at all.
        if !all.is_empty() {
            let mut parts = PartitionMut::new(&mut all[..], &counts[..], &starts[..]);
            self.comm.all_gather_varcount_into(mine, &mut parts);
        }
        let part =
            |(&start, &count): (&i32, &i32)| all[start as usize..][..count as usize].to_vec();
        starts.iter().zip(&counts).map(part).collect()
    }

    fn deal_counts(&self, mine: &[u64]) -> Vec<u64> {
        let mut got = vec![0u64; self.size()];
        self.comm.all_to_all_into(mine, &mut got[..]);
        got
    }

    fn deal(&self, words: &[u32], counts: &[u64], from: &[u64], got: &mut Vec<u32>) {
        let total: u64 = from.iter().sum();
        got.resize(total as usize, 0);
        if self.size() == 1 {
            return got.copy_from_slice(words);
        }
        let (counts, starts) = layout(counts);
        let (from, places) = layout(from);
        let parts = Partition::new(words, &counts[..], &starts[..]);
        let mut into = PartitionMut::new(&mut got[..], &from[..], &places[..]);
        self.comm.all_to_all_varcount_into(&parts, &mut into);
    }

    fn split(&self, color: usize) -> Box<dyn Comm> {
        let color = Color::with_value(i32::try_from(color).expect("colors are small numbers"));
        let part = self
            .comm
            .split_by_color(color)
            .expect("a defined color gives a communicator");
        Box::new(Self::wrap(part, self.universe.clone()))
    }

    fn node(&self) -> Box<dyn Comm> {
        Box::new(Self::wrap(
            self.comm.split_shared(self.comm.rank()),
            self.universe.clone(),
        ))
    }

    fn window(&self, init: &[f32]) -> Result<Box<dyn Window>> {
        Ok(Box::new(rma::RmaWindow::new(
            &self.comm,
            self.universe.clone(),
            init,
        )?))
    }

    fn far_counters(&self, len: usize) -> Result<Box<dyn Counters>> {
        let init = vec![0u64; if self.rank() == 0 { len } else { 0 }];
        let window = rma::RmaWindow::new(&self.comm, self.universe.clone(), &init)?;
        Ok(Box::new(window))
    }

    fn shared(&self, len: usize) -> Result<Shared> {
        let cells = rma::NodeCells::new(&self.comm, self.universe.clone(), len)?;
        Ok(Shared(Box::new(cells)))
    }
}

#[cfg(test)]
mod tests {
    use super::may_hang_at_end;

    #[test]
    fn only_mpich_before_4_2_may_hang_at_its_end() {
        let of = |version: &str| may_hang_at_end(&format!("MPICH Version:      {version}\nMPICH"));
        assert!(of("3.4.3") && of("4.0.2") && of("4.1.3"));
        assert!(!of("4.2.0") && !of("4.3.1") && !of("5.0.0"));
        assert!(!may_hang_at_end("Open MPI v4.1.4, package: Debian OpenMPI"));
    }
}
