//! Rows of eight tiles to vectors of one place each, and back: a transpose of 8 × 8 values.
#![allow(unsafe_code)]

use super::matrices::{Lanes, WIDTH};

/// Eight rows, of which a part is to be read.
pub(super) struct Rows<'a> {
    pub(super) x: &'a [f32],
    /// Where each row starts; wraps around where that is in front of `x`.
    pub(super) starts: [usize; WIDTH],
    /// Which values are read, all bits or none; the others count as zeros.
    pub(super) masks: [&'a Mask; WIDTH],
}

/// A choice among the values of a row.
pub(super) type Mask = [i32; WIDTH];

/// The mask of no value.
pub(super) const NONE: Mask = [0; WIDTH];

/// The columns of eight rows.
#[inline(always)]
pub(super) fn columns(rows: &Rows, avx2: bool) -> [Lanes; WIDTH] {
    for (start, mask) in rows.starts.iter().zip(&rows.masks) {
        debug_assert!((0..WIDTH).all(|i| mask[i] == 0 || start.wrapping_add(i) < rows.x.len()));
    }
    #[cfg(target_arch = "x86_64")]
    if avx2 {
        // SAFETY: the caller found AVX2.
        return unsafe { avx::columns(rows) };
    }
    let mut values = [[0.0; WIDTH]; WIDTH];
    for (lane, (start, mask)) in rows.starts.iter().zip(&rows.masks).enumerate() {
        for i in (0..WIDTH).filter(|&i| mask[i] != 0) {
            values[i][lane] = rows.x[start.wrapping_add(i)];
        }
    }
    values
}

/// Rows to columns.
#[inline(always)]
pub(super) fn turned(rows: &[Lanes; WIDTH], avx2: bool) -> [Lanes; WIDTH] {
    #[cfg(target_arch = "x86_64")]
    if avx2 {
        // SAFETY: the caller found AVX2.
        return unsafe { avx::turned(rows) };
    }
    let mut values = [[0.0; WIDTH]; WIDTH];
    for (i, row) in rows.iter().enumerate() {
        (0..WIDTH).for_each(|j| values[j][i] = row[j]);
    }
    values
}

#[cfg(target_arch = "x86_64")]
mod avx {
    use std::arch::x86_64::*;

    use super::{Lanes, Rows, WIDTH};

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn columns(rows: &Rows) -> [Lanes; WIDTH] {
        let mut values = [_mm256_setzero_ps(); WIDTH];
        for (lane, value) in values.iter_mut().enumerate() {
            let from = rows.x.as_ptr().wrapping_add(rows.starts[lane]);
            // SAFETY: a mask has eight numbers, and those of a row that it chooses lie in `x`.
            *value = unsafe {
                let mask = _mm256_loadu_si256(rows.masks[lane].as_ptr().cast());
                _mm256_maskload_ps(from, mask)
            };
        }
        transposed(values)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn turned(rows: &[Lanes; WIDTH]) -> [Lanes; WIDTH] {
        let mut values = [_mm256_setzero_ps(); WIDTH];
        for (value, row) in values.iter_mut().zip(rows) {
            // SAFETY: a row has eight numbers.
            *value = unsafe { _mm256_loadu_ps(row.as_ptr()) };
        }
        transposed(values)
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn transposed(r: [__m256; WIDTH]) -> [Lanes; WIDTH] {
        // Pairs, then fours, of neighbouring rows within both halves of the vectors, then the halves.
        let (a, b) = (
            _mm256_unpacklo_ps(r[0], r[1]),
            _mm256_unpackhi_ps(r[0], r[1]),
        );
        let (c, d) = (
            _mm256_unpacklo_ps(r[2], r[3]),
            _mm256_unpackhi_ps(r[2], r[3]),
        );
        let (e, f) = (
            _mm256_unpacklo_ps(r[4], r[5]),
            _mm256_unpackhi_ps(r[4], r[5]),
        );
        let (g, h) = (
            _mm256_unpacklo_ps(r[6], r[7]),
            _mm256_unpackhi_ps(r[6], r[7]),
        );
        let upper = [
            _mm256_shuffle_ps::<0x44>(a, c),
            _mm256_shuffle_ps::<0xee>(a, c),
            _mm256_shuffle_ps::<0x44>(b, d),
            _mm256_shuffle_ps::<0xee>(b, d),
        ];
        let lower = [
            _mm256_shuffle_ps::<0x44>(e, g),
            _mm256_shuffle_ps::<0xee>(e, g),
            _mm256_shuffle_ps::<0x44>(f, h),
            _mm256_shuffle_ps::<0xee>(f, h),
        ];
        let mut columns = [[0.0; WIDTH]; WIDTH];
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_turn_rows_agree() {
        let x: Vec<f32> = (1..=64).map(|i| i as f32).collect();
        let some: Mask = std::array::from_fn(|i| if (2..6).contains(&i) { -1 } else { 0 });
        let all: Mask = [-1; WIDTH];
        let rows = Rows {
            x: &x,
            starts: std::array::from_fn(|lane| (lane * 8).wrapping_sub(2 * usize::from(lane == 0))),
            masks: std::array::from_fn(|lane| [&some, &all, &NONE][lane % 3]),
        };
        let plain = columns(&rows, false);
        assert_eq!(plain[3][..4], [2.0, 12.0, 0.0, 28.0]);
        if crate::backend::cpu::has_avx2() {
            assert_eq!(plain, columns(&rows, true));
            assert_eq!(turned(&plain, false), turned(&plain, true));
        }
    }
}
