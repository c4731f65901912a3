//! A convolution of samples in lanes with fewer products: for kernels of five rows.
//!
//! Two rows of output from six of input, F(2, 5) of Winograd's algorithms, down the rows only: `y = Aᵀ (G w ⊙ Bᵀ x)` at
//! the points 0, 1, −1, 2, −2, ∞. At each point that is a convolution with one row of kernel over half as many rows: 6
//! products instead of 10. Rounds off to about 1e-6.
#![allow(unsafe_code)]

use super::super::super::isa::Vectors;
use super::super::super::lanes::Planes;
use super::group::{Bits, Slide};
use super::transforms::{Enter, Leave, Return, Slope};
use super::window::Window;
use super::{Geometry, weights};

/// How many points.
pub(super) const POINTS: usize = 6;

/// The kernel's rows at each point.
const G: [[f32; 5]; POINTS] = [
    [1.0 / 4.0, 0.0, 0.0, 0.0, 0.0],
    [-1.0 / 6.0, -1.0 / 6.0, -1.0 / 6.0, -1.0 / 6.0, -1.0 / 6.0],
    [-1.0 / 6.0, 1.0 / 6.0, -1.0 / 6.0, 1.0 / 6.0, -1.0 / 6.0],
    [1.0 / 24.0, 1.0 / 12.0, 1.0 / 6.0, 1.0 / 3.0, 2.0 / 3.0],
    [1.0 / 24.0, -1.0 / 12.0, 1.0 / 6.0, -1.0 / 3.0, 2.0 / 3.0],
    [0.0, 0.0, 0.0, 0.0, 1.0],
];

/// One layer's convolution at six points.
#[derive(Debug)]
pub(super) struct Points<I: Vectors> {
    isa: I,
    g: Geometry,
    /// Of the convolution at a point.
    inner: Geometry,
    forward: Slide,
    back: Option<Slide>,
    /// Weights at each point, and as they are read.
    w: Vec<f32>,
    arranged: Vec<f32>,
    turned: Vec<f32>,
    /// Input, output and gradient of the input at each point; gradient of the output at one.
    x: Vec<I::Vector>,
    y: Vec<I::Vector>,
    dx: Vec<I::Vector>,
    dy: Vec<I::Vector>,
    /// Of the weights' gradients at each point.
    sums: Vec<I::Vector>,
    zeros: Vec<I::Vector>,
}

impl<I: Vectors> Points<I> {
    /// Whether this way suits a convolution: its transforms must be shared by several channels on both sides.
    pub(super) fn suits(g: &Geometry) -> bool {
        g.kh == 5 && g.stride == 1 && g.ci.min(g.co) >= 4 && g.oh() >= 4
    }

    pub(super) fn new(isa: I, g: Geometry, first: bool) -> Self {
        let inner = Geometry {
            h: g.oh().div_ceil(2),
            w: g.w + 2 * g.pad,
            kh: 1,
            pad: 0,
            ..g
        };
        let (input, output) = (
            Planes::tight(g.ci, inner.h, inner.w),
            Planes::tight(g.co, inner.h, g.ow()),
        );
        let back = Window::grad_input(&inner);
        let vectors = |len| vec![I::Vector::default(); len];
        Self {
            isa,
            g,
            inner,
            forward: Slide::new(Window::forward(&inner), output),
            back: (!first).then(|| Slide::new(back, input)),
            w: vec![0.0; POINTS * inner.weights()],
            arranged: vec![0.0; POINTS * inner.weights()],
            turned: vec![0.0; POINTS * inner.weights()],
            x: vectors(POINTS * input.len()),
            y: vectors(POINTS * output.len()),
            dx: vectors(POINTS * input.len()),
            dy: vectors(back.from.len()),
            sums: vectors(POINTS * inner.weights()),
            zeros: vectors(inner.w),
        }
    }

    /// Takes the weights.
    pub(super) fn prepare(&mut self, w: &[f32], back: bool) {
        let (kw, each) = (self.g.kw, self.inner.weights());
        for (point, to) in self.w.chunks_exact_mut(each).enumerate() {
            for (to, w) in to.chunks_exact_mut(kw).zip(w.chunks_exact(5 * kw)) {
                for (q, to) in to.iter_mut().enumerate() {
                    *to = (0..5).map(|p| G[point][p] * w[p * kw + q]).sum();
                }
            }
        }
        let (slide, to) = match &self.back {
            Some(slide) if back => (slide, &mut self.turned),
            _ => (&self.forward, &mut self.arranged),
        };
        for (w, to) in self.w.chunks_exact(each).zip(to.chunks_exact_mut(each)) {
            slide.window.arrange::<I>(w, to);
        }
        if back {
            self.sums.fill(I::Vector::default());
        }
    }

    /// `y = x ∗ w + b`, rectified if there are `bits` to tell where it is positive.
    pub(super) fn forward(
        &mut self,
        x: &[I::Vector],
        b: &[f32],
        (y, to): (&mut [I::Vector], &Planes),
        mut bits: Option<&mut [I::Bits]>,
    ) {
        self.enter(x);
        let each = self.y.len() / POINTS;
        let points = self.y.chunks_exact_mut(each);
        for (point, y) in points.enumerate() {
            let (w, x) = (part(&self.arranged, point), part(&self.x, point));
            self.forward.run(self.isa, w, x, &[], y, Bits::None);
        }
        let (rows, columns) = to.size;
        for line in 0..self.g.co * self.inner.h {
            let (o, i) = (line / self.inner.h, line % self.inner.h * 2);
            let mut points = [&self.y[..columns]; POINTS];
            for (m, row) in points.iter_mut().enumerate() {
                *row = &self.y[m * each + line * columns..][..columns];
            }
            for i in (i..rows).take(2) {
                let bits = bits.as_mut();
                self.isa.run(Leave {
                    isa: self.isa,
                    points,
                    bias: b[o],
                    second: i % 2 == 1,
                    y: &mut y[to.row(o, i)],
                    bits: bits.map(|bits| &mut bits[(o * rows + i) * columns..][..columns]),
                });
            }
        }
    }

