//! Rows of a block against two vectors: what the check of a product is made of.

use ndarray::ArrayView2;

use super::real::Real;
use crate::backend::cpu::{Work, prefetch_line, wide};

/// Numbers that are added up side by side.
const LANES: usize = 8;
/// Rows that are gone through together, so that vectors are read once for all of them.
const ROWS: usize = 4;

/// For each row v of `block`: Σ v·p and Σ v²·q, in double precision, added to `sums` and `squares`; no q stands for ones.
pub(super) fn weigh<T: Real>(
    block: ArrayView2<T>,
    (p, q): (&[f64], Option<&[f64]>),
    sums: &mut [f64],
    squares: &mut [f64],
) {
    let from = |row: usize| -> [&[T]; ROWS] {
        std::array::from_fn(|i| {
            // What is behind the last row is computed once more, and not used.
            let row = block.row((row + i).min(block.nrows() - 1));
            row.to_slice().expect("rows are in one piece")
        })
    };
    for row in (0..block.nrows()).step_by(ROWS) {
        let mut result = [[0.0; 2]; ROWS];
        wide(Weigh {
            rows: from(row),
            next: from(row + ROWS),
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
    /// Which come then: they are asked of the memory meanwhile.
    next: [&'a [T]; ROWS],
    p: &'a [f64],
    q: Option<&'a [f64]>,
    result: &'a mut [[f64; 2]; ROWS],
}

impl<T: Real> Work for Weigh<'_, T> {
    #[inline(always)]
    fn run(self) {
        match self.q {
            Some(q) => self.sums(|at| q[at]),
            None => self.sums(|_| 1.0),
        }
    }
}

impl<T: Real> Weigh<'_, T> {
    #[inline(always)]
    fn sums(self, q: impl Fn(usize) -> f64) {
        let (p, rest) = self.p.as_chunks::<LANES>();
        let rows = self.rows.map(|row| row.as_chunks::<LANES>());
        let next = self.next.map(|row| row.as_chunks::<LANES>().0);
        let mut sums = [[0.0; LANES]; ROWS];
        let mut squares = [[0.0; LANES]; ROWS];
        for (at, p) in p.iter().enumerate() {
            next.iter().for_each(|row| prefetch_line(&row[at]));
            let q: [f64; LANES] = std::array::from_fn(|lane| q(at * LANES + lane));
            for (row, (sum, square)) in rows.iter().zip(sums.iter_mut().zip(&mut squares)) {
                let values = row.0[at].map(T::wide);
                for lane in 0..LANES {
                    sum[lane] += values[lane] * p[lane];
                    square[lane] += values[lane] * values[lane] * q[lane];
                }
            }
        }
        let done = p.len() * LANES;
        for (row, result) in self.result.iter_mut().enumerate() {
            let (mut s, mut t) = (sums[row].iter().sum::<f64>(), squares[row].iter().sum());
            for (i, (value, p)) in rows[row].1.iter().zip(rest).enumerate() {
                let value = value.wide();
                s += value * p;
                t += value * value * q(done + i);
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
            weigh(block, (&p, Some(&q)), &mut sums, &mut squares);
            let (mut plain, mut lengths) = (vec![1.0; rows], vec![2.0; rows]);
            weigh(block, (&p, None), &mut plain, &mut lengths);
            for i in 0..rows {
                let values = block.row(i).mapv(f64::from);
                let s: f64 = values.iter().zip(&p).map(|(v, p)| v * p).sum();
                let t: f64 = values.iter().zip(&q).map(|(v, q)| v * v * q).sum();
                assert_eq!((sums[i], squares[i]), (1.0 + s, 2.0 + t));
                let length: f64 = values.iter().map(|v| v * v).sum();
                assert_eq!((plain[i], lengths[i]), (1.0 + s, 2.0 + length));
            }
        }
    }
}
