//! Which tiles a trace is made of, how large they are, and which rank takes which.
//!
//! All of it follows from shapes and the memory cap: neither a tile nor the order of tiles knows how many ranks there are.

use std::ops::Range;

use super::{Factor, Job, Via};
use crate::train::readable;
use crate::{Error, Result};

/// The least side of a tile: below it, calls cost more than numbers.
const LEAST: usize = 32;
/// The largest side that is chosen for the sake of speed: two such tiles stay in a last-level cache.
const MOST: usize = 512;
/// The largest side of tiles that are read from files, which want rows in long pieces; and how many of them are along the longer
/// side.
const MOST_STORED: usize = 2048;
const ALONG_STORED: usize = 6;
/// Tiles of files go in squares of so many by so many: disks are asked for a square at a time, in pieces that are longer than a
/// tile's rows.
const SQUARE_STORED: usize = 4;
/// Tiles along the longer side, if they are then neither too small nor too large: some for each of many ranks.
const ALONG: usize = 64;
/// Above so many tiles, larger ones are taken: every rank gets the results of all.
const MANY: u64 = 1 << 18;
/// Numbers of the diagonal that are added up together.
const STRIP: usize = 4096;
/// Side of the squares in which the diagonal is read.
pub(super) const SQUARE: usize = 16;
/// Bytes of a tile that stay: its place, and its result as a rank's own and as one of all ranks'.
const PLACE: u64 = 96;
/// Bytes for each row and column of a tile while it is added up.
const LINE: usize = 16;

/// Which tiles of A a trace needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// Those on the diagonal.
    Diagonal,
    /// Those on and above the diagonal, each together with the one across it.
    Pairs,
    /// All, each together with the one of B across the diagonal.
    All,
}

/// A tile of A.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tile {
    pub(super) rows: Range<usize>,
    pub(super) cols: Range<usize>,
}

/// The tiles of a trace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) pattern: Pattern,
    rows: usize,
    cols: usize,
    /// Rows and columns of a tile.
    pub(super) side: usize,
    /// Tiles along a side of the squares in which they are gone through.
    along: usize,
}

impl Plan {
    /// The plan for `job` with numbers of `width` bytes; an error if its memory cap is too small for any.
    pub(super) fn new(job: &Job, width: usize) -> Result<Self> {
        let pattern = match job.factor {
            Factor::None => Pattern::Diagonal,
            Factor::Itself => Pattern::Pairs,
            Factor::Other(_) => Pattern::All,
        };
        let mut plan = Self {
            pattern,
            rows: job.a.rows(),
            cols: job.a.cols(),
            side: 0,
            along: 1,
        };
        let other = match &job.factor {
            Factor::Other(b) => b.is_file(),
            Factor::None | Factor::Itself => false,
        };
        let stored = job.a.is_file() || other;
        plan.side = plan.preferred(job.via, stored);
        if stored {
            plan.along = SQUARE_STORED;
        }
        let mut least = u64::MAX;
        loop {
            let need = plan.need(job.via, width);
            if need <= job.memory as u64 {
                return Ok(plan);
            }
            least = least.min(need);
            if plan.side <= LEAST {
                return Err(too_small(job, least));
            }
            plan.side = (plan.side / 2).max(LEAST);
        }
    }

    /// The side that is fastest where memory is no matter.
    fn preferred(&self, via: Via, stored: bool) -> usize {
        if self.pattern == Pattern::Diagonal {
            return STRIP;
        }
        // Products of blocks are slow where these are small.
        let least = match via {
            Via::Direct => 128,
            Via::Product => 256,
        };
        let longer = self.rows.max(self.cols);
        let mut plan = *self;
        let (along, most) = match (via, stored) {
            (Via::Direct, true) => (ALONG_STORED, MOST_STORED),
            _ => (ALONG, MOST),
        };
        plan.side = longer
            .div_ceil(along)
            .next_power_of_two()
            .clamp(least, most);
        while plan.count() > MANY {
            plan.side *= 2;
        }
        plan.side
    }

