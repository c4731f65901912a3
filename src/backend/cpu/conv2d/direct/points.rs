//! A convolution of eight samples in lanes with fewer products: for kernels of five rows.
//!
//! Two rows of output from six of input, F(2, 5) of Winograd's algorithms, down the rows only: `y = Aᵀ (G w ⊙ Bᵀ x)` at
//! the points 0, 1, −1, 2, −2, ∞. At each point that is a convolution with one row of kernel over half as many rows: 6
//! products instead of 10. Rounds off to about 1e-6.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::super::lanes::{Eight, Planes};
use super::group::{Bits, Slide};
use super::window::Window;
use super::{Geometry, weights};

/// How many points.
const POINTS: usize = 6;

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
pub(super) struct Points {
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
    x: Vec<Eight>,
    y: Vec<Eight>,
    dx: Vec<Eight>,
    dy: Vec<Eight>,
    /// Of the weights' gradients at each point.
    sums: Vec<Eight>,
    zeros: Vec<Eight>,
}

impl Points {
    /// Whether this way suits a convolution: its transforms must be shared by several channels on both sides.
    pub(super) fn suits(g: &Geometry) -> bool {
        g.kh == 5 && g.stride == 1 && g.ci.min(g.co) >= 4 && g.oh() >= 4
    }

    pub(super) fn new(g: Geometry, first: bool) -> Self {
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
        let vectors = |len| vec![Eight::default(); len];
        Self {
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
            slide.window.arrange(w, to);
        }
        if back {
            self.sums.fill(Eight::default());
        }
    }

    /// `y = x ∗ w + b`.
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn forward(
        &mut self,
        x: &[Eight],
        b: &[f32],
        (y, to): (&mut [Eight], &Planes),
        mut bits: Option<&mut [u8]>,
    ) {
        self.enter(x);
        let each = self.y.len() / POINTS;
        let points = self.y.chunks_exact_mut(each);
        for (point, y) in points.enumerate() {
            let x = part(&self.x, point);
            self.forward
                .run(part(&self.arranged, point), x, &[], y, Bits::None);
        }
        let (rows, columns) = to.size;
        for line in 0..self.g.co * self.inner.h {
            let (o, i) = (line / self.inner.h, line % self.inner.h * 2);
            let mut p = [&self.y[..columns]; POINTS];
            for (m, row) in p.iter_mut().enumerate() {
                *row = &self.y[m * each + line * columns..][..columns];
            }
            let b = _mm256_set1_ps(b[o]);
            for i in (i..rows).take(2) {
                let y = &mut y[to.row(o, i)];
                match i % 2 {
                    0 => upper(p, b, y),
                    _ => lower(p, b, y),
                }
                if let Some(bits) = &mut bits {
                    rectify(y, &mut bits[(o * rows + i) * columns..][..columns]);
                }
            }
        }
    }

    /// Adds to the gradients of the weights, and finds that of the input at each point; `dy` has no frame.
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn add(&mut self, x: &[Eight], dy: &[Eight]) {
        self.enter(x);
        let planes = Window::grad_input(&self.inner).from;
        for point in 0..POINTS {
            self.slope(point, dy, &planes);
            let (each, size) = (self.inner.weights(), self.dx.len() / POINTS);
            let (x, sums) = (part(&self.x, point), &mut self.sums[point * each..][..each]);
            // SAFETY: the planes have the inner geometry's sizes.
            unsafe { weights::add(&self.inner, x, (&self.dy, &planes), sums) };
            if let Some(back) = &self.back {
                let dx = &mut self.dx[point * size..][..size];
                back.run(part(&self.turned, point), &self.dy, &[], dx, Bits::None);
            }
        }
    }

    /// The gradient of the input from those at the points.
    #[target_feature(enable = "avx2,fma")]
    pub(super) fn grad_input(&self, (dx, to): (&mut [Eight], &Planes)) {
        let (pad, (rows, columns)) = (self.g.pad, to.size);
        for c in 0..to.channels {
            // The tiles that reach a pair of rows: as their first and second, third and fourth, fifth and sixth.
            let mut tiles = [[&self.zeros[..columns]; POINTS]; 3];
            for pair in 0..(rows + pad).div_ceil(2) {
                tiles = [self.tile(c, pair, columns), tiles[0], tiles[1]];
                for i in (2 * pair).max(pad)..(2 * pair + 2).min(rows + pad) {
                    let dx = &mut dx[to.row(c, i - pad)];
                    match i % 2 {
                        0 => even(&tiles, dx, to.step),
                        _ => odd(&tiles, dx, to.step),
                    }
                }
            }
        }
    }

