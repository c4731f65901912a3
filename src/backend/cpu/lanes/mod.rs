//! Samples side by side in the lanes of vectors, eight or sixteen: planes of `(channels, rows, columns, lanes)`.
//!
//! In this layout every pixel is a vector, so that no image is too narrow for vectors and every kernel, stride and
//! padding runs at full width. [`Stack`] takes small layers through it, a vector's samples at a time.

mod activation;
mod layers;
pub(super) mod pack;
mod pool;
mod stack;

pub(super) use activation::mask;
pub use stack::{Op, Stack};

/// Where the pixels of a sample's planes lie: perhaps apart, within a frame of zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Planes {
    pub channels: usize,
    /// Rows and columns of pixels.
    pub size: (usize, usize),
    /// Rows and columns with the frame.
    pub frame: (usize, usize),
    /// Row and column of the first pixel, which may lie outside.
    pub first: (isize, isize),
    /// Distance of neighbouring pixels.
    pub step: usize,
}

impl Planes {
    /// Without a frame.
    pub fn tight(channels: usize, rows: usize, columns: usize) -> Self {
        Self::padded(channels, (rows, columns), 0)
    }

    /// With so many zeros on all four sides.
    pub fn padded(channels: usize, size: (usize, usize), pad: usize) -> Self {
        Self {
            channels,
            size,
            frame: (size.0 + 2 * pad, size.1 + 2 * pad),
            first: (pad as isize, pad as isize),
            step: 1,
        }
    }

    /// Vectors of a channel.
    pub fn plane(&self) -> usize {
        self.frame.0 * self.frame.1
    }

    /// Vectors of all channels.
    pub fn len(&self) -> usize {
        self.channels * self.plane()
    }

    /// Pixels of a sample.
    pub fn sample(&self) -> usize {
        self.channels * self.size.0 * self.size.1
    }

    /// Place of a pixel that lies inside.
    pub fn place(&self, channel: usize, row: usize, column: usize) -> usize {
        let row = self.first.0 as usize + row * self.step;
        let column = self.first.1 as usize + column * self.step;
        (channel * self.frame.0 + row) * self.frame.1 + column
    }

    /// Places of a row's pixels from the first to the last.
    pub fn row(&self, channel: usize, row: usize) -> std::ops::Range<usize> {
        let start = self.place(channel, row, 0);
        start..start + (self.size.1 - 1) * self.step + 1
    }

    /// Whether nothing lies between, before and behind the pixels.
    pub fn is_tight(&self) -> bool {
        self.size == self.frame && self.first == (0, 0) && self.step == 1
    }
}
