//! Samples into lanes, and back.

use super::super::isa::{Vectors, floats, floats_mut};
use super::super::{Input, Work};
use super::Planes;

/// Samples and pixels that are turned round together.
const SQUARE: usize = 8;

/// Puts a vector's samples into lanes; lanes without a sample become zero. What the samples do not cover is left.
pub fn pack<I: Vectors>(isa: I, planes: &Planes, samples: Input, to: &mut [I::Vector]) {
    match samples {
        Input::Floats(values) => isa.run(Pack {
            isa,
            planes,
            values,
            scale: |value: f32| value,
            to,
        }),
        Input::Bytes {
            pixels,
            factor,
            shift,
        } => isa.run(Pack {
            isa,
            planes,
            values: pixels,
            scale: |pixel: u8| f32::from(pixel) * factor + shift,
            to,
        }),
    }
}

struct Pack<'a, I: Vectors, T, F> {
    isa: I,
    planes: &'a Planes,
    values: &'a [T],
    scale: F,
    to: &'a mut [I::Vector],
}

impl<I: Vectors, T: Copy, F: Fn(T) -> f32 + Copy> Work for Pack<'_, I, T, F> {
    #[inline(always)]
    fn run(self) {
        let planes = self.planes;
        let samples = Samples {
            isa: self.isa,
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

/// At most a vector's samples in memory, a stride apart.
#[derive(Clone, Copy)]
struct Samples<'a, I, T, F> {
    isa: I,
    values: &'a [T],
    scale: F,
    count: usize,
    stride: usize,
}

impl<I: Vectors, T: Copy, F: Fn(T) -> f32 + Copy> Samples<'_, I, T, F> {
    /// Puts neighbouring values of each sample, from `first` on, into lanes.
    #[inline(always)]
    fn row(self, first: usize, to: &mut [I::Vector]) {
        let len = to.len();
        if len < SQUARE {
            for (i, to) in to.iter_mut().enumerate() {
                *to = I::Vector::default();
                let lanes = to.as_mut().iter_mut().take(self.count).enumerate();
                lanes.for_each(|(s, to)| {
                    *to = (self.scale)(self.values[s * self.stride + first + i]);
                });
            }
            return;
        }
        let to = floats_mut::<I>(to);
        // The last step overlaps the one before instead of going by single values.
        for at in (0..len).step_by(SQUARE).map(|at| at.min(len - SQUARE)) {
            for lane in (0..I::LANES).step_by(SQUARE) {
                let mut rows = [[0.0; SQUARE]; SQUARE];
                for (s, row) in (lane..self.count).zip(&mut rows) {
                    let from = &self.values[s * self.stride + first + at..][..SQUARE];
                    for (to, value) in row.iter_mut().zip(from) {
                        *to = (self.scale)(*value);
                    }
                }
                for (i, column) in self.isa.transpose(&rows).iter().enumerate() {
                    to[(at + i) * I::LANES + lane..][..SQUARE].copy_from_slice(column);
                }
            }
        }
    }
}

/// Takes vectors apart into neighbouring values of `count` samples, a stride apart.
pub fn unpack<I: Vectors>(
    isa: I,
    from: &[I::Vector],
    (count, stride): (usize, usize),
    to: &mut [f32],
) {
    isa.run(Unpack {
        isa,
        from,
        count,
        stride,
        to,
    });
}

struct Unpack<'a, I: Vectors> {
    isa: I,
    from: &'a [I::Vector],
    count: usize,
    stride: usize,
    to: &'a mut [f32],
}

impl<I: Vectors> Work for Unpack<'_, I> {
    #[inline(always)]
    fn run(self) {
        let len = self.from.len();
        if len < SQUARE {
            for (i, from) in self.from.iter().enumerate() {
                for (s, value) in from.as_ref().iter().enumerate().take(self.count) {
                    self.to[s * self.stride + i] = *value;
                }
            }
            return;
        }
        let from = floats::<I>(self.from);
        for at in (0..len).step_by(SQUARE).map(|at| at.min(len - SQUARE)) {
            for lane in (0..self.count).step_by(SQUARE) {
                let mut rows = [[0.0; SQUARE]; SQUARE];
                for (i, row) in rows.iter_mut().enumerate() {
                    row.copy_from_slice(&from[(at + i) * I::LANES + lane..][..SQUARE]);
                }
                let columns = self.isa.transpose(&rows);
                for (s, column) in (lane..self.count).zip(&columns) {
                    self.to[s * self.stride + at..][..SQUARE].copy_from_slice(column);
                }
            }
        }
    }
}
