//! Activations in lanes, and what moves planes from frame to frame.

use super::super::Work;
use super::super::activation::{relu, relu_backward, tanh, tanh_backward};
use super::super::isa::{Vectors, floats, floats_mut};
use super::Planes;

/// Which function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Relu,
    Tanh,
}

impl Kind {
    /// `y = f(x)`.
    pub fn forward<I: Vectors>(
        self,
        isa: I,
        (x, from): (&[I::Vector], &Planes),
        (y, to): (&mut [I::Vector], &Planes),
    ) {
        copy(isa, (x, from), (y, to));
        // The frame is zero, and so are both functions of it.
        match self {
            Self::Relu => relu(floats_mut::<I>(y)),
            Self::Tanh => tanh(floats_mut::<I>(y)),
        }
    }

    /// Turns `dy`, without a frame, into the gradient with respect to the input.
    pub fn backward<I: Vectors>(self, (y, planes): (&[I::Vector], &Planes), dy: &mut [I::Vector]) {
        let (rows, columns) = planes.size;
        for (line, dy) in dy.chunks_exact_mut(columns).enumerate() {
            let y = &y[planes.row(line / rows, line % rows)];
            match self {
                Self::Relu => relu_backward(floats::<I>(y), floats_mut::<I>(dy)),
                Self::Tanh => tanh_backward(floats::<I>(y), floats_mut::<I>(dy)),
            }
        }
    }
}

/// Copies pixels; the frame is left.
pub(super) fn copy<I: Vectors>(isa: I, x: (&[I::Vector], &Planes), y: (&mut [I::Vector], &Planes)) {
    assert_eq!((x.1.channels, x.1.size), (y.1.channels, y.1.size));
    isa.run(Copy::<I> { x, y });
}

struct Copy<'a, I: Vectors> {
    x: (&'a [I::Vector], &'a Planes),
    y: (&'a mut [I::Vector], &'a Planes),
}

impl<I: Vectors> Work for Copy<'_, I> {
    #[inline(always)]
    fn run(self) {
        let ((x, from), (y, to)) = (self.x, self.y);
        for c in 0..from.channels {
            for row in 0..from.size.0 {
                let x = x[from.row(c, row)].iter().step_by(from.step);
                let y = y[to.row(c, row)].iter_mut().step_by(to.step);
                y.zip(x).for_each(|(y, x)| *y = *x);
            }
        }
    }
}

/// Sets pixels to zero where the bit is not set: bits for each pixel, one for each sample.
pub(in super::super) fn mask<I: Vectors>(
    isa: I,
    bits: &[I::Bits],
    (x, planes): (&mut [I::Vector], &Planes),
) {
    isa.run(Mask {
        isa,
        bits,
        x,
        planes,
    });
}

struct Mask<'a, I: Vectors> {
    isa: I,
    bits: &'a [I::Bits],
    x: &'a mut [I::Vector],
    planes: &'a Planes,
}

impl<I: Vectors> Work for Mask<'_, I> {
    #[inline(always)]
    fn run(self) {
        let isa = self.isa;
        let (rows, columns) = self.planes.size;
        for (line, bits) in self.bits.chunks_exact(columns).enumerate() {
            let row = self.planes.row(line / rows, line % rows);
            let pixels = self.x[row].iter_mut().step_by(self.planes.step);
            for (x, bits) in pixels.zip(bits) {
                isa.store(x, isa.keep(isa.load(x), *bits));
            }
        }
    }
}
