//! Linear layers with few outputs, such as the last layer of a classifier, on vectors.
//!
//! BLAS packs both matrices and pads the outputs to its tile; for 10 outputs that costs more than the product. Here
//! the inputs are read in place, bytes as they are (a quarter of the traffic of floats), and a tile of sums stays in
//! registers.
//! Forward: tiles of 2 samples × up to 5 outputs, vectors along the inputs; per 10 multiply-adds 7 loads.
//! Gradient: tiles of 2 vectors of inputs × up to 5 outputs, summed over the samples; per 10 multiply-adds 7 loads.
#![allow(unsafe_code)]
// Tiles of registers are indexed: iterators would hide which is which.
#![allow(clippy::needless_range_loop)]
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]

use super::isa::Vectors;
#[cfg(target_arch = "x86_64")]
use super::isa::{Avx2, Avx512};
use super::linear::Geometry;
use super::{Input, Work};

/// Outputs up to which these kernels beat BLAS.
const MOST: usize = 20;

/// Outputs of a full tile: with 2 samples, ten sums, which hide the latency of two multiply-add units.
const TILE: usize = 5;

/// Whether these kernels can and should do this layer here.
pub(super) fn suits(g: Geometry) -> bool {
    g.co <= MOST && g.ci >= 16 && super::has_avx2()
}

/// `y = x·wᵀ + b`.
pub(super) fn forward(g: Geometry, x: Input, w: &[f32], b: &[f32], y: &mut [f32]) {
    assert!(
        x.len() == g.n * g.ci && w.len() == g.co * g.ci && b.len() == g.co && y.len() == g.n * g.co
    );
    match x {
        Input::Floats(x) => products(g, x, w, b, y),
        Input::Bytes {
            pixels,
            factor,
            shift,
        } => {
            products(g, pixels, w, &[0.0; MOST], y);
            affine(g, factor, shift, w, b, y);
        }
    }
}

/// `dw = dyᵀ·x`, with `db` the sums of `dy`.
pub(super) fn grad_weights(g: Geometry, x: Input, dy: &[f32], db: &[f32], dw: &mut [f32]) {
    assert!(x.len() == g.n * g.ci && dy.len() == g.n * g.co && dw.len() == g.co * g.ci);
    match x {
        Input::Floats(x) => gradients(g, x, dy, (1.0, &[0.0; MOST]), dw),
        Input::Bytes {
            pixels,
            factor,
            shift,
        } => {
            let mut offsets = [0.0; MOST];
            offsets
                .iter_mut()
                .zip(db)
                .for_each(|(offset, db)| *offset = shift * db);
            gradients(g, pixels, dy, (factor, &offsets), dw)
        }
    }
}

/// Turns products of raw bytes into those of scaled ones: `y = factor·y + shift·Σw + b`.
fn affine(g: Geometry, factor: f32, shift: f32, w: &[f32], b: &[f32], y: &mut [f32]) {
    let mut offsets = [0.0; MOST];
    for ((offset, b), row) in offsets.iter_mut().zip(b).zip(w.chunks_exact(g.ci)) {
        *offset = *b
            + if shift == 0.0 {
                0.0
            } else {
                shift * row.iter().sum::<f32>()
            };
    }
    for row in y.chunks_exact_mut(g.co) {
        row.iter_mut()
            .zip(&offsets)
            .for_each(|(y, offset)| *y = *y * factor + offset);
    }
}

/// An input value, widened to floats in a register.
trait Value: Copy {
    /// The value itself.
    fn float(self) -> f32;
    /// A vector of values from `at`.
    ///
    /// # Safety
    /// As many values must be there.
    unsafe fn load<I: Vectors>(isa: I, at: *const Self) -> I::Register;
}

impl Value for f32 {
    #[inline(always)]
    fn float(self) -> f32 {
        self
    }

    #[inline(always)]
    unsafe fn load<I: Vectors>(isa: I, at: *const Self) -> I::Register {
        // SAFETY: as promised.
        unsafe { isa.load_at(at) }
    }
}

