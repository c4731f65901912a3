//! Launches `kernels/dropout.cu`: drops the same values as [`crate::backend::cpu::dropout`].

use super::launch::{Arg, Grid};
use super::module::Source;
use super::{Stream, View, ViewMut};
use crate::Result;
use crate::backend::cpu::dropout::Mask;

/// Values that a block takes.
const BLOCK: usize = 1024;

/// Drops some of `values`; row r belongs to the sample that `samples[r]` names. The backward pass is the same call.
pub fn apply(stream: &Stream, mask: Mask, samples: View<u64>, values: ViewMut<f32>) -> Result<()> {
    let len = values.len().checked_div(samples.len()).unwrap_or(0);
    assert_eq!(len * samples.len(), values.len(), "rows of one length");
    if len == 0 {
        return Ok(());
    }
    let kernel = stream.device().kernel(Source::Dropout, "dropout_apply")?;
    let args = [
        Arg::of(mask.seed),
        Arg::of(mask.layer),
        Arg::of(mask.step),
        Arg::of(mask.threshold()),
        mask.scale().into(),
        samples.into(),
        Arg::int(len),
        (&values).into(),
    ];
    let grid = Grid::with([samples.len(), len.div_ceil(BLOCK), 1], 256);
    kernel.start(stream, grid, args)
}
