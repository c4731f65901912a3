//! Steps of an optimizer on a device, all parameters at once.

use std::ops::Range;

use crate::Result;
use crate::backend::cuda::update::{Moved, Target};
use crate::backend::cuda::{Stream, ViewMut, reduce};

/// Parameters on a device that an optimizer moves: all of them.
pub struct There<'a> {
    /// Where it is launched.
    pub stream: &'a Stream,
    /// The parameters.
    pub params: ViewMut<'a, f32>,
    /// Their gradients; what is left of them is anything.
    pub grads: ViewMut<'a, f32>,
    /// What the optimizer remembers of each parameter: all of its first values, all of its second ones.
    pub memory: ViewMut<'a, f32>,
    /// What it must know before an update.
    pub sums: ViewMut<'a, f64>,
    /// What sums work in, [`reduce::SCRATCH`].
    pub scratch: ViewMut<'a, f64>,
}

impl There<'_> {
    /// The same, for a while, without the first so many sums.
    pub fn behind(&mut self, sums: usize) -> There<'_> {
        let all = self.sums.len();
        There {
            stream: self.stream,
            params: self.params.again(),
            grads: self.grads.again(),
            memory: self.memory.again(),
            sums: self.sums.again().part(sums..all),
            scratch: self.scratch.again(),
        }
    }

    /// Sets a sum to that of the squares of gradients.
    pub fn measure_grads(&mut self, sum: usize, range: Range<usize>) -> Result<()> {
        let (out, scratch) = (self.sums.again().part(sum..sum + 1), self.scratch.again());
        let values = self.grads.shared().part(range);
        reduce::squares(self.stream, values, out, scratch)
    }

    /// Sets a sum to that of the squares of parameters.
    pub fn measure_params(&mut self, sum: usize, range: Range<usize>) -> Result<()> {
        let (out, scratch) = (self.sums.again().part(sum..sum + 1), self.scratch.again());
        let values = self.params.shared().part(range);
        reduce::squares(self.stream, values, out, scratch)
    }
}

/// Parameters and gradients in `range`, as kernels take them.
pub(super) fn moved<'a>(
    params: &'a mut ViewMut<f32>,
    grads: &'a mut ViewMut<f32>,
    range: Range<usize>,
) -> Moved<'a> {
    Moved {
        params: params.again().part(range.clone()),
        grads: grads.again().part(range),
        target: Target::Params,
    }
}
