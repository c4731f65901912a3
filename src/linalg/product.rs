//! C = αA·B + βC₀ by all ranks, as a plan says.

mod seen;
mod steps;

use std::cell::RefCell;
use std::hint::black_box;
use std::ops::Range;
use std::time::Instant;

use ndarray::{Array2, ArrayView2, ArrayViewMut2, s};

use super::check::{Check, Sides, Verdict};
use super::grid::Place;
use super::on_device::Multiplier;
use super::operand::{Factors, Need};
use super::plan::{Plan, Way};
use super::real::Real;
use super::source::Source;
use crate::Result;
use crate::comm::{BUCKET, Comm, Op, agree, block};
use crate::observe::Progress;
use seen::Seen;
use steps::Steps;

/// What to multiply.
pub struct Product<'a, T: Real> {
    /// The left factor.
    pub a: Left<'a, T>,
    /// The right factor.
    pub b: &'a Source,
    /// What is added, if β is not zero.
    pub c: Option<&'a Source>,
    /// The factor of A·B.
    pub alpha: T,
    /// The factor of C₀.
    pub beta: T,
    /// How.
    pub plan: &'a Plan,
    /// The seed of the test with random signs; none is made without.
    pub check: Option<u64>,
    /// The device that multiplies; without, BLAS does.
    pub device: Option<&'a RefCell<Multiplier<T>>>,
    /// Turns a bit of one element of the result over, to see that it is noticed: its row and column.
    pub flip: Option<(usize, usize)>,
}

/// Where the left factor of a product comes from.
pub enum Left<'a, T> {
    /// A file or a formula.
    Source(&'a Source),
    /// This rank's block of another product by the same plan, which has one layer and square matrices; none on a rank that
    /// has nothing to do. It is held.
    Block(Option<&'a Block<T>>),
}

impl<T: Real> Left<'_, T> {
    /// Fills `out` with a block; of another product, with its own.
    pub fn read(
        &self,
        rows: Range<usize>,
        cols: Range<usize>,
        mut out: ArrayViewMut2<T>,
    ) -> Result<()> {
        match self {
            Self::Source(source) => source.read(rows, cols, out),
            Self::Block(block) => {
                let block = block.expect("who takes part has a block");
                assert_eq!((&rows, &cols), (&block.rows, &block.cols), "the same plan");
                out.assign(&block.numbers);
                Ok(())
            }
        }
    }
}

/// What was done on this rank.
#[derive(Clone, Debug, Default)]
pub struct Work {
    /// Seconds of reading or making numbers.
    pub reading: f64,
    /// Of multiplying.
    pub computing: f64,
    /// Of exchanging panels and adding up layers.
    pub talking: f64,
    /// Of waiting for others.
    pub waiting: f64,
    /// Of giving blocks away: writing them, taking note of them.
    pub giving: f64,
    /// Of the check.
    pub checking: f64,
    /// Bytes of panels that came from other nodes, to this rank.
    pub panel_bytes: u64,
    /// Bytes that this rank gave to sums over layers.
    pub sum_bytes: u64,
    /// Floating-point operations of its products.
    pub flop: f64,
}

/// What a product came to.
pub struct Outcome<T> {
    /// This rank's work.
    pub work: Work,
    /// What the test says, if one was made.
    pub verdict: Option<Verdict>,
    /// This rank's block of C with the rows and columns it is; none if it was streamed, or the rank had nothing to do.
    pub block: Option<Block<T>>,
}

/// A block of a matrix.
pub struct Block<T> {
    /// Its rows.
    pub rows: Range<usize>,
    /// Its columns.
    pub cols: Range<usize>,
    /// Its numbers.
    pub numbers: Array2<T>,
}

/// Takes blocks of the result: row and column of the first element, and the block.
pub type Give<'a, T> = dyn FnMut(usize, usize, ArrayView2<T>) -> Result<()> + 'a;

/// Measures seconds into a field.
fn timed<R>(seconds: &mut f64, work: impl FnOnce() -> R) -> R {
    let start = Instant::now();
    let result = work();
    *seconds += start.elapsed().as_secs_f64();
    result
}