impl Value for u8 {
    #[inline(always)]
    fn float(self) -> f32 {
        f32::from(self)
    }

    #[inline(always)]
    unsafe fn load<I: Vectors>(isa: I, at: *const Self) -> I::Register {
        // SAFETY: as promised.
        unsafe { isa.load_bytes(at) }
    }
}

/// `y = x·wᵀ + b` by the widest vectors; the slices have the geometry's sizes.
fn products<T: Value>(g: Geometry, x: &[T], w: &[f32], b: &[f32], y: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    {
        if let Some(isa) = Avx512::here() {
            return tiles(isa, g, x, w, b, y);
        }
        if let Some(isa) = Avx2::here() {
            return tiles(isa, g, x, w, b, y);
        }
    }
    unreachable!("asked before");
}

fn tiles<I: Vectors, T: Value>(isa: I, g: Geometry, x: &[T], w: &[f32], b: &[f32], y: &mut [f32]) {
    // Outputs outside, samples inside: a tile's weights stay in the first-level cache over all samples.
    for o in (0..g.co).step_by(TILE) {
        let outputs = (g.co - o).min(TILE);
        let dots = Dots {
            isa,
            k: g.ci,
            x,
            w: &w[o * g.ci..][..outputs * g.ci],
            b: &b[o..],
            y: (&mut y[o..], g.co),
        };
        match outputs {
            5 => isa.run(Rows::<I, T, 5>(dots)),
            4 => isa.run(Rows::<I, T, 4>(dots)),
            3 => isa.run(Rows::<I, T, 3>(dots)),
            2 => isa.run(Rows::<I, T, 2>(dots)),
            _ => isa.run(Rows::<I, T, 1>(dots)),
        }
    }
}

/// All samples, rows of length `k`, times some outputs' weights.
struct Dots<'a, I, T> {
    isa: I,
    k: usize,
    x: &'a [T],
    w: &'a [f32],
    b: &'a [f32],
    /// Where the first sample's go, and the distance to the next sample's.
    y: (&'a mut [f32], usize),
}

/// C outputs.
struct Rows<'a, I, T, const C: usize>(Dots<'a, I, T>);

impl<I: Vectors, T: Value, const C: usize> Work for Rows<'_, I, T, C> {
    #[inline(always)]
    fn run(mut self) {
        let pairs = self.0.x.chunks_exact(2 * self.0.k);
        let last = pairs.remainder();
        let count = pairs.len();
        for (i, x) in pairs.enumerate() {
            self.dot::<2>(2 * i, x);
        }
        if !last.is_empty() {
            self.dot::<1>(2 * count, last);
        }
    }
}

impl<I: Vectors, T: Value, const C: usize> Rows<'_, I, T, C> {
    /// S samples from `first` on.
    #[inline(always)]
    fn dot<const S: usize>(&mut self, first: usize, x: &[T]) {
        let Dots { isa, k, w, b, .. } = self.0;
        assert!(x.len() == S * k && w.len() == C * k);
        let mut tile = [[isa.splat(0.0); S]; C];
        let whole = k - k % I::LANES;
        for i in (0..whole).step_by(I::LANES) {
            let mut xs = [isa.splat(0.0); S];
            for s in 0..S {
                // SAFETY: a vector from i on lies in the row of length k.
                xs[s] = unsafe { T::load(isa, x.as_ptr().add(s * k + i)) };
            }
            for c in 0..C {
                // SAFETY: as above.
                let weight = unsafe { isa.load_at(w.as_ptr().add(c * k + i)) };
                for s in 0..S {
                    tile[c][s] = isa.mul_add(xs[s], weight, tile[c][s]);
                }
            }
        }
        for s in 0..S {
            let y = &mut self.0.y.0[(first + s) * self.0.y.1..][..C];
            for c in 0..C {
                let mut rest = 0.0;
                for i in whole..k {
                    rest += x[s * k + i].float() * w[c * k + i];
                }
                y[c] = isa.across(tile[c][s]) + rest + b[c];
            }
        }
    }
}

