//! Kernels to their 36 places and back.

use super::matrices::{EDGE, G, Lanes, Stage, WIDTH, sandwich, transposed};
use super::{apart, padded};

/// Kernels of 3 × 3 as a matrix of `shape` (outputs, inputs), whose steps in memory are `strides`.
pub(super) struct Kernels<'a> {
    pub(super) w: &'a [f32],
    pub(super) shape: (usize, usize),
    pub(super) strides: (usize, usize),
    /// Whether each is turned round.
    pub(super) turned: bool,
}

/// Matrices of outputs × inputs from `G·k·Gᵀ`.
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
    let (step, line) = (apart(outputs, inputs), padded(inputs));
    for o in 0..outputs {
        for c in (0..inputs).step_by(WIDTH) {
            let mut kernel: [[Lanes; 3]; 3] = Default::default();
            for (lane, c) in (c..inputs.min(c + WIDTH)).enumerate() {
                let at = o * kernels.strides.0 + c * kernels.strides.1;
                for (k, value) in kernels.w[at..at + 9].iter().enumerate() {
                    let k = if kernels.turned { 8 - k } else { k };
                    kernel[k / 3][k % 3][lane] = *value;
                }
            }
            let values = sandwich(&G, &kernel);
            for (place, values) in values.as_flattened().iter().enumerate() {
                let at = place * step + o * line + c;
                to[at..at + WIDTH].copy_from_slice(values);
            }
        }
    }
}

/// The gradient of the weights of `shape` (co, ci), `Gᵀ·u·G`, from matrices of that shape.
pub(super) struct Restore<'a> {
    pub(super) shape: (usize, usize),
    pub(super) sums: &'a [f32],
    pub(super) dw: &'a mut [f32],
}

impl Stage for Restore<'_> {
    #[inline(always)]
    fn run(self) {
        restore(self.shape, self.sums, self.dw);
    }
}

#[inline(always)]
fn restore((co, ci): (usize, usize), sums: &[f32], dw: &mut [f32]) {
    let (step, line) = (apart(co, ci), padded(ci));
    for o in 0..co {
        for c in (0..ci).step_by(WIDTH) {
            let mut values: [[Lanes; EDGE]; EDGE] = Default::default();
            for (place, values) in values.as_flattened_mut().iter_mut().enumerate() {
                let at = place * step + o * line + c;
                values.copy_from_slice(&sums[at..at + WIDTH]);
            }
            let kernel = sandwich(&const { transposed(&G) }, &values);
            let dw = &mut dw[(o * ci + c) * 9..(o * ci + ci.min(c + WIDTH)) * 9];
            for (lane, dw) in dw.chunks_exact_mut(9).enumerate() {
                let values = kernel.as_flattened().iter();
                dw.iter_mut().zip(values).for_each(|(dw, v)| *dw = v[lane]);
            }
        }
    }
}
