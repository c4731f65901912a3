//! A window that slides over planes: forward, and backward to the input with the kernel turned round.
//!
//! A tile of up to 6 output channels × 2 pixels stays in registers while the window is summed: 12 multiply-adds for 2
//! vectors of input and 6 weights. Fewer channels take more pixels. Taps that lie in the frame of zeros for all
//! pixels of a tile are skipped.
#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::ops::Range;

use super::super::super::lanes::{Eight, LANES, Planes};
use super::Geometry;

/// Output channels of the largest tile.
pub(super) const TILE: usize = 6;

/// What slides over what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) from: Planes,
    /// First and end of the rows and columns of the planes that are not all zero.
    live: [(usize, usize); 2],
    kernel: (usize, usize),
    stride: usize,
    /// Channels, rows and columns out.
    pub(super) out: (usize, usize, usize),
    turned: bool,
}

/// An output pixel: where its window starts, where it goes, and the rows and columns of the kernel that meet live
/// values.
#[derive(Clone, Debug, Default)]
pub(super) struct Pixel {
    start: usize,
    pub(super) place: usize,
    rows: Range<usize>,
    columns: Range<usize>,
}

impl Window {
    /// `y = x ∗ w`.
    pub(super) fn forward(g: &Geometry) -> Self {
        Self {
            from: Planes::padded(g.ci, (g.h, g.w), g.pad),
            live: [(g.pad, g.pad + g.h), (g.pad, g.pad + g.w)],
            kernel: (g.kh, g.kw),
            stride: g.stride,
            out: (g.co, g.oh(), g.ow()),
            turned: false,
        }
    }

    /// `dx = dy ∗ w`: the output's gradient, its pixels a stride apart, under the kernel turned round.
    pub(super) fn grad_input(g: &Geometry) -> Self {
        let frame = (g.h + g.kh - 1, g.w + g.kw - 1);
        let first = |k: usize| k as isize - 1 - g.pad as isize;
        let live = |first: isize, outputs: usize, size: usize| {
            let end = first + ((outputs - 1) * g.stride) as isize + 1;
            (first.max(0) as usize, (end.max(0) as usize).min(size))
        };
        Self {
            from: Planes {
                channels: g.co,
                size: (g.oh(), g.ow()),
                frame,
                first: (first(g.kh), first(g.kw)),
                step: g.stride,
            },
            live: [
                live(first(g.kh), g.oh(), frame.0),
                live(first(g.kw), g.ow(), frame.1),
            ],
            kernel: (g.kh, g.kw),
            stride: 1,
            out: (g.ci, g.h, g.w),
            turned: true,
        }
    }

    /// Weights of one output channel.
    pub(super) fn taps(&self) -> usize {
        self.from.channels * self.kernel.0 * self.kernel.1
    }

    /// Puts the weights of each tile in the order in which it reads them: `(tiles, taps, outputs of the tile)`.
    pub(super) fn arrange(&self, w: &[f32], to: &mut [f32]) {
        let (inputs, outputs) = (self.from.channels, self.out.0);
        let area = self.kernel.0 * self.kernel.1;
        for (first, count) in tiles(outputs) {
            let to = &mut to[first * self.taps()..][..count * self.taps()];
            for (c, to) in to.chunks_exact_mut(count * area).enumerate() {
                for o in 0..count {
                    let to = to[o..].iter_mut().step_by(count);
                    if self.turned {
                        let from = &w[(c * outputs + first + o) * area..][..area];
                        to.zip(from.iter().rev()).for_each(|(to, w)| *to = *w);
                    } else {
                        let from = &w[((first + o) * inputs + c) * area..][..area];
                        to.zip(from).for_each(|(to, w)| *to = *w);
                    }
                }
            }
        }
    }

    /// Finds the windows of neighbouring output pixels from `start` on; where they go is numbered from 0.
    pub(super) fn locate(&self, start: usize, pixels: &mut [Pixel]) {
        let ow = self.out.2;
        let live = |axis: usize, at: usize, taps: usize| {
            let first = self.live[axis].0.saturating_sub(at).min(taps);
            first..self.live[axis].1.saturating_sub(at).clamp(first, taps)
        };
        let (mut i, mut j) = (start / ow, start % ow);
        let mut rows = live(0, i * self.stride, self.kernel.0);
        for (place, pixel) in pixels.iter_mut().enumerate() {
            if j == ow {
                (i, j) = (i + 1, 0);
                rows = live(0, i * self.stride, self.kernel.0);
            }
            *pixel = Pixel {
                start: (i * self.from.frame.1 + j) * self.stride,
                place,
                rows: rows.clone(),
                columns: live(1, j * self.stride, self.kernel.1),
            };
            j += 1;
        }
    }

