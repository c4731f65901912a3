//! The mean of each window, padding counted as zeros; and the mean of whole planes.

use super::super::launch::{Arg, Divisor, Grid};
use super::super::module::Source;
use super::super::{Stream, View, ViewMut};
use super::sizes;
use crate::Result;
use crate::backend::cpu::pool::Geometry;

/// Means of the windows of `x: (n, c, h, w)` into `y: (n, c, oh, ow)`.
pub fn forward(stream: &Stream, g: Geometry, x: View<f32>, y: ViewMut<f32>) -> Result<()> {
    let sizes = sizes(g, x.len(), y.len());
    if y.is_empty() {
        return Ok(());
    }
    let kernel = stream.device().kernel(Source::Pool, "average_forward")?;
    let args = [sizes, x.into(), (&y).into(), Arg::int(y.len())];
    kernel.start(stream, Grid::over(y.len()), args)
}

/// `dx: (n, c, h, w)` from `dy: (n, c, oh, ow)`: each output gives `dy / k²` to every cell of its window.
pub fn backward(stream: &Stream, g: Geometry, dy: View<f32>, dx: ViewMut<f32>) -> Result<()> {
    let sizes = sizes(g, dx.len(), dy.len());
    if dy.is_empty() {
        return stream.clear(dx);
    }
    let kernel = stream.device().kernel(Source::Pool, "average_backward")?;
    let args = [sizes, dy.into(), (&dx).into(), Arg::int(dx.len())];
    kernel.start(stream, Grid::over(dx.len()), args)
}

/// The mean of each plane of `plane` values.
pub fn global(stream: &Stream, plane: usize, x: View<f32>, y: ViewMut<f32>) -> Result<()> {
    assert_eq!(y.len() * plane, x.len(), "one output a plane");
    if y.is_empty() {
        return Ok(());
    }
    let kernel = stream.device().kernel(Source::Pool, "global_forward")?;
    let planes = Arg::size(y.len());
    let args = [Arg::int(plane), x.into(), (&y).into(), planes];
    kernel.start(stream, Grid::over(32 * y.len()), args)
}

/// Each value of a plane gets its share of the output's gradient.
pub fn global_backward(
    stream: &Stream,
    plane: usize,
    dy: View<f32>,
    dx: ViewMut<f32>,
) -> Result<()> {
    assert_eq!(dy.len() * plane, dx.len(), "one output a plane");
    if dx.is_empty() {
        return Ok(());
    }
    let kernel = stream.device().kernel(Source::Pool, "global_backward")?;
    let args = [
        Divisor::new(plane).into(),
        dy.into(),
        (&dx).into(),
        Arg::int(dx.len()),
    ];
    kernel.start(stream, Grid::over(dx.len()), args)
}
