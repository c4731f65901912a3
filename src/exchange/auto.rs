//! Which synchronous exchange is the fastest for these ranks, found by trying.

use std::time::Instant;

use super::{Kind, Start, Tail};
use crate::Result;
use crate::comm::Comm;
use crate::observe::seconds;
use crate::optim::{Momentum, Mover};

/// Parameters that are tried with at the most: 8 MiB of each arena are past every cache and cost little time.
const MOST: usize = 1 << 21;
/// Trials of each, in turns.
const TRIALS: usize = 7;
/// Messages must be that much faster, in every trial: a choice that flips with every noise would make runs that differ in
/// rounding.
const MARGIN: f64 = 1.25;

/// The exchange to take for a model of so many parameters, and why in words; *collective*.
pub fn fastest(comm: &dyn Comm, params: usize) -> Result<(Kind, String)> {
    let kinds = [Kind::NodeShared, Kind::AllReduce];
    let tried = params.min(MOST);
    let mut exchanges = Vec::new();
    for kind in kinds {
        let start = Start {
            state: 1,
            ..Start::default()
        };
        exchanges.push(kind.start(comm, vec![0.0; tried], start)?);
    }
    let mut movers = kinds.map(|_| Mover::new(Box::new(Momentum::new(0.9, false, 0.0))));
    let mut times = Vec::with_capacity(2 * TRIALS);
    // The first trial of each touches its memory for the first time, and is not counted.
    for trial in 0..=TRIALS {
        for (exchange, mover) in exchanges.iter_mut().zip(&mut movers) {
            exchange.arenas().grads.host().fill(0.0);
            comm.barrier();
            let start = Instant::now();
            exchange.step(Tail::default(), 0.0, mover)?;
            if trial > 0 {
                times.push(start.elapsed().as_secs_f64());
            }
        }
    }
    for exchange in exchanges {
        exchange.settle()?;
    }
    // The slowest rank counts, and all must choose alike.
    comm.max(&mut times[..]);
    comm.broadcast(0, &mut times[..]);
    let pairs = times.chunks_exact(2).map(|pair| (pair[0], pair[1]));
    let kind = match pairs
        .clone()
        .all(|(shared, reduced)| reduced * MARGIN < shared)
    {
        true => Kind::AllReduce,
        false => Kind::NodeShared,
    };
    let best = |of: fn((f64, f64)) -> f64| pairs.clone().map(of).fold(f64::INFINITY, f64::min);
    let of = if tried < params { " of a part" } else { "" };
    let why = format!(
        "measured here{of}: node-shared {} a step, all-reduce {}",
        seconds(best(|pair| pair.0)),
        seconds(best(|pair| pair.1))
    );
    Ok((kind, why))
}
