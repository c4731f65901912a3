//! Activations in lanes, and what moves planes from frame to frame.
#![allow(unsafe_code)]

use super::super::activation::{relu, relu_backward, tanh, tanh_backward};
use super::super::{Work, wide};
use super::{Eight, LANES, Planes};

/// Which function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Relu,
    Tanh,
}

impl Kind {
    /// `y = f(x)`.
    pub fn forward(self, (x, from): (&[Eight], &Planes), (y, to): (&mut [Eight], &Planes)) {
        copy((x, from), (y, to));
        // The frame is zero, and so are both functions of it.
        match self {
            Self::Relu => relu(floats_mut(y)),
            Self::Tanh => tanh(floats_mut(y)),
        }
    }

    /// Turns `dy`, without a frame, into the gradient with respect to the input.
    pub fn backward(self, (y, planes): (&[Eight], &Planes), dy: &mut [Eight]) {
        let (rows, columns) = planes.size;
        for (line, dy) in dy.chunks_exact_mut(columns).enumerate() {
            let y = &y[planes.row(line / rows, line % rows)];
            match self {
                Self::Relu => relu_backward(floats(y), floats_mut(dy)),
                Self::Tanh => tanh_backward(floats(y), floats_mut(dy)),
            }
        }
    }
}

/// Copies pixels; the frame is left.
pub(super) fn copy((x, from): (&[Eight], &Planes), (y, to): (&mut [Eight], &Planes)) {
    assert_eq!((from.channels, from.size), (to.channels, to.size));
    for c in 0..from.channels {
        for row in 0..from.size.0 {
            let x = x[from.row(c, row)].iter().step_by(from.step);
            let y = y[to.row(c, row)].iter_mut().step_by(to.step);
            y.zip(x).for_each(|(y, x)| *y = *x);
        }
    }
}

/// Sets pixels to zero where the bit is not set: a byte for each pixel, a bit for each sample.
pub(in super::super) fn mask(bits: &[u8], (x, planes): (&mut [Eight], &Planes)) {
    wide(Mask { bits, x, planes });
}

struct Mask<'a> {
    bits: &'a [u8],
    x: &'a mut [Eight],
    planes: &'a Planes,
}

impl Work for Mask<'_> {
    #[inline(always)]
    fn run(self) {
        let (rows, columns) = self.planes.size;
        for (line, bits) in self.bits.chunks_exact(columns).enumerate() {
            let row = self.planes.row(line / rows, line % rows);
            let pixels = self.x[row].iter_mut().step_by(self.planes.step);
            pixels.zip(bits).for_each(|(x, bits)| *x = kept(*x, *bits));
        }
    }
}

/// The lanes whose bit is set; zero in the others.
#[inline(always)]
pub(super) fn kept(x: Eight, bits: u8) -> Eight {
    let (low, high) = (
        &SPREAD[usize::from(bits & 15)],
        &SPREAD[usize::from(bits >> 4)],
    );
    Eight(std::array::from_fn(|lane| {
        let keep = if lane < 4 { low[lane] } else { high[lane - 4] };
        f32::from_bits(x.0[lane].to_bits() & keep)
    }))
}

/// Four bits as masks of four lanes: the compiler finds no fast way from bits to lanes by itself.
const SPREAD: [[u32; 4]; 16] = {
    let mut masks = [[0; 4]; 16];
    let mut i = 0;
    while i < 64 {
        masks[i / 4][i % 4] = if ((i / 4) >> (i % 4)) & 1 == 1 {
            u32::MAX
        } else {
            0
        };
        i += 1;
    }
    masks
};

fn floats(x: &[Eight]) -> &[f32] {
    // SAFETY: a vector is eight floats, without gaps.
    unsafe { std::slice::from_raw_parts(x.as_ptr().cast(), x.len() * LANES) }
}

fn floats_mut(x: &mut [Eight]) -> &mut [f32] {
    // SAFETY: a vector is eight floats, without gaps.
    unsafe { std::slice::from_raw_parts_mut(x.as_mut_ptr().cast(), x.len() * LANES) }
}
