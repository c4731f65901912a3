//! Small data sets for checks.

use std::path::PathBuf;
use std::sync::Arc;

use phalanx::comm::{Comm, agree};
use phalanx::data::Dataset;
use phalanx::data::synthetic::{Amount, Kind, make};

/// A folder that is this process group's own and is made anew by rank 0.
fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

/// Drawn digits, the same for every rank; *collective*.
pub fn digits(comm: &dyn Comm, samples: usize) -> Arc<Dataset> {
    let path = folder().join(format!("digits-{samples}.h5"));
    let amount = Amount {
        samples,
        seed: 5,
        first: 0,
        shards: 1,
        force: true,
    };
    let made = match comm.rank() {
        0 if !path.exists() => make(Kind::Digits { side: 28 }, amount, &path),
        _ => Ok(()),
    };
    agree(comm, made).unwrap();
    Arc::new(agree(comm, Dataset::open(&path)).unwrap())
}
