//! Rows of planes to the six points of F(2, 5) and back, as [`Points`](super::points) needs them.

use super::super::super::isa::Vectors;
use super::Work;
use super::points::POINTS;

/// A row of pixels at each point.
type Rows<'a, I> = [&'a [<I as Vectors>::Vector]; POINTS];

/// Six rows of input to the points.
pub(super) struct Enter<'a, I: Vectors> {
    pub isa: I,
    pub rows: Rows<'a, I>,
    pub points: [&'a mut [I::Vector]; POINTS],
}

impl<I: Vectors> Work for Enter<'_, I> {
    #[inline(always)]
    fn run(self) {
        let (isa, [r0, r1, r2, r3, r4, r5]) = (self.isa, self.rows);
        let [p0, p1, p2, p3, p4, p5] = self.points;
        let (four, five) = (isa.splat(4.0), isa.splat(5.0));
        let w = p0.len();
        assert!([r0, r1, r2, r3, r4, r5].iter().all(|row| row.len() == w));
        assert!([&p1, &p2, &p3, &p4, &p5].iter().all(|row| row.len() == w));
        for j in 0..w {
            let (r0, r1, r2) = (isa.load(&r0[j]), isa.load(&r1[j]), isa.load(&r2[j]));
            let (r3, r4, r5) = (isa.load(&r3[j]), isa.load(&r4[j]), isa.load(&r5[j]));
            let (even, odd) = (isa.less_mul(r4, four, r2), isa.less_mul(r3, four, r1));
            let (near, step) = (isa.sub(r4, r2), isa.sub(r3, r1));
            let step = isa.add(step, step);
            isa.store(
                &mut p0[j],
                isa.mul_add(four, r0, isa.less_mul(r4, five, r2)),
            );
            isa.store(&mut p1[j], isa.add(even, odd));
            isa.store(&mut p2[j], isa.sub(even, odd));
            isa.store(&mut p3[j], isa.add(near, step));
            isa.store(&mut p4[j], isa.sub(near, step));
            isa.store(
                &mut p5[j],
                isa.mul_add(four, r1, isa.less_mul(r5, five, r3)),
            );
        }
    }
}

/// The first row of a tile's output, p₀ + p₁ + p₂ + p₃ + p₄ + b, or the second, p₁ − p₂ + 2 (p₃ − p₄) + p₅ + b;
/// rectified if there are bits to tell what is positive.
pub(super) struct Leave<'a, I: Vectors> {
    pub isa: I,
    pub points: Rows<'a, I>,
    pub bias: f32,
    pub second: bool,
    pub y: &'a mut [I::Vector],
    pub bits: Option<&'a mut [I::Bits]>,
}

impl<I: Vectors> Work for Leave<'_, I> {
    #[inline(always)]
    fn run(self) {
        let (isa, [p0, p1, p2, p3, p4, p5], y) = (self.isa, self.points, self.y);
        let (two, bias, columns) = (isa.splat(2.0), isa.splat(self.bias), y.len());
        assert!(self.points.iter().all(|row| row.len() == columns));
        for j in 0..columns {
            let (p1, p2) = (isa.load(&p1[j]), isa.load(&p2[j]));
            let (p3, p4) = (isa.load(&p3[j]), isa.load(&p4[j]));
            let sum = if self.second {
                let sum = isa.add(isa.add(isa.load(&p5[j]), bias), isa.sub(p1, p2));
                isa.mul_add(two, isa.sub(p3, p4), sum)
            } else {
                let sum = isa.add(isa.add(isa.load(&p0[j]), bias), isa.add(p1, p2));
                isa.add(sum, isa.add(p3, p4))
            };
            isa.store(&mut y[j], sum);
        }
        if let Some(bits) = self.bits {
            for (y, bits) in y.iter_mut().zip(bits) {
                let value;
                (value, *bits) = isa.rectify(isa.load(y));
                isa.store(y, value);
            }
        }
    }
}

/// Two rows of the output's gradient, each times its factor.
pub(super) struct Slope<'a, I: Vectors> {
    pub isa: I,
    pub factors: (f32, f32),
    pub rows: (&'a [I::Vector], &'a [I::Vector]),
    pub to: &'a mut [I::Vector],
}

impl<I: Vectors> Work for Slope<'_, I> {
    #[inline(always)]
    fn run(self) {
        let (isa, (upper, lower)) = (self.isa, self.rows);
        let (first, second) = (isa.splat(self.factors.0), isa.splat(self.factors.1));
        for (to, (upper, lower)) in self.to.iter_mut().zip(upper.iter().zip(lower)) {
            let sum = isa.mul(first, isa.load(upper));
            isa.store(to, isa.mul_add(second, isa.load(lower), sum));
        }
    }
}

/// A row of the input's gradient, every `step`-th pixel, from the three tiles that reach it.
///
/// An even one from those whose first, third and fifth row it is:
/// 4 p₀; −5 p₀ − 4 (p₁ + p₂) − (p₃ + p₄); p₀ + p₁ + p₂ + p₃ + p₄.
/// An odd one from those whose second, fourth and sixth row it is:
/// 4 p₅ − 4 (p₁ − p₂) − 2 (p₃ − p₄); p₁ − p₂ + 2 (p₃ − p₄) − 5 p₅; p₅.
pub(super) struct Return<'a, I: Vectors> {
    pub isa: I,
    pub tiles: &'a [Rows<'a, I>; 3],
    pub odd: bool,
    pub dx: &'a mut [I::Vector],
    pub step: usize,
}

impl<I: Vectors> Work for Return<'_, I> {
    #[inline(always)]
    fn run(self) {
        let (isa, dx) = (self.isa, self.dx);
        let (two, four, five) = (isa.splat(2.0), isa.splat(4.0), isa.splat(5.0));
        let [a, b, c] = self.tiles;
        let columns = a[0].len();
        assert!(
            [a, b, c]
                .iter()
                .all(|tile| tile.iter().all(|row| row.len() == columns))
        );
        for j in 0..columns {
            let at = &mut dx[j * self.step];
            if self.odd {
                let a = (isa.load(&a[1][j]), isa.load(&a[2][j]), isa.load(&a[5][j]));
                let ones = isa.sub(a.2, isa.sub(a.0, a.1));
                let twos = isa.sub(
                    isa.load(&self.tiles[0][3][j]),
                    isa.load(&self.tiles[0][4][j]),
                );
                let first = isa.less_mul(isa.mul(four, ones), two, twos);
                let ones = isa.sub(isa.load(&b[1][j]), isa.load(&b[2][j]));
                let twos = isa.sub(isa.load(&b[3][j]), isa.load(&b[4][j]));
                let sum = isa.add(isa.mul_add(two, twos, ones), isa.load(&c[5][j]));
                let sum = isa.less_mul(sum, five, isa.load(&b[5][j]));
                isa.store(at, isa.add(first, sum));
            } else {
                let ones = isa.add(isa.load(&c[1][j]), isa.load(&c[2][j]));
                let twos = isa.add(isa.load(&c[3][j]), isa.load(&c[4][j]));
                let last = isa.add(isa.add(ones, twos), isa.load(&c[0][j]));
                let ones = isa.add(isa.load(&b[1][j]), isa.load(&b[2][j]));
                let twos = isa.add(isa.load(&b[3][j]), isa.load(&b[4][j]));
                let sum = isa.less_mul(isa.sub(last, twos), four, ones);
                let sum = isa.less_mul(sum, five, isa.load(&b[0][j]));
                isa.store(at, isa.mul_add(four, isa.load(&a[0][j]), sum));
            }
        }
    }
}
