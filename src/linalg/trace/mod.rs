//! Traces: of A from its diagonal, of A·B in O(n²) without the product, or through block products as it is commonly done.
//!
//! The trace of A·B is `Σ aᵢⱼ bⱼᵢ`, so a tile of A meets the tile of B across the diagonal and nothing else. Tiles and their
//! order do not depend on ranks (`plan`); each gives a [`Total`] in twice the precision, and all are added up in order:
//! the result has the same bits on any number of ranks.

mod ahead;
mod plan;
mod power;
mod tile;

use std::fmt;
use std::time::Instant;

use self::ahead::Ahead;
use self::plan::Plan;
use self::tile::Worker;
use super::{Real, Source, Sum, Total};
use crate::comm::{Comm, agree, block};
use crate::observe::Progress;
use crate::{Error, Result, interrupt};

/// How often ranks ask each other whether one has failed, so that all end soon where one does.
const ROUNDS: usize = 32;

/// How a trace of a product is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// As an inner product of A and the transpose of B, in twice the precision.
    Direct,
    /// By products of blocks (BLAS), of which only the diagonals are used.
    Product,
}

impl fmt::Display for Via {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Direct => "direct",
            Self::Product => "product",
        })
    }
}

/// What A is multiplied by.
#[derive(Clone, Debug)]
pub enum Factor {
    /// Nothing: the trace of A.
    None,
    /// Itself: each number is read or made once.
    Itself,
    /// B.
    Other(Source),
}

/// A trace to compute.
#[derive(Clone, Debug)]
pub struct Job {
    /// A.
    pub a: Source,
    /// What it is multiplied by.
    pub factor: Factor,
    /// How.
    pub via: Via,
    /// Bytes that a rank may take for tiles and their results.
    pub memory: usize,
}

/// What a rank did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Share {
    /// Tiles.
    pub tiles: u64,
    /// Numbers that were read or made.
    pub numbers: u64,
    /// Seconds of reading or making them.
    pub making: f64,
    /// Seconds of multiplying and adding.
    pub adding: f64,
}

/// A trace.
#[derive(Clone, Debug)]
pub struct Traced {
    /// The trace; `high` is the nearest `f64`.
    pub sum: Sum,
    /// The exact trace of the numbers as they were read or made is at most this far from `sum.high`.
    pub bound: f64,
    /// Seconds, of all ranks together.
    pub seconds: f64,
    /// Bytes of a number.
    pub width: usize,
    /// Rows and columns of a tile.
    pub side: usize,
    /// What each rank did.
    pub shares: Vec<Share>,
}

impl Traced {
    /// Numbers that were read or made, by all ranks.
    pub fn numbers(&self) -> u64 {
        self.shares.iter().map(|share| share.numbers).sum()
    }

    /// Bytes of those.
    pub fn bytes(&self) -> u64 {
        self.numbers() * self.width as u64
    }

    /// Tiles of all ranks.
    pub fn tiles(&self) -> u64 {
        self.shares.iter().map(|share| share.tiles).sum()
    }
}

impl Job {
    /// An error if A is no square, or B does not fit to it.
    fn check(&self) -> Result<()> {
        let (m, n) = (self.a.rows(), self.a.cols());
        let mismatch = |what: String, expected: String, got: String, hint| {
            Err(Error::Mismatch {
                what,
                expected,
                got,
                hint,
            })
        };
        match &self.factor {
            Factor::Other(b) if (b.rows(), b.cols()) != (n, m) => mismatch(
                format!("shape of B, {}, for the trace of A·B", b.name()),
                format!("{n}×{m}, as A, {}, is {m}×{n}", self.a.name()),
                format!("{}×{}", b.rows(), b.cols()),
                "the product of A and B must be square: B has as many rows as A has columns, and as many columns as A has rows",
            ),
            Factor::None | Factor::Itself if m != n => mismatch(
                format!("shape of A, {}, for a trace", self.a.name()),
                "a square".into(),
                format!("{m}×{n}"),
                "only a square matrix has a trace: give another --a, or --b for the trace of A·B",
            ),
            _ => Ok(()),
        }
    }
}

