//! Launches `kernels/bias.cu`: biases by themselves, for products that others computed.

use super::launch::{Arg, Divisor, Grid, int};
use super::module::Source;
use super::{Stream, View, ViewMut};
use crate::Result;

/// `y[s][o][cell] += b[o]`, with `y: (n, co, plane)`.
pub fn add(stream: &Stream, plane: usize, b: View<f32>, y: ViewMut<f32>) -> Result<()> {
    assert_eq!(y.len() % (b.len() * plane).max(1), 0, "whole samples");
    if y.is_empty() {
        return Ok(());
    }
    let kernel = stream.device().kernel(Source::Bias, "bias_add")?;
    let args = [
        Divisor::new(b.len()).into(),
        Divisor::new(plane).into(),
        b.into(),
        (&y).into(),
        Arg::int(y.len()),
    ];
    kernel.start(stream, Grid::over(y.len()), args)
}

/// `db[o] = Σ dy[s][o][cell]` over samples and cells, with `dy: (n, co, plane)`.
pub fn grad(stream: &Stream, plane: usize, dy: View<f32>, db: ViewMut<f32>) -> Result<()> {
    assert_eq!(dy.len() % (db.len() * plane).max(1), 0, "whole samples");
    if db.is_empty() {
        return Ok(());
    }
    int(dy.len());
    let kernel = stream.device().kernel(Source::Bias, "bias_grad")?;
    let args = [
        Arg::int(db.len()),
        Divisor::new(plane).into(),
        dy.into(),
        (&db).into(),
        Arg::int(dy.len() / db.len()),
    ];
    kernel.start(stream, Grid::of(db.len(), 256), args)
}
