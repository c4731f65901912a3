//! A window that slides over planes: forward, and backward to the input with the kernel turned round.
//!
//! A tile of up to 6 output channels × 2 pixels stays in registers while the window is summed: 12 multiply-adds for 2
//! vectors of input and 6 weights. Fewer channels take more pixels. Taps that lie in the frame of zeros for all
//! pixels of a tile are skipped.
#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::ops::Range;

use super::lanes::{Frame, pack, unpack_row};
use super::{Geometry, LANES, room};

/// Output channels of the largest tile.
const TILE: usize = 6;

/// Pixels between two visits to the output: their sums stay in the first-level cache.
const CHUNK: usize = 32;

/// What slides over what.
struct Window {
    frame: Frame,
    /// Rows and columns of the planes that are not all zero.
    live: [Range<usize>; 2],
    kernel: (usize, usize),
    stride: usize,
    /// Channels, rows and columns out.
    out: (usize, usize, usize),
}

/// An output pixel: where its window starts, and the rows and columns of the kernel that meet live values.
#[derive(Clone, Default)]
struct Pixel {
    start: usize,
    rows: Range<usize>,
    columns: Range<usize>,
}

/// `y = x ∗ w + b`.
///
/// # Safety
/// `scratch` must have the pass's size.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn forward(
    g: &Geometry,
    x: &[f32],
    w: &[f32],
    b: &[f32],
    y: &mut [f32],
    scratch: &mut [f32],
) {
    let window = Window {
        frame: Frame {
            channels: g.ci,
            from: (g.h, g.w),
            to: (g.h + 2 * g.pad, g.w + 2 * g.pad),
            first: (g.pad as isize, g.pad as isize),
            step: 1,
        },
        live: [g.pad..g.pad + g.h, g.pad..g.pad + g.w],
        kernel: (g.kh, g.kw),
        stride: g.stride,
        out: (g.co, g.oh(), g.ow()),
    };
    let (weights, planes) = scratch.split_at_mut(room(g.weights()));
    arrange(g.co, g.taps(), weights, |o, tap| w[o * g.taps() + tap]);
    slide(&window, x, weights, b, y, planes);
}

/// `dx = dy ∗ w`: the output's gradient, its pixels a stride apart, under the kernel turned round.
///
/// # Safety
/// `scratch` must have the pass's size.
#[target_feature(enable = "avx2,fma")]
pub(super) unsafe fn grad_input(
    g: &Geometry,
    dy: &[f32],
    w: &[f32],
    dx: &mut [f32],
    scratch: &mut [f32],
) {
    let to = (g.h + g.kh - 1, g.w + g.kw - 1);
    let first = |k: usize| k as isize - 1 - g.pad as isize;
    let live = |first: isize, outputs: usize, size: usize| {
        let end = first + ((outputs - 1) * g.stride) as isize + 1;
        first.max(0) as usize..(end.max(0) as usize).min(size)
    };
    let window = Window {
        frame: Frame {
            channels: g.co,
            from: (g.oh(), g.ow()),
            to,
            first: (first(g.kh), first(g.kw)),
            step: g.stride,
        },
        live: [
            live(first(g.kh), g.oh(), to.0),
            live(first(g.kw), g.ow(), to.1),
        ],
        kernel: (g.kh, g.kw),
        stride: 1,
        out: (g.ci, g.h, g.w),
    };
    let (weights, planes) = scratch.split_at_mut(room(g.weights()));
    let area = g.kh * g.kw;
    arrange(g.ci, g.co * area, weights, |c, tap| {
        w[((tap / area) * g.ci + c) * area + area - 1 - tap % area]
    });
    slide(&window, dy, weights, &[], dx, planes);
}

/// The tiles of output channels: first one and number, as even as can be.
fn tiles(outputs: usize) -> impl Iterator<Item = (usize, usize)> {
    let count = outputs.div_ceil(TILE);
    (0..count).map(move |i| {
        let first = i * outputs / count;
        (first, (i + 1) * outputs / count - first)
    })
}

/// Puts the weights of each tile in the order in which it reads them: `(tiles, taps, outputs of the tile)`.
fn arrange(outputs: usize, taps: usize, to: &mut [f32], weight: impl Fn(usize, usize) -> f32) {
    for (first, count) in tiles(outputs) {
        let to = &mut to[first * taps..][..count * taps];
        for (tap, to) in to.chunks_exact_mut(count).enumerate() {
            for (o, to) in to.iter_mut().enumerate() {
                *to = weight(first + o, tap);
            }
        }
    }
}

