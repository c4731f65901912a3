//! Plain stochastic gradient descent.

use super::Optimizer;

/// `params += −lr × gradient`.
#[derive(Clone, Copy, Debug)]
pub struct Sgd {
    /// Learning rate.
    pub lr: f32,
}

impl Optimizer for Sgd {
    fn update(&mut self, _params: &[f32], grads: &mut [f32]) {
        grads.iter_mut().for_each(|g| *g *= -self.lr);
    }

    fn lr(&self) -> f32 {
        self.lr
    }
}
