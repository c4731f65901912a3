//! Small data sets for checks.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use phalanx::Result;
use phalanx::comm::{Comm, agree};
use phalanx::data::Dataset;
use phalanx::data::rows::{About, Block, RowSet, SetFolder};
use phalanx::data::synthetic::{Amount, Kind, make};
use phalanx::rng::{Stream, mix};

/// A folder that is this process group's own and is made anew by rank 0.
fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

/// Has rank 0 make what is not at `path` yet; *collective*.
fn make_once(comm: &dyn Comm, path: &Path, make: impl FnOnce(&Path) -> Result<()>) {
    let made = match comm.rank() {
        0 if !path.exists() => match make(path) {
            // Another test has made the same meanwhile, and reads it: it must not be replaced.
            Err(_) if path.exists() => Ok(()),
            made => made,
        },
        _ => Ok(()),
    };
    agree(comm, made).unwrap();
}

/// Drawn digits, the same for every rank; *collective*.
pub fn digits(comm: &dyn Comm, samples: usize) -> Arc<Dataset> {
    let path = folder().join(format!("digits-{samples}.h5"));
    let amount = Amount {
        samples,
        seed: 5,
        first: 0,
        shards: 1,
        force: false,
    };
    make_once(comm, &path, |path| {
        make(Kind::Digits { side: 28 }, amount, path)
    });
    Arc::new(agree(comm, Dataset::open(&path)).unwrap())
}

/// Features of `rows`: more than 10,000 with the bias.
pub const FEATURES: usize = 10_000;

/// Rows of some twenty features, a few of them in nearly every row, with values and with labels of a hidden model; the
/// same for every rank; *collective*.
pub fn rows(comm: &dyn Comm, count: usize) -> Arc<RowSet> {
    let path = folder().join(format!("rows-{count}"));
    make_once(comm, &path, |path| make_rows(path, count));
    Arc::new(agree(comm, RowSet::open(&path)).unwrap())
}

fn make_rows(path: &Path, count: usize) -> Result<()> {
    let about = About {
        features: FEATURES,
        provenance: "a test".into(),
        encoding: String::new(),
        best_loss: None,
    };
    let mut stream = Stream::new(&[77]);
    let staged = SetFolder::create(path, false)?;
    for shard in 0..3 {
        let mut block = Block::default();
        for _ in 0..count / 3 + usize::from(shard < count % 3) {
            let mut logit = -0.5;
            for _ in 0..stream.below(20) + 5 {
                // Low numbers are far more likely than high ones.
                let feature = (FEATURES as f32).powf(stream.uniform()) as u32 - 1;
                let value = stream.between(0.5, 1.5);
                logit += value * (mix(u64::from(feature)) as f32 / u64::MAX as f32 - 0.5);
                block.feature(feature, value);
            }
            let chance = 1.0 / (1.0 + (-logit).exp());
            block.end_row(stream.uniform() < chance);
        }
        SetFolder::write_shard(staged.path(), shard, &about, &block)?;
    }
    staged.finish()
}
