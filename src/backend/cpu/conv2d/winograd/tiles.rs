//! Tiles of images to their places and back.

use super::matrices::{Scheme, WIDTH, collect, spread};
use super::{BLOCK, Work, apart, padded};

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

    /// Sample, row and column of a tile's first place, zeros in front counted.
    fn locate(&self, tile: usize) -> (usize, usize, usize) {
        let (line, column) = (tile / self.tiles.1, tile % self.tiles.1);
        let (sample, row) = (line / self.tiles.0, line % self.tiles.0);
        (sample, row * self.step, column * self.step)
    }

    /// Where row `i` of a tile lies in a channel.
    #[inline(always)]
    fn row(&self, (sample, row, column): (usize, usize, usize), c: usize, i: usize) -> Row {
        let line = (row + i).wrapping_sub(self.before);
        if line >= self.h {
            return Row::default();
        }
        let skip = self.before.saturating_sub(column);
        let line = ((sample * self.channels + c) * self.h + line) * self.w;
        Row {
            start: line + column + skip - self.before,
            skip,
            end: (self.w + self.before).saturating_sub(column),
        }
    }
}

/// Columns `skip..end` of a row of a tile lie in the image, from `start` on.
#[derive(Default)]
struct Row {
    start: usize,
    skip: usize,
    end: usize,
}

/// Neighbouring tiles, the samples one after another.
#[derive(Clone, Copy)]
pub(super) struct Tiles {
    pub(super) images: Images,
    pub(super) first: usize,
    pub(super) count: usize,
}

impl Tiles {
    /// Where each tile lies; the last one stands for those that are missing.
    fn places(&self) -> [(usize, usize, usize); BLOCK] {
        let last = self.first + self.count - 1;
        std::array::from_fn(|t| self.images.locate(last.min(self.first + t)))
    }
}

/// Matrices of channels × tiles from `Bᵀ·d·B`.
pub(super) struct TransformInputs<'a, const E: usize, const O: usize, const K: usize>(
    pub(super) Tiles,
    pub(super) &'a [f32],
    pub(super) &'a mut [f32],
);

impl<const E: usize, const O: usize, const K: usize> Work for TransformInputs<'_, E, O, K> {
    #[inline(always)]
    fn run(self) {
        transform(const { &Scheme::<E, O, K>::B }, &self.0, self.1, self.2);
    }
}

/// Matrices of channels × tiles from `A·dy·Aᵀ`.
pub(super) struct TransformGrads<'a, const E: usize, const O: usize, const K: usize>(
    pub(super) Tiles,
    pub(super) &'a [f32],
    pub(super) &'a mut [f32],
);

impl<const E: usize, const O: usize, const K: usize> Work for TransformGrads<'_, E, O, K> {
    #[inline(always)]
    fn run(self) {
        transform(const { &Scheme::<E, O, K>::A }, &self.0, self.1, self.2);
    }
}

#[inline(always)]
fn transform<const E: usize, const S: usize>(
    l: &[[f32; S]; E],
    tiles: &Tiles,
    x: &[f32],
    to: &mut [f32],
) {
    let (images, places) = (tiles.images, tiles.places());
    let (step, line) = (apart(images.channels, tiles.count), padded(tiles.count));
    for c in 0..images.channels {
        for t in (0..tiles.count).step_by(WIDTH) {
            let eight = &places[t..t + WIDTH];
            let mut values = [[[0.0; WIDTH]; S]; S];
            for (lane, tile) in eight.iter().enumerate() {
                for (i, values) in values.iter_mut().enumerate() {
                    let row = images.row(*tile, c, i);
                    if row.skip == 0 && row.end >= S {
                        let x = &x[row.start..row.start + S];
                        (0..S).for_each(|j| values[j][lane] = x[j]);
                        continue;
                    }
                    for j in row.skip..row.end.min(S) {
                        values[j][lane] = x[row.start + j - row.skip];
                    }
                }
            }
            let values = spread(l, &values);
            for (place, values) in values.as_flattened().iter().enumerate() {
                let at = place * step + c * line + t;
                to[at..at + WIDTH].copy_from_slice(values);
            }
        }
    }
}

/// Output pixels `Aᵀ·m·A + b` from matrices of channels × tiles; no biases stand for zeros.
pub(super) struct RestoreOutputs<'a, const E: usize, const O: usize, const K: usize> {
    pub(super) tiles: Tiles,
    pub(super) sums: &'a [f32],
    pub(super) biases: &'a [f32],
    pub(super) y: &'a mut [f32],
}

impl<const E: usize, const O: usize, const K: usize> Work for RestoreOutputs<'_, E, O, K> {
    #[inline(always)]
    fn run(self) {
        let a = const { &Scheme::<E, O, K>::A };
        restore(a, &self.tiles, self.sums, self.biases, self.y);
    }
}

#[inline(always)]
fn restore<const E: usize, const O: usize>(
    a: &[[f32; O]; E],
    tiles: &Tiles,
    sums: &[f32],
    biases: &[f32],
    y: &mut [f32],
) {
    let (images, places) = (tiles.images, tiles.places());
    let (step, line) = (apart(images.channels, tiles.count), padded(tiles.count));
    for c in 0..images.channels {
        let bias = biases.get(c).copied().unwrap_or(0.0);
        for t in (0..tiles.count).step_by(WIDTH) {
            let count = WIDTH.min(tiles.count - t);
            let eight = &places[t..t + WIDTH];
            let mut values = [[[0.0; WIDTH]; E]; E];
            for (place, values) in values.as_flattened_mut().iter_mut().enumerate() {
                let at = place * step + c * line + t;
                values.copy_from_slice(&sums[at..at + WIDTH]);
            }
            let values = collect(a, &values);
            for (lane, tile) in eight.iter().enumerate().take(count) {
                for (i, values) in values.iter().enumerate() {
                    let row = images.row(*tile, c, i);
                    let y = &mut y[row.start..row.start + row.end.min(O)];
                    y.iter_mut()
                        .zip(values)
                        .for_each(|(y, v)| *y = v[lane] + bias);
                }
            }
        }
    }
}
