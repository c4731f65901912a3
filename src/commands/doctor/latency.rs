//! How long ranks take to meet, and whether a rank that computes can be added to.

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::Result;
use crate::comm::{Comm, Window, agree, lenient};

/// Repetitions of what is short.
const ROUNDS: usize = 100;
/// Values of the long all-reduce: 16 MiB.
const LONG: usize = 4 << 20;
/// How long a rank computes outside MPI while others add to its window.
pub const BUSY: Duration = Duration::from_millis(200);

/// Times of the slowest rank: medians, in seconds. None where one rank is alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// A barrier.
    pub barrier: Option<f64>,
    /// An all-reduce of 8 bytes.
    pub small: Option<f64>,
    /// An all-reduce of 16 MiB.
    pub long: Option<f64>,
    /// An addition to the next rank's window, while that one does the same.
    pub add: Option<f64>,
    /// An addition to a rank of the same host that computes.
    pub add_busy: Option<f64>,
    /// An addition to a rank of another host that computes.
    pub add_busy_far: Option<f64>,
}

/// Measures; *collective*.
pub(super) fn measure(comm: &dyn Comm) -> Result<Latency> {
    if comm.size() == 1 {
        return Ok(Latency::default());
    }
    // Zeros stay zeros, however often they are added up.
    let (mut small, mut long) = ([0.0f64], vec![0.0f32; LONG]);
    let mut latency = Latency {
        barrier: Some(median(comm, ROUNDS, || comm.barrier())),
        small: Some(median(comm, ROUNDS, || comm.sum(&mut small))),
        long: Some(median(comm, 5, || comm.sum(&mut long))),
        ..Latency::default()
    };
    // What is wrong with windows, the trials have told.
    let Ok(window) = agree(comm, lenient(|| comm.window(&[0.0]))) else {
        return Ok(latency);
    };
    let next = (comm.rank() + 1) % comm.size();
    let mut failed = Ok(());
    let add = median(comm, ROUNDS, || {
        let added = window.add(next, 0, &[1.0], &mut [0.0]);
        failed = std::mem::replace(&mut failed, Ok(())).and(added);
    });
    agree(comm, failed)?;
    latency.add = Some(add);
    let (near, far) = adders(comm);
    latency.add_busy = busy(comm, &*window, near)?;
    latency.add_busy_far = busy(comm, &*window, far)?;
    window.close()?;
    Ok(latency)
}

/// The median time of `work`, of the rank where that is longest; *collective*.
fn median(comm: &dyn Comm, rounds: usize, mut work: impl FnMut()) -> f64 {
    // The first makes connections.
    work();
    comm.barrier();
    let timed = |_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    };
    let mut times: Vec<f64> = (0..rounds).map(timed).collect();
    times.sort_unstable_by(f64::total_cmp);
    let mut longest = [times[rounds / 2]];
    comm.max(&mut longest);
    longest[0]
}

/// A rank on the first rank's host, and one on another, that add to the first rank's window; *collective*.
fn adders(comm: &dyn Comm) -> (Option<usize>, Option<usize>) {
    let mut first = [if comm.rank() == 0 { 1u64 } else { 0 }];
    comm.node().max(&mut first);
    let together: Vec<bool> = comm
        .gather(&[first[0] as u8])
        .iter()
        .map(|flag| flag == &[1])
        .collect();
    let find = |wanted: bool| (1..comm.size()).find(|&rank| together[rank] == wanted);
    (find(true), find(false))
}

/// Seconds that `adder` needs to add to the first rank's window while that one computes; *collective*.
fn busy(comm: &dyn Comm, window: &dyn Window, adder: Option<usize>) -> Result<Option<f64>> {
    let Some(adder) = adder else {
        return Ok(None);
    };
    comm.barrier();
    let mut taken = [0.0];
    let mut outcome = Ok(());
    if comm.rank() == 0 {
        let (start, mut value) = (Instant::now(), 1.0f64);
        while start.elapsed() < BUSY {
            (0..1000).for_each(|_| value = black_box(value * 0.999 + 0.001));
        }
    } else if comm.rank() == adder {
        // Until the first rank has surely left the barrier.
        thread::sleep(BUSY / 10);
        let start = Instant::now();
        outcome = window.add(0, 0, &[1.0], &mut [0.0]);
        taken[0] = start.elapsed().as_secs_f64();
    } else {
        thread::sleep(BUSY);
    }
    agree(comm, outcome)?;
    comm.max(&mut taken);
    Ok(Some(taken[0]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::{run_nodes, run_ranks};

    #[test]
    fn times_are_measured_where_there_is_somebody_to_meet() {
        assert_eq!(
            run_ranks(1, |comm| measure(comm).unwrap())[0],
            Latency::default()
        );
        let two = &run_ranks(2, |comm| measure(comm).unwrap())[0];
        let times = [two.barrier, two.small, two.long, two.add, two.add_busy];
        assert!(
            times.iter().all(|time| time.is_some_and(|t| t > 0.0)),
            "{two:?}"
        );
        assert_eq!(two.add_busy_far, None, "there is one host");
    }

    #[test]
    fn a_rank_of_each_kind_adds_to_the_first() {
        assert_eq!(run_ranks(3, adders)[2], (Some(1), None));
        assert_eq!(run_nodes(&[0, 0, 1, 1], adders)[3], (Some(1), Some(2)));
        assert_eq!(run_nodes(&[0, 1], adders)[0], (None, Some(1)));
    }
}
