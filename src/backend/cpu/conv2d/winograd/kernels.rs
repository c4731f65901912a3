//! Kernels to their places and back.

use super::matrices::{NOTHING, Scheme, WIDTH, column, from_points, to_points};
use super::{Work, apart, padded};

/// Kernels of K × K as a matrix of `shape` (outputs, inputs), whose steps in memory are `strides`.
pub(super) struct Kernels<'a> {
    pub(super) w: &'a [f32],
    pub(super) shape: (usize, usize),
    pub(super) strides: (usize, usize),
    /// Whether each is turned round.
    pub(super) turned: bool,
}

/// Matrices of outputs × inputs from `G·k·Gᵀ`.
pub(super) struct Transform<'a, const E: usize, const O: usize, const K: usize>(
    pub(super) Kernels<'a>,
    pub(super) &'a mut [f32],
);

impl<const E: usize, const O: usize, const K: usize> Work for Transform<'_, E, O, K> {
    #[inline(always)]
    fn run(self) {
        transform(const { &Scheme::<E, O, K>::G }, &self.0, self.1);
    }
}

#[inline(always)]
fn transform<const E: usize, const K: usize>(g: &[[f32; K]; E], kernels: &Kernels, to: &mut [f32]) {
    let (outputs, inputs) = kernels.shape;
    let (step, line) = (apart(outputs, inputs), padded(inputs));
    for o in 0..outputs {
        for c in (0..inputs).step_by(WIDTH) {
            let mut kernel = [[[0.0; WIDTH]; K]; K];
            for (lane, c) in (c..inputs.min(c + WIDTH)).enumerate() {
                let at = o * kernels.strides.0 + c * kernels.strides.1;
                for (k, value) in kernels.w[at..at + K * K].iter().enumerate() {
                    let k = if kernels.turned { K * K - 1 - k } else { k };
                    kernel[k / K][k % K][lane] = *value;
                }
            }
            let mut half = [[NOTHING; E]; K];
            for (half, kernel) in half.iter_mut().zip(&kernel) {
                *half = to_points(g, kernel);
            }
            for j in 0..E {
                let values = to_points(g, &column(&half, j));
                for (i, values) in values.iter().enumerate() {
                    let at = (i * E + j) * step + o * line + c;
                    to[at..at + WIDTH].copy_from_slice(values);
                }
            }
        }
    }
}

/// The gradient of the weights of `shape` (co, ci), `Gᵀ·u·G`, from matrices of that shape.
pub(super) struct Restore<'a, const E: usize, const O: usize, const K: usize> {
    pub(super) shape: (usize, usize),
    pub(super) sums: &'a [f32],
    pub(super) dw: &'a mut [f32],
}

impl<const E: usize, const O: usize, const K: usize> Work for Restore<'_, E, O, K> {
    #[inline(always)]
    fn run(self) {
        let g = const { &Scheme::<E, O, K>::G };
        restore(g, self.shape, self.sums, self.dw);
    }
}

#[inline(always)]
fn restore<const E: usize, const K: usize>(
    g: &[[f32; K]; E],
    (co, ci): (usize, usize),
    sums: &[f32],
    dw: &mut [f32],
) {
    let (step, line) = (apart(co, ci), padded(ci));
    for o in 0..co {
        for c in (0..ci).step_by(WIDTH) {
            let mut half = [[NOTHING; K]; E];
            for (i, half) in half.iter_mut().enumerate() {
                let mut row = [NOTHING; E];
                for (j, row) in row.iter_mut().enumerate() {
                    let at = (i * E + j) * step + o * line + c;
                    row.copy_from_slice(&sums[at..at + WIDTH]);
                }
                *half = from_points(g, &row);
            }
            let mut kernel = [[NOTHING; K]; K];
            for j in 0..K {
                let column = from_points(g, &column(&half, j));
                for (kernel, value) in kernel.iter_mut().zip(column) {
                    kernel[j] = value;
                }
            }
            let dw = &mut dw[(o * ci + c) * K * K..(o * ci + ci.min(c + WIDTH)) * K * K];
            for (lane, dw) in dw.chunks_exact_mut(K * K).enumerate() {
                let values = kernel.as_flattened().iter();
                dw.iter_mut().zip(values).for_each(|(dw, v)| *dw = v[lane]);
            }
        }
    }
}
