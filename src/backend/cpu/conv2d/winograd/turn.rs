//! Rows of eight tiles to vectors of one place each, and back, with AVX2; the machine must have it.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::lanes::{MOST_LANES, ROW, Rows};

/// The columns of eight rows.
#[inline(always)]
pub(super) fn columns(rows: &Rows) -> [[f32; 8]; ROW] {
    // SAFETY: the caller found AVX2.
    unsafe { columns_avx2(rows) }
}

/// Four columns as eight rows.
#[inline(always)]
pub(super) fn rows(columns: &[[f32; 8]; 4]) -> [[f32; 4]; MOST_LANES] {
    // SAFETY: the caller found AVX2.
    unsafe { rows_avx2(columns) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn columns_avx2(rows: &Rows) -> [[f32; 8]; ROW] {
    let mut r = [_mm256_setzero_ps(); 8];
    for (lane, value) in r.iter_mut().enumerate() {
        *value = row(rows, lane);
    }
    let upper = fours([r[0], r[1], r[2], r[3]]);
    let lower = fours([r[4], r[5], r[6], r[7]]);
    let mut columns = [[0.0; 8]; ROW];
    for i in 0..4 {
        let first = _mm256_permute2f128_ps::<0x20>(upper[i], lower[i]);
        let second = _mm256_permute2f128_ps::<0x31>(upper[i], lower[i]);
        // SAFETY: a column has eight numbers.
        unsafe {
            _mm256_storeu_ps(columns[i].as_mut_ptr(), first);
            _mm256_storeu_ps(columns[4 + i].as_mut_ptr(), second);
        }
    }
    columns
}

/// What is to be read of the row of a lane.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn row(rows: &Rows, lane: usize) -> __m256 {
    let from = rows.x.as_ptr().wrapping_add(rows.starts[lane]);
    let mask = rows.masks[lane];
    debug_assert!(
        (0..ROW).all(|i| mask[i] == 0 || rows.starts[lane].wrapping_add(i) < rows.x.len())
    );
    // SAFETY: a mask has eight numbers, and those of a row that it chooses lie in `x`.
    unsafe { _mm256_maskload_ps(from, _mm256_loadu_si256(mask.as_ptr().cast())) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn rows_avx2(columns: &[[f32; 8]; 4]) -> [[f32; 4]; MOST_LANES] {
    let mut c = [_mm256_setzero_ps(); 4];
    for (c, column) in c.iter_mut().zip(columns) {
        // SAFETY: a column has eight numbers.
        *c = unsafe { _mm256_loadu_ps(column.as_ptr()) };
    }
    let mut to = [[0.0; 4]; MOST_LANES];
    for (m, rows) in fours(c).into_iter().enumerate() {
        // SAFETY: a row has four numbers.
        unsafe {
            _mm_storeu_ps(to[m].as_mut_ptr(), _mm256_castps256_ps128(rows));
            _mm_storeu_ps(to[4 + m].as_mut_ptr(), _mm256_extractf128_ps::<1>(rows));
        }
    }
    to
}

/// Turns squares of four rows round, in each half of the vectors.
#[inline]
#[target_feature(enable = "avx2")]
fn fours([a, b, c, d]: [__m256; 4]) -> [__m256; 4] {
    let low = (_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d));
    let high = (_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d));
    [
        _mm256_shuffle_ps::<0x44>(low.0, low.1),
        _mm256_shuffle_ps::<0xee>(low.0, low.1),
        _mm256_shuffle_ps::<0x44>(high.0, high.1),
        _mm256_shuffle_ps::<0xee>(high.0, high.1),
    ]
}
