//! Turning gradients into updates.

mod sgd;

pub use sgd::Sgd;

/// Anything that moves parameters along a gradient.
pub trait Optimizer {
    /// Replaces each gradient by the amount to add to its parameter.
    fn update(&mut self, params: &[f32], grads: &mut [f32]);
    /// The learning rate of the next update.
    fn lr(&self) -> f32;
}
