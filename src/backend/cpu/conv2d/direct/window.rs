//! A window that slides over planes: forward, and backward to the input with the kernel turned round.
//!
//! A tile of up to 6 output channels × 2 pixels, or 8 × 3 with twice as many registers, stays in registers while the
//! window is summed: 12 multiply-adds for 2 vectors of input and 6 weights. Fewer channels take more pixels. Taps that
//! lie in the frame of zeros for all pixels of a tile are skipped.
#![allow(unsafe_code)]
// Tiles of registers are indexed: iterators would hide which is which.
#![allow(clippy::needless_range_loop)]

use std::ops::Range;

use super::super::super::isa::Vectors;
use super::super::super::lanes::Planes;
use super::{Geometry, Work};

/// Output channels of the largest tile of all.
pub(super) const TILE: usize = 8;

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
    pub(super) fn arrange<I: Vectors>(&self, w: &[f32], to: &mut [f32]) {
        let (inputs, outputs) = (self.from.channels, self.out.0);
        let area = self.kernel.0 * self.kernel.1;
        for (first, count) in tiles::<I>(outputs) {
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
    pub(super) unsafe fn sum<I: Vectors>(
        &self,
        isa: I,
        (first, channels): (usize, usize),
        (planes, weights, biases): (&[I::Vector], &[f32], &[f32]),
        pixels: &[Pixel],
        out: Out<I>,
    ) {
        let mut bias = [0.0; TILE];
        let given = biases.iter().skip(first).take(channels);
        bias.iter_mut().zip(given).for_each(|(to, b)| *to = *b);
        let chunk = Chunk {
            isa,
            window: self,
            planes,
            weights: &weights[first * self.taps()..][..channels * self.taps()],
            bias: &bias,
            pixels,
            out,
        };
        if I::REGISTERS < 32 {
            match channels {
                1 => isa.run(Sums::<I, 1, 8>(chunk)),
                2 => isa.run(Sums::<I, 2, 6>(chunk)),
                3 => isa.run(Sums::<I, 3, 4>(chunk)),
                4 => isa.run(Sums::<I, 4, 3>(chunk)),
                5 => isa.run(Sums::<I, 5, 2>(chunk)),
                _ => isa.run(Sums::<I, 6, 2>(chunk)),
            }
        } else {
            match channels {
                1 => isa.run(Sums::<I, 1, 10>(chunk)),
                2 => isa.run(Sums::<I, 2, 8>(chunk)),
                3 => isa.run(Sums::<I, 3, 7>(chunk)),
                4 => isa.run(Sums::<I, 4, 5>(chunk)),
                5 => isa.run(Sums::<I, 5, 4>(chunk)),
                6 => isa.run(Sums::<I, 6, 4>(chunk)),
                7 => isa.run(Sums::<I, 7, 3>(chunk)),
                _ => isa.run(Sums::<I, 8, 3>(chunk)),
            }
        }
    }
}

/// The tiles of output channels: first one and number, as even as can be.
pub(super) fn tiles<I: Vectors>(outputs: usize) -> impl Iterator<Item = (usize, usize)> {
    let most = if I::REGISTERS < 32 { 6 } else { TILE };
    let count = outputs.div_ceil(most);
    (0..count).map(move |i| {
        let first = i * outputs / count;
        (first, (i + 1) * outputs / count - first)
    })
}

/// Where the sums of a tile go.
pub(super) struct Out<'a, I: Vectors> {
    /// The tile's first channel.
    pub(super) to: &'a mut [I::Vector],
    /// Distance of channels there.
    pub(super) plane: usize,
    pub(super) finish: Finish<'a, I>,
}

/// What becomes of a sum; the bits of a pixel are one for each sample.
pub(super) enum Finish<'a, I: Vectors> {
    /// It is kept.
    Plain,
    /// It is rectified; the bits, as many for a channel, tell what is positive.
    Rectify(&'a mut [I::Bits], usize),
    /// It is kept where the bit is set.
    Mask(&'a [I::Bits], usize),
}

/// A tile of channels at some pixels.
struct Chunk<'a, I: Vectors> {
    isa: I,
    window: &'a Window,
    planes: &'a [I::Vector],
    weights: &'a [f32],
    bias: &'a [f32; TILE],
    pixels: &'a [Pixel],
    out: Out<'a, I>,
}

/// C output channels of pixels, P at a time. What [`Window::sum`] asks for must hold.
struct Sums<'a, I: Vectors, const C: usize, const P: usize>(Chunk<'a, I>);

