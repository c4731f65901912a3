//! What a rule remembers of features, in checkpoints: the floats of each feature beside each other, those of the bias behind
//! them all. Every rank writes a block of features.

use std::ops::Range;

use crate::Result;
use crate::checkpoint::{Checkpoint, Snapshot};

/// The array that holds it.
const NAME: &str = "features";

/// Room for what is remembered of the features `mine`, of `all` with the bias; to be filled.
pub(super) fn room<const W: usize>(
    to: &mut Snapshot,
    mine: Range<usize>,
    all: usize,
) -> &mut [[f32; W]] {
    let floats = to.common(NAME, mine.start * W, mine.len() * W, all * W);
    floats.as_chunks_mut().0
}

/// Copies what was remembered of the features `mine` to `states`.
pub(super) fn read<const W: usize>(
    from: &Checkpoint,
    mine: Range<usize>,
    states: &mut [[f32; W]],
) -> Result<()> {
    let floats = states.as_flattened_mut();
    from.read(NAME, mine.start * W..mine.end * W, floats)
}
