//! `phalanx data pack`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::data::shape;
use super::export::FitChoice;
use super::{bytes, positive};
use crate::data::Shape;
use crate::data::photos::{self, Labels, Pattern};

/// Pack a folder of photos into a set; with all cores, or under mpirun with all its ranks.
///
/// JPEG, PNG and WebP, turned upright by EXIF and brought to one size. The bytes of the set are the same on any number of
/// ranks. What a job that was stopped has done already is kept beside OUT: the same command goes on from there.
#[derive(Args)]
pub(super) struct PackArgs {
    /// The folder of photos, in a folder for each class unless --labels or --pattern is given.
    photos: PathBuf,
    /// The folder to make, of shards and manifest.json.
    out: PathBuf,
    /// A CSV file of path,label, in place of folders; paths from PHOTOS on.
    #[arg(long, value_name = "CSV", conflicts_with = "pattern")]
    labels: Option<PathBuf>,
    /// Labels from file names, such as '{class}_{number}.jpg'; {number} is digits, * is anything.
    #[arg(long, value_name = "PATTERN")]
    pattern: Option<Pattern>,
    /// Take the classes of this set, so that it and the new one fit together.
    #[arg(long, value_name = "SET")]
    like: Option<PathBuf>,
    /// What photos become: 1 channel (grey) or 3, height and width.
    #[arg(long, value_name = "CxHxW", default_value = "3x224x224", value_parser = shape)]
    shape: Shape,
    /// What becomes of photos with other proportions.
    #[arg(long, value_enum, default_value = "crop")]
    fit: FitChoice,
    /// What is stored.
    #[arg(long, value_enum, default_value = "pixels")]
    records: RecordsChoice,
    /// With --records jpeg: compress all photos anew, at their new size, with this quality.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=100))]
    quality: Option<u8>,
    /// Put the photos into a random order, that this number names, in place of one by class: for `train --shuffle shards`.
    #[arg(long, value_name = "SEED", num_args = 0..=1, default_missing_value = "1")]
    shuffle: Option<u64>,
    /// What to do about photos that cannot be read.
    #[arg(long, value_enum, default_value = "stop")]
    bad: BadChoice,
    /// Size of a shard, in bytes or such as 256MiB.
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = bytes)]
    shard_size: usize,
    /// Whoever is idle takes one of so many parts of the photos that are left, and at last a few [default: two for each rank].
    #[arg(long, value_name = "N", value_parser = positive)]
    partitions: Option<usize>,
    /// The most pixels that a photo may have: one of them is in a rank's memory.
    #[arg(long, value_name = "N", default_value = "67108864", value_parser = positive)]
    most_pixels: usize,
    /// Replace an existing set.
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum RecordsChoice {
    /// Pixels, mapped when they are read.
    Pixels,
    /// JPEG files as they are, decoded when they are read; other photos become JPEG files of the size asked for.
    Jpeg,
}

#[derive(Clone, Copy, ValueEnum)]
enum BadChoice {
    /// The first ends the job.
    Stop,
    /// They are left out, and the manifest names them.
    Skip,
}

impl PackArgs {
    pub(super) fn resolve(self) -> photos::Pack {
        photos::Pack {
            photos: self.photos,
            out: self.out,
            labels: match (self.labels, self.pattern) {
                (Some(table), _) => Labels::Table(table),
                (None, Some(pattern)) => Labels::Names(pattern),
                (None, None) => Labels::Folders,
            },
            like: self.like,
            shape: self.shape,
            fit: self.fit.resolve(),
            records: match self.records {
                RecordsChoice::Pixels => photos::Records::Pixels,
                RecordsChoice::Jpeg => photos::Records::Jpeg,
            },
            quality: self.quality,
            shuffle: self.shuffle,
            bad: match self.bad {
                BadChoice::Stop => photos::Bad::Stop,
                BadChoice::Skip => photos::Bad::Skip,
            },
            shard_size: self.shard_size,
            partitions: self.partitions,
            most_pixels: self.most_pixels as u64,
            force: self.force,
        }
    }
}
