//! Rows of a block against two vectors: what the check of a product is made of.

use ndarray::ArrayView2;

use super::real::Real;
use crate::backend::cpu::{Work, wide};

/// Numbers that are added up side by side.
const LANES: usize = 8;
/// Rows that are gone through together, so that vectors are read once for all of them.
const ROWS: usize = 4;

/// For each row v of `block`: Σ v·p and Σ v²·q, in double precision, added to `sums` and `squares`.
pub(super) fn weigh<T: Real>(
    block: ArrayView2<T>,
    (p, q): (&[f64], &[f64]),
    sums: &mut [f64],
    squares: &mut [f64],
) {
    for row in (0..block.nrows()).step_by(ROWS) {
        let rows: [&[T]; ROWS] = std::array::from_fn(|i| {
            // What is behind the last row is computed once more, and not used.
            let row = block.row((row + i).min(block.nrows() - 1));
            row.to_slice().expect("rows are in one piece")
        });
        let mut result = [[0.0; 2]; ROWS];
        wide(Weigh {
            rows,
            p,
            q,
            result: &mut result,
        });
        let ends = sums[row..].iter_mut().zip(&mut squares[row..]);
        for ((sum, square), [s, t]) in ends.zip(result) {
            *sum += s;
            *square += t;
        }
    }
}

struct Weigh<'a, T> {
    rows: [&'a [T]; ROWS],
    p: &'a [f64],
    q: &'a [f64],
    result: &'a mut [[f64; 2]; ROWS],
}

impl<T: Real> Work for Weigh<'_, T> {
    #[inline(always)]
    fn run(self) {
        let (p, p_rest) = self.p.as_chunks::<LANES>();
        let (q, q_rest) = self.q.as_chunks::<LANES>();
        let rows = self.rows.map(|row| row.as_chunks::<LANES>());
        let mut sums = [[0.0; LANES]; ROWS];
        let mut squares = [[0.0; LANES]; ROWS];
        for (at, (p, q)) in p.iter().zip(q).enumerate() {
            for (row, (sum, square)) in rows.iter().zip(sums.iter_mut().zip(&mut squares)) {
                let values = row.0[at].map(T::wide);
                for lane in 0..LANES {
                    sum[lane] += values[lane] * p[lane];
                    square[lane] += values[lane] * values[lane] * q[lane];
                }
            }
        }
        for (row, result) in self.result.iter_mut().enumerate() {
            let rest = rows[row].1.iter().zip(p_rest.iter().zip(q_rest));
            let (mut s, mut t) = (sums[row].iter().sum::<f64>(), squares[row].iter().sum());
            for (value, (p, q)) in rest {
                let value = value.wide();
                s += value * p;
                t += value * value * q;
            }
            *result = [s, t];
        }
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{Array2, s};

    use super::*;

    #[test]
    fn rows_are_weighed_whatever_their_number_and_length() {
        for (rows, cols) in [(1, 1), (3, 7), (4, 8), (9, 21), (5, 40)] {
            let whole = Array2::from_shape_fn((rows, cols + 3), |(i, j)| (i * 7 + j) as f32 - 9.0);
            let block = whole.slice(s![.., 1..=cols]);
            let p: Vec<f64> = (0..cols).map(|j| j as f64 - 2.0).collect();
            let q: Vec<f64> = (0..cols).map(|j| 0.5 * j as f64).collect();
            let (mut sums, mut squares) = (vec![1.0; rows], vec![2.0; rows]);
            weigh(block, (&p, &q), &mut sums, &mut squares);
            for i in 0..rows {
                let values = block.row(i).mapv(f64::from);
                let s: f64 = values.iter().zip(&p).map(|(v, p)| v * p).sum();
                let t: f64 = values.iter().zip(&q).map(|(v, q)| v * v * q).sum();
                assert_eq!((sums[i], squares[i]), (1.0 + s, 2.0 + t));
            }
        }
    }
}
