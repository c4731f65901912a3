//! What a rank can move and compute: alone, and while all others do the same.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::facts::{Rank, all};
use crate::backend::cpu::peak_flops;
use crate::comm::Comm;
use crate::train::budget;

/// Bytes to copy: more than caches hold.
const BYTES: usize = 64 << 20;
/// How long a measurement of copies takes.
const TIME: Duration = Duration::from_millis(120);
/// Share of the memory left that a measurement may take.
const SHARE: u64 = 8;

/// What the first rank does while all others sleep.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Speed {
    /// GB/s that a copy reads and writes together.
    pub copy: f64,
    /// GFLOP/s in single precision.
    pub gflops: f64,
}

/// Measures the first rank alone, then all ranks at once, whose speeds go into `ranks`; *collective*.
pub(super) fn measure(comm: &dyn Comm, ranks: &mut [Rank]) -> Speed {
    let (from, mut to) = buffers(comm);
    comm.barrier();
    let mut alone = [0.0, 0.0];
    if comm.rank() == 0 {
        alone = [copy(&from, &mut to), peak_flops() / 1e9];
    } else {
        // In a barrier it might keep a core busy that the first rank needs.
        thread::sleep(2 * TIME + Duration::from_millis(200));
    }
    comm.broadcast(0, &mut alone);
    comm.barrier();
    let copied = copy(&from, &mut to);
    comm.barrier();
    let speeds = all(comm, Some(&(copied, peak_flops() / 1e9)));
    for (rank, (copy, gflops)) in ranks.iter_mut().zip(speeds) {
        (rank.copy, rank.gflops) = (copy, gflops);
    }
    Speed {
        copy: alone[0],
        gflops: alone[1],
    }
}

/// GB/s that copies on this rank read and write together; *collective*.
pub(in super::super) fn copy_rate(comm: &dyn Comm) -> f64 {
    let (from, mut to) = buffers(comm);
    comm.barrier();
    copy(&from, &mut to)
}

/// What is copied and where to, as large as the memory that is left allows; *collective*.
fn buffers(comm: &dyn Comm) -> (Vec<u8>, Vec<u8>) {
    let left = budget(comm).map_or(u64::MAX, |left| left / SHARE);
    let bytes = left.min(BYTES as u64) as usize / 2;
    (vec![1; bytes], vec![0; bytes])
}

/// GB/s read and written by copies of `from` to `to`, the first of which is not counted.
fn copy(from: &[u8], to: &mut [u8]) -> f64 {
    to.copy_from_slice(from);
    let (start, mut bytes) = (Instant::now(), 0);
    while start.elapsed() < TIME && !from.is_empty() {
        black_box(&mut *to).copy_from_slice(black_box(from));
        bytes += 2 * from.len();
    }
    bytes as f64 / start.elapsed().as_secs_f64() / 1e9
}
