//! The memory that a model takes on a device.

use super::intake::Intake;
use super::passes::Sizes;
use super::report::Report;
use crate::nn::Model;

/// Bytes on a device of a model for up to `most` samples at once, without parameters and gradients; `as_bytes` says whether
/// pixels come as bytes.
pub fn bytes(model: &mut Model, most: usize, as_bytes: bool) -> u64 {
    let work = 4 * Sizes::of(model, most).floats();
    let layers = model.layers.iter_mut();
    let kept: usize = layers.map(|layer| layer.on_device().bytes(most)).sum();
    let intake = Intake::bytes(model.input, most, as_bytes);
    (work + kept + intake + Report::bytes(most)) as u64
}
