//! From folders of photos to data sets: `phalanx data pack`.
//!
//! Photos ─▶ Listing ─▶ partitions, which ranks take in turns ─▶ decode ─▶ fit ─▶ slots of shards or parts ─▶ shards ─▶ manifest
//!
//! Where a sample goes is a function of its place in the listing and of which others cannot be read: not of who reads it.

mod decode;
mod fit;
mod listing;
mod making;
mod manifest;
mod moments;
mod pack;
mod partitions;
mod pattern;
mod reader;
mod shards;
mod slots;
mod table;
mod taker;
#[cfg(test)]
mod tests;
mod walk;
mod work;
mod writer;

pub use decode::jpeg_of_planes;
pub use fit::Fit;
pub use listing::Labels;
pub use pack::{Report, pack};
pub use pattern::Pattern;
pub use work::kept;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub(super) use decode::{held, png_of_planes};
pub(super) use listing::Listing;
pub(super) use moments::{add_moments, figures, moments};
pub(super) use reader::{Reader, Readers};

use super::Shape;

/// The most pixels of a photo that is kept as a file, and of others where nothing else is asked for.
pub const MOST_PIXELS: u64 = 1 << 26;

/// What a photo's file becomes, upright and of that shape: pixels (c, h, w); or why it cannot be read.
pub fn pixels(file: &[u8], shape: Shape, fit: Fit, most_pixels: u64) -> Result<Vec<u8>, String> {
    let mut reader = Reader::new(shape, fit, most_pixels);
    reader.pixels(file).map(<[u8]>::to_vec)
}

/// What a sample is on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Records {
    /// Pixels, ready to be mapped.
    Pixels,
    /// A JPEG file, decoded when it is read.
    Jpeg,
}

/// What to do about photos that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// The first one ends the work.
    Stop,
    /// They are left out and told of.
    Skip,
}

/// What to pack, and how.
#[derive(Clone, Debug)]
pub struct Pack {
    /// The folder of photos.
    pub photos: PathBuf,
    /// The folder of shards to make.
    pub out: PathBuf,
    /// What is on the photos.
    pub labels: Labels,
    /// A set whose classes are taken over.
    pub like: Option<PathBuf>,
    /// What photos become: 1 or 3 channels, height and width.
    pub shape: Shape,
    /// How they become that.
    pub fit: Fit,
    /// What is stored.
    pub records: Records,
    /// Of records that are JPEG files: how well, 1 to 100, all photos are compressed anew at their new size.
    pub quality: Option<u8>,
    /// Names a random order to put the photos into, if there is to be one.
    pub shuffle: Option<u64>,
    /// What to do about those that cannot be read.
    pub bad: Bad,
    /// Bytes of a shard, about.
    pub shard_size: usize,
    /// Ranks take one of so many parts of what is left; without, two for each rank.
    pub partitions: Option<usize>,
    /// The most pixels that a photo may have.
    pub most_pixels: u64,
    /// Whether an existing set may be replaced.
    pub force: bool,
}

impl Pack {
    /// Photos in a folder for each class, cropped to `shape` and stored as pixels; a bad one ends it.
    pub fn new(photos: PathBuf, out: PathBuf, shape: Shape) -> Self {
        Self {
            photos,
            out,
            labels: Labels::Folders,
            like: None,
            shape,
            fit: Fit::Crop,
            records: Records::Pixels,
            quality: None,
            shuffle: None,
            bad: Bad::Stop,
            shard_size: 64 << 20,
            partitions: None,
            most_pixels: MOST_PIXELS,
            force: false,
        }
    }
}
