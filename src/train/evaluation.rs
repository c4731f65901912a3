//! Loss and accuracy over a whole set.

use std::ops::Range;

use crate::Result;
use crate::board::{Board, Phase};
use crate::comm::{Comm, agree, block};
use crate::data::{Batch, Dataset, Scaling};
use crate::nn::{Backend, Params, Tally};

/// Samples that go through the model at once.
pub const CHUNK: usize = 256;

/// Losses and right answers over `data`, each rank of `team` taking as many of the `blocks`, which their number divides.
/// The sum depends on the number of blocks, and not on that of ranks; *collective* over `team`. The `board`, if ranks are
/// watched, moves with every chunk.
pub fn evaluate(
    team: &dyn Comm,
    backend: &mut dyn Backend,
    params: Params,
    data: &Dataset,
    scaling: &Scaling,
    (blocks, board): (usize, Option<&Board>),
) -> Result<Tally> {
    let turn = |phase| {
        if let Some(board) = board {
            board.turn(phase);
        }
    };
    let mut batch = Batch::new(data, scaling);
    let mut run = |mine: Range<usize>| {
        let mut chunks = mine.clone().step_by(CHUNK);
        let mut next = |batch: &mut Batch| {
            let Some(start) = chunks.next() else {
                return Ok(false);
            };
            turn(Phase::Evaluate);
            let chunk = start..mine.end.min(start + CHUNK);
            batch.gather(data, chunk).map(|()| true)
        };
        backend.evaluate(params, &mut batch, &mut next)
    };
    let each = blocks / team.size();
    let first = team.rank() * each;
    let mine = (first..first + each).map(|i| run(block(data.len(), blocks, i)));
    let mine = mine.collect();
    turn(Phase::Wait);
    let mine: Vec<Tally> = agree(team, mine)?;
    let numbers = |tally: Tally| {
        let Tally {
            loss,
            correct,
            count,
        } = tally;
        [loss, correct as f64, count as f64].map(f64::to_le_bytes)
    };
    let bytes = mine.into_iter().flat_map(numbers).flatten();
    let all = team.gather(&bytes.collect::<Vec<u8>>()).concat();
    let all = all.chunks_exact(24).map(|bytes| {
        let number = |i: usize| {
            let eight = bytes[8 * i..8 * i + 8].try_into().expect("eight bytes");
            f64::from_le_bytes(eight)
        };
        Tally {
            loss: number(0),
            correct: number(1) as u64,
            count: number(2) as u64,
        }
    });
    Ok(all.fold(Tally::default(), Tally::plus))
}
