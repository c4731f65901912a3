//! Sixteen tiles or kernels in a register of AVX-512. In arrays, as eight are, the compiler would cut them up.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::super::isa::{Avx512, Vectors};
use super::lanes::{Lanes, MOST_LANES, ROW, Rows};
use super::turn::row;

/// One place of sixteen tiles.
#[derive(Clone, Copy)]
pub(super) struct Register(__m512);

impl Lanes for Register {
    type Set = Avx512;

    const WIDTH: usize = 16;

    #[inline(always)]
    fn splat(set: Avx512, x: f32) -> Self {
        Self(set.splat(x))
    }

    #[inline(always)]
    fn load(set: Avx512, from: &[f32]) -> Self {
        let from = &from[..Self::WIDTH];
        // SAFETY: the slice has sixteen floats.
        Self(unsafe { set.load_at(from.as_ptr()) })
    }

    #[inline(always)]
    fn store(&self, set: Avx512, to: &mut [f32]) {
        let to = &mut to[..Self::WIDTH];
        // SAFETY: the slice has sixteen floats.
        unsafe { set.store_at(to.as_mut_ptr(), self.0) }
    }

    #[inline(always)]
    fn times_plus(&self, set: Avx512, factor: f32, other: Self) -> Self {
        if factor == 1.0 {
            Self(set.add(other.0, self.0))
        } else if factor == -1.0 {
            Self(set.sub(other.0, self.0))
        } else {
            Self(set.mul_add(self.0, set.splat(factor), other.0))
        }
    }

    #[inline(always)]
    fn columns(_set: Avx512, rows: &Rows) -> [Self; ROW] {
        // SAFETY: the set tells that the instructions are there.
        unsafe { columns(rows) }.map(Self)
    }

    #[inline(always)]
    fn rows(_set: Avx512, columns: &[Self; 4]) -> [[f32; 4]; MOST_LANES] {
        let [a, b, c, d] = *columns;
        // SAFETY: the set tells that the instructions are there.
        unsafe { turned([a.0, b.0, c.0, d.0]) }
    }
}

#[inline]
#[target_feature(enable = "avx2,avx512f,avx512dq,avx512vl")]
fn columns(rows: &Rows) -> [__m512; ROW] {
    // Two rows in a vector, such that the quarters come out in order.
    let mut r = [_mm512_setzero_ps(); 8];
    for (i, r) in r.iter_mut().enumerate() {
        let first = i % 4 + i / 4 * 8;
        let low = _mm512_castps256_ps512(row(rows, first));
        *r = _mm512_insertf32x8::<1>(low, row(rows, first + 4));
    }
    let upper = fours([r[0], r[1], r[2], r[3]]);
    let lower = fours([r[4], r[5], r[6], r[7]]);
    let mut columns = r;
    for i in 0..4 {
        columns[i] = _mm512_shuffle_f32x4::<0b10_00_10_00>(upper[i], lower[i]);
        columns[4 + i] = _mm512_shuffle_f32x4::<0b11_01_11_01>(upper[i], lower[i]);
    }
    columns
}

#[inline]
#[target_feature(enable = "avx2,avx512f,avx512dq,avx512vl")]
fn turned(columns: [__m512; 4]) -> [[f32; 4]; MOST_LANES] {
    let mut to = [[0.0; 4]; MOST_LANES];
    for (m, rows) in fours(columns).into_iter().enumerate() {
        // SAFETY: a row has four numbers.
        unsafe {
            _mm_storeu_ps(to[m].as_mut_ptr(), _mm512_castps512_ps128(rows));
            _mm_storeu_ps(to[4 + m].as_mut_ptr(), _mm512_extractf32x4_ps::<1>(rows));
            _mm_storeu_ps(to[8 + m].as_mut_ptr(), _mm512_extractf32x4_ps::<2>(rows));
            _mm_storeu_ps(to[12 + m].as_mut_ptr(), _mm512_extractf32x4_ps::<3>(rows));
        }
    }
    to
}

/// Turns squares of four rows round, in each quarter of the vectors.
#[inline]
#[target_feature(enable = "avx512f")]
fn fours([a, b, c, d]: [__m512; 4]) -> [__m512; 4] {
    let low = (_mm512_unpacklo_ps(a, b), _mm512_unpacklo_ps(c, d));
    let high = (_mm512_unpackhi_ps(a, b), _mm512_unpackhi_ps(c, d));
    [
        _mm512_shuffle_ps::<0x44>(low.0, low.1),
        _mm512_shuffle_ps::<0xee>(low.0, low.1),
        _mm512_shuffle_ps::<0x44>(high.0, high.1),
        _mm512_shuffle_ps::<0xee>(high.0, high.1),
    ]
}
