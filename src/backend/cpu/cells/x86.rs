//! Lanes in the vectors of AVX2, and with AVX-512 cells by its moves that gather.
#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::ptr;

use super::{Cell, LANES, Lanes};
use crate::backend::cpu::isa::{Avx2, Avx512, Vectors};

// Each unsafe block here needs the instructions, which the value `self` proves to be there. Where cells are read and written,
// as many floats are as each cell has. Others may write them at the same moment: the moves are the processor's own, out of
// which no aligned float comes torn, and whoever has a reference to a cell may write it.

/// Where a cell begins.
#[inline(always)]
fn start<T, const W: usize>(cell: &Cell<W>) -> *mut T {
    ptr::from_ref(cell).cast::<T>().cast_mut()
}

impl Lanes for Avx2 {
    type Floats = __m256;

    #[inline(always)]
    fn of(self, floats: [f32; LANES]) -> __m256 {
        // SAFETY: there are eight floats.
        unsafe { _mm256_loadu_ps(floats.as_ptr()) }
    }

    #[inline(always)]
    fn each(self, x: __m256) -> [f32; LANES] {
        let mut floats = [0.0; LANES];
        // SAFETY: there is room for eight floats.
        unsafe { _mm256_storeu_ps(floats.as_mut_ptr(), x) };
        floats
    }

    #[inline(always)]
    fn splat(self, x: f32) -> __m256 {
        Vectors::splat(self, x)
    }

    #[inline(always)]
    fn add(self, a: __m256, b: __m256) -> __m256 {
        Vectors::add(self, a, b)
    }

    #[inline(always)]
    fn sub(self, a: __m256, b: __m256) -> __m256 {
        Vectors::sub(self, a, b)
    }

    #[inline(always)]
    fn mul(self, a: __m256, b: __m256) -> __m256 {
        Vectors::mul(self, a, b)
    }

    #[inline(always)]
    fn div(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: the instructions are there.
        unsafe { _mm256_div_ps(a, b) }
    }

    #[inline(always)]
    fn sqrt(self, x: __m256) -> __m256 {
        // SAFETY: the instructions are there.
        unsafe { _mm256_sqrt_ps(x) }
    }

    #[inline(always)]
    fn sum(self, x: __m256) -> f32 {
        // SAFETY: the instructions are there.
        unsafe {
            let four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
        }
    }

    #[inline(always)]
    fn read<const W: usize>(self, cells: &[&Cell<W>; LANES]) -> [__m256; W] {
        let mut floats = [Lanes::splat(self, 0.0); W];
        let &[a, b, c, d, e, f, g, h] = cells;
        // SAFETY: as above.
        unsafe {
            match W {
                1 => {
                    let low = four(start(a), start(b), start(c), start(d));
                    let high = four(start(e), start(f), start(g), start(h));
                    floats[0] = _mm256_set_m128(high, low);
                }
                2 => {
                    let (ab, cd) = (two(start(a), start(b)), two(start(c), start(d)));
                    let (ef, gh) = (two(start(e), start(f)), two(start(g), start(h)));
                    let (low, high) = (_mm256_set_m128(ef, ab), _mm256_set_m128(gh, cd));
                    floats[0] = _mm256_shuffle_ps::<0b10_00_10_00>(low, high);
                    floats[1] = _mm256_shuffle_ps::<0b11_01_11_01>(low, high);
                }
                4 => {
                    let row = |a: &Cell<W>, e: &Cell<W>| {
                        _mm256_set_m128(_mm_loadu_ps(start(e)), _mm_loadu_ps(start(a)))
                    };
                    let all = turned([row(a, e), row(b, f), row(c, g), row(d, h)]);
                    floats.copy_from_slice(&all);
                }
                _ => unreachable!("rules remember 1, 2 or 4 floats"),
            }
        }
        floats
    }

    #[inline(always)]
    fn write<const W: usize>(self, cells: &[&Cell<W>; LANES], floats: [__m256; W]) {
        let &[a, b, c, d, e, f, g, h] = cells;
        // SAFETY: as above.
        unsafe {
            match W {
                1 => {
                    let all = self.each(floats[0]);
                    for (cell, float) in cells.iter().zip(all) {
                        start::<f32, W>(cell).write(float);
                    }
                }
                2 => {
                    let low = _mm256_castps_pd(_mm256_unpacklo_ps(floats[0], floats[1]));
                    let high = _mm256_castps_pd(_mm256_unpackhi_ps(floats[0], floats[1]));
                    let (ab, ef) = (_mm256_castpd256_pd128(low), _mm256_extractf128_pd::<1>(low));
                    let (cd, gh) = (
                        _mm256_castpd256_pd128(high),
                        _mm256_extractf128_pd::<1>(high),
                    );
                    for (x, first, second) in [(ab, a, b), (cd, c, d), (ef, e, f), (gh, g, h)] {
                        _mm_storel_pd(start(first), x);
                        _mm_storeh_pd(start(second), x);
                    }
                }
                4 => {
                    let all = turned([floats[0], floats[1 % W], floats[2 % W], floats[3 % W]]);
                    for (x, first, second) in [
                        (all[0], a, e),
                        (all[1], b, f),
                        (all[2], c, g),
                        (all[3], d, h),
                    ] {
                        _mm_storeu_ps(start(first), _mm256_castps256_ps128(x));
                        _mm_storeu_ps(start(second), _mm256_extractf128_ps::<1>(x));
                    }
                }
                _ => unreachable!("rules remember 1, 2 or 4 floats"),
            }
        }
    }
}