/// What a rank that has something to do needs.
struct Member<T> {
    place: Place,
    /// Rows and columns of its block of C, and its part of k.
    ranges: [Range<usize>; 3],
    /// The ranks with the same block of C, in the order of layers.
    fiber: Box<dyn Comm>,
    held: Option<Factors<T>>,
}

impl<T: Real> Product<'_, T> {
    /// Multiplies; blocks of the result are given to `give` as they are ready, each by one rank; *collective*.
    pub fn run(&self, comm: &dyn Comm, give: &mut Give<T>) -> Result<Outcome<T>> {
        let mut work = Work::default();
        let member = self.member(comm, &mut work);
        let member = timed(&mut work.waiting, || agree(comm, member))?;
        let mut check = self.check.map(|seed| Check::new(self.sides(), seed));
        let progress = (comm.rank() == 0).then(|| Progress::new("multiplying", self.steps()));
        let mut run = Run {
            product: self,
            member,
            check: check.as_mut(),
            work,
            progress,
            last: None,
        };
        for round in 0..self.rounds() {
            let tile = run.tile(round);
            let tile = timed(&mut run.work.waiting, || agree(comm, tile))?;
            let given = tile.map_or(Ok(()), |tile| run.give(tile, give));
            agree(comm, given)?;
        }
        let Run {
            member,
            mut work,
            last,
            ..
        } = run;
        let shares = self.shares(comm, &member, last.as_ref());
        let verdict = match check {
            Some(check) => Some(timed(&mut work.checking, || check.end(comm, &shares))?),
            None => None,
        };
        if let Some(factors) = member.and_then(|member| member.held) {
            factors.close()?;
        }
        Ok(Outcome {
            work,
            verdict,
            block: last,
        })
    }

    fn sides(&self) -> Sides {
        let job = &self.plan.job;
        Sides {
            m: job.m,
            n: job.n,
            k: job.k,
            alpha: self.alpha.wide(),
            beta: self.c.map_or(0.0, |_| self.beta.wide()),
        }
    }

    /// This rank's part, with its share of the factors in memory if they are held; none if it has nothing to do. An error is
    /// this rank's own; *collective*.
    fn member(&self, comm: &dyn Comm, work: &mut Work) -> Result<Option<Member<T>>> {
        let (plan, grid) = (self.plan, self.plan.grid);
        let place = grid.place(comm.rank());
        let at = place.unwrap_or(Place {
            row: grid.rows,
            col: grid.cols,
            layer: grid.layers,
        });
        let row = comm.split(at.row + at.layer * (grid.rows + 1));
        let col = comm.split(at.col + at.layer * (grid.cols + 1));
        let fiber = comm.split(at.row * (grid.cols + 1) + at.col);
        let Some(place) = place else {
            return Ok(None);
        };
        let ranges = plan.ranges(place);
        let held = match plan.way {
            Way::Streamed { .. } => None,
            Way::Held => timed(&mut work.reading, || {
                let factors = Factors::load(Need {
                    left: &self.a,
                    right: self.b,
                    groups: [&*row, &*col],
                    ranges: ranges.clone(),
                    unit: plan.job.unit,
                });
                factors.map(Some)
            })?,
        };
        Ok(Some(Member {
            place,
            ranges,
            fiber,
            held,
        }))
    }

    /// Tiles that each rank goes through, one after the other; as many on every rank.
    fn rounds(&self) -> usize {
        let (rows, cols) = self.tiles();
        rows * cols
    }

    /// Rows and columns of tiles in a block of C.
    fn tiles(&self) -> (usize, usize) {
        let [m, n, _] = self.plan.ranges(Place {
            row: 0,
            col: 0,
            layer: 0,
        });
        match self.plan.way {
            Way::Held => (1, 1),
            Way::Streamed { rows, cols } => (m.len().div_ceil(rows), n.len().div_ceil(cols)),
        }
    }

    /// What the first rank's progress counts: its share of k, for each tile.
    fn steps(&self) -> u64 {
        let k = self.plan.job.k.div_ceil(self.plan.grid.layers);
        (self.rounds() * k) as u64
    }

    fn shares<'a>(
        &'a self,
        comm: &dyn Comm,
        member: &'a Option<Member<T>>,
        last: Option<&'a Block<T>>,
    ) -> Seen<'a, T> {
        let held = member.as_ref().and_then(|member| member.held.as_ref());
        let streams = matches!(self.plan.way, Way::Streamed { .. });
        let part = |len: usize| match streams {
            true => block(len, comm.size(), comm.rank()),
            false => 0..0,
        };
        Seen {
            product: self,
            held,
            rows: [part(self.plan.job.m), part(self.plan.job.k)],
            last,
        }
    }
}