/// All samples, eight at a time; no biases stand for zeros.
#[target_feature(enable = "avx2,fma")]
fn slide(
    window: &Window,
    from: &[f32],
    weights: &[f32],
    biases: &[f32],
    to: &mut [f32],
    planes: &mut [f32],
) {
    let (outputs, oh, ow) = window.out;
    let (sample_in, sample_out) = (window.frame.sample(), outputs * oh * ow);
    let taps = window.frame.channels * window.kernel.0 * window.kernel.1;
    let planes = &mut planes[..window.frame.len()];
    planes.fill(0.0);
    let mut pixels: [Pixel; CHUNK] = std::array::from_fn(|_| Pixel::default());
    let mut sums = [0.0; TILE * CHUNK * LANES];
    let samples = from.chunks(LANES * sample_in);
    for (from, to) in samples.zip(to.chunks_mut(LANES * sample_out)) {
        pack(&window.frame, from, planes);
        let count = from.len() / sample_in;
        for start in (0..oh * ow).step_by(CHUNK) {
            let len = CHUNK.min(oh * ow - start);
            window.locate(start, &mut pixels[..len]);
            for (first, channels) in tiles(outputs) {
                let mut bias = [0.0; TILE];
                let given = biases.iter().skip(first);
                bias.iter_mut().zip(given).for_each(|(to, b)| *to = *b);
                let weights = &weights[first * taps..][..channels * taps];
                let work: Work = (&*planes, weights, &bias);
                match channels {
                    1 => chunk::<1, 8>(window, work, &pixels[..len], &mut sums),
                    2 => chunk::<2, 6>(window, work, &pixels[..len], &mut sums),
                    3 => chunk::<3, 4>(window, work, &pixels[..len], &mut sums),
                    4 => chunk::<4, 3>(window, work, &pixels[..len], &mut sums),
                    5 => chunk::<5, 2>(window, work, &pixels[..len], &mut sums),
                    _ => chunk::<TILE, 2>(window, work, &pixels[..len], &mut sums),
                }
                for (o, sums) in sums.chunks_exact(CHUNK * LANES).enumerate().take(channels) {
                    let place = (first + o) * oh * ow + start;
                    unpack_row(sums, len, (count, sample_out), &mut to[place..]);
                }
            }
        }
    }
}

impl Window {
    /// Finds the windows of neighbouring output pixels from `start` on.
    fn locate(&self, start: usize, pixels: &mut [Pixel]) {
        let ow = self.out.2;
        let live = |axis: usize, at: usize, taps: usize| {
            let first = self.live[axis].start.saturating_sub(at).min(taps);
            first..self.live[axis].end.saturating_sub(at).clamp(first, taps)
        };
        let (mut i, mut j) = (start / ow, start % ow);
        let mut rows = live(0, i * self.stride, self.kernel.0);
        for pixel in pixels {
            if j == ow {
                (i, j) = (i + 1, 0);
                rows = live(0, i * self.stride, self.kernel.0);
            }
            *pixel = Pixel {
                start: (i * self.frame.to.1 + j) * self.stride * LANES,
                rows: rows.clone(),
                columns: live(1, j * self.stride, self.kernel.1),
            };
            j += 1;
        }
    }
}

/// Planes, weights and biases of a tile of channels.
type Work<'a> = (&'a [f32], &'a [f32], &'a [f32; TILE]);

/// C output channels of a chunk of pixels, P at a time, into `sums: (C, CHUNK, 8)`.
#[target_feature(enable = "avx2,fma")]
fn chunk<const C: usize, const P: usize>(
    window: &Window,
    work: Work,
    pixels: &[Pixel],
    sums: &mut [f32; TILE * CHUNK * LANES],
) {
    for (t, pixels) in pixels.chunks(P).enumerate() {
        // A last tile that is not full sums its last pixel again, and drops it.
        let starts: [usize; P] = std::array::from_fn(|p| pixels[p.min(pixels.len() - 1)].start);
        let mut taps = (pixels[0].rows.clone(), pixels[0].columns.clone());
        for pixel in &pixels[1..] {
            taps.0 = union(&taps.0, &pixel.rows);
            taps.1 = union(&taps.1, &pixel.columns);
        }
        // SAFETY: the windows of all pixels lie in the planes, and the ranges of taps in the kernel.
        let tile = unsafe { tile::<C, P>(window, work, starts, taps) };
        for (o, row) in tile.iter().enumerate() {
            let at = (o * CHUNK + t * P) * LANES;
            let to = sums[at..][..pixels.len() * LANES].chunks_exact_mut(LANES);
            for (to, sum) in to.zip(row) {
                // SAFETY: the place has eight floats.
                unsafe { _mm256_storeu_ps(to.as_mut_ptr(), *sum) };
            }
        }
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
#[target_feature(enable = "avx2,fma")]
unsafe fn tile<const C: usize, const P: usize>(
    window: &Window,
    (planes, weights, bias): Work,
    starts: [usize; P],
    (rows, columns): (Range<usize>, Range<usize>),
) -> [[__m256; P]; C] {
    let (kh, kw) = window.kernel;
    let mut sums: [[__m256; P]; C] = std::array::from_fn(|o| [_mm256_set1_ps(bias[o]); P]);
    for c in 0..window.frame.channels {
        for p in rows.clone() {
            let line = ((c * window.frame.to.0 + p) * window.frame.to.1 + columns.start) * LANES;
            let tap = (c * kh + p) * kw + columns.start;
            // SAFETY: the row of the window starts in the planes, and its first tap in the weights.
            let (mut x, mut w) =
                unsafe { (planes.as_ptr().add(line), weights.as_ptr().add(tap * C)) };
            for _ in columns.clone() {
                // SAFETY: the column is one of the window's, with eight floats for each pixel and C weights.
                unsafe {
                    let xs: [__m256; P] =
                        std::array::from_fn(|i| _mm256_loadu_ps(x.add(starts[i])));
                    for (o, sums) in sums.iter_mut().enumerate() {
                        let weight = _mm256_broadcast_ss(&*w.add(o));
                        for (sum, x) in sums.iter_mut().zip(xs) {
                            *sum = _mm256_fmadd_ps(x, weight, *sum);
                        }
                    }
                }
                x = x.wrapping_add(LANES);
                w = w.wrapping_add(C);
            }
        }
    }
    sums
}