impl Lanes for Avx512 {
    type Floats = __m256;

    #[inline(always)]
    fn of(self, floats: [f32; LANES]) -> __m256 {
        self.narrow().of(floats)
    }

    #[inline(always)]
    fn each(self, x: __m256) -> [f32; LANES] {
        self.narrow().each(x)
    }

    #[inline(always)]
    fn splat(self, x: f32) -> __m256 {
        Lanes::splat(self.narrow(), x)
    }

    #[inline(always)]
    fn add(self, a: __m256, b: __m256) -> __m256 {
        Lanes::add(self.narrow(), a, b)
    }

    #[inline(always)]
    fn sub(self, a: __m256, b: __m256) -> __m256 {
        Lanes::sub(self.narrow(), a, b)
    }

    #[inline(always)]
    fn mul(self, a: __m256, b: __m256) -> __m256 {
        Lanes::mul(self.narrow(), a, b)
    }

    #[inline(always)]
    fn div(self, a: __m256, b: __m256) -> __m256 {
        self.narrow().div(a, b)
    }

    #[inline(always)]
    fn sqrt(self, x: __m256) -> __m256 {
        self.narrow().sqrt(x)
    }

    #[inline(always)]
    fn sum(self, x: __m256) -> f32 {
        self.narrow().sum(x)
    }

    #[inline(always)]
    fn read<const W: usize>(self, cells: &[&Cell<W>; LANES]) -> [__m256; W] {
        if W != 2 {
            return self.narrow().read(cells);
        }
        let mut floats = [Lanes::splat(self, 0.0); W];
        // SAFETY: as above; the cells' addresses are gathered from, and counted in bytes.
        unsafe {
            let places = _mm512_loadu_epi64(cells.as_ptr().cast());
            let both = _mm512_i64gather_epi64::<1>(places, ptr::null());
            let apart = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15);
            let both = _mm512_permutexvar_ps(apart, _mm512_castsi512_ps(both));
            floats[0] = _mm512_castps512_ps256(both);
            floats[1 % W] = _mm512_extractf32x8_ps::<1>(both);
        }
        floats
    }

    #[inline(always)]
    fn write<const W: usize>(self, cells: &[&Cell<W>; LANES], floats: [__m256; W]) {
        if W != 2 {
            return self.narrow().write(cells, floats);
        }
        let mut pairs = [0u64; LANES];
        // SAFETY: as above; there is room for eight pairs.
        unsafe {
            let both = _mm512_castps256_ps512(floats[0]);
            let both = _mm512_insertf32x8::<1>(both, floats[1 % W]);
            let beside = _mm512_setr_epi32(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
            let both = _mm512_permutexvar_ps(beside, both);
            _mm512_storeu_ps(pairs.as_mut_ptr().cast(), both);
            for lane in 0..LANES {
                start::<u64, W>(cells[lane]).write_unaligned(pairs[lane]);
            }
        }
    }
}

/// A float from each place.
#[inline(always)]
unsafe fn four(a: *const f32, b: *const f32, c: *const f32, d: *const f32) -> __m128 {
    // SAFETY: the caller knows that they are there.
    unsafe {
        let low = _mm_unpacklo_ps(_mm_load_ss(a), _mm_load_ss(b));
        _mm_movelh_ps(low, _mm_unpacklo_ps(_mm_load_ss(c), _mm_load_ss(d)))
    }
}

/// Two floats from each place.
#[inline(always)]
unsafe fn two(a: *const f64, b: *const f64) -> __m128 {
    // SAFETY: the caller knows that they are there.
    unsafe { _mm_castpd_ps(_mm_loadh_pd(_mm_load_sd(a), b)) }
}

/// Rows of four to columns, in each half.
#[inline(always)]
unsafe fn turned([a, b, c, d]: [__m256; 4]) -> [__m256; 4] {
    // SAFETY: the caller has the instructions.
    unsafe {
        let (ab, cd) = (_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d));
        let (ef, gh) = (_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d));
        [
            _mm256_shuffle_ps::<0b01_00_01_00>(ab, cd),
            _mm256_shuffle_ps::<0b11_10_11_10>(ab, cd),
            _mm256_shuffle_ps::<0b01_00_01_00>(ef, gh),
            _mm256_shuffle_ps::<0b11_10_11_10>(ef, gh),
        ]
    }
}
