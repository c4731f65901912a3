//! The memory that a model takes on a device.

use super::intake::Intake;
use super::passes::Sizes;
use super::report::Report;
use crate::nn::Model;

/// The most samples of a model at once whose values kernels count: in 31 bits, and a little less for tiles that reach over the end.
pub fn most(model: &mut Model) -> usize {
    let last = i32::MAX as usize - 1024;
    let layers = model.layers.iter_mut().zip(&model.stages);
    let most = layers.map(|(layer, stage)| {
        let values = stage.inputs.max(stage.outputs).max(1);
        (last / values).min(layer.on_device().most())
    });
    most.min().unwrap_or(last)
}

/// Bytes on a device of a model for up to `most` samples at once, without parameters and gradients; `as_bytes` says whether
/// pixels come as bytes.
pub fn bytes(model: &mut Model, most: usize, as_bytes: bool) -> u64 {
    let work = 4 * Sizes::of(model, most).floats();
    let layers = model.layers.iter_mut();
    let kept: usize = layers.map(|layer| layer.on_device().bytes(most)).sum();
    let intake = Intake::bytes(model.input, most, as_bytes);
    (work + kept + intake + Report::bytes(most)) as u64
}
