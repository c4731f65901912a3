//! Sizes of a convolution.

/// Sizes of one layer, for one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Channels in.
    pub ci: usize,
    /// Rows in.
    pub h: usize,
    /// Columns in.
    pub w: usize,
    /// Channels out.
    pub co: usize,
    /// Rows of the kernel.
    pub kh: usize,
    /// Columns of the kernel.
    pub kw: usize,
    /// Step of the kernel, in both directions.
    pub stride: usize,
    /// Zeros around the input, on all four sides.
    pub pad: usize,
}

impl Geometry {
    /// Rows out.
    pub fn oh(&self) -> usize {
        (self.h + 2 * self.pad - self.kh) / self.stride + 1
    }

    /// Columns out.
    pub fn ow(&self) -> usize {
        (self.w + 2 * self.pad - self.kw) / self.stride + 1
    }

    /// Values of a sample's input.
    pub fn inputs(&self) -> usize {
        self.ci * self.h * self.w
    }

    /// Values of a sample's output.
    pub fn outputs(&self) -> usize {
        self.co * self.pixels()
    }

    /// Values of the weights.
    pub fn weights(&self) -> usize {
        self.co * self.taps()
    }

    /// Positions of a sample's output.
    pub(super) fn pixels(&self) -> usize {
        self.oh() * self.ow()
    }

    /// Weights of one output channel.
    pub(super) fn taps(&self) -> usize {
        self.ci * self.kh * self.kw
    }
}
