//! Whether sums that all ranks make at the same time are exact.

use serde::Serialize;

use crate::Result;
use crate::comm::{Comm, Counters, Stripes, agree, lenient};

/// Additions of a rank to each other one's window.
const ROUNDS: usize = 40;
/// Ranks whose windows a rank adds to: all, up to so many that follow it.
const PEERS: usize = 16;
/// Values of a window.
const VALUES: usize = 96;
/// Numbers that a rank takes from a counter.
const CLAIMS: u64 = 200;
/// Values in shared memory: three stripes.
const SHARED: usize = 10_000;

/// What became of one trial: nothing where it was right, else what was wrong.
pub type Outcome = Option<String>;

/// All trials.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Trials {
    /// Sums in windows.
    pub windows: Outcome,
    /// Counters where phalanx would put them: in shared memory on one node, else on the first rank.
    pub counters: Outcome,
    /// Counters on the first rank by messages, as between nodes.
    pub far_counters: Outcome,
    /// Sums in the shared memory of each node.
    pub shared: Outcome,
    /// Sums of messages.
    pub reductions: Outcome,
}

/// Does them all; *collective*.
pub(super) fn run(comm: &dyn Comm) -> Result<Trials> {
    Ok(Trials {
        reductions: reductions(comm),
        windows: tried(comm, windows),
        counters: tried(comm, |comm| count(comm, lenient(|| comm.counters(1)))),
        far_counters: tried(comm, |comm| count(comm, lenient(|| comm.far_counters(1)))),
        shared: tried(comm, shared),
    })
}

/// The same outcome on every rank: wrong values of all ranks are counted; *collective*.
fn tried(comm: &dyn Comm, trial: impl FnOnce(&dyn Comm) -> Result<u64>) -> Outcome {
    match agree(comm, trial(comm)) {
        Err(error) => Some(error.to_string()),
        Ok(wrong) => judge(comm, wrong),
    }
}

fn judge(comm: &dyn Comm, wrong: u64) -> Outcome {
    let mut all = [wrong];
    comm.sum(&mut all);
    (all[0] > 0).then(|| format!("{} values were wrong", all[0]))
}

fn reductions(comm: &dyn Comm) -> Outcome {
    let (rank, size) = (comm.rank() as f64, comm.size() as f64);
    let mut sums: Vec<f64> = (0..1000).map(|i| rank + f64::from(i)).collect();
    comm.sum(&mut sums);
    let expected = |i: usize| size * (size - 1.0) / 2.0 + size * i as f64;
    let wrong = sums
        .iter()
        .enumerate()
        .filter(|(i, sum)| **sum != expected(*i));
    judge(comm, wrong.count() as u64)
}

/// Every rank adds to the windows of itself and those that follow it. Gives the wrong values of its own.
fn windows(comm: &dyn Comm) -> Result<u64> {
    let (rank, size) = (comm.rank(), comm.size());
    let window = agree(comm, lenient(|| comm.window(&[rank as f32; VALUES])))?;
    let peers = size.min(PEERS);
    let mut sums = [0.0; VALUES];
    let added = (0..ROUNDS * peers).try_for_each(|i| {
        let owner = (rank + i % peers) % size;
        window.add(owner, 0, &[1.0; VALUES], &mut sums)
    });
    agree(comm, added)?;
    agree(comm, window.get(rank, 0, &mut sums))?;
    let expected = (rank + ROUNDS * peers) as f32;
    let wrong = sums.iter().filter(|&&sum| sum != expected).count();
    window.close()?;
    Ok(wrong as u64)
}

/// Every rank takes numbers from one counter. Gives those that were not given exactly once, on the first rank.
fn count(comm: &dyn Comm, counters: Result<Box<dyn Counters>>) -> Result<u64> {
    let counters = agree(comm, counters)?;
    let mine = (0..CLAIMS).map(|_| counters.add(0, 1));
    let mine: Vec<u64> = agree(comm, mine.collect())?;
    let bytes: Vec<u8> = mine.into_iter().flat_map(u64::to_le_bytes).collect();
    let number = |eight: &[u8]| u64::from_le_bytes(eight.try_into().expect("eight bytes"));
    let mut all: Vec<u64> = comm.gather(&bytes).concat().chunks(8).map(number).collect();
    all.sort_unstable();
    let places = (0..CLAIMS * comm.size() as u64).zip(all);
    let wrong = places.filter(|(place, number)| place != number).count();
    counters.close()?;
    Ok(if comm.rank() == 0 { wrong as u64 } else { 0 })
}

/// Every rank of a node adds to all stripes. Gives the wrong values, on the first rank of each node.
fn shared(comm: &dyn Comm) -> Result<u64> {
    let (node, stripes) = lenient(|| {
        let node = comm.node();
        let stripes = Stripes::new(&*node, &vec![1.0; SHARED], false);
        (node, stripes)
    });
    let stripes = agree(comm, stripes)?;
    let count = stripes.count();
    let (ones, mut sums) = (vec![1.0; SHARED], vec![0.0; SHARED]);
    for i in 0..ROUNDS * count {
        let stripe = (i + node.rank()) % count;
        let n = stripes.range(stripe).len();
        stripes.add(stripe, &ones[..n], &mut sums[..n]);
    }
    node.barrier();
    let expected = (1 + ROUNDS * node.size()) as f32;
    let mut wrong = 0;
    for stripe in 0..count {
        let sums = &mut sums[..stripes.range(stripe).len()];
        stripes.read(stripe, sums);
        wrong += sums.iter().filter(|&&sum| sum != expected).count();
    }
    node.barrier();
    stripes.close()?;
    Ok(if node.rank() == 0 { wrong as u64 } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::run_ranks;

    #[test]
    fn ranks_that_lose_nothing_pass_all_trials() {
        // More than a rank adds to, too.
        for size in [1, 3, 20] {
            for trials in run_ranks(size, |comm| run(comm).unwrap()) {
                let all = [trials.windows, trials.counters, trials.far_counters];
                assert_eq!(all, [None, None, None], "{size} ranks");
                assert_eq!([trials.shared, trials.reductions], [None, None]);
            }
        }
    }

    #[test]
    fn a_wrong_value_or_an_error_on_one_rank_is_told_on_all() {
        let ends = run_ranks(3, |comm| {
            let wrong = tried(comm, |comm| Ok(5 * u64::from(comm.rank() == 2)));
            let failed = tried(comm, |comm| match comm.rank() {
                1 => Err(crate::Error::Usage("it cannot".into())),
                _ => Ok(0),
            });
            (wrong.unwrap(), failed.unwrap())
        });
        for (wrong, failed) in ends {
            assert_eq!(wrong, "5 values were wrong");
            assert!(failed.ends_with("it cannot"), "{failed}");
        }
    }
}