    /// Bytes that a rank needs for tiles and for the results of all.
    fn need(&self, via: Via, width: usize) -> u64 {
        let (h, w) = self.largest();
        let numbers = match (self.pattern, via) {
            (Pattern::Diagonal, _) => h + SQUARE * SQUARE,
            (_, Via::Direct) => 2 * h * w,
            (_, Via::Product) => 2 * h * w + h * h,
        };
        let tile = numbers * width + LINE * (h + w);
        (tile as u64).saturating_add(self.count().saturating_mul(PLACE))
    }

    /// Rows and columns of the largest tile.
    pub(super) fn largest(&self) -> (usize, usize) {
        (self.side.min(self.rows), self.side.min(self.cols))
    }

    /// Number of tiles.
    pub(super) fn count(&self) -> u64 {
        let along = |len: usize| len.div_ceil(self.side) as u64;
        let (high, wide) = (along(self.rows), along(self.cols));
        match self.pattern {
            Pattern::Diagonal => high,
            Pattern::Pairs => high * (high + 1) / 2,
            Pattern::All => high.saturating_mul(wide),
        }
    }

    /// All tiles, in their order: square by square, and in each row by row.
    fn tiles(&self) -> impl Iterator<Item = Tile> {
        let Self {
            pattern,
            rows,
            cols,
            side,
            along,
        } = *self;
        let (high, wide) = (rows.div_ceil(side), cols.div_ceil(side));
        let range = move |i: usize, len: usize| i * side..len.min((i + 1) * side);
        let square = move |at: usize, most: usize| at * along..most.min((at + 1) * along);
        // Which of `count` are wanted beside number `i`.
        let beside = move |i: usize, count: usize| match pattern {
            Pattern::Diagonal => i..i + 1,
            Pattern::Pairs => i..count,
            Pattern::All => 0..count,
        };
        let squares = (0..high.div_ceil(along))
            .flat_map(move |up| beside(up, wide.div_ceil(along)).map(move |left| (up, left)));
        squares.flat_map(move |(up, left)| {
            square(up, high).flat_map(move |i| {
                let wanted = beside(i, wide);
                let across = square(left, wide).filter(move |j| wanted.contains(j));
                across.map(move |j| Tile {
                    rows: range(i, rows),
                    cols: range(j, cols),
                })
            })
        })
    }

    /// The squares that the tiles of a rank are in: number of the first tile in each, and what rows and columns hold all of them.
    pub(super) fn squares(&self, mine: &[Tile]) -> Vec<(usize, Tile)> {
        let side = self.side * self.along;
        let square = |tile: &Tile| (tile.rows.start / side, tile.cols.start / side);
        let mut first = 0;
        let chunks = mine.chunk_by(|a, b| square(a) == square(b));
        let hold = |tiles: &[Tile]| {
            let at = first;
            first += tiles.len();
            let over = |range: fn(&Tile) -> &Range<usize>| {
                let start = tiles.iter().map(|tile| range(tile).start).min();
                let end = tiles.iter().map(|tile| range(tile).end).max();
                start.unwrap_or(0)..end.unwrap_or(0)
            };
            let (rows, cols) = (over(|tile| &tile.rows), over(|tile| &tile.cols));
            (at, Tile { rows, cols })
        };
        chunks.map(hold).collect()
    }

    /// Numbers that a tile takes to be read or made.
    fn work(&self, tile: &Tile) -> u128 {
        let (h, w) = (tile.rows.len() as u128, tile.cols.len() as u128);
        match self.pattern {
            Pattern::Diagonal => h,
            Pattern::Pairs if tile.rows == tile.cols => h * w,
            Pattern::Pairs | Pattern::All => 2 * h * w,
        }
    }

