//! What a rank does with a tile.

use std::ops::Range;
use std::time::Instant;

use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2};

use super::plan::{Pattern, Plan, SQUARE, Tile};
use super::{Factor, Job, Share, Via};
use crate::Result;
use crate::linalg::sum::gamma;
use crate::linalg::{Real, Source, Total, dot, inner, sum};

/// A rank's room for tiles, and what it has done.
pub(super) struct Worker<'a, T> {
    job: &'a Job,
    /// A tile of A; of the diagonal, a square of it.
    a: Vec<T>,
    /// The tile of the other matrix.
    b: Vec<T>,
    /// Their product, or numbers of its diagonal.
    c: Vec<T>,
    pub(super) share: Share,
}

impl<'a, T: Real> Worker<'a, T> {
    pub(super) fn new(job: &'a Job, plan: Plan) -> Self {
        let (h, w) = plan.largest();
        let [a, b, c] = match (plan.pattern, job.via) {
            (Pattern::Diagonal, _) => [SQUARE * SQUARE, 0, h],
            (_, Via::Direct) => [h * w, h * w, 0],
            (_, Via::Product) => [h * w, h * w, h * h],
        };
        Self {
            job,
            a: vec![T::zero(); a],
            b: vec![T::zero(); b],
            c: vec![T::zero(); c],
            share: Share::default(),
        }
    }

    /// What the tile adds to the trace.
    pub(super) fn tile(&mut self, tile: &Tile) -> Result<Total> {
        self.share.tiles += 1;
        match &self.job.factor {
            Factor::None => self.diagonal(tile.rows.clone()),
            Factor::Other(other) => self.meet(tile, other),
            // The one across the diagonal adds the same products again.
            Factor::Itself if tile.rows != tile.cols => Ok(self.meet(tile, &self.job.a)?.twice()),
            Factor::Itself => self.alone(tile),
        }
    }

    /// Numbers of the diagonal.
    fn diagonal(&mut self, range: Range<usize>) -> Result<Total> {
        let len = range.len();
        for start in range.clone().step_by(SQUARE) {
            let part = start..range.end.min(start + SQUARE);
            self.fill_a(&Tile {
                rows: part.clone(),
                cols: part.clone(),
            })?;
            let side = part.len();
            let out = &mut self.c[start - range.start..][..side];
            let numbers = self.a.iter().step_by(side + 1);
            out.iter_mut().zip(numbers).for_each(|(out, &x)| *out = x);
        }
        let start = Instant::now();
        let total = sum(&self.c[..len]);
        self.share.adding += start.elapsed().as_secs_f64();
        Ok(total)
    }

    /// A tile of A and the one of `other` across the diagonal.
    fn meet(&mut self, tile: &Tile, other: &Source) -> Result<Total> {
        self.fill_a(tile)?;
        let across = Tile {
            rows: tile.cols.clone(),
            cols: tile.rows.clone(),
        };
        fill(other, &across, &mut self.b, &mut self.share)?;
        let (h, w) = (tile.rows.len(), tile.cols.len());
        let (a, b) = (view(&self.a, h, w), view(&self.b, w, h));
        let start = Instant::now();
        let total = add(self.job.via, a, b, &mut self.c);
        self.share.adding += start.elapsed().as_secs_f64();
        Ok(total)
    }

    /// A tile on the diagonal, which meets itself.
    fn alone(&mut self, tile: &Tile) -> Result<Total> {
        self.fill_a(tile)?;
        let side = tile.rows.len();
        let a = view(&self.a, side, side);
        let start = Instant::now();
        let total = add(self.job.via, a, a, &mut self.c);
        self.share.adding += start.elapsed().as_secs_f64();
        Ok(total)
    }

    fn fill_a(&mut self, tile: &Tile) -> Result<()> {
        fill(&self.job.a, tile, &mut self.a, &mut self.share)
    }
}

/// Reads or makes a tile.
fn fill<T: Real>(source: &Source, tile: &Tile, out: &mut [T], share: &mut Share) -> Result<()> {
    let (h, w) = (tile.rows.len(), tile.cols.len());
    let start = Instant::now();
    let out = ArrayViewMut2::from_shape((h, w), &mut out[..h * w]).expect("as long as its shape");
    source.read(tile.rows.clone(), tile.cols.clone(), out)?;
    share.making += start.elapsed().as_secs_f64();
    share.numbers += (h * w) as u64;
    Ok(())
}

fn view<T>(numbers: &[T], h: usize, w: usize) -> ArrayView2<'_, T> {
    ArrayView2::from_shape((h, w), &numbers[..h * w]).expect("as long as its shape")
}

/// The trace of `a·b`.
fn add<T: Real>(via: Via, a: ArrayView2<T>, b: ArrayView2<T>, c: &mut [T]) -> Total {
    match via {
        Via::Direct => inner(a, b),
        Via::Product => product(a, b, c),
    }
}

/// The diagonal of the product of `a` and `b`, which is made in `c`.
///
/// A number of the product is off by at most γ Σ |aᵢⱼ bⱼᵢ| in whichever order its terms are added, γ of as many roundings as
/// there are terms; over the diagonal that is at most γ ‖a‖ ‖b‖.
fn product<T: Real>(a: ArrayView2<T>, b: ArrayView2<T>, c: &mut [T]) -> Total {
    let (h, w) = a.dim();
    let mut out = ArrayViewMut2::from_shape((h, h), &mut c[..h * h]).expect("as long as its shape");
    general_mat_mul(T::one(), &a, &b, T::zero(), &mut out);
    let diagonal: Vec<T> = out.diag().to_vec();
    let mut total = sum(&diagonal);
    let least = T::min_positive_value().wide() * 2.0 * T::ROUNDOFF;
    let rounding = gamma(w, T::ROUNDOFF) * norm(&a) * norm(&b) + (h * w) as f64 * least;
    // Twice the last bits are more than what is lost in this line and the one above.
    total.error += rounding * (1.0 + 1e-14);
    total
}

/// The Frobenius norm, or a little more.
fn norm<T: Real>(a: &ArrayView2<T>) -> f64 {
    let numbers = a.as_slice().expect("tiles have no gaps");
    let squares = dot(numbers, numbers);
    ((squares.sum.high + squares.bound()) * (1.0 + 1e-15)).sqrt() * (1.0 + 1e-15)
}
