//! Linear layers with few outputs, such as the last layer of a classifier, on AVX2.
//!
//! BLAS packs both matrices and pads the outputs to its tile; for 10 outputs that costs more than the product. Here
//! the inputs are read in place, bytes as they are (a quarter of the traffic of floats), and a tile of sums stays in
//! registers.
//! Forward: tiles of 2 samples × up to 5 outputs, vectors along the inputs; per 10 multiply-adds 7 loads.
//! Gradient: tiles of 16 inputs × up to 5 outputs, summed over the samples; per 10 multiply-adds 7 loads.
#![allow(unsafe_code)]

use super::Input;
use super::linear::Geometry;

/// Outputs up to which these kernels beat BLAS.
const MOST: usize = 20;

/// Whether these kernels can and should do this layer here.
pub(super) fn suits(g: Geometry) -> bool {
    cfg!(target_arch = "x86_64") && g.co <= MOST && g.ci >= 16 && super::has_avx2()
}

/// `y = x·wᵀ + b`.
pub(super) fn forward(g: Geometry, x: Input, w: &[f32], b: &[f32], y: &mut [f32]) {
    assert!(
        x.len() == g.n * g.ci && w.len() == g.co * g.ci && b.len() == g.co && y.len() == g.n * g.co
    );
    #[cfg(target_arch = "x86_64")]
    // SAFETY: `suits` has found AVX2 and FMA, and the sizes were just checked.
    unsafe {
        match x {
            Input::Floats(x) => avx2::forward(g, x, w, b, y),
            Input::Bytes {
                pixels,
                factor,
                shift,
            } => {
                avx2::forward(g, pixels, w, &[0.0; MOST], y);
                affine(g, factor, shift, w, b, y);
            }
        }
    }
}

/// `dw = dyᵀ·x`, with `db` the sums of `dy`.
pub(super) fn grad_weights(g: Geometry, x: Input, dy: &[f32], db: &[f32], dw: &mut [f32]) {
    assert!(x.len() == g.n * g.ci && dy.len() == g.n * g.co && dw.len() == g.co * g.ci);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: `suits` has found AVX2 and FMA, and the sizes were just checked.
    unsafe {
        match x {
            Input::Floats(x) => avx2::grad_weights(g, x, dy, (1.0, &[0.0; MOST]), dw),
            Input::Bytes {
                pixels,
                factor,
                shift,
            } => {
                let mut offsets = [0.0; MOST];
                offsets
                    .iter_mut()
                    .zip(db)
                    .for_each(|(offset, db)| *offset = shift * db);
                avx2::grad_weights(g, pixels, dy, (factor, &offsets), dw)
            }
        }
    }
}

