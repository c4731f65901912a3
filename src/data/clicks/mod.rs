//! Synthetic click logs of any size, with the skew of real ones and a known true model: `phalanx data make clicks`.

mod columns;
mod features;
mod truth;

use std::ops::Range;
use std::path::Path;

use self::truth::{Truth, expected_loss};
use super::rows::{About, Block, SetFolder, write_together};
use crate::comm::{Comm, agree, block};
use crate::observe::Progress;
use crate::{Error, Result, interrupt};

/// Rows of a shard, where nothing else is asked for.
pub const SHARD: usize = 1 << 18;
/// As many as have names of five digits, whose order is that of their numbers.
const MOST_SHARDS: usize = 100_000;
/// Rows between two looks at whether the user wants to stop.
const STRETCH: usize = 1 << 13;

/// What to make.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Number of rows.
    pub rows: usize,
    /// Number of features.
    pub features: usize,
    /// The key of all randomness: of the true model, and of the rows.
    pub seed: u64,
    /// Number of the first row: sets of one seed that share no number share no row, and have the same true model.
    pub first: u64,
    /// Rows of a shard; the last may have fewer.
    pub shard: usize,
    /// The share of rows that are positive, nearly.
    pub positives: f64,
    /// Whether an existing set may be replaced.
    pub force: bool,
}

/// Makes a set at `out`; the same bytes for the same options, on any machine and number of ranks; *collective*.
pub fn make(comm: &dyn Comm, options: Options, out: &Path) -> Result<()> {
    let about = options.about()?;
    write_together(comm, out, options.force, |folder| {
        let truth = Truth::new(options.seed, options.features, options.positives);
        let (shards, size) = (options.shards(), comm.size());
        let progress =
            (comm.rank() == 0).then(|| Progress::new("making rows", options.rows as u64));
        // A shard for each rank at a time, so that all stop soon where one of them fails.
        for turn in 0..block(shards, size, 0).len() {
            let mine = block(shards, size, comm.rank()).nth(turn);
            let written = mine.map_or(Ok(()), |shard| {
                let (rows, best_loss) = options.make_shard(&truth, shard)?;
                let about = About {
                    best_loss: Some(best_loss),
                    ..about.clone()
                };
                SetFolder::write_shard(folder, shard, &about, &rows)
            });
            agree(comm, written)?;
            let all = (0..size).filter_map(|rank| block(shards, size, rank).nth(turn));
            let done: usize = all.map(|shard| options.rows_of(shard).len()).sum();
            progress.iter().for_each(|bar| bar.add(done as u64));
        }
        Ok(())
    })
}

impl Options {
    /// What every shard says of the set; refuses what cannot be.
    fn about(&self) -> Result<About> {
        let Self {
            rows, seed, first, ..
        } = *self;
        let end = first.checked_add(rows as u64);
        let Some(end) = end.filter(|_| (1..=MOST_SHARDS).contains(&self.shards())) else {
            let most = self.shard * MOST_SHARDS;
            return Err(Error::Usage(format!(
                "there are no {rows} rows from number {first} on: a set may have 1 to {most}, and numbers have 64 bits"
            )));
        };
        Ok(About {
            features: self.features,
            provenance: format!(
                "phalanx data make clicks, seed {seed}, rows {first} to {}",
                end - 1
            ),
            // With another seed the true model is another: such sets do not fit together.
            encoding: format!("phalanx clicks, seed {seed}"),
            best_loss: None,
        })
    }

    fn shards(&self) -> usize {
        self.rows.div_ceil(self.shard)
    }

    /// The rows of a shard, counted from the set's first.
    fn rows_of(&self, shard: usize) -> Range<usize> {
        shard * self.shard..self.rows.min((shard + 1) * self.shard)
    }

    /// A shard's rows, and the mean log loss that is to be expected of the true model on them.
    fn make_shard(&self, truth: &Truth, shard: usize) -> Result<(Block, f64)> {
        let range = self.rows_of(shard);
        let (mut rows, mut loss) = (Block::default(), 0.0);
        for i in range.clone() {
            if i % STRETCH == 0 {
                interrupt::check()?;
            }
            loss += expected_loss(truth.row(self.first + i as u64, &mut rows));
        }
        Ok((rows, loss / range.len() as f64))
    }
}
