//! The inner product of a block with the transpose of another: what two blocks add to the trace of a product.

use std::ops::Range;

use ndarray::{ArrayView2, Axis};

use super::Real;
use super::sum::{Strands, Total};
use crate::backend::cpu::{Work, prefetch_line, wide};

/// Rows and columns that are transposed at once: two such squares of `f64` are half of a first-level cache.
const SIDE: usize = 32;
/// Rows and columns that are asked for before their squares are gone through: what lies in long rows, far from each other, comes
/// in the order of memory then.
const REGION: usize = 64;
/// Bytes of a line of a cache.
const LINE: usize = 64;
/// Rows above which a block is not in a cache already.
const NEAR: usize = 512;

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
        let is_far = self.a.len().max(self.b.len()) > NEAR;
        for (high, a) in self.a.chunks(REGION).enumerate() {
            for (left, b) in self.b.chunks(REGION).enumerate() {
                if is_far {
                    ask(a, left * REGION..left * REGION + b.len());
                    ask(b, high * REGION..high * REGION + a.len());
                }
                region(a, b, (high * REGION, left * REGION), &mut strands);
            }
        }
        *self.out = strands;
    }
}

/// Starts bringing these columns of rows into the cache.
#[inline(always)]
fn ask<T>(rows: &[&[T]], columns: Range<usize>) {
    let line = LINE / size_of::<T>();
    for row in rows {
        row[columns.clone()]
            .chunks(line)
            .for_each(|line| prefetch_line(&line[0]));
    }
}

/// Adds what columns `left` and on of some rows of A and columns `high` and on of some rows of B have in common, square by
/// square.
#[inline(always)]
fn region<T: Real>(a: &[&[T]], b: &[&[T]], (high, left): (usize, usize), strands: &mut Strands) {
    let mut turned = [[T::zero(); SIDE]; SIDE];
    for (up, a) in a.chunks(SIDE).enumerate() {
        for (across, b) in b.chunks(SIDE).enumerate() {
            let (i, j) = (high + up * SIDE, left + across * SIDE);
            for (column, row) in b.iter().enumerate() {
                for (line, &value) in turned.iter_mut().zip(&row[i..i + a.len()]) {
                    line[column] = value;
                }
            }
            for (row, line) in a.iter().zip(&turned) {
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
        let shapes = [(1, 1), (5, 3), (32, 32), (33, 100), (64, 7), (131, 97)];
        for (m, n) in shapes.into_iter().chain([(513, 40), (600, 1100)]) {
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
