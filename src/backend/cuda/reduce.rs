//! Launches `kernels/reduce.cu`: sums over all of a tensor, and whether all are numbers.

use super::launch::{Arg, Grid};
use super::module::Source;
use super::{Stream, View, ViewMut};
use crate::Result;

/// Doubles that any sum works in.
pub const SCRATCH: usize = 256;

/// Bits of infinity; greater ones are NaN.
const INFINITY: u32 = 0x7f80_0000;

/// The sum of values, into one double.
pub fn sum(stream: &Stream, x: View<f32>, out: ViewMut<f64>, scratch: ViewMut<f64>) -> Result<()> {
    reduce(stream, "reduce_sum", x, out, scratch)
}

/// The sum of squares, into one double.
pub fn squares(
    stream: &Stream,
    x: View<f32>,
    out: ViewMut<f64>,
    scratch: ViewMut<f64>,
) -> Result<()> {
    reduce(stream, "reduce_squares", x, out, scratch)
}

/// What [`is_finite`] tells of, into one word.
pub fn finite(stream: &Stream, x: View<f32>, mut out: ViewMut<u32>) -> Result<()> {
    assert_eq!(out.len(), 1, "one word");
    stream.clear(out.again())?;
    if x.is_empty() {
        return Ok(());
    }
    let kernel = stream.device().kernel(Source::Reduce, "reduce_greatest")?;
    let args = [x.into(), Arg::size(x.len()), (&out).into()];
    kernel.start(stream, Grid::of(parts(x.len()), 256), args)
}

/// Whether a word that [`finite`] wrote says that no value was NaN or infinite.
pub fn is_finite(word: u32) -> bool {
    word < INFINITY
}

fn reduce(
    stream: &Stream,
    name: &'static str,
    x: View<f32>,
    out: ViewMut<f64>,
    scratch: ViewMut<f64>,
) -> Result<()> {
    assert_eq!(out.len(), 1, "one sum");
    if x.is_empty() {
        return stream.clear(out);
    }
    let parts = parts(x.len());
    assert!(scratch.len() >= parts, "room for a sum a block");
    let kernel = |name| stream.device().kernel(Source::Reduce, name);
    let args = [x.into(), Arg::size(x.len()), (&scratch).into()];
    kernel(name)?.start(stream, Grid::of(parts, 256), args)?;
    let args = [(&scratch).into(), Arg::int(parts), (&out).into()];
    kernel("reduce_collect")?.start(stream, Grid::of(1, 256), args)
}

/// Blocks for so many values: from their number alone, so that sums round alike on every device.
fn parts(n: usize) -> usize {
    n.div_ceil(4096).clamp(1, SCRATCH)
}
