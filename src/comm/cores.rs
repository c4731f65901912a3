//! How many cores a rank has for its threads.

use std::fs;
use std::thread;

use super::Comm;

/// The cores that this rank may use, divided by the ranks of its node that may use the same ones; *collective*.
///
/// `mpirun` may bind each rank to one core, or several ranks to one socket: what is bound alike is shared.
pub fn cores(comm: &dyn Comm) -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let mask = lines.find_map(|line| line.strip_prefix("Cpus_allowed:"));
    let mask = mask.unwrap_or_default().as_bytes();
    let all = comm.node().gather(mask);
    let alike = all.iter().filter(|other| *other == mask).count();
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
    cores as f64 / alike as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::run_ranks;

    #[test]
    fn ranks_that_are_bound_alike_share_their_cores() {
        let alone = run_ranks(1, cores)[0];
        assert!(alone >= 1.0, "{alone}");
        assert_eq!(run_ranks(4, cores), [alone / 4.0; 4]);
    }
}
