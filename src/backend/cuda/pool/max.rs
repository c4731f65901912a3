//! The largest value of each window, and where it was.

use super::super::launch::{Arg, Grid};
use super::super::module::Source;
use super::super::{Stream, View, ViewMut};
use super::sizes;
use crate::Result;
use crate::backend::cpu::pool::Geometry;

/// Maxima of `x: (n, c, h, w)` into `y: (n, c, oh, ow)`; `places`, as many, take where in its plane each was.
pub fn forward(
    stream: &Stream,
    g: Geometry,
    x: View<f32>,
    y: ViewMut<f32>,
    places: ViewMut<u32>,
) -> Result<()> {
    assert_eq!(y.len(), places.len(), "one place an output");
    let sizes = sizes(g, x.len(), y.len());
    if y.is_empty() {
        return Ok(());
    }
    let kernel = stream.device().kernel(Source::Pool, "max_forward")?;
    let n = Arg::int(y.len());
    let args = [sizes, x.into(), (&y).into(), (&places).into(), n];
    kernel.start(stream, Grid::over(y.len()), args)
}

/// `dx: (n, c, h, w)` from `dy: (n, c, oh, ow)`: each output gives `dy` to the place of its maximum.
pub fn backward(
    stream: &Stream,
    g: Geometry,
    places: View<u32>,
    dy: View<f32>,
    dx: ViewMut<f32>,
) -> Result<()> {
    assert_eq!(dy.len(), places.len(), "one place an output");
    let sizes = sizes(g, dx.len(), dy.len());
    if dy.is_empty() {
        return stream.clear(dx);
    }
    let kernel = stream.device().kernel(Source::Pool, "max_backward")?;
    let n = Arg::int(dx.len());
    let args = [sizes, places.into(), dy.into(), (&dx).into(), n];
    kernel.start(stream, Grid::over(dx.len()), args)
}
