//! One rank's share of a step's gradients: in one go, in shards, or handed over layer by layer.

use crate::board::{Board, Phase, Shown};
use crate::exchange::Arenas;
use crate::nn::{Crew, ShardSums, Sharded};
use crate::optim::squares;

/// Computes the gradients of `work` into the arena: in its shards if it has cuts, else at once, and handed to the exchange's
/// courier where there is one. *Collective* over the team, if layers add up over it.
pub(super) fn compute(
    crew: &mut Crew,
    work: Sharded,
    arenas: &mut Arenas,
    board: Option<&Board>,
) -> ShardSums {
    if !work.cuts.is_empty() {
        return crew.sharded_gradients(work, arenas.grads);
    }
    let Sharded {
        params,
        batch,
        draw,
        scale,
        measured,
        ..
    } = work;
    if let Some(courier) = &mut arenas.courier {
        let grads = &mut *arenas.grads;
        let how = (draw, scale);
        let tally =
            courier.overlap(|hand| crew.gradients_by_layer(params, batch, how, grads, hand));
        return ShardSums { tally, norm: 0.0 };
    }
    let team = &Shown {
        comm: arenas.team,
        board,
        phase: Phase::Compute,
    };
    let tally = crew.gradients(params, batch, draw, scale, team, arenas.grads);
    let norm = match measured {
        // The arena holds this rank's share of the mean: c/n of its own mean, whose square counts c/n times.
        Some(samples) if tally.count > 0 => {
            squares(arenas.grads) * samples as f64 / tally.count as f64
        }
        _ => 0.0,
    };
    ShardSums { tally, norm }
}
