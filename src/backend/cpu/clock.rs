//! Where the time of a model goes, layer by layer.

use std::time::{Duration, Instant};

use crate::observe::timeline::{self, Kind};

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

impl Timed {
    fn kind(self) -> Kind {
        match self {
            Self::Forward => Kind::Forward,
            Self::GradParams => Kind::GradParams,
            Self::GradInput => Kind::GradInput,
        }
    }
}

/// Adds up times by layer and pass, once it is started; until then it costs a branch. Where this thread is traced, it notes them.
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
        let traced = timeline::is_on();
        if self.0.is_empty() && !traced {
            return work();
        }
        let start = Instant::now();
        let result = work();
        let end = Instant::now();
        if let Some(times) = self.0.get_mut(layer) {
            times[pass as usize] += end - start;
        }
        if traced {
            timeline::between(pass.kind(), layer, start, end);
        }
        result
    }
}
