//! Launches `kernels/local_response.cu`, as [`crate::backend::cpu::local_response`].

use super::launch::{Arg, Divisor, Grid, int};
use super::module::Source;
use super::{Stream, View, ViewMut};
use crate::Result;
use crate::backend::cpu::local_response::LocalResponse;

/// A layer, as the kernels read it.
#[repr(C)]
#[derive(Clone, Copy)]
struct Layer {
    c: Divisor,
    plane: Divisor,
    size: i32,
    alpha: f32,
    beta: f32,
    k: f32,
}

/// `y` from `x`, both `(n, c, h, w)`.
pub fn forward(stream: &Stream, layer: LocalResponse, x: View<f32>, y: ViewMut<f32>) -> Result<()> {
    assert_eq!(x.len(), y.len(), "as many outputs as inputs");
    if x.is_empty() {
        return Ok(());
    }
    let kernel = stream
        .device()
        .kernel(Source::LocalResponse, "local_response_forward")?;
    let args = [of(layer), x.into(), (&y).into(), Arg::int(x.len())];
    kernel.start(stream, Grid::over(x.len()), args)
}

/// `dx` from what went in and the gradient of what came out, all `(n, c, h, w)`; `scratch` has as many floats.
pub fn backward(
    stream: &Stream,
    layer: LocalResponse,
    x: View<f32>,
    dy: View<f32>,
    dx: ViewMut<f32>,
    scratch: ViewMut<f32>,
) -> Result<()> {
    assert_eq!(x.len(), dy.len(), "as many gradients as outputs");
    assert_eq!(x.len(), dx.len(), "as many gradients out as inputs");
    assert!(scratch.len() >= x.len(), "room for a value an element");
    if x.is_empty() {
        return Ok(());
    }
    let kernel = |name| stream.device().kernel(Source::LocalResponse, name);
    let (grid, n) = (Grid::over(x.len()), Arg::int(x.len()));
    let (parts, out) = (Arg::from(&scratch), Arg::from(&dx));
    let args = [of(layer), x.into(), dy.into(), out, parts, n];
    kernel("local_response_backward_direct")?.start(stream, grid, args)?;
    let args = [of(layer), x.into(), parts, out, n];
    kernel("local_response_backward_others")?.start(stream, grid, args)
}

fn of(layer: LocalResponse) -> Arg {
    let LocalResponse {
        c,
        plane,
        size,
        alpha,
        beta,
        k,
    } = layer;
    Arg::of(Layer {
        c: Divisor::new(c),
        plane: Divisor::new(plane),
        size: int(size),
        alpha,
        beta,
        k,
    })
}
