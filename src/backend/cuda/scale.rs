//! Launches `kernels/scale.cu`: pixels into inputs, as [`crate::backend::cpu::scale`].

use super::launch::{Arg, Divisor, Grid};
use super::module::Source;
use super::{Stream, View, ViewMut};
use crate::Result;

/// Scales bytes: `out = pixel × factor + shift`.
pub fn bytes(
    stream: &Stream,
    pixels: View<u8>,
    factor: f32,
    shift: f32,
    out: ViewMut<f32>,
) -> Result<()> {
    assert_eq!(pixels.len(), out.len(), "as many inputs as pixels");
    if pixels.is_empty() {
        return Ok(());
    }
    let kernel = stream.device().kernel(Source::Scale, "scale_bytes")?;
    let args = [
        pixels.into(),
        factor.into(),
        shift.into(),
        (&out).into(),
        Arg::size(out.len()),
    ];
    kernel.start(stream, Grid::over(out.len().div_ceil(4)), args)
}

/// Scales the bytes of samples whose channels have `plane` pixels and a factor and a shift each: of bytes, so a factor of 0…1 is
/// divided by 255 before it comes here.
pub fn channels(
    stream: &Stream,
    plane: usize,
    pixels: View<u8>,
    factors: View<f32>,
    shifts: View<f32>,
    out: ViewMut<f32>,
) -> Result<()> {
    assert_eq!(pixels.len(), out.len(), "as many inputs as pixels");
    assert_eq!(factors.len(), shifts.len(), "one of both a channel");
    if pixels.is_empty() {
        return Ok(());
    }
    let kernel = stream.device().kernel(Source::Scale, "scale_channels")?;
    let args = [
        Divisor::new(plane).into(),
        Divisor::new(factors.len()).into(),
        pixels.into(),
        factors.into(),
        shifts.into(),
        (&out).into(),
        Arg::int(out.len()),
    ];
    kernel.start(stream, Grid::over(out.len()), args)
}