    /// The tiles of a rank: those of all ranks in a row are all tiles, and each is off an equal share by at most one tile.
    pub(super) fn mine(&self, size: usize, rank: usize) -> Vec<Tile> {
        let all: u128 = self.tiles().map(|tile| self.work(&tile)).sum();
        let mut before = 0;
        let mine = self.tiles().filter(|tile| {
            let work = self.work(tile);
            // Whose share the middle of this tile's work is in.
            let owner = (2 * before + work) * size as u128 / (2 * all);
            before += work;
            owner == rank as u128
        });
        mine.collect()
    }
}

fn too_small(job: &Job, least: u64) -> Error {
    Error::Usage(format!(
        "--memory {} is too small for this trace: tiles and their results take at least {}; give --memory {}KiB or more",
        readable(job.memory as u64),
        readable(least),
        least.div_ceil(1024)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(pattern: Pattern, (rows, cols): (usize, usize), side: usize) -> Plan {
        Plan {
            pattern,
            rows,
            cols,
            side,
            along: 1,
        }
    }

    /// The same, gone through in squares of three by three.
    fn in_squares(plan: Plan) -> Plan {
        Plan { along: 3, ..plan }
    }

    #[test]
    fn ranks_share_all_tiles_in_order_and_evenly() {
        let plans = [
            plan(Pattern::Diagonal, (1000, 1000), 16),
            plan(Pattern::Pairs, (1000, 1000), 32),
            plan(Pattern::All, (1000, 333), 32),
            plan(Pattern::All, (1, 1), 32),
        ];
        for plan in plans.into_iter().chain(plans.map(in_squares)) {
            let all: Vec<Tile> = plan.tiles().collect();
            assert_eq!(all.len() as u64, plan.count());
            let total: u128 = all.iter().map(|tile| plan.work(tile)).sum();
            let largest = all.iter().map(|tile| plan.work(tile)).max().unwrap();
            for size in 1..=9 {
                let shares: Vec<Vec<Tile>> = (0..size).map(|rank| plan.mine(size, rank)).collect();
                assert_eq!(shares.concat(), all, "{plan:?} on {size}");
                for share in shares {
                    let work: u128 = share.iter().map(|tile| plan.work(tile)).sum();
                    let off = (work * size as u128).abs_diff(total);
                    assert!(off <= largest * size as u128, "{plan:?} on {size}");
                }
            }
        }
    }

    #[test]
    fn tiles_cover_every_number_once() {
        let (rows, cols) = (37, 70);
        let all = plan(Pattern::All, (rows, cols), 16);
        for plan in [all, in_squares(all)] {
            let mut seen = vec![0; rows * cols];
            for tile in plan.tiles() {
                for i in tile.rows {
                    tile.cols.clone().for_each(|j| seen[i * cols + j] += 1);
                }
            }
            assert!(seen.iter().all(|&times| times == 1));
        }
        let pairs = plan(Pattern::Pairs, (rows, rows), 8);
        for plan in [pairs, in_squares(pairs)] {
            let mut seen = vec![0; rows * rows];
            for tile in plan.tiles() {
                for i in tile.rows.clone() {
                    for j in tile.cols.clone() {
                        seen[i * rows + j] += 1;
                        seen[j * rows + i] += usize::from(tile.rows != tile.cols);
                    }
                }
            }
            assert!(seen.iter().all(|&times| times == 1));
        }
    }

    #[test]
    fn squares_hold_the_tiles_in_them_and_no_more() {
        let plan = in_squares(plan(Pattern::All, (100, 70), 10));
        let tiles: Vec<Tile> = plan.tiles().collect();
        let squares = plan.squares(&tiles[2..]);
        let (first, whole) = &squares[0];
        assert_eq!(*first, 0);
        assert_eq!((whole.rows.clone(), whole.cols.clone()), (0..30, 0..30));
        // Of the first, two of nine are left out.
        assert_eq!(squares[1].0, 7);
        assert_eq!(squares[1].1.cols, 30..60);
        let (_, last) = squares.last().unwrap();
        assert_eq!((last.rows.clone(), last.cols.clone()), (90..100, 60..70));
        assert_eq!(squares.len(), 12);
    }
}
