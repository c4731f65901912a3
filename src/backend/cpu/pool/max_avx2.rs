//! Eight windows of 2 × 2 or 3 × 3 cells, two apart, looked at together with AVX2.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::has_avx2;
use super::Geometry;
use super::max::{Best, LANES, each_block};

/// [`super::max::forward`] on machines with AVX2, and only there.
pub fn forward(g: Geometry, x: &[f32], y: &mut [f32], places: &mut [u32]) {
    assert!(has_avx2(), "asked before");
    // SAFETY: the instructions were just found to be there.
    unsafe { forward_blocks(g, x, y, places) }
}

#[target_feature(enable = "avx2,fma")]
fn forward_blocks(g: Geometry, x: &[f32], y: &mut [f32], places: &mut [u32]) {
    each_block(g, x, y, places, |oy, ox, plane| {
        let start = ox * g.stride;
        let inside = start >= g.pad && start - g.pad + 2 * (LANES - 1) + g.k <= g.w;
        match (g.k, g.stride) {
            (2, 2) if inside => of_block::<2, 16>(g, plane, oy, ox),
            (3, 2) if inside => of_block::<3, 17>(g, plane, oy, ox),
            _ => Best::of_block(g, plane, oy, ox),
        }
    });
}

/// [`Best::of_block`] of windows of side K that have all their columns, CELLS of them together.
#[target_feature(enable = "avx2,fma")]
fn of_block<const K: usize, const CELLS: usize>(
    g: Geometry,
    x: &[f32],
    oy: usize,
    ox: usize,
) -> Best {
    let rows = g.window(oy, g.h);
    let left = ox * g.stride - g.pad;
    let first = (rows.start * g.w + left) as i32;
    let mut best = (_mm256_set1_ps(f32::NEG_INFINITY), _mm256_set1_epi32(first));
    for iy in rows {
        let at = iy * g.w + left;
        let cells = x[at..at + CELLS].first_chunk::<CELLS>();
        let cells = cells.expect("the block lies inside the row");
        let (low, high) = (load(cells, 0), load(cells, 8));
        best = larger(best, _mm256_shuffle_ps::<0b10_00_10_00>(low, high), at);
        best = larger(best, _mm256_shuffle_ps::<0b11_01_11_01>(low, high), at + 1);
        if K == 3 {
            let (low, high) = (load(cells, 1), load(cells, 9));
            best = larger(best, _mm256_shuffle_ps::<0b11_01_11_01>(low, high), at + 2);
        }
    }
    in_order(best)
}

#[target_feature(enable = "avx2,fma")]
fn load<const CELLS: usize>(cells: &[f32; CELLS], start: usize) -> __m256 {
    let eight = &cells[start..start + 8];
    // SAFETY: the slice has eight floats.
    unsafe { _mm256_loadu_ps(eight.as_ptr()) }
}

/// The best so far and its place, after a look at `x`. Places are those of the first lane until [`in_order`].
#[target_feature(enable = "avx2,fma")]
fn larger((best, places): (__m256, __m256i), x: __m256, place: usize) -> (__m256, __m256i) {
    let above = _mm256_cmp_ps::<_CMP_GT_OQ>(x, best);
    let take = _mm256_or_ps(above, _mm256_cmp_ps::<_CMP_UNORD_Q>(x, x));
    let place = _mm256_set1_epi32(place as i32);
    (
        _mm256_blendv_ps(best, x, take),
        _mm256_blendv_epi8(places, place, _mm256_castps_si256(take)),
    )
}

/// The lanes in the order of the outputs: the shuffles took them within halves, as 0 1 4 5 2 3 6 7.
#[target_feature(enable = "avx2,fma")]
fn in_order((best, places): (__m256, __m256i)) -> Best {
    let best = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_castps_si256(best));
    let places = _mm256_permute4x64_epi64::<0b11_01_10_00>(places);
    let lanes = _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14);
    let mut result = Best {
        values: [0.0; LANES],
        places: [0; LANES],
    };
    // SAFETY: both arrays have room for eight lanes of four bytes.
    unsafe {
        _mm256_storeu_ps(result.values.as_mut_ptr(), _mm256_castsi256_ps(best));
        _mm256_storeu_si256(
            result.places.as_mut_ptr().cast(),
            _mm256_add_epi32(places, lanes),
        );
    }
    result
}
