//! Samples into lanes, and back.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use super::super::{Input, Work, wide};
use super::{Eight, LANES, Planes};

/// Puts up to eight samples into lanes; lanes without a sample become zero. What the samples do not cover is left.
pub fn pack(planes: &Planes, samples: Input, to: &mut [Eight]) {
    match samples {
        Input::Floats(values) => wide(Pack {
            planes,
            values,
            scale: |value: f32| value,
            to,
        }),
        Input::Bytes {
            pixels,
            factor,
            shift,
        } => wide(Pack {
            planes,
            values: pixels,
            scale: |pixel: u8| f32::from(pixel) * factor + shift,
            to,
        }),
    }
}

struct Pack<'a, T, F> {
    planes: &'a Planes,
    values: &'a [T],
    scale: F,
    to: &'a mut [Eight],
}

impl<T: Copy, F: Fn(T) -> f32 + Copy> Work for Pack<'_, T, F> {
    #[inline(always)]
    fn run(self) {
        let planes = self.planes;
        let samples = Samples {
            values: self.values,
            scale: self.scale,
            count: self.values.len() / planes.sample(),
            stride: planes.sample(),
        };
        if planes.is_tight() {
            return samples.row(0, &mut self.to[..planes.sample()]);
        }
        let (h, w) = planes.size;
        let inside = |first: isize, at: usize, size: usize| {
            let place = usize::try_from(first + (at * planes.step) as isize).ok()?;
            (place < size).then_some(place)
        };
        let left = planes.first.1;
        let whole = planes.step == 1 && left >= 0 && left as usize + w <= planes.frame.1;
        for line in 0..planes.channels * h {
            let (c, row) = (line / h, line % h);
            let Some(row) = inside(planes.first.0, row, planes.frame.0) else {
                continue;
            };
            let to = &mut self.to[(c * planes.frame.0 + row) * planes.frame.1..][..planes.frame.1];
            if whole {
                samples.row(line * w, &mut to[left as usize..][..w]);
                continue;
            }
            for column in 0..w {
                if let Some(place) = inside(left, column, planes.frame.1) {
                    samples.row(line * w + column, &mut to[place..=place]);
                }
            }
        }
    }
}

/// At most eight samples in memory, a stride apart.
#[derive(Clone, Copy)]
struct Samples<'a, T, F> {
    values: &'a [T],
    scale: F,
    count: usize,
    stride: usize,
}

impl<T: Copy, F: Fn(T) -> f32 + Copy> Samples<'_, T, F> {
    /// Puts neighbouring values of each sample, from `first` on, into lanes.
    #[inline(always)]
    fn row(self, first: usize, to: &mut [Eight]) {
        let len = to.len();
        if len < LANES {
            for (i, to) in to.iter_mut().enumerate() {
                *to = Eight::default();
                let lanes = to.0.iter_mut().take(self.count).enumerate();
                lanes.for_each(|(s, to)| {
                    *to = (self.scale)(self.values[s * self.stride + first + i]);
                });
            }
            return;
        }
        // The last step overlaps the one before instead of going by single values.
        for at in (0..len).step_by(LANES).map(|at| at.min(len - LANES)) {
            let mut rows = [Eight::default(); LANES];
            for (s, row) in rows.iter_mut().enumerate().take(self.count) {
                let from = &self.values[s * self.stride + first + at..][..LANES];
                *row = Eight(std::array::from_fn(|i| (self.scale)(from[i])));
            }
            to[at..][..LANES].copy_from_slice(&transpose(rows));
        }
    }
}

/// Takes vectors apart into neighbouring values of `count` samples, a stride apart.
pub fn unpack(from: &[Eight], (count, stride): (usize, usize), to: &mut [f32]) {
    wide(Unpack {
        from,
        count,
        stride,
        to,
    });
}

struct Unpack<'a> {
    from: &'a [Eight],
    count: usize,
    stride: usize,
    to: &'a mut [f32],
}

impl Work for Unpack<'_> {
    #[inline(always)]
    fn run(self) {
        let len = self.from.len();
        if len < LANES {
            for (i, from) in self.from.iter().enumerate() {
                for (s, value) in from.0.iter().enumerate().take(self.count) {
                    self.to[s * self.stride + i] = *value;
                }
            }
            return;
        }
        for at in (0..len).step_by(LANES).map(|at| at.min(len - LANES)) {
            let rows = self.from[at..][..LANES].first_chunk().expect("eight");
            for (s, row) in transpose(*rows).iter().enumerate().take(self.count) {
                self.to[s * self.stride + at..][..LANES].copy_from_slice(&row.0);
            }
        }
    }
}

/// Rows to columns.
#[inline(always)]
fn transpose(rows: [Eight; LANES]) -> [Eight; LANES] {
    #[cfg(target_arch = "x86_64")]
    if super::super::has_avx2() {
        let rows = rows.map(|row| {
            // SAFETY: AVX was just found, and the row is aligned to its size.
            unsafe { _mm256_load_ps(row.0.as_ptr()) }
        });
        // SAFETY: AVX2 was just found.
        return unsafe { transpose_avx2(rows) }.map(|column| {
            let mut to = Eight::default();
            // SAFETY: as above.
            unsafe { _mm256_store_ps(to.0.as_mut_ptr(), column) };
            to
        });
    }
    std::array::from_fn(|i| Eight(std::array::from_fn(|s| rows[s].0[i])))
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2,fma")]
fn transpose_avx2(r: [__m256; LANES]) -> [__m256; LANES] {
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
