//! Sets that are made, not downloaded: `phalanx data make`.

use std::path::Path;

use super::{Description, SetWriter, Shape, digits, images};
use crate::observe::Progress;
use crate::{Error, Result};

/// What to make.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Drawn digits on a square of this side.
    Digits {
        /// Pixels of a side.
        side: usize,
    },
    /// Painted images.
    Images {
        /// Channels, height, width.
        shape: Shape,
        /// Number of classes.
        classes: u32,
    },
}

/// How much of it, and where from.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// Number of samples.
    pub samples: usize,
    /// The key of all randomness.
    pub seed: u64,
    /// Number of the first sample: sets of one seed that share no number share no sample.
    pub first: u64,
    /// Files to cut the set into.
    pub shards: usize,
    /// Whether an existing set may be replaced.
    pub force: bool,
}

/// Makes a set at `out`; the same bytes for the same arguments, on any machine.
pub fn make(kind: Kind, amount: Amount, out: &Path) -> Result<()> {
    let Amount {
        samples,
        seed,
        first,
        shards,
        force,
    } = amount;
    let (shape, classes, name) = match kind {
        Kind::Digits { side } => (
            Shape {
                c: 1,
                h: side,
                w: side,
            },
            10,
            "digits",
        ),
        Kind::Images { shape, classes } => (shape, classes, "images"),
    };
    let class_names = match kind {
        Kind::Digits { .. } => (0..10).map(|digit| digit.to_string()).collect(),
        Kind::Images { .. } => Vec::new(),
    };
    let end = first.checked_add(samples as u64).ok_or_else(|| {
        Error::Usage(format!(
            "there are no {samples} samples from number {first} on"
        ))
    })?;
    let provenance = format!(
        "phalanx data make {name}, seed {seed}, samples {first} to {}",
        end - 1
    );
    let about = Description {
        samples,
        shape,
        classes,
        class_names,
        float: false,
        shards,
        provenance,
        force,
    };
    let mut writer = SetWriter::create(out, about)?;
    let progress = Progress::new("drawing", samples as u64);
    let mut pixels = vec![0; shape.len()];
    for index in first..end {
        let label = match kind {
            Kind::Digits { side } => digits::draw(seed, index, side, &mut pixels),
            Kind::Images { shape, classes } => images::paint(
                seed,
                index,
                (shape.c, shape.h, shape.w),
                classes,
                &mut pixels,
            ),
        };
        writer.push(&pixels, label)?;
        progress.add(1);
    }
    writer.finish()
}