/// Turns products of raw bytes into those of scaled ones: `y = factor·y + shift·Σw + b`.
fn affine(g: Geometry, factor: f32, shift: f32, w: &[f32], b: &[f32], y: &mut [f32]) {
    let mut offsets = [0.0; MOST];
    for ((offset, b), row) in offsets.iter_mut().zip(b).zip(w.chunks_exact(g.ci)) {
        *offset = *b
            + if shift == 0.0 {
                0.0
            } else {
                shift * row.iter().sum::<f32>()
            };
    }
    for row in y.chunks_exact_mut(g.co) {
        row.iter_mut()
            .zip(&offsets)
            .for_each(|(y, offset)| *y = *y * factor + offset);
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    use super::Geometry;

    /// An input value, widened to floats in a register.
    pub(super) trait Value: Copy {
        /// The value itself.
        fn float(self) -> f32;
        /// Eight values from `at`.
        ///
        /// # Safety
        /// Eight values must be there.
        unsafe fn eight(at: *const Self) -> __m256;
    }

    impl Value for f32 {
        fn float(self) -> f32 {
            self
        }

        #[inline(always)]
        unsafe fn eight(at: *const Self) -> __m256 {
            // SAFETY: eight floats are there by contract, and the callers have AVX2.
            unsafe { _mm256_loadu_ps(at) }
        }
    }

    impl Value for u8 {
        fn float(self) -> f32 {
            f32::from(self)
        }

        #[inline(always)]
        unsafe fn eight(at: *const Self) -> __m256 {
            // SAFETY: eight bytes are there by contract, and the callers have AVX2.
            unsafe { _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(at.cast()))) }
        }
    }

    /// A factor for all sums, and what to add to those of each output.
    pub(super) type Affine<'a> = (f32, &'a [f32; super::MOST]);

    /// Outputs of a full tile: with 2 samples, ten sums, which hide the latency of two multiply-add units.
    const TILE: usize = 5;

    /// # Safety
    /// The slices must have the geometry's sizes.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn forward<T: Value>(
        g: Geometry,
        x: &[T],
        w: &[f32],
        b: &[f32],
        y: &mut [f32],
    ) {
        // Outputs outside, samples inside: a tile's weights stay in the first-level cache over all samples.
        for o in (0..g.co).step_by(TILE) {
            for i in (0..g.n).step_by(2) {
                let (xs, ws) = (&x[i * g.ci..], &w[o * g.ci..]);
                let mut sums = [[0.0; TILE]; 2];
                let (samples, outputs) = ((g.n - i).min(2), (g.co - o).min(TILE));
                // SAFETY: `samples` rows start at `xs` and `outputs` rows at `ws`, all of length ci.
                unsafe {
                    match (samples, outputs) {
                        (2, 5) => dot::<T, 2, 5>(g.ci, xs, ws, &mut sums),
                        (2, 4) => dot::<T, 2, 4>(g.ci, xs, ws, &mut sums),
                        (2, 3) => dot::<T, 2, 3>(g.ci, xs, ws, &mut sums),
                        (2, 2) => dot::<T, 2, 2>(g.ci, xs, ws, &mut sums),
                        (2, _) => dot::<T, 2, 1>(g.ci, xs, ws, &mut sums),
                        (_, 5) => dot::<T, 1, 5>(g.ci, xs, ws, &mut sums),
                        (_, 4) => dot::<T, 1, 4>(g.ci, xs, ws, &mut sums),
                        (_, 3) => dot::<T, 1, 3>(g.ci, xs, ws, &mut sums),
                        (_, 2) => dot::<T, 1, 2>(g.ci, xs, ws, &mut sums),
                        _ => dot::<T, 1, 1>(g.ci, xs, ws, &mut sums),
                    }
                }
                for (s, sums) in sums.iter().enumerate().take(samples) {
                    let row = &mut y[(i + s) * g.co + o..][..outputs];
                    row.iter_mut()
                        .zip(&b[o..])
                        .zip(sums)
                        .for_each(|((y, b), sum)| *y = sum + b);
                }
            }
        }
    }

    /// Products of S rows of `x` with C rows of `w`, all of length `k`.
    ///
    /// # Safety
    /// `x` must hold S rows and `w` C rows.
    #[target_feature(enable = "avx2,fma")]
    unsafe fn dot<T: Value, const S: usize, const C: usize>(
        k: usize,
        x: &[T],
        w: &[f32],
        sums: &mut [[f32; 5]; 2],
    ) {
        debug_assert!(x.len() >= S * k && w.len() >= C * k);
        let (x, w) = (x.as_ptr(), w.as_ptr());
        let mut tile = [[_mm256_setzero_ps(); S]; C];
        let whole = k - k % 8;
        for i in (0..whole).step_by(8) {
            // SAFETY: i + 8 ≤ k, and every row has k values.
            unsafe {
                let xs: [__m256; S] = std::array::from_fn(|s| T::eight(x.add(s * k + i)));
                for (c, sums) in tile.iter_mut().enumerate() {
                    let weight = _mm256_loadu_ps(w.add(c * k + i));
                    for (sum, x) in sums.iter_mut().zip(xs) {
                        *sum = _mm256_fmadd_ps(x, weight, *sum);
                    }
                }
            }
        }
        for s in 0..S {
            for c in 0..C {
                // SAFETY: whole ≤ i < k.
                let rest: f32 = (whole..k)
                    .map(|i| unsafe { (*x.add(s * k + i)).float() * *w.add(c * k + i) })
                    .sum();
                sums[s][c] = across(tile[c][s]) + rest;
            }
        }
    }

    /// The sum of a vector's lanes.
    #[target_feature(enable = "avx2,fma")]
    fn across(v: __m256) -> f32 {
        let four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
    }

    /// # Safety
    /// The slices must have the geometry's sizes.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn grad_weights<T: Value>(
        g: Geometry,
        x: &[T],
        dy: &[f32],
        affine: Affine,
        dw: &mut [f32],
    ) {
        let whole = g.ci - g.ci % 16;
        // Inputs outside, outputs inside: the 64 bytes of each sample that a tile reads are still cached for the next.
        for i in (0..whole).step_by(16) {
            for o in (0..g.co).step_by(TILE) {
                // SAFETY: i + 16 ≤ ci, and the tile's outputs are at most co − o.
                unsafe {
                    match g.co - o {
                        1 => outer::<T, 1>(g, (i, o), x, dy, affine, dw),
                        2 => outer::<T, 2>(g, (i, o), x, dy, affine, dw),
                        3 => outer::<T, 3>(g, (i, o), x, dy, affine, dw),
                        4 => outer::<T, 4>(g, (i, o), x, dy, affine, dw),
                        _ => outer::<T, TILE>(g, (i, o), x, dy, affine, dw),
                    }
                }
            }
        }
        for i in whole..g.ci {
            for o in 0..g.co {
                let sum: f32 = (0..g.n)
                    .map(|n| dy[n * g.co + o] * x[n * g.ci + i].float())
                    .sum();
                dw[o * g.ci + i] = sum * affine.0 + affine.1[o];
            }
        }
    }

    /// Gradients of C outputs from `o` with respect to 16 inputs from `i`.
    ///
    /// # Safety
    /// The slices must have the geometry's sizes, i + 16 ≤ ci and o + C ≤ co.
    #[target_feature(enable = "avx2,fma")]
    unsafe fn outer<T: Value, const C: usize>(
        g: Geometry,
        (i, o): (usize, usize),
        x: &[T],
        dy: &[f32],
        affine: Affine,
        dw: &mut [f32],
    ) {
        debug_assert!(i + 16 <= g.ci && o + C <= g.co);
        let (mut x, mut dy) = (x[i..].as_ptr(), dy[o..].as_ptr());
        let mut tile = [[_mm256_setzero_ps(); 2]; C];
        for _ in 0..g.n {
            // SAFETY: x and dy are in row n of n, at columns i and o, with room for 16 and C values.
            unsafe {
                let xs = [T::eight(x), T::eight(x.add(8))];
                for (c, sums) in tile.iter_mut().enumerate() {
                    let d = _mm256_broadcast_ss(&*dy.add(c));
                    sums[0] = _mm256_fmadd_ps(d, xs[0], sums[0]);
                    sums[1] = _mm256_fmadd_ps(d, xs[1], sums[1]);
                }
                x = x.wrapping_add(g.ci);
                dy = dy.wrapping_add(g.co);
            }
        }
        for (c, sums) in tile.iter().enumerate() {
            let row = &mut dw[(o + c) * g.ci + i..][..16];
            // SAFETY: the row has 16 places.
            unsafe {
                let (factor, offset) = (_mm256_set1_ps(affine.0), _mm256_set1_ps(affine.1[o + c]));
                _mm256_storeu_ps(row.as_mut_ptr(), _mm256_fmadd_ps(sums[0], factor, offset));
                _mm256_storeu_ps(
                    row.as_mut_ptr().add(8),
                    _mm256_fmadd_ps(sums[1], factor, offset),
                );
            }
        }
    }
}