    /// A tile's row of the input's gradient at each point, without the padding.
    fn tile(&self, c: usize, tile: usize, columns: usize) -> [&[Eight]; POINTS] {
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
                let sums: [f32; POINTS] =
                    std::array::from_fn(|point| self.sums[point * each + line * kw + q].sum());
                for p in 0..5 {
                    dw[p * kw + q] = (0..POINTS).map(|point| G[point][p] * sums[point]).sum();
                }
            }
        }
    }

    /// The input at each point.
    #[target_feature(enable = "avx2,fma")]
    fn enter(&mut self, x: &[Eight]) {
        let (height, w) = (self.g.h + 2 * self.g.pad, self.inner.w);
        let each = self.x.len() / POINTS;
        let (four, five) = (_mm256_set1_ps(4.0), _mm256_set1_ps(5.0));
        for line in 0..self.g.ci * self.inner.h {
            let (c, i) = (line / self.inner.h, line % self.inner.h * 2);
            let mut rows = [&self.zeros[..w]; POINTS];
            for (row, at) in rows.iter_mut().zip(i..height) {
                *row = &x[(c * height + at) * w..][..w];
            }
            let mut points = self.x.chunks_exact_mut(each);
            let mut to: [&mut [Eight]; POINTS] = std::array::from_fn(|_| {
                let point = points.next().expect("as many as points");
                &mut point[line * w..][..w]
            });
            for j in 0..w {
                let at = |row: usize| load(&rows[row][j]);
                let r = [at(0), at(1), at(2), at(3), at(4), at(5)];
                let even = _mm256_fnmadd_ps(four, r[2], r[4]);
                let odd = _mm256_fnmadd_ps(four, r[1], r[3]);
                let (near, step) = (_mm256_sub_ps(r[4], r[2]), _mm256_sub_ps(r[3], r[1]));
                let step = _mm256_add_ps(step, step);
                let points = [
                    _mm256_fmadd_ps(four, r[0], _mm256_fnmadd_ps(five, r[2], r[4])),
                    _mm256_add_ps(even, odd),
                    _mm256_sub_ps(even, odd),
                    _mm256_add_ps(near, step),
                    _mm256_sub_ps(near, step),
                    _mm256_fmadd_ps(four, r[1], _mm256_fnmadd_ps(five, r[3], r[5])),
                ];
                for (to, value) in to.iter_mut().zip(points) {
                    store(&mut to[j], value);
                }
            }
        }
    }

    /// The output's gradient at a point: d₀ + a d₁ at the point a.
    #[target_feature(enable = "avx2,fma")]
    fn slope(&mut self, point: usize, dy: &[Eight], planes: &Planes) {
        let (rows, columns) = (self.g.oh(), self.g.ow());
        let (first, second) = match point {
            5 => (0.0, 1.0),
            _ => (1.0, [0.0, 1.0, -1.0, 2.0, -2.0][point]),
        };
        let (first, second) = (_mm256_set1_ps(first), _mm256_set1_ps(second));
        for line in 0..self.g.co * self.inner.h {
            let (o, i) = (line / self.inner.h, line % self.inner.h);
            let upper = &dy[(o * rows + 2 * i) * columns..][..columns];
            let lower = match 2 * i + 1 {
                row if row < rows => &dy[(o * rows + row) * columns..][..columns],
                _ => &self.zeros[..columns],
            };
            let to = &mut self.dy[planes.row(o, i)];
            for (to, (upper, lower)) in to.iter_mut().zip(upper.iter().zip(lower)) {
                let sum = _mm256_mul_ps(first, load(upper));
                store(to, _mm256_fmadd_ps(second, load(lower), sum));
            }
        }
    }
}

/// The first row of a tile's output: p₀ + p₁ + p₂ + p₃ + p₄ + b.
#[target_feature(enable = "avx2,fma")]
fn upper(p: [&[Eight]; POINTS], b: __m256, y: &mut [Eight]) {
    let columns = y.len();
    for j in 0..columns {
        let ones = _mm256_add_ps(load(&p[1][j]), load(&p[2][j]));
        let twos = _mm256_add_ps(load(&p[3][j]), load(&p[4][j]));
        let sum = _mm256_add_ps(_mm256_add_ps(load(&p[0][j]), b), ones);
        store(&mut y[j], _mm256_add_ps(sum, twos));
    }
}

/// The second row of a tile's output: p₁ − p₂ + 2 (p₃ − p₄) + p₅ + b.
#[target_feature(enable = "avx2,fma")]
fn lower(p: [&[Eight]; POINTS], b: __m256, y: &mut [Eight]) {
    let (two, columns) = (_mm256_set1_ps(2.0), y.len());
    for j in 0..columns {
        let ones = _mm256_sub_ps(load(&p[1][j]), load(&p[2][j]));
        let twos = _mm256_sub_ps(load(&p[3][j]), load(&p[4][j]));
        let sum = _mm256_add_ps(_mm256_add_ps(load(&p[5][j]), b), ones);
        store(&mut y[j], _mm256_fmadd_ps(two, twos, sum));
    }
}