/// A factor for all sums, and what to add to those of each output.
type Affine<'a> = (f32, &'a [f32; MOST]);

/// `dw = dyᵀ·x` by the widest vectors; the slices have the geometry's sizes.
fn gradients<T: Value>(g: Geometry, x: &[T], dy: &[f32], affine: Affine, dw: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    {
        if let Some(isa) = Avx512::here() {
            return blocks(isa, g, x, dy, affine, dw);
        }
        if let Some(isa) = Avx2::here() {
            return blocks(isa, g, x, dy, affine, dw);
        }
    }
    unreachable!("asked before");
}

fn blocks<I: Vectors, T: Value>(
    isa: I,
    g: Geometry,
    x: &[T],
    dy: &[f32],
    affine: Affine,
    dw: &mut [f32],
) {
    let block = Block {
        isa,
        g,
        x,
        dy,
        affine,
        dw,
    };
    if g.ci >= 2 * I::LANES {
        isa.run(Outer::<I, T, 2>(block));
    } else {
        isa.run(Outer::<I, T, 1>(block));
    }
}

struct Block<'a, I, T> {
    isa: I,
    g: Geometry,
    x: &'a [T],
    dy: &'a [f32],
    affine: Affine<'a>,
    dw: &'a mut [f32],
}

/// Gradients of all outputs with respect to V vectors of inputs at a time.
struct Outer<'a, I, T, const V: usize>(Block<'a, I, T>);

impl<I: Vectors, T: Value, const V: usize> Work for Outer<'_, I, T, V> {
    #[inline(always)]
    fn run(mut self) {
        let (ci, co) = (self.0.g.ci, self.0.g.co);
        let step = V * I::LANES;
        assert!(ci >= step, "a vector of inputs at least");
        // Inputs outside, outputs inside: what a tile reads of each sample is still cached for the next. The last step
        // overlaps the one before.
        for i in (0..ci).step_by(step).map(|i| i.min(ci - step)) {
            for o in (0..co).step_by(TILE) {
                match co - o {
                    1 => self.tile::<1>(i, o),
                    2 => self.tile::<2>(i, o),
                    3 => self.tile::<3>(i, o),
                    4 => self.tile::<4>(i, o),
                    _ => self.tile::<TILE>(i, o),
                }
            }
        }
    }
}

impl<I: Vectors, T: Value, const V: usize> Outer<'_, I, T, V> {
    /// C outputs from `o` and V vectors of inputs from `i`, which lie in the geometry.
    #[inline(always)]
    fn tile<const C: usize>(&mut self, i: usize, o: usize) {
        let Block { isa, g, affine, .. } = self.0;
        let (mut x, mut dy) = (self.0.x[i..].as_ptr(), self.0.dy[o..].as_ptr());
        let mut tile = [[isa.splat(0.0); V]; C];
        for _ in 0..g.n {
            let mut xs = [isa.splat(0.0); V];
            for v in 0..V {
                // SAFETY: x is in a sample's row at column i, with room for V vectors.
                xs[v] = unsafe { T::load(isa, x.add(v * I::LANES)) };
            }
            for c in 0..C {
                // SAFETY: dy is in the sample's row at column o, with room for C values.
                let d = isa.splat(unsafe { *dy.add(c) });
                for v in 0..V {
                    tile[c][v] = isa.mul_add(d, xs[v], tile[c][v]);
                }
            }
            x = x.wrapping_add(g.ci);
            dy = dy.wrapping_add(g.co);
        }
        let factor = isa.splat(affine.0);
        for c in 0..C {
            let row = &mut self.0.dw[(o + c) * g.ci + i..][..V * I::LANES];
            let offset = isa.splat(affine.1[o + c]);
            for v in 0..V {
                let value = isa.mul_add(tile[c][v], factor, offset);
                // SAFETY: the row has room for V vectors.
                unsafe { isa.store_at(row[v * I::LANES..].as_mut_ptr(), value) };
            }
        }
    }
}
