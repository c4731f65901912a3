//! The inner product of a block with the transpose of another: what two blocks add to the trace of a product.

use ndarray::{ArrayView2, Axis};

use super::Real;
use super::sum::{Strands, Total};
use crate::backend::cpu::{Work, wide};

/// Rows and columns that are transposed at once: two such squares of `f64` are half of a first-level cache.
const SIDE: usize = 32;
/// Rows of both whose numbers are taken before others': where blocks are wide, each row is in pages of its own, and a processor
/// remembers where so many are.
const NEAR: usize = 8 * SIDE;

/// `Σ aᵢⱼ bⱼᵢ`, the trace of `a·b`; a: (m, n), b: (n, m), rows of both without gaps.
///
/// Costs 2mn numbers read and mn products; the order of additions depends on m and n only.
pub fn inner<T: Real>(a: ArrayView2<T>, b: ArrayView2<T>) -> Total {
    assert_eq!(a.dim(), (b.ncols(), b.nrows()), "one fits the other");
    let mut strands = Strands::default();
    let (a, b) = (lines(a), lines(b));
    wide(Inner {
        a: &a,
        b: &b,
        out: &mut strands,
    });
    strands.total()
}

/// The rows.
fn lines<'a, T>(block: ArrayView2<'a, T>) -> Vec<&'a [T]> {
    let rows = (0..block.nrows()).map(|i| block.index_axis_move(Axis(0), i));
    rows.map(|row| row.to_slice().expect("rows have no gaps"))
        .collect()
}

struct Inner<'a, T> {
    /// Rows of both.
    a: &'a [&'a [T]],
    b: &'a [&'a [T]],
    out: &'a mut Strands,
}

impl<T: Real> Work for Inner<'_, T> {
    #[inline(always)]
    fn run(self) {
        // Begun here, where the compiler sees that all lanes are alike.
        let mut strands = Strands::default();
        let mut turned = [[T::zero(); SIDE]; SIDE];
        for (high, a) in self.a.chunks(NEAR).enumerate() {
            for (left, b) in self.b.chunks(NEAR).enumerate() {
                near(a, high * NEAR, b, left * NEAR, &mut turned, &mut strands);
            }
        }
        *self.out = strands;
    }
}

/// Adds the products of rows of a, from the `top`th on, with those of b, from the `side`th on.
#[inline(always)]
fn near<T: Real>(
    a: &[&[T]],
    top: usize,
    b: &[&[T]],
    side: usize,
    turned: &mut [[T; SIDE]; SIDE],
    strands: &mut Strands,
) {
    for (high, a) in a.chunks(SIDE).enumerate() {
        for (left, b) in b.chunks(SIDE).enumerate() {
            let (i, j) = (top + high * SIDE, side + left * SIDE);
            for (column, row) in b.iter().enumerate() {
                for (line, &value) in turned.iter_mut().zip(&row[i..i + a.len()]) {
                    line[column] = value;
                }
            }
            for (row, line) in a.iter().zip(&*turned) {
                strands.products(&row[j..j + b.len()], &line[..b.len()]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{Array2, s};

    use super::*;
    use crate::linalg::dot;
    use crate::rng::Stream;

    /// Whole numbers of up to `bits` bits, with signs.
    fn whole(key: u64, shape: (usize, usize), bits: u32) -> Array2<f64> {
        let mut stream = Stream::new(&[key]);
        let size = 1u64 << bits;
        Array2::from_shape_simple_fn(shape, || stream.below(2 * size) as f64 - size as f64)
    }

    #[test]
    fn blocks_of_any_shape_give_the_exact_sum() {
        for (m, n) in [
            (1, 1),
            (5, 3),
            (32, 32),
            (33, 100),
            (64, 7),
            (131, 97),
            (300, 513),
        ] {
            let (a, b) = (whole(1, (m, n), 52), whole(2, (n, m), 52));
            let pairs = a.iter().zip(b.t().iter().copied().collect::<Vec<_>>());
            let exact: i128 = pairs.map(|(&a, b)| a as i128 * b as i128).sum();
            let total = inner(a.view(), b.view());
            let sum = total.sum.high as i128 + total.sum.low as i128;
            let off = (sum - exact).unsigned_abs() as f64;
            assert!(off <= total.error, "{m}×{n}: {off}, {total:?}");
            assert_eq!(total.sum.high, exact as f64, "{m}×{n}");
        }
    }

    #[test]
    fn blocks_of_larger_ones_are_taken_as_they_are() {
        let (a, b) = (whole(3, (80, 90), 20), whole(4, (90, 80), 20));
        let (a, b) = (a.mapv(|x| x as f32), b.mapv(|x| x as f32));
        let total = inner(a.slice(s![3..70, 5..88]), b.slice(s![5..88, 3..70]));
        let row = a.slice(s![3..70, 5..88]);
        let column = b.slice(s![5..88, 3..70]);
        let turned = column.t().as_standard_layout().into_owned();
        let same = dot(
            row.as_standard_layout().as_slice().unwrap(),
            turned.as_slice().unwrap(),
        );
        assert_eq!(total.sum, same.sum);
    }
}
