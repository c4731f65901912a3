//! Loss and accuracy over a whole set.

use crate::Result;
use crate::board::{Board, Phase};
use crate::comm::{Comm, agree, block};
use crate::data::{Batch, Dataset, Scaling};
use crate::nn::{Crew, Tally};

/// Samples that go through the model at once.
pub const CHUNK: usize = 256;

/// Losses and right answers over `data`, each rank of `team` taking a block; *collective* over `team`. The
/// `board`, if ranks are watched, moves with every chunk.
pub fn evaluate(
    team: &dyn Comm,
    crew: &mut Crew,
    params: &[f32],
    data: &Dataset,
    scaling: &Scaling,
    board: Option<&Board>,
) -> Result<Tally> {
    let turn = |phase| {
        if let Some(board) = board {
            board.turn(phase);
        }
    };
    let mut batch = Batch::new(data, scaling);
    let mine = block(data.len(), team.size(), team.rank());
    let mut run = || {
        let mut total = Tally::default();
        for start in mine.clone().step_by(CHUNK) {
            turn(Phase::Evaluate);
            batch.gather(data, start..mine.end.min(start + CHUNK))?;
            total = total.plus(crew.evaluate(params, &batch));
        }
        Ok(total)
    };
    let total = run();
    turn(Phase::Wait);
    let total = agree(team, total)?;
    let mut sums = [total.loss, total.correct as f64, total.count as f64];
    team.sum(&mut sums);
    Ok(Tally {
        loss: sums[0],
        correct: sums[1] as u64,
        count: sums[2] as u64,
    })
}
