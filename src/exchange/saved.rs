//! What exchanges give to checkpoints, under which names.

use std::ops::Range;

use crate::Result;
use crate::checkpoint::{Checkpoint, Snapshot};
use crate::optim::Mover;

/// The parameters, in layer order.
pub(super) const PARAMETERS: &str = "parameters";

/// What the optimizer remembers of each parameter: its first values, its second ones.
pub(super) fn memory(i: usize) -> String {
    format!("memory.{i}")
}

/// Copies `share` of all parameters, and what the mover remembers of it, which holds that of the parameters `held`.
pub(super) fn save(
    to: &mut Snapshot,
    mover: &mut Mover,
    params: &[f32],
    held: Range<usize>,
    share: Range<usize>,
) {
    let (start, len, of) = (share.start, share.len(), params.len());
    to.common(PARAMETERS, start, len, of)
        .copy_from_slice(&params[share.clone()]);
    let there = share.start - held.start..share.end - held.start;
    for (i, values) in mover.memory(held).into_iter().enumerate() {
        to.common(&memory(i), start, len, of)
            .copy_from_slice(&values[there.clone()]);
    }
}

/// Has the mover remember what was saved of the parameters `held`.
pub(super) fn load(
    from: &Checkpoint,
    mover: &mut Mover,
    updates: u64,
    held: Range<usize>,
) -> Result<()> {
    mover.go_on(updates);
    let memories = mover.memory(held.clone()).into_iter().enumerate();
    for (i, values) in memories {
        from.read(&memory(i), held.clone(), values)?;
    }
    Ok(())
}

/// As `save`, where the rank remembers things of its own of all parameters.
pub(super) fn save_own(to: &mut Snapshot, mover: &mut Mover, params: &[f32], share: Range<usize>) {
    let (start, len, of) = (share.start, share.len(), params.len());
    to.common(PARAMETERS, start, len, of)
        .copy_from_slice(&params[share]);
    for (i, values) in mover.memory(0..of).into_iter().enumerate() {
        to.own(&memory(i), of).copy_from_slice(values);
    }
}

/// As `load`, of what a rank remembered of all `len` parameters.
pub(super) fn load_own(
    from: &Checkpoint,
    part: usize,
    mover: &mut Mover,
    updates: u64,
    len: usize,
) -> Result<()> {
    mover.go_on(updates);
    for (i, values) in mover.memory(0..len).into_iter().enumerate() {
        own(from, part, &memory(i), values)?;
    }
    Ok(())
}

/// Copies a rank's own array, if it is there and as long.
pub(super) fn own(from: &Checkpoint, part: usize, name: &str, out: &mut [f32]) -> Result<()> {
    match from.own(part, name)? {
        Some(values) if values.len() == out.len() => {
            out.copy_from_slice(&values);
            Ok(())
        }
        found => Err(crate::Error::Mismatch {
            what: format!("`{name}` in part {part} of {}", from.path().display()),
            expected: format!("{} values", out.len()),
            got: found.map_or("none".into(), |values| values.len().to_string()),
            hint: "the checkpoint is of another run",
        }),
    }
}
