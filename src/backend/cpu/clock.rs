//! Where the time of a model goes, layer by layer.

use std::time::{Duration, Instant};

/// Passes of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timed {
    /// Outputs from inputs.
    Forward,
    /// Gradients of parameters.
    GradParams,
    /// Gradients of inputs.
    GradInput,
}

/// Adds up times by layer and pass, once it is started; until then it costs a branch.
#[derive(Clone, Debug, Default)]
pub struct Clock(Vec<[Duration; 3]>);

impl Clock {
    /// Starts at zero, for so many layers.
    pub fn start(&mut self, layers: usize) {
        self.0 = vec![[Duration::ZERO; 3]; layers];
    }

    /// The times of each layer, by pass.
    pub fn times(&self) -> &[[Duration; 3]] {
        &self.0
    }

    /// Does `work` on behalf of a layer.
    #[inline]
    pub fn time<R>(&mut self, layer: usize, pass: Timed, work: impl FnOnce() -> R) -> R {
        if self.0.is_empty() {
            return work();
        }
        let start = Instant::now();
        let result = work();
        self.0[layer][pass as usize] += start.elapsed();
        result
    }
}
