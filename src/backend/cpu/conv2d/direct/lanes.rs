//! Eight samples into the lanes of vectors, and back.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::LANES;

/// Planes of a sample, and where they go in planes of another size.
#[derive(Clone, Copy)]
pub(super) struct Frame {
    pub(super) channels: usize,
    /// Rows and columns of a sample's planes.
    pub(super) from: (usize, usize),
    /// Rows and columns of the planes they go to.
    pub(super) to: (usize, usize),
    /// Row and column there of the first pixel, which may lie outside.
    pub(super) first: (isize, isize),
    /// Distance there of neighbouring pixels.
    pub(super) step: usize,
}

impl Frame {
    /// The same planes, without a frame of zeros.
    pub(super) fn tight(channels: usize, rows: usize, columns: usize) -> Self {
        Self {
            channels,
            from: (rows, columns),
            to: (rows, columns),
            first: (0, 0),
            step: 1,
        }
    }

    /// Values of a sample.
    pub(super) fn sample(&self) -> usize {
        self.channels * self.from.0 * self.from.1
    }

    /// Floats of the planes of eight samples.
    pub(super) fn len(&self) -> usize {
        self.channels * self.to.0 * self.to.1 * LANES
    }

    /// Where pixel `at` of an axis goes, if it has a place.
    fn place(&self, first: isize, at: usize, size: usize) -> Option<usize> {
        let place = usize::try_from(first + (at * self.step) as isize).ok()?;
        (place < size).then_some(place)
    }

    /// Whether nothing moves but into lanes.
    fn is_tight(&self) -> bool {
        self.from == self.to && self.first == (0, 0) && self.step == 1
    }

    /// Whether whole rows go to neighbouring places.
    fn keeps_rows(&self) -> bool {
        let (left, columns) = (self.first.1, self.to.1 as isize);
        self.step == 1 && left >= 0 && left + self.from.1 as isize <= columns
    }
}

/// Puts up to eight samples into lanes; lanes without a sample become zero. What the samples do not cover is left.
#[target_feature(enable = "avx2,fma")]
pub(super) fn pack(f: &Frame, samples: &[f32], to: &mut [f32]) {
    let all = Samples {
        count: samples.len() / f.sample(),
        stride: f.sample(),
    };
    if f.is_tight() {
        return pack_row(all, samples, f.sample(), to);
    }
    let (h, w) = f.from;
    for line in 0..f.channels * h {
        let (c, row) = (line / h, line % h);
        let Some(row) = f.place(f.first.0, row, f.to.0) else {
            continue;
        };
        let to = &mut to[(c * f.to.0 + row) * f.to.1 * LANES..][..f.to.1 * LANES];
        let from = &samples[line * w..];
        if f.keeps_rows() {
            pack_row(all, from, w, &mut to[f.first.1 as usize * LANES..]);
            continue;
        }
        for column in 0..w {
            if let Some(place) = f.place(f.first.1, column, f.to.1) {
                pack_row(all, &from[column..], 1, &mut to[place * LANES..]);
            }
        }
    }
}

/// How samples lie in memory: at most eight, a stride apart.
#[derive(Clone, Copy)]
struct Samples {
    count: usize,
    stride: usize,
}

/// Puts `len` neighbouring values of each sample into lanes.
#[target_feature(enable = "avx2,fma")]
fn pack_row(all: Samples, from: &[f32], len: usize, to: &mut [f32]) {
    assert!(from.len() >= (all.count - 1) * all.stride + len && to.len() >= len * LANES);
    if len < LANES {
        for (i, to) in to.chunks_exact_mut(LANES).take(len).enumerate() {
            for (s, to) in to.iter_mut().enumerate() {
                *to = if s < all.count {
                    from[s * all.stride + i]
                } else {
                    0.0
                };
            }
        }
        return;
    }
    // The last step overlaps the one before instead of going by single values.
    for at in (0..len).step_by(LANES).map(|at| at.min(len - LANES)) {
        let mut rows = [_mm256_setzero_ps(); LANES];
        for (s, row) in rows.iter_mut().enumerate().take(all.count) {
            // SAFETY: at + 8 ≤ len, and `from` holds len values of each sample.
            *row = unsafe { _mm256_loadu_ps(from.as_ptr().add(s * all.stride + at)) };
        }
        for (i, row) in transpose(rows).into_iter().enumerate() {
            // SAFETY: at + i < len, and `to` holds len vectors.
            unsafe { _mm256_storeu_ps(to.as_mut_ptr().add((at + i) * LANES), row) };
        }
    }
}

/// Takes `len` vectors apart into neighbouring values of `count` samples, a stride apart.
#[target_feature(enable = "avx2,fma")]
pub(super) fn unpack_row(
    from: &[f32],
    len: usize,
    (count, stride): (usize, usize),
    to: &mut [f32],
) {
    assert!(to.len() >= (count - 1) * stride + len && from.len() >= len * LANES);
    if len < LANES {
        for (i, from) in from.chunks_exact(LANES).take(len).enumerate() {
            for (s, value) in from.iter().enumerate().take(count) {
                to[s * stride + i] = *value;
            }
        }
        return;
    }
    for at in (0..len).step_by(LANES).map(|at| at.min(len - LANES)) {
        // SAFETY: at + 8 ≤ len, and `from` holds len vectors.
        let rows = std::array::from_fn(|i| unsafe {
            _mm256_loadu_ps(from.as_ptr().add((at + i) * LANES))
        });
        for (s, row) in transpose(rows).into_iter().enumerate().take(count) {
            // SAFETY: at + 8 ≤ len, and `to` has room for len values of each sample.
            unsafe { _mm256_storeu_ps(to.as_mut_ptr().add(s * stride + at), row) };
        }
    }
}

/// Rows to columns.
#[target_feature(enable = "avx2,fma")]
fn transpose(r: [__m256; LANES]) -> [__m256; LANES] {
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
    let mut columns = fours;
    for i in 0..4 {
        columns[i] = _mm256_permute2f128_ps::<0x20>(fours[i], fours[i + 4]);
        columns[i + 4] = _mm256_permute2f128_ps::<0x31>(fours[i], fours[i + 4]);
    }
    columns
}