    /// Sums the windows of `pixels` for a tile of channels from `first` on; no biases stand for zeros.
    ///
    /// # Safety
    /// The pixels must be this window's, `weights` arranged for it, and `out` have room for every channel and pixel.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn sum(
        &self,
        (first, channels): (usize, usize),
        (planes, weights, biases): (&[Eight], &[f32], &[f32]),
        pixels: &[Pixel],
        out: &mut Out,
    ) {
        let mut bias = [0.0; TILE];
        let given = biases.iter().skip(first).take(channels);
        bias.iter_mut().zip(given).for_each(|(to, b)| *to = *b);
        let weights = &weights[first * self.taps()..][..channels * self.taps()];
        let work: Work = (planes, weights, &bias);
        // SAFETY: as promised.
        unsafe {
            match channels {
                1 => chunk::<1, 8>(self, work, pixels, out),
                2 => chunk::<2, 6>(self, work, pixels, out),
                3 => chunk::<3, 4>(self, work, pixels, out),
                4 => chunk::<4, 3>(self, work, pixels, out),
                5 => chunk::<5, 2>(self, work, pixels, out),
                _ => chunk::<TILE, 2>(self, work, pixels, out),
            }
        }
    }
}

/// The tiles of output channels: first one and number, as even as can be.
pub(super) fn tiles(outputs: usize) -> impl Iterator<Item = (usize, usize)> {
    let count = outputs.div_ceil(TILE);
    (0..count).map(move |i| {
        let first = i * outputs / count;
        (first, (i + 1) * outputs / count - first)
    })
}

/// Where the sums of a tile go.
pub(super) struct Out<'a> {
    /// The tile's first channel.
    pub(super) to: &'a mut [Eight],
    /// Distance of channels there.
    pub(super) plane: usize,
    pub(super) finish: Finish<'a>,
}

/// What becomes of a sum; bits are bytes, one for a pixel of eight samples.
pub(super) enum Finish<'a> {
    /// It is kept.
    Plain,
    /// It is rectified; the bits, as many for a channel, tell what is positive.
    Rectify(&'a mut [u8], usize),
    /// It is kept where the bit is set.
    Mask(&'a [u8], usize),
}

impl Out<'_> {
    /// Stores the sums of a tile: of each pixel its number and its place.
    ///
    /// # Safety
    /// There must be room for C channels of these pixels.
    #[inline]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn put<const C: usize, const P: usize>(
        &mut self,
        pixels: [(usize, usize); P],
        mut tile: [[__m256; P]; C],
    ) {
        let zero = _mm256_setzero_ps();
        match &mut self.finish {
            Finish::Plain => {}
            Finish::Rectify(bits, plane) => {
                for (o, row) in tile.iter_mut().enumerate() {
                    for (sum, (at, _)) in row.iter_mut().zip(pixels) {
                        // In this order NaN goes through.
                        *sum = _mm256_max_ps(zero, *sum);
                        let live = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_NLE_UQ>(*sum, zero));
                        // SAFETY: as promised.
                        unsafe { *bits.get_unchecked_mut(o * *plane + at) = live as u8 };
                    }
                }
            }
            Finish::Mask(bits, plane) => {
                let bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
                for (o, row) in tile.iter_mut().enumerate() {
                    for (sum, (at, _)) in row.iter_mut().zip(pixels) {
                        // SAFETY: as promised.
                        let bits = unsafe { *bits.get_unchecked(o * *plane + at) };
                        let live = _mm256_and_si256(_mm256_set1_epi32(i32::from(bits)), bit);
                        let live = _mm256_cmpeq_epi32(live, bit);
                        *sum = _mm256_and_ps(_mm256_castsi256_ps(live), *sum);
                    }
                }
            }
        }
        for (o, row) in tile.into_iter().enumerate() {
            for (sum, (_, place)) in row.into_iter().zip(pixels) {
                // SAFETY: as promised, and every place is aligned and has eight floats.
                unsafe {
                    let to = self.to.get_unchecked_mut(o * self.plane + place);
                    _mm256_store_ps(to.0.as_mut_ptr(), sum);
                }
            }
        }
    }
}