/// A product under way on one rank.
struct Run<'a, T: Real> {
    product: &'a Product<'a, T>,
    member: Option<Member<T>>,
    check: Option<&'a mut Check>,
    work: Work,
    progress: Option<Progress>,
    /// The block of C that was given last, if it is to be kept.
    last: Option<Block<T>>,
}

impl<T: Real> Run<'_, T> {
    /// Computes this rank's part of tile `round`; before layers are added up.
    fn tile(&mut self, round: usize) -> Result<Option<Block<T>>> {
        let (product, plan) = (self.product, self.product.plan);
        let Some(member) = &mut self.member else {
            return Ok(None);
        };
        let [rows, cols, k] = member.ranges.clone();
        let (rows, cols) = match plan.way {
            Way::Held => (rows, cols),
            Way::Streamed {
                rows: height,
                cols: width,
            } => {
                let across = product.tiles().1;
                let cut = |range: Range<usize>, step: usize, i: usize| {
                    let begin = (range.start + i * step).min(range.end);
                    begin..(begin + step).min(range.end)
                };
                (
                    cut(rows, height, round / across),
                    cut(cols, width, round % across),
                )
            }
        };
        let mut numbers = Array2::zeros((rows.len(), cols.len()));
        // Memory is there once it is written: now, and not page by page while multiplying.
        numbers.fill(black_box(T::zero()));
        if let (Some(source), 0) = (product.c, member.place.layer) {
            timed(&mut self.work.reading, || {
                source.read(rows.clone(), cols.clone(), numbers.view_mut())
            })?;
            if let Some(check) = &mut self.check {
                check.see_before(rows.start, cols.start, numbers.view());
            }
            numbers.mapv_inplace(|value| value * product.beta);
        }
        let mut steps = Steps {
            product,
            work: &mut self.work,
            progress: self.progress.as_ref(),
        };
        match &mut member.held {
            Some(factors) => steps.held(factors, numbers.view_mut())?,
            None => steps.streamed([rows.clone(), cols.clone(), k], numbers.view_mut())?,
        }
        Ok(Some(Block {
            rows,
            cols,
            numbers,
        }))
    }

    /// Adds up layers, and gives this rank's rows of the tile away.
    fn give(&mut self, mut tile: Block<T>, give: &mut Give<T>) -> Result<()> {
        let member = self.member.as_ref().expect("who has a tile is a member");
        let fiber = &member.fiber;
        if fiber.size() > 1 {
            let numbers = tile
                .numbers
                .as_slice_mut()
                .expect("it was made in one piece");
            self.work.sum_bytes += size_of_val(numbers) as u64;
            timed(&mut self.work.talking, || {
                numbers
                    .chunks_mut(BUCKET)
                    .for_each(|bucket| fiber.all_reduce(T::data(bucket), Op::Sum));
            });
        }
        let mine = block(tile.rows.len(), fiber.size(), fiber.rank());
        let start = tile.rows.start;
        let rows = start + mine.start..start + mine.end;
        if let Some((row, col)) = self.product.flip
            && rows.contains(&row)
            && tile.cols.contains(&col)
        {
            let value = &mut tile.numbers[(row - start, col - tile.cols.start)];
            *value = value.flipped();
        }
        let view = tile.numbers.slice(s![mine.clone(), ..]);
        let given = timed(&mut self.work.giving, || {
            give(rows.start, tile.cols.start, view)
        });
        if let Some(check) = &mut self.check {
            timed(&mut self.work.checking, || {
                check.see(rows.start, tile.cols.start, view);
            });
        }
        if self.product.plan.way == Way::Held {
            self.last = Some(Block {
                rows,
                cols: tile.cols,
                numbers: match mine.len() == tile.numbers.nrows() {
                    true => tile.numbers,
                    false => view.to_owned(),
                },
            });
        }
        given
    }
}

#[cfg(test)]
mod tests;
