//! Vectors of sixteen floats: AVX-512.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::Work;
use super::{Avx2, Isa, Vectors, isa};

/// The set, which was found.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Avx512(());

impl Avx512 {
    /// The set that is in it.
    #[inline(always)]
    pub(in super::super) fn narrow(self) -> Avx2 {
        Avx2(())
    }
}

/// Sixteen floats side by side.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C, align(64))]
pub(in super::super) struct Sixteen(pub [f32; 16]);

impl AsRef<[f32]> for Sixteen {
    fn as_ref(&self) -> &[f32] {
        &self.0
    }
}

impl AsMut<[f32]> for Sixteen {
    fn as_mut(&mut self) -> &mut [f32] {
        &mut self.0
    }
}

#[inline(never)]
#[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
fn run(work: impl Work) {
    work.run();
}

// Each unsafe block here needs the instructions, which the value `self` proves to be there.
impl Vectors for Avx512 {
    type Vector = Sixteen;
    type Register = __m512;
    type Bits = u16;

    const LANES: usize = 16;
    const REGISTERS: usize = 32;

    fn here() -> Option<Self> {
        (isa() >= Isa::Avx512).then_some(Self(()))
    }

    #[inline(always)]
    fn run(self, work: impl Work) {
        // SAFETY: the instructions are there.
        unsafe { run(work) }
    }

    #[inline(always)]
    fn load(self, from: &Sixteen) -> __m512 {
        // SAFETY: the vector is aligned to its size.
        unsafe { _mm512_load_ps(from.0.as_ptr()) }
    }

    #[inline(always)]
    unsafe fn load_at(self, from: *const f32) -> __m512 {
        // SAFETY: as promised.
        unsafe { _mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn load_bytes(self, from: *const u8) -> __m512 {
        // SAFETY: as promised.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast()))) }
    }

    #[inline(always)]
    fn store(self, to: &mut Sixteen, x: __m512) {
        // SAFETY: the vector is aligned to its size.
        unsafe { _mm512_store_ps(to.0.as_mut_ptr(), x) }
    }

    #[inline(always)]
    unsafe fn store_at(self, to: *mut f32, x: __m512) {
        // SAFETY: as promised.
        unsafe { _mm512_storeu_ps(to, x) }
    }

    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        // SAFETY: the instructions are there.
        unsafe { _mm512_set1_ps(x) }
    }

    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the instructions are there.
        unsafe { _mm512_add_ps(a, b) }
    }

    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the instructions are there.
        unsafe { _mm512_sub_ps(a, b) }
    }

    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the instructions are there.
        unsafe { _mm512_mul_ps(a, b) }
    }

    #[inline(always)]
    fn mul_add(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        // SAFETY: the instructions are there.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }

    #[inline(always)]
    fn less_mul(self, c: __m512, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the instructions are there.
        unsafe { _mm512_fnmadd_ps(a, b, c) }
    }

    #[inline(always)]
    fn rectify(self, x: __m512) -> (__m512, u16) {
        // SAFETY: the instructions are there.
        unsafe {
            let zero = _mm512_setzero_ps();
            // In this order NaN goes through.
            let x = _mm512_max_ps(zero, x);
            (x, _mm512_cmp_ps_mask::<_CMP_NLE_UQ>(x, zero))
        }
    }

    #[inline(always)]
    fn keep(self, x: __m512, bits: u16) -> __m512 {
        // SAFETY: the instructions are there.
        unsafe { _mm512_maskz_mov_ps(bits, x) }
    }

    #[inline(always)]
    fn larger(self, best: (__m512, __m512), x: (__m512, __m512)) -> (__m512, __m512) {
        // SAFETY: the instructions are there.
        unsafe {
            let above = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(x.0, best.0);
            let take = above | _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x.0, x.0);
            (
                _mm512_mask_mov_ps(best.0, take, x.0),
                _mm512_mask_mov_ps(best.1, take, x.1),
            )
        }
    }

    #[inline(always)]
    fn where_equal(self, a: __m512, b: __m512, x: __m512) -> __m512 {
        // SAFETY: the instructions are there.
        unsafe { _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_EQ_OQ>(a, b), x) }
    }

    #[inline(always)]
    fn transpose(self, rows: &[[f32; 8]; 8]) -> [[f32; 8]; 8] {
        Avx2(()).transpose(rows)
    }

    #[inline(always)]
    fn across(self, x: __m512) -> f32 {
        // SAFETY: the instructions are there.
        unsafe {
            let eight = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps::<1>(x));
            let four = _mm_add_ps(
                _mm256_castps256_ps128(eight),
                _mm256_extractf128_ps::<1>(eight),
            );
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
        }
    }
}
