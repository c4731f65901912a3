//! Freivalds' test: whether C = αA·B + βC₀, at the cost of three products of a matrix and a vector.
//!
//! With x of random signs, C·x and αA·(B·x) + βC₀·x must agree row by row, but for rounding. A row in which one element of C
//! is wrong by d differs by exactly d; rows with several wrong elements escape with probability 1/2 at most, where their
//! errors cancel.
//!
//! How much rounding may do is estimated first, closely: the errors of a row's elements go up with √k times the size of
//! what is summed, Σ (a b)², and meet with random signs, √n of them. Rows beyond are computed again by themselves, and only an element that is
//! further from its true value than rounding can bring it is called wrong: by min(k, 10 √k) roundings of Σ |a b|, which is
//! exceeded by chance, if roundings are independent, with probability 10⁻²¹ (Higham and Mary, 2019).

use std::ops::Range;

use ndarray::ArrayView2;

use super::real::Real;
use super::weigh::weigh;
use crate::comm::{Comm, agree};
use crate::rng::Stream;
use crate::{Error, Result};

/// Estimates of rounding beyond which a row is computed again.
const SUSPECT: f64 = 8.0;
/// Of the rows beyond, the worst are.
const AGAIN: usize = 8;
/// Roundings, times √k, that an element may be off.
const CERTAIN: f64 = 10.0;
/// What random signs are for.
const PURPOSE: u64 = 0x6672_6569_7661_6c64;

/// What is done with a block of a matrix: its rows, its columns, its numbers.
pub(super) type Look<'a, T> = dyn FnMut(Range<usize>, Range<usize>, ArrayView2<T>) + 'a;

/// What the test looks at. All ranks' shares of a matrix are together the whole.
pub(super) trait Shares<T> {
    /// Goes through this rank's share of A.
    fn a(&self, look: &mut Look<T>) -> Result<()>;
    /// Of B.
    fn b(&self, look: &mut Look<T>) -> Result<()>;
    /// Of C, as far as it is still there.
    fn c(&self, look: &mut Look<T>) -> Result<()>;
    /// Row `row` of C₀, if there is one.
    fn before(&self, row: usize) -> Result<Vec<f64>>;
}

/// Sides of a product, and its factors before A·B and C₀.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sides {
    pub(super) m: usize,
    pub(super) n: usize,
    pub(super) k: usize,
    pub(super) alpha: f64,
    pub(super) beta: f64,
}

/// The test under way.
pub(super) struct Check {
    sides: Sides,
    /// Random signs.
    x: Vec<f64>,
    /// C·x, and the sum of squares of each row of C, of the blocks seen so far; C₀·x and its squares.
    found: [Vec<f64>; 2],
    before: [Vec<f64>; 2],
}

/// What the test says of a product that passed.
#[derive(Clone, Copy, Debug)]
pub struct Verdict {
    /// The largest difference of a row, as a multiple of the estimate for rounding.
    pub largest: f64,
    /// The bound on the error of an element, as a multiple of Σ |a b|.
    pub bound: f64,
    /// Rows that were computed again.
    pub again: usize,
    /// The root of the mean square of a row's sum Σ (a b)², over the elements of C: what errors are to be compared with.
    pub scale: f64,
    /// The least error of one element that would have been noticed, in the row where it is largest.
    pub notices: f64,
}

impl Check {
    /// Begins a test with the random signs that `seed` names.
    pub(super) fn new(sides: Sides, seed: u64) -> Self {
        let mut stream = Stream::new(&[PURPOSE, seed]);
        let x = (0..sides.n)
            .map(|_| if stream.bits() >> 63 == 0 { 1.0 } else { -1.0 })
            .collect();
        let zeros = || [vec![0.0; sides.m], vec![0.0; sides.m]];
        Self {
            sides,
            x,
            found: zeros(),
            before: zeros(),
        }
    }

    /// Takes note of a block of the result.
    pub(super) fn see<T: Real>(&mut self, row: usize, col: usize, block: ArrayView2<T>) {
        Self::note(&self.x, &mut self.found, (row, col), block);
    }

    /// Takes note of a block of C₀.
    pub(super) fn see_before<T: Real>(&mut self, row: usize, col: usize, block: ArrayView2<T>) {
        Self::note(&self.x, &mut self.before, (row, col), block);
    }

    fn note<T: Real>(
        x: &[f64],
        [sums, squares]: &mut [Vec<f64>; 2],
        (row, col): (usize, usize),
        block: ArrayView2<T>,
    ) {
        let (rows, cols) = (row..row + block.nrows(), col..col + block.ncols());
        weigh(
            block,
            (&x[cols], None),
            &mut sums[rows.clone()],
            &mut squares[rows],
        );
    }

