//! Kernels to their 36 places and back.

use super::apart;
use super::matrices::{EDGE, G, Lanes, Stage, WIDTH, get, put, sandwich, transposed};

/// Kernels of 3 × 3 as a matrix of `shape` (outputs, inputs), whose steps in memory are `strides`.
pub(super) struct Kernels<'a> {
    pub(super) w: &'a [f32],
    pub(super) shape: (usize, usize),
    pub(super) strides: (usize, usize),
    /// Whether each is turned round.
    pub(super) turned: bool,
}

/// `(36, outputs, inputs)` from `G·k·Gᵀ`.
pub(super) struct Transform<'a>(pub(super) Kernels<'a>, pub(super) &'a mut [f32]);

impl Stage for Transform<'_> {
    #[inline(always)]
    fn run(self) {
        transform(&self.0, self.1);
    }
}

#[inline(always)]
fn transform(kernels: &Kernels, to: &mut [f32]) {
    let (outputs, inputs) = kernels.shape;
    let step = apart(outputs, inputs);
    for o in 0..outputs {
        for c in (0..inputs).step_by(WIDTH) {
            let count = WIDTH.min(inputs - c);
            let mut kernel: [[Lanes; 3]; 3] = Default::default();
            for lane in 0..count {
                let at = o * kernels.strides.0 + (c + lane) * kernels.strides.1;
                for (k, value) in kernels.w[at..at + 9].iter().enumerate() {
                    let k = if kernels.turned { 8 - k } else { k };
                    kernel[k / 3][k % 3][lane] = *value;
                }
            }
            let values = sandwich(&G, &kernel);
            for (place, values) in values.as_flattened().iter().enumerate() {
                put(values, count, &mut to[place * step + o * inputs + c..]);
            }
        }
    }
}

/// The weights' gradient `Gᵀ·u·G` from sums `(36, co, ci)`.
pub(super) struct Restore<'a>(pub(super) &'a [f32], pub(super) &'a mut [f32]);

impl Stage for Restore<'_> {
    #[inline(always)]
    fn run(self) {
        restore(self.0, self.1);
    }
}

#[inline(always)]
fn restore(sums: &[f32], dw: &mut [f32]) {
    let all = dw.len() / 9;
    let step = apart(all, 1);
    for first in (0..all).step_by(WIDTH) {
        let count = WIDTH.min(all - first);
        let mut values: [[Lanes; EDGE]; EDGE] = Default::default();
        for (place, values) in values.as_flattened_mut().iter_mut().enumerate() {
            *values = get(&sums[place * step + first..], count);
        }
        let kernel = sandwich(&const { transposed(&G) }, &values);
        for (k, values) in kernel.as_flattened().iter().enumerate() {
            for (lane, value) in values.iter().enumerate().take(count) {
                dw[(first + lane) * 9 + k] = *value;
            }
        }
    }
}
