//! What is in a set: shapes, counts, classes, checksum.

use xxhash_rust::xxh3::Xxh3;

use super::{Dataset, Scaling};
use crate::Result;
use crate::observe::Progress;

/// What reading a whole set tells.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Samples of each class.
    pub histogram: Vec<u64>,
    /// XXH3 over all pixels and labels in order; the same however the set is cut into shards.
    pub checksum: u64,
    /// Smallest and largest value, with bytes scaled to 0…1.
    pub range: (f32, f32),
}

/// Reads every sample once; a pixel that is not finite is an error.
pub fn describe(data: &Dataset) -> Result<Summary> {
    let scaling = Scaling::unit(data.shape.c);
    let mut hash = Xxh3::new();
    let mut summary = Summary {
        histogram: vec![0; data.classes as usize],
        checksum: 0,
        range: (f32::INFINITY, f32::NEG_INFINITY),
    };
    let mut values = vec![0.0; data.shape.len()];
    let progress = Progress::new("reading", data.len() as u64);
    for index in 0..data.len() {
        crate::interrupt::check()?;
        let label = data.sample(index, &scaling, &mut values)?;
        data.with_bytes(index, |bytes| {
            hash.update(bytes);
            Ok(())
        })?;
        hash.update(&label.to_le_bytes());
        summary.histogram[label as usize] += 1;
        let (low, high) = summary.range;
        summary.range = values
            .iter()
            .fold((low, high), |(low, high), &v| (low.min(v), high.max(v)));
        progress.add(1);
    }
    summary.checksum = hash.digest();
    Ok(summary)
}
