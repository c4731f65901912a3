//! What memory and network can carry, measured where a run came near enough to it that it matters.

use std::time::Instant;

use super::Plan;
use crate::comm::{BUCKET, Comm};
use crate::commands::doctor::copy_rate;
use crate::commands::hosts;
use crate::exchange::Kind;
use crate::observe::{Link, Memory, Moved};
use crate::train::RankReport;

/// Bytes of parameters that no cache holds, so that they come from memory every time.
const CACHED: f64 = (32 << 20) as f64;
/// Bytes a second of a rank that no memory minds.
const LITTLE: f64 = 1e9;
/// Share of the time in exchanges from which on the network is looked at.
const EXCHANGE: f64 = 0.3;
/// Swaps of a bucket that the link is measured by.
const SWAPS: usize = 12;

/// The memory of this rank's node, if the run moved so much that it may have been the limit; *collective*.
pub(super) fn memory(
    comm: &dyn Comm,
    plan: &Plan,
    params: usize,
    ranks: &[RankReport],
) -> Option<Memory> {
    let bytes = 4.0 * params as f64;
    if bytes < CACHED || plan.exchange == Kind::OnDevice {
        return None;
    }
    // Forward and backward read parameters, and gradients are written; momentum is the least that an optimizer remembers (exchange::cost).
    let (compute, exchange) = (3.0 * bytes, bytes * (1.0 + 4.0 / comm.local_size() as f64));
    let all = |part: &dyn Fn(&RankReport) -> f64| ranks.iter().map(part).sum::<f64>();
    let steps = all(&|rank| rank.steps as f64);
    let spent = all(&|rank| rank.compute_s + rank.exchange_s);
    let rate = steps * (compute + exchange) / spent.max(1e-9);
    let alone = steps * exchange / all(&|rank| rank.exchange_s).max(1e-9);
    if rate.max(alone) < LITTLE {
        return None;
    }
    comm.barrier();
    let mut copied = [1e9 * copy_rate(comm)];
    comm.sum(&mut copied);
    let most = copied[0] / comm.size() as f64;
    // Of a node: what each of its ranks moves, and what each could at the same time.
    let node = |rate: f64| Moved {
        rate: rate * comm.local_size() as f64,
        most: most * comm.local_size() as f64,
    };
    Some(Memory {
        steps: node(rate),
        exchange: node(alone),
    })
}

/// The link between nodes, if exchanges took long enough to ask; *collective*.
pub(super) fn link(
    comm: &dyn Comm,
    params: usize,
    ranks: &[RankReport],
    seconds: f64,
) -> Option<Link> {
    let nodes = hosts(comm) as f64;
    let all = |part: &dyn Fn(&RankReport) -> f64| ranks.iter().map(part).sum::<f64>();
    let exchange = all(&|rank| rank.exchange_s);
    let share = exchange / (seconds * ranks.len() as f64).max(1e-9);
    // Every rank must come to the same decision: clocks differ, so the first one's counts.
    let mut asks = [u64::from(nodes > 1.0 && share >= EXCHANGE)];
    comm.broadcast(0, &mut asks);
    if asks[0] == 0 {
        return None;
    }
    let leads = comm.local_rank() == 0;
    let leaders = comm.split(usize::from(!leads));
    // Pairs only: of an odd number the last one looks on.
    let paired = leads && (leaders.rank() ^ 1) < leaders.size();
    let pairs = comm.split(usize::from(!paired));
    comm.barrier();
    let mut rate = [if paired { swaps(&*pairs) } else { 0.0 }];
    comm.max(&mut rate);
    // The least that leaves a node in a step: reduce-scatter and all-gather of all parameters.
    let bytes = 2.0 * (nodes - 1.0) / nodes * 4.0 * params as f64;
    let each = exchange / ranks.len() as f64;
    let steps = all(&|rank| rank.steps as f64) / ranks.len() as f64;
    Some(Moved {
        rate: steps * bytes / each.max(1e-9),
        most: rate[0],
    })
}

/// Bytes a second that this rank sends to its pair while that one sends as many.
fn swaps(pairs: &dyn Comm) -> f64 {
    let peer = pairs.rank() ^ 1;
    let mut values = vec![0.0f32; BUCKET];
    pairs.swap_data((&mut values[..]).into(), peer);
    let start = Instant::now();
    for _ in 0..SWAPS {
        pairs.swap_data((&mut values[..]).into(), peer);
    }
    (4 * BUCKET * SWAPS) as f64 / start.elapsed().as_secs_f64()
}
