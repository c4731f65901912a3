//! Tiles of images to their places and back.

use std::ops::Range;

use super::lanes::{Lanes, MOST_LANES, Mask, NONE, Rows};
use super::matrices::{NOTHING, Scheme, column, from_points, to_points};
use super::{MOST, Work, apart, padded};

/// Images whose tiles are transformed: `(n, channels, h, w)`.
#[derive(Clone, Copy)]
pub(super) struct Images {
    pub(super) channels: usize,
    pub(super) h: usize,
    pub(super) w: usize,
    /// Rows and columns of zeros in front of the image, where the first tile starts.
    before: usize,
    /// Tiles of an image, down and across.
    tiles: (usize, usize),
    /// Rows and columns from one tile to the next.
    step: usize,
}

impl Images {
    /// Images from which, or to which, the tiles of an output of `oh × ow` are taken, `step × step` each.
    pub(super) fn new(
        (channels, h, w): (usize, usize, usize),
        before: usize,
        (oh, ow): (usize, usize),
        step: usize,
    ) -> Self {
        Self {
            channels,
            h,
            w,
            before,
            tiles: (oh.div_ceil(step), ow.div_ceil(step)),
            step,
        }
    }

    /// Tiles of an image.
    pub(super) fn area(&self) -> usize {
        self.tiles.0 * self.tiles.1
    }

    /// Where a tile of `size × size` values lies.
    fn locate(&self, tile: usize, size: usize) -> Place {
        let (line, column) = (tile / self.tiles.1, tile % self.tiles.1);
        let (sample, row) = (line / self.tiles.0, line % self.tiles.0);
        let (row, column) = (row * self.step, column * self.step);
        let inside = |at: usize, len: usize| {
            let end = (len + self.before).saturating_sub(at).min(size);
            self.before.saturating_sub(at).min(end)..end
        };
        let (rows, columns) = (inside(row, self.h), inside(column, self.w));
        let line = (sample * self.channels * self.h + row).wrapping_sub(self.before);
        let start = line.wrapping_mul(self.w).wrapping_add(column);
        Place {
            start: start.wrapping_sub(self.before),
            mask: std::array::from_fn(|i| if columns.contains(&i) { -1 } else { 0 }),
            columns: columns.end,
            rows,
        }
    }
}

/// Where a tile lies in the images.
#[derive(Default)]
struct Place {
    /// Its first value in the first channel; wraps around where that is in front of the images.
    start: usize,
    /// Its rows that lie in the image.
    rows: Range<usize>,
    /// Its columns that lie in the image.
    mask: Mask,
    /// The end of those.
    columns: usize,
}

/// Neighbouring tiles, the samples one after another.
#[derive(Clone, Copy)]
pub(super) struct Tiles {
    pub(super) images: Images,
    pub(super) first: usize,
    pub(super) count: usize,
}

impl Tiles {
    /// Where each tile lies; the last one stands for those that are missing in a vector.
    fn places(&self, size: usize) -> [Place; MOST] {
        let last = self.first + self.count - 1;
        std::array::from_fn(|t| self.images.locate(last.min(self.first + t), size))
    }
}

/// Matrices of channels × tiles from `Bᵀ·d·B`.
pub(super) struct TransformInputs<'a, L: Lanes, const E: usize, const O: usize, const K: usize>(
    pub(super) L::Set,
    pub(super) Tiles,
    pub(super) &'a [f32],
    pub(super) &'a mut [f32],
);

impl<L: Lanes, const E: usize, const O: usize, const K: usize> Work
    for TransformInputs<'_, L, E, O, K>
{
    #[inline(always)]
    fn run(self) {
        let b = const { &Scheme::<E, O, K>::B };
        transform::<L, E, E>(self.0, b, &self.1, self.2, self.3);
    }
}

/// Matrices of channels × tiles from `A·dy·Aᵀ`.
pub(super) struct TransformGrads<'a, L: Lanes, const E: usize, const O: usize, const K: usize>(
    pub(super) L::Set,
    pub(super) Tiles,
    pub(super) &'a [f32],
    pub(super) &'a mut [f32],
);

impl<L: Lanes, const E: usize, const O: usize, const K: usize> Work
    for TransformGrads<'_, L, E, O, K>
{
    #[inline(always)]
    fn run(self) {
        let a = const { &Scheme::<E, O, K>::A };
        transform::<L, E, O>(self.0, a, &self.1, self.2, self.3);
    }
}

