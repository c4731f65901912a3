//! Kernels to their places and back.

use super::lanes::{Lanes, MOST_LANES};
use super::matrices::{NOTHING, Scheme, column, from_points, to_points};
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
pub(super) struct Transform<'a, L: Lanes, const E: usize, const O: usize, const K: usize>(
    pub(super) L::Set,
    pub(super) Kernels<'a>,
    pub(super) &'a mut [f32],
);

impl<L: Lanes, const E: usize, const O: usize, const K: usize> Work for Transform<'_, L, E, O, K> {
    #[inline(always)]
    fn run(self) {
        let g = const { &Scheme::<E, O, K>::G };
        transform::<L, E, K>(self.0, g, &self.1, self.2);
    }
}

#[inline(always)]
fn transform<L: Lanes, const E: usize, const K: usize>(
    set: L::Set,
    g: &[[f32; K]; E],
    kernels: &Kernels,
    to: &mut [f32],
) {
    let (outputs, inputs) = kernels.shape;
    let (step, line) = (apart(outputs, inputs), padded(inputs));
    for o in 0..outputs {
        for c in (0..inputs).step_by(L::WIDTH) {
            let mut kernel = [[[0.0; MOST_LANES]; K]; K];
            for (lane, c) in (c..inputs.min(c + L::WIDTH)).enumerate() {
                let at = o * kernels.strides.0 + c * kernels.strides.1;
                for (k, value) in kernels.w[at..at + K * K].iter().enumerate() {
                    let k = if kernels.turned { K * K - 1 - k } else { k };
                    kernel[k / K][k % K][lane] = *value;
                }
            }
            let mut half = [[L::splat(set, NOTHING); E]; K];
            for (half, kernel) in half.iter_mut().zip(&kernel) {
                let mut row = [L::splat(set, NOTHING); K];
                for (row, kernel) in row.iter_mut().zip(kernel) {
                    *row = L::load(set, kernel);
                }
                *half = to_points(set, g, &row);
            }
            for j in 0..E {
                let values = to_points(set, g, &column(&half, j));
                for (i, values) in values.iter().enumerate() {
                    let at = (i * E + j) * step + o * line + c;
                    values.store(set, &mut to[at..]);
                }
            }
        }
    }
}

/// The gradient of the weights of `shape` (co, ci), `Gᵀ·u·G`, from matrices of that shape.
pub(super) struct Restore<'a, L: Lanes, const E: usize, const O: usize, const K: usize> {
    pub(super) set: L::Set,
    pub(super) shape: (usize, usize),
    pub(super) sums: &'a [f32],
    pub(super) dw: &'a mut [f32],
}

impl<L: Lanes, const E: usize, const O: usize, const K: usize> Work for Restore<'_, L, E, O, K> {
    #[inline(always)]
    fn run(self) {
        let g = const { &Scheme::<E, O, K>::G };
        restore::<L, E, K>(self.set, g, self.shape, self.sums, self.dw);
    }
}

#[inline(always)]
fn restore<L: Lanes, const E: usize, const K: usize>(
    set: L::Set,
    g: &[[f32; K]; E],
    (co, ci): (usize, usize),
    sums: &[f32],
    dw: &mut [f32],
) {
    let (step, line) = (apart(co, ci), padded(ci));
    for o in 0..co {
        for c in (0..ci).step_by(L::WIDTH) {
            let mut half = [[L::splat(set, NOTHING); K]; E];
            for (i, half) in half.iter_mut().enumerate() {
                let mut row = [L::splat(set, NOTHING); E];
                for (j, row) in row.iter_mut().enumerate() {
                    let at = (i * E + j) * step + o * line + c;
                    *row = L::load(set, &sums[at..]);
                }
                *half = from_points(set, g, &row);
            }
            let mut kernel = [[[0.0; MOST_LANES]; K]; K];
            for j in 0..K {
                let column = from_points(set, g, &column(&half, j));
                for (kernel, value) in kernel.iter_mut().zip(column) {
                    value.store(set, &mut kernel[j]);
                }
            }
            let dw = &mut dw[(o * ci + c) * K * K..(o * ci + ci.min(c + L::WIDTH)) * K * K];
            for (lane, dw) in dw.chunks_exact_mut(K * K).enumerate() {
                let values = kernel.as_flattened().iter();
                dw.iter_mut().zip(values).for_each(|(dw, v)| *dw = v[lane]);
            }
        }
    }
}