    /// Adds to the gradients of the weights, and finds that of the input at each point; `dy` has no frame.
    pub(super) fn add(&mut self, x: &[I::Vector], dy: &[I::Vector]) {
        self.enter(x);
        let planes = Window::grad_input(&self.inner).from;
        for point in 0..POINTS {
            self.slope(point, dy, &planes);
            let (each, size) = (self.inner.weights(), self.dx.len() / POINTS);
            let (x, sums) = (part(&self.x, point), &mut self.sums[point * each..][..each]);
            // SAFETY: the planes have the inner geometry's sizes.
            unsafe { weights::add(self.isa, &self.inner, x, (&self.dy, &planes), sums) };
            if let Some(back) = &self.back {
                let (w, dx) = (
                    part(&self.turned, point),
                    &mut self.dx[point * size..][..size],
                );
                back.run(self.isa, w, &self.dy, &[], dx, Bits::None);
            }
        }
    }

    /// The gradient of the input from those at the points.
    pub(super) fn grad_input(&self, (dx, to): (&mut [I::Vector], &Planes)) {
        let (pad, (rows, columns)) = (self.g.pad, to.size);
        for c in 0..to.channels {
            // The tiles that reach a pair of rows: as their first and second, third and fourth, fifth and sixth.
            let mut tiles = [[&self.zeros[..columns]; POINTS]; 3];
            for pair in 0..(rows + pad).div_ceil(2) {
                tiles = [self.tile(c, pair, columns), tiles[0], tiles[1]];
                for i in (2 * pair).max(pad)..(2 * pair + 2).min(rows + pad) {
                    self.isa.run(Return {
                        isa: self.isa,
                        tiles: &tiles,
                        odd: i % 2 == 1,
                        dx: &mut dx[to.row(c, i - pad)],
                        step: to.step,
                    });
                }
            }
        }
    }

    /// A tile's row of the input's gradient at each point, without the padding.
    fn tile(&self, c: usize, tile: usize, columns: usize) -> [&[I::Vector]; POINTS] {
        let mut points = [&self.zeros[..columns]; POINTS];
        if tile < self.inner.h {
            let each = self.dx.len() / POINTS;
            let start = (c * self.inner.h + tile) * self.inner.w + self.g.pad;
            for (m, point) in points.iter_mut().enumerate() {
                *point = &self.dx[m * each + start..][..columns];
            }
        }
        points
    }

    /// Sets the gradients of the weights to their sums.
    pub(super) fn gradients(&self, dw: &mut [f32]) {
        let (kw, each) = (self.g.kw, self.inner.weights());
        for (line, dw) in dw.chunks_exact_mut(5 * kw).enumerate() {
            for q in 0..kw {
                let sums: [f32; POINTS] = std::array::from_fn(|point| {
                    self.sums[point * each + line * kw + q]
                        .as_ref()
                        .iter()
                        .sum()
                });
                for p in 0..5 {
                    dw[p * kw + q] = (0..POINTS).map(|point| G[point][p] * sums[point]).sum();
                }
            }
        }
    }

    /// The input at each point.
    fn enter(&mut self, x: &[I::Vector]) {
        let (height, w) = (self.g.h + 2 * self.g.pad, self.inner.w);
        let each = self.x.len() / POINTS;
        for line in 0..self.g.ci * self.inner.h {
            let (c, i) = (line / self.inner.h, line % self.inner.h * 2);
            let mut rows = [&self.zeros[..w]; POINTS];
            for (row, at) in rows.iter_mut().zip(i..height) {
                *row = &x[(c * height + at) * w..][..w];
            }
            let mut points = self.x.chunks_exact_mut(each);
            let points = std::array::from_fn(|_| {
                let point = points.next().expect("as many as points");
                &mut point[line * w..][..w]
            });
            self.isa.run(Enter {
                isa: self.isa,
                rows,
                points,
            });
        }
    }

    /// The output's gradient at a point: d₀ + a d₁ at the point a.
    fn slope(&mut self, point: usize, dy: &[I::Vector], planes: &Planes) {
        let (rows, columns) = (self.g.oh(), self.g.ow());
        let factors = match point {
            5 => (0.0, 1.0),
            _ => (1.0, [0.0, 1.0, -1.0, 2.0, -2.0][point]),
        };
        for line in 0..self.g.co * self.inner.h {
            let (o, i) = (line / self.inner.h, line % self.inner.h);
            let upper = &dy[(o * rows + 2 * i) * columns..][..columns];
            let lower = match 2 * i + 1 {
                row if row < rows => &dy[(o * rows + row) * columns..][..columns],
                _ => &self.zeros[..columns],
            };
            self.isa.run(Slope {
                isa: self.isa,
                factors,
                rows: (upper, lower),
                to: &mut self.dy[planes.row(o, i)],
            });
        }
    }
}

/// What belongs to a point.
fn part<T>(all: &[T], point: usize) -> &[T] {
    let each = all.len() / POINTS;
    &all[point * each..][..each]
}
