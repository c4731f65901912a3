//! One clock for all ranks.
//!
//! Ranks of a host read the same clock of the system. Between hosts, the first rank of each and rank 0 send each other the time, and take
//! the exchange that was quickest: clocks are apart by what is left when half of the way there and back is taken off, and by no more than
//! that half in error. Clocks drift, so it is done at the start and at the end, with a straight line between.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::comm::Comm;

/// Exchanges of the time with each host.
const ROUNDS: usize = 24;

/// How far this rank's clock is ahead of rank 0's at a moment.
#[derive(Clone, Copy, Debug)]
pub struct Offset {
    /// The moment, and the system's clock then, in nanoseconds.
    pub(super) at: Instant,
    pub(super) clock: u64,
    /// Nanoseconds, and how wrong they may be.
    pub(super) ahead: i64,
    pub(super) error: u64,
}

impl Offset {
    /// Finds out; *collective*.
    pub fn measure(comm: &dyn Comm) -> Self {
        let (at, clock) = now();
        let mut found = [0u64; 2];
        let leads = u64::from(comm.local_rank() == 0);
        let leaders = comm.gather(&leads.to_le_bytes());
        let leaders = leaders
            .iter()
            .enumerate()
            .filter(|(rank, flag)| *rank > 0 && flag[0] == 1);
        for leader in leaders.map(|(rank, _)| rank).collect::<Vec<_>>() {
            let mine = comm.rank() == 0 || comm.rank() == leader;
            let pair = comm.split(usize::from(!mine));
            if mine {
                let told = swap_times(&*pair);
                if comm.rank() == leader {
                    found = told;
                }
            }
        }
        // The others of a host have the clock of its first.
        let node = comm.node();
        node.broadcast(0, &mut found);
        Self {
            at,
            clock,
            ahead: found[0] as i64,
            error: found[1],
        }
    }

    /// The time of rank 0's clock, in nanoseconds, at a moment between two measurements of this rank's.
    pub(super) fn time(start: &Self, end: &Self, nanos_since_start: u64) -> i64 {
        let whole = end.at.duration_since(start.at).as_nanos().max(1) as f64;
        let part = (nanos_since_start as f64 / whole).clamp(0.0, 1.0);
        let ahead = start.ahead as f64 + part * (end.ahead - start.ahead) as f64;
        start.clock as i64 + nanos_since_start as i64 - ahead as i64
    }
}

/// A moment and the system's clock, read so close together as can be.
fn now() -> (Instant, u64) {
    let look = |_| {
        let before = Instant::now();
        let clock = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let after = before.elapsed();
        (after, before + after / 2, clock.as_nanos() as u64)
    };
    let best = (0..16).map(look).min_by_key(|(gap, _, _)| *gap);
    let (_, at, clock) = best.expect("there is one");
    (at, clock)
}

/// Of a pair: how far the second rank's clock is ahead of the first's, and the error, in nanoseconds; *collective* over the two.
fn swap_times(pair: &dyn Comm) -> [u64; 2] {
    let clock = || {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_nanos() as u64
    };
    let peer = 1 - pair.rank();
    let mut best = (u64::MAX, 0i64);
    for _ in 0..ROUNDS {
        pair.barrier();
        let sent = clock();
        let mut theirs = [sent];
        pair.swap_data((&mut theirs[..]).into(), peer);
        let got = clock();
        let their_sent = theirs[0];
        let mut theirs = [got];
        pair.swap_data((&mut theirs[..]).into(), peer);
        let their_got = theirs[0];
        // Each way shows the difference of clocks with the time of the way added or taken off.
        let there = their_got as i64 - sent as i64;
        let back = got as i64 - their_sent as i64;
        let way = (there + back).unsigned_abs();
        // `there` is towards the peer: from the second rank's side, the peer is the one to be compared with.
        let ahead = (back - there) / 2;
        if way < best.0 {
            best = (way, ahead);
        }
    }
    [best.1 as u64, best.0 / 2]
}
