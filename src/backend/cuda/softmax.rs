//! Launches `kernels/softmax.cu`: softmax with cross-entropy, as [`crate::backend::cpu::softmax`].

use super::launch::{Arg, Grid};
use super::module::Source;
use super::{Stream, View, ViewMut};
use crate::Result;

/// Doubles that `n` samples work in.
pub fn scratch(n: usize) -> usize {
    2 * n
}

/// Puts in place of each logit of `z: (n, classes)` its gradient times `scale`, and **adds** to `tally` the losses and the number
/// of right answers. Labels must be classes.
pub fn cross_entropy(
    stream: &Stream,
    z: ViewMut<f32>,
    labels: View<u32>,
    scale: f32,
    tally: ViewMut<f64>,
    scratch: ViewMut<f64>,
) -> Result<()> {
    let n = labels.len();
    assert_eq!(tally.len(), 2, "losses and right answers");
    assert!(scratch.len() >= 2 * n, "room for what rows have");
    if n == 0 {
        return Ok(());
    }
    let classes = z.len() / n;
    assert_eq!(classes * n, z.len(), "rows of one length");
    let kernel = |name| stream.device().kernel(Source::Softmax, name);
    let (rows, losses) = (Arg::int(n), Arg::from(&scratch));
    let args = [
        (&z).into(),
        labels.into(),
        scale.into(),
        rows,
        Arg::int(classes),
        losses,
    ];
    kernel("softmax_cross_entropy")?.start(stream, Grid::of(n.div_ceil(4), 128), args)?;
    let args = [losses, rows, (&tally).into()];
    kernel("softmax_tally")?.start(stream, Grid::of(1, 256), args)
}
