//! Vectors of eight floats: AVX2 with fused multiply-add.
#![allow(unsafe_code)]
// Tiles of registers are indexed: iterators would hide which is which.
#![allow(clippy::needless_range_loop)]

use std::arch::x86_64::*;

use super::super::Work;
use super::{Isa, Vectors, isa};

/// The set, which was found.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Avx2(pub(super) ());

/// Eight floats side by side.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, align(32))]
pub(in super::super) struct Eight(pub [f32; 8]);

impl AsRef<[f32]> for Eight {
    fn as_ref(&self) -> &[f32] {
        &self.0
    }
}

impl AsMut<[f32]> for Eight {
    fn as_mut(&mut self) -> &mut [f32] {
        &mut self.0
    }
}

#[inline(never)]
#[target_feature(enable = "avx2,fma")]
fn run(work: impl Work) {
    work.run();
}

// Each unsafe block here needs the instructions, which the value `self` proves to be there.
impl Vectors for Avx2 {
    type Vector = Eight;
    type Register = __m256;
    type Bits = u8;

    const LANES: usize = 8;
    const REGISTERS: usize = 16;

    fn here() -> Option<Self> {
        (isa() >= Isa::Avx2).then_some(Self(()))
    }

    #[inline(always)]
    fn run(self, work: impl Work) {
        // SAFETY: the instructions are there.
        unsafe { run(work) }
    }

    #[inline(always)]
    fn load(self, from: &Eight) -> __m256 {
        // SAFETY: the vector is aligned to its size.
        unsafe { _mm256_load_ps(from.0.as_ptr()) }
    }

    #[inline(always)]
    unsafe fn load_at(self, from: *const f32) -> __m256 {
        // SAFETY: as promised.
        unsafe { _mm256_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn load_bytes(self, from: *const u8) -> __m256 {
        // SAFETY: as promised.
        unsafe { _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(from.cast()))) }
    }

    #[inline(always)]
    fn store(self, to: &mut Eight, x: __m256) {
        // SAFETY: the vector is aligned to its size.
        unsafe { _mm256_store_ps(to.0.as_mut_ptr(), x) }
    }

    #[inline(always)]
    unsafe fn store_at(self, to: *mut f32, x: __m256) {
        // SAFETY: as promised.
        unsafe { _mm256_storeu_ps(to, x) }
    }

    #[inline(always)]
    fn splat(self, x: f32) -> __m256 {
        // SAFETY: the instructions are there.
        unsafe { _mm256_set1_ps(x) }
    }

    #[inline(always)]
    fn add(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: the instructions are there.
        unsafe { _mm256_add_ps(a, b) }
    }

    #[inline(always)]
    fn sub(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: the instructions are there.
        unsafe { _mm256_sub_ps(a, b) }
    }

    #[inline(always)]
    fn mul(self, a: __m256, b: __m256) -> __m256 {
        // SAFETY: the instructions are there.
        unsafe { _mm256_mul_ps(a, b) }
    }

    #[inline(always)]
    fn mul_add(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        // SAFETY: the instructions are there.
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    fn less_mul(self, c: __m256, a: __m256, b: __m256) -> __m256 {
        // SAFETY: the instructions are there.
        unsafe { _mm256_fnmadd_ps(a, b, c) }
    }

    #[inline(always)]
    fn rectify(self, x: __m256) -> (__m256, u8) {
        // SAFETY: the instructions are there.
        unsafe {
            let zero = _mm256_setzero_ps();
            // In this order NaN goes through.
            let x = _mm256_max_ps(zero, x);
            let live = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_NLE_UQ>(x, zero));
            (x, live as u8)
        }
    }

    #[inline(always)]
    fn keep(self, x: __m256, bits: u8) -> __m256 {
        // SAFETY: the instructions are there.
        unsafe {
            let bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
            let live = _mm256_and_si256(_mm256_set1_epi32(i32::from(bits)), bit);
            let live = _mm256_cmpeq_epi32(live, bit);
            _mm256_and_ps(_mm256_castsi256_ps(live), x)
        }
    }

    #[inline(always)]
    fn larger(self, best: (__m256, __m256), x: (__m256, __m256)) -> (__m256, __m256) {
        // SAFETY: the instructions are there.
        unsafe {
            let above = _mm256_cmp_ps::<_CMP_GT_OQ>(x.0, best.0);
            let take = _mm256_or_ps(above, _mm256_cmp_ps::<_CMP_UNORD_Q>(x.0, x.0));
            (
                _mm256_blendv_ps(best.0, x.0, take),
                _mm256_blendv_ps(best.1, x.1, take),
            )
        }
    }

    #[inline(always)]
    fn where_equal(self, a: __m256, b: __m256, x: __m256) -> __m256 {
        // SAFETY: the instructions are there.
        unsafe { _mm256_and_ps(_mm256_cmp_ps::<_CMP_EQ_OQ>(a, b), x) }
    }

    #[inline(always)]
    fn transpose(self, rows: &[[f32; 8]; 8]) -> [[f32; 8]; 8] {
        // SAFETY: the instructions are there, and every row and column has eight floats.
        unsafe {
            let mut r = [_mm256_setzero_ps(); 8];
            for i in 0..8 {
                r[i] = _mm256_loadu_ps(rows[i].as_ptr());
            }
            // Pairs, then fours, of neighbouring rows within both halves of the vectors, then the halves.
            let mut pairs = r;
            for i in 0..4 {
                pairs[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
                pairs[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
            }
            let mut fours = pairs;
            for i in [0, 4] {
                let (low, high) = ((pairs[i], pairs[i + 2]), (pairs[i + 1], pairs[i + 3]));
                fours[i] = _mm256_shuffle_ps::<0x44>(low.0, low.1);
                fours[i + 1] = _mm256_shuffle_ps::<0xee>(low.0, low.1);
                fours[i + 2] = _mm256_shuffle_ps::<0x44>(high.0, high.1);
                fours[i + 3] = _mm256_shuffle_ps::<0xee>(high.0, high.1);
            }
            let mut columns = [[0.0; 8]; 8];
            for i in 0..4 {
                let first = _mm256_permute2f128_ps::<0x20>(fours[i], fours[i + 4]);
                let second = _mm256_permute2f128_ps::<0x31>(fours[i], fours[i + 4]);
                _mm256_storeu_ps(columns[i].as_mut_ptr(), first);
                _mm256_storeu_ps(columns[i + 4].as_mut_ptr(), second);
            }
            columns
        }
    }

    #[inline(always)]
    fn across(self, x: __m256) -> f32 {
        // SAFETY: the instructions are there.
        unsafe {
            let four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
        }
    }
}