impl<I: Vectors, const C: usize, const P: usize> Work for Sums<'_, I, C, P> {
    #[inline(always)]
    fn run(mut self) {
        let (whole, rest) = self.0.pixels.as_chunks::<P>();
        for (t, pixels) in whole.iter().enumerate() {
            self.few((t * P, P), pixels.each_ref());
        }
        if !rest.is_empty() {
            // A last tile that is not full sums and stores its last pixel again.
            let pixels = std::array::from_fn(|p| &rest[p.min(rest.len() - 1)]);
            self.few((whole.len() * P, rest.len()), pixels);
        }
    }
}

impl<I: Vectors, const C: usize, const P: usize> Sums<'_, I, C, P> {
    /// P pixels, numbered from `first` on, so many of them different.
    #[inline(always)]
    fn few(&mut self, (first, count): (usize, usize), pixels: [&Pixel; P]) {
        let (mut starts, mut to) = ([0; P], [(0, 0); P]);
        let mut taps = (pixels[0].rows.clone(), pixels[0].columns.clone());
        for p in 0..P {
            starts[p] = pixels[p].start;
            to[p] = (first + p.min(count - 1), pixels[p].place);
            taps.0 = union(&taps.0, &pixels[p].rows);
            taps.1 = union(&taps.1, &pixels[p].columns);
        }
        let tile = self.tile(starts, taps);
        self.put(to, tile);
    }

    /// The sums at P pixels over the given rows and columns of the kernel.
    #[inline(always)]
    fn tile(
        &self,
        starts: [usize; P],
        (rows, columns): (Range<usize>, Range<usize>),
    ) -> [[I::Register; P]; C] {
        let Chunk { isa, window, .. } = self.0;
        let (kh, kw) = window.kernel;
        let (height, width) = window.from.frame;
        let mut sums = [[isa.splat(0.0); P]; C];
        for o in 0..C {
            sums[o] = [isa.splat(self.0.bias[o]); P];
        }
        for c in 0..window.from.channels {
            for p in rows.clone() {
                let line = (c * height + p) * width + columns.start;
                let tap = (c * kh + p) * kw + columns.start;
                let mut x = self.0.planes.as_ptr().wrapping_add(line);
                let mut w = self.0.weights.as_ptr().wrapping_add(tap * C);
                for _ in columns.clone() {
                    let mut xs = [isa.splat(0.0); P];
                    for i in 0..P {
                        // SAFETY: the windows of all pixels lie in the planes, this column in the window.
                        xs[i] = isa.load(unsafe { &*x.wrapping_add(starts[i]) });
                    }
                    for o in 0..C {
                        // SAFETY: the weights are arranged for C channels, and the tap is one of the window's.
                        let weight = isa.splat(unsafe { *w.wrapping_add(o) });
                        for i in 0..P {
                            sums[o][i] = isa.mul_add(xs[i], weight, sums[o][i]);
                        }
                    }
                    x = x.wrapping_add(1);
                    w = w.wrapping_add(C);
                }
            }
        }
        sums
    }

    /// Stores the sums of a tile: of each pixel its number and its place.
    #[inline(always)]
    fn put(&mut self, pixels: [(usize, usize); P], mut tile: [[I::Register; P]; C]) {
        let (isa, out) = (self.0.isa, &mut self.0.out);
        match &mut out.finish {
            Finish::Plain => {}
            Finish::Rectify(bits, plane) => {
                for o in 0..C {
                    for i in 0..P {
                        let live;
                        (tile[o][i], live) = isa.rectify(tile[o][i]);
                        // SAFETY: there is room for C channels of these pixels.
                        unsafe { *bits.get_unchecked_mut(o * *plane + pixels[i].0) = live };
                    }
                }
            }
            Finish::Mask(bits, plane) => {
                for o in 0..C {
                    for i in 0..P {
                        // SAFETY: as above.
                        let bits = unsafe { *bits.get_unchecked(o * *plane + pixels[i].0) };
                        tile[o][i] = isa.keep(tile[o][i], bits);
                    }
                }
            }
        }
        for o in 0..C {
            for i in 0..P {
                // SAFETY: as above.
                let to = unsafe { out.to.get_unchecked_mut(o * out.plane + pixels[i].1) };
                isa.store(to, tile[o][i]);
            }
        }
    }
}

/// The smallest range that holds both.
#[inline(always)]
fn union(a: &Range<usize>, b: &Range<usize>) -> Range<usize> {
    a.start.min(b.start)..a.end.max(b.end)
}