#[inline(always)]
fn transform<L: Lanes, const E: usize, const S: usize>(
    set: L::Set,
    l: &[[f32; S]; E],
    tiles: &Tiles,
    x: &[f32],
    to: &mut [f32],
) {
    let (images, places) = (tiles.images, tiles.places(S));
    let (step, line) = (apart(images.channels, tiles.count), padded(tiles.count));
    for c in 0..images.channels {
        for t in (0..tiles.count).step_by(L::WIDTH) {
            let some = &places[t..t + L::WIDTH];
            let mut half = [[L::splat(set, NOTHING); E]; S];
            for (i, half) in half.iter_mut().enumerate() {
                let mut rows = Rows {
                    x,
                    starts: [0; MOST_LANES],
                    masks: [&NONE; MOST_LANES],
                };
                for (lane, tile) in some.iter().enumerate() {
                    let row = (c * images.h + i) * images.w;
                    rows.starts[lane] = tile.start.wrapping_add(row);
                    if tile.rows.contains(&i) {
                        rows.masks[lane] = &tile.mask;
                    }
                }
                let columns = L::columns(set, &rows);
                *half = to_points(set, l, columns.first_chunk().expect("S is at most eight"));
            }
            for j in 0..E {
                let values = to_points(set, l, &column(&half, j));
                for (i, values) in values.iter().enumerate() {
                    let at = (i * E + j) * step + c * line + t;
                    values.store(set, &mut to[at..]);
                }
            }
        }
    }
}

/// Output pixels `Aᵀ·m·A + b` from matrices of channels × tiles; no biases stand for zeros.
pub(super) struct RestoreOutputs<'a, L: Lanes, const E: usize, const O: usize, const K: usize> {
    pub(super) set: L::Set,
    pub(super) tiles: Tiles,
    pub(super) sums: &'a [f32],
    pub(super) biases: &'a [f32],
    pub(super) y: &'a mut [f32],
}

impl<L: Lanes, const E: usize, const O: usize, const K: usize> Work
    for RestoreOutputs<'_, L, E, O, K>
{
    #[inline(always)]
    fn run(self) {
        let a = const { &Scheme::<E, O, K>::A };
        restore::<L, E, O>(self.set, a, &self.tiles, (self.sums, self.biases), self.y);
    }
}

#[inline(always)]
fn restore<L: Lanes, const E: usize, const O: usize>(
    set: L::Set,
    a: &[[f32; O]; E],
    tiles: &Tiles,
    (sums, biases): (&[f32], &[f32]),
    y: &mut [f32],
) {
    let (images, places) = (tiles.images, tiles.places(O));
    let (step, line) = (apart(images.channels, tiles.count), padded(tiles.count));
    for c in 0..images.channels {
        let bias = biases.get(c).copied().unwrap_or(0.0);
        for t in (0..tiles.count).step_by(L::WIDTH) {
            let count = L::WIDTH.min(tiles.count - t);
            let some = &places[t..t + count];
            let mut half = [[L::splat(set, NOTHING); O]; E];
            for (i, half) in half.iter_mut().enumerate() {
                let mut row = [L::splat(set, NOTHING); E];
                for (j, row) in row.iter_mut().enumerate() {
                    let at = (i * E + j) * step + c * line + t;
                    *row = L::load(set, &sums[at..]);
                }
                *half = from_points(set, a, &row);
            }
            let mut whole = [[L::splat(set, bias); 4]; O];
            for j in 0..O {
                let values = from_points(set, a, &column(&half, j));
                for (whole, value) in whole.iter_mut().zip(values) {
                    whole[j] = value.times_plus(set, 1.0, whole[j]);
                }
            }
            for (i, whole) in whole.iter().enumerate() {
                let rows = L::rows(set, whole);
                for (row, tile) in rows.iter().zip(some) {
                    if i < tile.rows.end {
                        let at = tile.start + (c * images.h + i) * images.w;
                        if tile.columns == O {
                            y[at..at + O].copy_from_slice(&row[..O]);
                        } else {
                            y[at..at + tile.columns].copy_from_slice(&row[..tile.columns]);
                        }
                    }
                }
            }
        }
    }
}