    /// Ends the test, when all blocks of C have been seen; *collective*.
    pub(super) fn end<T: Real>(
        mut self,
        comm: &dyn Comm,
        shares: &dyn Shares<T>,
    ) -> Result<Verdict> {
        let Sides {
            m, k, alpha, beta, ..
        } = self.sides;
        let (mut y, mut lengths) = (vec![0.0; k], vec![0.0; k]);
        let weighed = shares.b(&mut |rows, cols, block| {
            weigh(
                block,
                (&self.x[cols], None),
                &mut y[rows.clone()],
                &mut lengths[rows],
            );
        });
        agree(comm, weighed)?;
        comm.sum(&mut y);
        comm.sum(&mut lengths);
        let (mut z, mut sizes) = (vec![0.0; m], vec![0.0; m]);
        let weighed = shares.a(&mut |rows, cols, block| {
            let vectors = (&y[cols.clone()], Some(&lengths[cols]));
            weigh(block, vectors, &mut z[rows.clone()], &mut sizes[rows]);
        });
        agree(comm, weighed)?;
        let [found, before] = [&mut self.found, &mut self.before];
        for sums in [&mut z, &mut sizes].into_iter().chain(found).chain(before) {
            comm.sum(&mut sums[..]);
        }
        let off = |i: usize| self.found[0][i] - alpha * z[i] - beta * self.before[0][i];
        let size = |i: usize| {
            let squares = alpha * alpha * sizes[i] + beta * beta * self.before[1][i];
            squares.sqrt() + self.found[1][i].sqrt()
        };
        let estimate = |i: usize| self.roundings::<T>() * size(i);
        // What is not a number is beyond any estimate.
        let excess = |i: usize| match off(i).abs() {
            0.0 => 0.0,
            off if off.is_finite() => off / estimate(i),
            _ => f64::INFINITY,
        };
        let mut beyond: Vec<usize> = (0..m).filter(|&i| excess(i) > SUSPECT).collect();
        beyond.sort_by(|&i, &j| excess(j).total_cmp(&excess(i)));
        beyond.truncate(AGAIN);
        for &row in &beyond {
            self.again(comm, (row, off(row)), shares)?;
        }
        let squares: f64 = sizes.iter().sum();
        Ok(Verdict {
            largest: (0..m).map(excess).fold(0.0, f64::max),
            bound: certain::<T>(k),
            again: beyond.len(),
            scale: alpha.abs() * (squares / (m * self.sides.n) as f64).sqrt(),
            notices: SUSPECT * (0..m).map(estimate).fold(0.0, f64::max),
        })
    }

    /// Relative error of a row's sum that roundings make, about: those of the product, and of the test itself.
    fn roundings<T: Real>(&self) -> f64 {
        let (k, n) = (self.sides.k as f64, self.sides.n as f64);
        T::ROUNDOFF * (k + 2.0).sqrt() + f64::ROUNDOFF * (k + n + 2.0).sqrt()
    }

    /// Computes a row again, in double precision, and refuses what is wrong; *collective*.
    fn again<T: Real>(
        &self,
        comm: &dyn Comm,
        (row, off): (usize, f64),
        shares: &dyn Shares<T>,
    ) -> Result<()> {
        let Sides {
            n, k, alpha, beta, ..
        } = self.sides;
        let mut factors = vec![0.0; k];
        let read = shares.a(&mut |rows, cols, block| {
            if rows.contains(&row) {
                let values = block.row(row - rows.start);
                let places = factors[cols].iter_mut().zip(values);
                places.for_each(|(place, value)| *place += value.wide());
            }
        });
        agree(comm, read)?;
        comm.sum(&mut factors);
        let (mut exact, mut sizes) = (vec![0.0; n], vec![0.0; n]);
        let read = shares.b(&mut |rows, cols, block| {
            for (factor, values) in factors[rows].iter().zip(block.rows()) {
                let places = exact[cols.clone()].iter_mut().zip(&mut sizes[cols.clone()]);
                for ((sum, size), value) in places.zip(values) {
                    let term = alpha * factor * value.wide();
                    *sum += term;
                    *size += term.abs();
                }
            }
        });
        agree(comm, read)?;
        comm.sum(&mut exact);
        comm.sum(&mut sizes);
        let before = agree(comm, shares.before(row))?;
        for ((sum, size), value) in exact.iter_mut().zip(&mut sizes).zip(before) {
            *sum += beta * value;
            *size += (beta * value).abs();
        }
        let bound = |col: usize| certain::<T>(k) * sizes[col];
        let (mut wrong, mut seen) = (String::new(), [0u64]);
        let read = shares.c(&mut |rows, cols, block| {
            if !rows.contains(&row) {
                return;
            }
            seen[0] += cols.len() as u64;
            for (col, value) in cols.zip(block.row(row - rows.start)) {
                let within = (value.wide() - exact[col]).abs() <= bound(col);
                if !within && wrong.is_empty() {
                    let right = exact[col];
                    wrong = format!("element ({row}, {col}) is {value}, and should be {right}");
                }
            }
        });
        agree(comm, read)?;
        comm.sum(&mut seen);
        if seen[0] < n as u64 && comm.rank() == 0 {
            // The elements are gone: what is left is the row's sum, whose errors meet with random signs.
            let together: f64 = (0..n).map(|col| bound(col).powi(2)).sum();
            let within = off.abs() <= CERTAIN * together.sqrt();
            if !within {
                wrong = format!("row {row} is off by {off:.3e} in the sum with random signs");
            }
        }
        let mine = match wrong.is_empty() {
            true => Ok(()),
            false => Err(Error::Wrong(wrong)),
        };
        agree(comm, mine)
    }
}

/// The error of an element, as a multiple of Σ |a b|, that roundings can make.
fn certain<T: Real>(k: usize) -> f64 {
    let roundings = (k as f64 + 2.0).min(CERTAIN * (k as f64 + 2.0).sqrt());
    T::ROUNDOFF * roundings + f64::ROUNDOFF * (k as f64 + 2.0)
}