/// Planes, weights and biases of a tile of channels.
type Work<'a> = (&'a [Eight], &'a [f32], &'a [f32; TILE]);

/// C output channels of pixels, P at a time.
///
/// # Safety
/// As for [`Window::sum`].
#[target_feature(enable = "avx2,fma")]
unsafe fn chunk<const C: usize, const P: usize>(
    window: &Window,
    work: Work,
    pixels: &[Pixel],
    out: &mut Out,
) {
    let (whole, rest) = pixels.as_chunks::<P>();
    for (t, pixels) in whole.iter().enumerate() {
        // SAFETY: as promised.
        unsafe { few::<C, P>(window, work, (t * P, P), pixels.each_ref(), out) };
    }
    if !rest.is_empty() {
        // A last tile that is not full sums and stores its last pixel again.
        let pixels = std::array::from_fn(|p| &rest[p.min(rest.len() - 1)]);
        // SAFETY: as promised.
        unsafe { few::<C, P>(window, work, (whole.len() * P, rest.len()), pixels, out) };
    }
}

/// C output channels of P pixels, numbered from `first` on, so many of them different.
///
/// # Safety
/// As for [`Window::sum`].
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn few<const C: usize, const P: usize>(
    window: &Window,
    work: Work,
    (first, count): (usize, usize),
    pixels: [&Pixel; P],
    out: &mut Out,
) {
    let (mut starts, mut to) = ([0; P], [(0, 0); P]);
    let mut taps = (pixels[0].rows.clone(), pixels[0].columns.clone());
    for p in 0..P {
        starts[p] = pixels[p].start;
        to[p] = (first + p.min(count - 1), pixels[p].place);
        taps.0 = union(&taps.0, &pixels[p].rows);
        taps.1 = union(&taps.1, &pixels[p].columns);
    }
    // SAFETY: the windows of all pixels lie in the planes, the ranges of taps in the kernel, and there is room.
    unsafe {
        let tile = tile::<C, P>(window, work, starts, taps);
        out.put(to, tile);
    }
}

/// The smallest range that holds both.
fn union(a: &Range<usize>, b: &Range<usize>) -> Range<usize> {
    a.start.min(b.start)..a.end.max(b.end)
}

/// The sums of C output channels at P pixels over the given rows and columns of the kernel.
///
/// # Safety
/// The windows must lie in the planes, the taps in the kernel, and the weights be arranged for C channels.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn tile<const C: usize, const P: usize>(
    window: &Window,
    (planes, weights, bias): Work,
    starts: [usize; P],
    (rows, columns): (Range<usize>, Range<usize>),
) -> [[__m256; P]; C] {
    let (kh, kw) = window.kernel;
    let (height, width) = window.from.frame;
    let mut sums: [[__m256; P]; C] = std::array::from_fn(|o| [_mm256_set1_ps(bias[o]); P]);
    for c in 0..window.from.channels {
        for p in rows.clone() {
            let line = (c * height + p) * width + columns.start;
            let tap = (c * kh + p) * kw + columns.start;
            // SAFETY: the row of the window starts in the planes, and its first tap in the weights.
            let (mut x, mut w) =
                unsafe { (planes.as_ptr().add(line), weights.as_ptr().add(tap * C)) };
            for _ in columns.clone() {
                // SAFETY: the column is one of the window's, with a vector for each pixel and C weights.
                unsafe {
                    let xs: [__m256; P] =
                        std::array::from_fn(|i| _mm256_load_ps(x.add(starts[i]).cast()));
                    for (o, sums) in sums.iter_mut().enumerate() {
                        let weight = _mm256_broadcast_ss(&*w.add(o));
                        for (sum, x) in sums.iter_mut().zip(xs) {
                            *sum = _mm256_fmadd_ps(x, weight, *sum);
                        }
                    }
                }
                x = x.wrapping_add(1);
                w = w.wrapping_add(C);
            }
        }
    }
    sums
}

const _: () = assert!(LANES == 8, "an __m256 has eight lanes");