/// Rectifies a row; the bits tell what is positive.
#[target_feature(enable = "avx2,fma")]
fn rectify(y: &mut [Eight], bits: &mut [u8]) {
    let zero = _mm256_setzero_ps();
    for (y, bits) in y.iter_mut().zip(bits) {
        // In this order NaN goes through.
        let value = _mm256_max_ps(zero, load(y));
        *bits = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_NLE_UQ>(value, zero)) as u8;
        store(y, value);
    }
}

/// An even row of the input's gradient, from the tiles whose first, third and fifth row it is:
/// 4 p₀; −5 p₀ − 4 (p₁ + p₂) − (p₃ + p₄); p₀ + p₁ + p₂ + p₃ + p₄.
#[target_feature(enable = "avx2,fma")]
fn even(tiles: &[[&[Eight]; POINTS]; 3], dx: &mut [Eight], step: usize) {
    let (four, five) = (_mm256_set1_ps(4.0), _mm256_set1_ps(5.0));
    let [
        [first, ..],
        [b0, b1, b2, b3, b4, _],
        [c0, c1, c2, c3, c4, _],
    ] = tiles;
    let columns = first.len();
    let rows = [b0, b1, b2, b3, b4, c0, c1, c2, c3, c4];
    for j in 0..columns {
        let at = |row: usize| load(&rows[row][j]);
        let (b0, b1, b2, b3, b4) = (at(0), at(1), at(2), at(3), at(4));
        let (c0, c1, c2, c3, c4) = (at(5), at(6), at(7), at(8), at(9));
        let ones = _mm256_add_ps(b1, b2);
        let twos = _mm256_add_ps(b3, b4);
        let middle = _mm256_fmadd_ps(five, b0, _mm256_fmadd_ps(four, ones, twos));
        let last = _mm256_add_ps(_mm256_add_ps(c1, c2), _mm256_add_ps(c3, c4));
        let sum = _mm256_fmsub_ps(four, load(&first[j]), middle);
        store(
            &mut dx[j * step],
            _mm256_add_ps(sum, _mm256_add_ps(last, c0)),
        );
    }
}

/// An odd row of the input's gradient, from the tiles whose second, fourth and sixth row it is:
/// 4 p₅ − 4 (p₁ − p₂) − 2 (p₃ − p₄); p₁ − p₂ + 2 (p₃ − p₄) − 5 p₅; p₅.
#[target_feature(enable = "avx2,fma")]
fn odd(tiles: &[[&[Eight]; POINTS]; 3], dx: &mut [Eight], step: usize) {
    let (two, four, five) = (
        _mm256_set1_ps(2.0),
        _mm256_set1_ps(4.0),
        _mm256_set1_ps(5.0),
    );
    let [[_, a1, a2, a3, a4, a5], [_, b1, b2, b3, b4, b5], [.., last]] = *tiles;
    let columns = last.len();
    let rows = [a1, a2, a3, a4, a5, b1, b2, b3, b4, b5];
    for j in 0..columns {
        let at = |row: usize| load(&rows[row][j]);
        let (a1, a2, a3, a4, a5) = (at(0), at(1), at(2), at(3), at(4));
        let (b1, b2, b3, b4, b5) = (at(5), at(6), at(7), at(8), at(9));
        let ones = _mm256_sub_ps(a5, _mm256_sub_ps(a1, a2));
        let first = _mm256_fnmadd_ps(two, _mm256_sub_ps(a3, a4), _mm256_mul_ps(four, ones));
        let middle = _mm256_fmadd_ps(two, _mm256_sub_ps(b3, b4), _mm256_sub_ps(b1, b2));
        let sum = _mm256_fnmadd_ps(five, b5, _mm256_add_ps(middle, load(&last[j])));
        store(&mut dx[j * step], _mm256_add_ps(first, sum));
    }
}

/// What belongs to a point.
fn part<T>(all: &[T], point: usize) -> &[T] {
    let each = all.len() / POINTS;
    &all[point * each..][..each]
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn load(from: &Eight) -> __m256 {
    // SAFETY: a vector is aligned and has eight floats.
    unsafe { _mm256_load_ps(from.0.as_ptr()) }
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn store(to: &mut Eight, value: __m256) {
    // SAFETY: a vector is aligned and has eight floats.
    unsafe { _mm256_store_ps(to.0.as_mut_ptr(), value) };
}