/// The trace that `job` asks for, computed with numbers of type `T`; *collective*.
///
/// Costs as many numbers read or made as A and B have, over all ranks together, and by [`Via::Product`] the rows of a tile
/// times as many multiplications.
pub fn trace<T: Real>(comm: &dyn Comm, job: &Job) -> Result<Traced> {
    let start = Instant::now();
    let prepare = || {
        job.check()?;
        let plan = Plan::new(job, size_of::<T>())?;
        Ok((plan, Worker::<T>::new(job, plan)))
    };
    let (plan, mut worker) = agree(comm, prepare())?;
    let mine = plan.mine(comm.size(), comm.rank());
    // One rank shows its own, as all have as much to do.
    let progress = (comm.rank() == 0).then(|| Progress::new("tiles of a rank", mine.len() as u64));
    let mut ahead = Ahead::new(job, &plan, &mine);
    let mut results = Vec::with_capacity(mine.len() * Total::BYTES);
    for round in 0..ROUNDS {
        let done = block(mine.len(), ROUNDS, round).try_for_each(|at| {
            interrupt::check()?;
            ahead.before(at);
            results.extend(worker.tile(&mine[at])?.to_bytes());
            progress.iter().for_each(|bar| bar.add(1));
            Ok(())
        });
        agree(comm, done)?;
    }
    drop((progress, ahead));
    let total = add_up(comm, &results);
    agree(comm, finite(&total, job))?;
    Ok(Traced {
        sum: total.sum,
        bound: total.bound(),
        shares: shares(comm, worker.share),
        seconds: start.elapsed().as_secs_f64(),
        width: size_of::<T>(),
        side: plan.side,
    })
}

/// The trace of A to the power of `k`; *collective*.
///
/// Needs no product of matrices up to the power of 2, and has the same bits on any number of ranks; of higher powers if they are
/// to be `reproducible`.
pub fn power<T: Real>(comm: &dyn Comm, job: &Job, k: u32, reproducible: bool) -> Result<Traced> {
    let factor = match k {
        1 => Factor::None,
        _ => Factor::Itself,
    };
    let job = Job {
        factor,
        ..job.clone()
    };
    if k <= 2 {
        return trace::<T>(comm, &job);
    }
    agree(comm, job.check())?;
    power::power::<T>(comm, &job, k, reproducible)
}

/// The results of all ranks' tiles, in the order of tiles; *collective*.
fn add_up(comm: &dyn Comm, results: &[u8]) -> Total {
    let all = comm.gather(results);
    in_order(all.iter().flat_map(|all| all.as_chunks().0))
}

/// The sum of results, in this order.
fn in_order<'a>(results: impl Iterator<Item = &'a [u8; Total::BYTES]>) -> Total {
    results.fold(Total::default(), |mut total, tile| {
        total += Total::from_bytes(tile);
        total
    })
}

fn finite(total: &Total, job: &Job) -> Result<()> {
    if total.sum.high.is_finite() {
        return Ok(());
    }
    let name = job.a.name();
    Err(Error::Usage(match job.via {
        Via::Direct => format!("the trace left the numbers of f64: scale A, {name}, down"),
        Via::Product => {
            format!(
                "products of blocks left the finite numbers: give --via direct, --type f64, or scale A, {name}, down"
            )
        }
    }))
}

/// What each rank did; *collective*.
fn shares(comm: &dyn Comm, mine: Share) -> Vec<Share> {
    let words = [
        mine.tiles,
        mine.numbers,
        mine.making.to_bits(),
        mine.adding.to_bits(),
    ];
    let all = comm.gather(words.map(u64::to_le_bytes).as_flattened());
    let share = |bytes: &Vec<u8>| {
        let (words, _) = bytes.as_chunks();
        let [tiles, numbers, making, adding] = [0, 1, 2, 3].map(|i| u64::from_le_bytes(words[i]));
        Share {
            tiles,
            numbers,
            making: f64::from_bits(making),
            adding: f64::from_bits(adding),
        }
    };
    all.iter().map(share).collect()
}

#[cfg(test)]
mod tests;
