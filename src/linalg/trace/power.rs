//! Traces of higher powers: A to the power of k - 1 by products, then its inner product with the transpose of A.

use std::ops::Range;
use std::time::Instant;

use ndarray::Array2;

use super::{Job, Share, Traced, finite, in_order, shares};
use crate::comm::{Comm, agree, nodes};
use crate::linalg::product::{Block, Left, Product};
use crate::linalg::{Algorithm, Plan, Real, Source, Summary, Total, inner, plan};
use crate::{Result, interrupt};

/// Side of the tiles that are added up by themselves, and, to have the same bits on any number of ranks, multiplied so.
const UNIT: usize = 512;

/// The trace of A to the power of `k`, at least 3; *collective*.
///
/// Takes k - 2 products, with A, its power and the product in memory. The bits depend on the number of ranks unless they
/// are to be `reproducible`.
pub(super) fn power<T: Real>(
    comm: &dyn Comm,
    job: &Job,
    k: u32,
    reproducible: bool,
) -> Result<Traced> {
    let start = Instant::now();
    let n = job.a.rows();
    let plan = Plan::choose(&plan::Job {
        m: n,
        n,
        k: n,
        precision: T::PRECISION,
        nodes: nodes(comm),
        memory: job.memory,
        grid: None,
        // One layer: then a rank's block of one product is what it has of the left factor of the next.
        algorithm: Some(Algorithm::Summa),
        unit: if reproducible { UNIT } else { 1 },
    });
    let plan = agree(comm, plan)?;
    let mut share = Share::default();
    let mut powers = Powers {
        comm,
        a: &job.a,
        plan: &plan,
        share: &mut share,
    };
    let (first, norm) = powers.first::<T>()?;
    // The norm of what roundings have made of the power so far, at most.
    let (mut block, mut size, mut error) = (first, norm, 0.0);
    let rounding = 1.01 * T::ROUNDOFF * (n as f64 + 2.0);
    for _ in 2..k {
        error = rounding * size * norm + error * norm;
        (block, size) = powers.next(block)?;
    }
    let totals = powers.totals(block.as_ref());
    let totals = agree(comm, totals)?;
    let total = add_up_in_order(comm, &totals);
    finite(&total, job)?;
    Ok(Traced {
        sum: total.sum,
        bound: total.bound() + error * norm,
        shares: shares(comm, share),
        seconds: start.elapsed().as_secs_f64(),
        width: size_of::<T>(),
        side: UNIT,
    })
}

/// Powers of A, of which each rank has its block.
struct Powers<'a> {
    comm: &'a dyn Comm,
    a: &'a Source,
    plan: &'a Plan,
    share: &'a mut Share,
}

impl Powers<'_> {
    /// A itself, and its norm; *collective*.
    fn first<T: Real>(&mut self) -> Result<(Option<Block<T>>, f64)> {
        let start = Instant::now();
        let place = self.plan.grid.place(self.comm.rank());
        let read = place.map(|place| {
            let [rows, cols, _] = self.plan.ranges(place);
            let mut numbers = Array2::zeros((rows.len(), cols.len()));
            let done = self.a.read(rows.clone(), cols.clone(), numbers.view_mut());
            self.share.numbers += numbers.len() as u64;
            done.map(|()| Block {
                rows,
                cols,
                numbers,
            })
        });
        let block = agree(self.comm, read.transpose())?;
        self.share.making += start.elapsed().as_secs_f64();
        let norm = self.norm(block.as_ref());
        Ok((block, norm))
    }

    /// The next power, and its norm; *collective*.
    fn next<T: Real>(&mut self, block: Option<Block<T>>) -> Result<(Option<Block<T>>, f64)> {
        let product = Product {
            a: Left::Block(block.as_ref()),
            b: self.a,
            c: None,
            alpha: T::one(),
            beta: T::zero(),
            plan: self.plan,
            check: Some(1),
            device: None,
            flip: None,
        };
        let outcome = product.run(self.comm, &mut |_, _, _| Ok(()))?;
        self.share.making += outcome.work.reading;
        self.share.adding += outcome.work.computing + outcome.work.talking + outcome.work.checking;
        let norm = self.norm(outcome.block.as_ref());
        Ok((outcome.block, norm))
    }

    /// The Frobenius norm of a matrix of which each rank has its block; *collective*.
    fn norm<T: Real>(&self, block: Option<&Block<T>>) -> f64 {
        let mut summary = Summary::default();
        if let Some(block) = block {
            summary.add(block.rows.start, block.cols.start, block.numbers.view());
        }
        summary.together(self.comm).norm()
    }

    /// What each tile of this rank's block adds to the trace, with the tile's row and column.
    fn totals<T: Real>(
        &mut self,
        block: Option<&Block<T>>,
    ) -> Result<Vec<((usize, usize), Total)>> {
        let mut totals = Vec::new();
        let Some(block) = block else {
            return Ok(totals);
        };
        for rows in tiles(&block.rows) {
            for cols in tiles(&block.cols) {
                interrupt::check()?;
                let start = Instant::now();
                let mut across = Array2::<T>::zeros((cols.len(), rows.len()));
                self.a.read(cols.clone(), rows.clone(), across.view_mut())?;
                let made = start.elapsed().as_secs_f64();
                let (top, left) = (rows.start - block.rows.start, cols.start - block.cols.start);
                let tile = block
                    .numbers
                    .slice(ndarray::s![top..top + rows.len(), left..left + cols.len()]);
                totals.push(((rows.start, cols.start), inner(tile, across.view())));
                self.share.tiles += 1;
                self.share.numbers += across.len() as u64;
                self.share.making += made;
                self.share.adding += start.elapsed().as_secs_f64() - made;
            }
        }
        Ok(totals)
    }
}

/// Tiles of a range, cut at multiples of their side.
fn tiles(range: &Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let (begin, end) = (range.start, range.end);
    let numbers = begin / UNIT..end.div_ceil(UNIT);
    numbers.map(move |i| begin.max(i * UNIT)..end.min((i + 1) * UNIT))
}

/// All ranks' tiles, by rows and then columns; *collective*.
fn add_up_in_order(comm: &dyn Comm, totals: &[((usize, usize), Total)]) -> Total {
    let places: Vec<u8> = (totals.iter())
        .flat_map(|((row, col), _)| [row.to_le_bytes(), col.to_le_bytes()])
        .flatten()
        .collect();
    let values: Vec<u8> = totals
        .iter()
        .flat_map(|(_, total)| total.to_bytes())
        .collect();
    let (places, values) = (comm.gather(&places).concat(), comm.gather(&values).concat());
    let places = places.as_chunks::<8>().0.as_chunks::<2>().0;
    let places = places.iter().map(|place| place.map(usize::from_le_bytes));
    let mut all: Vec<_> = places.zip(values.as_chunks().0).collect();
    all.sort_by_key(|(place, _)| *place);
    in_order(all.into_iter().map(|(_, total)| total))
}
