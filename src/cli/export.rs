//! `phalanx data export` and `phalanx data import tfrecord`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::data::shape;
use super::positive;
use crate::commands::data::Action;
use crate::data::export::Format;
use crate::data::photos::Fit;
use crate::data::{Shape, examples};

#[derive(Subcommand)]
pub(super) enum Export {
    /// TensorFlow's examples: image/encoded (PNG, or the JPEG files of a set that has them), image/class/label and others.
    Tfrecord {
        #[command(flatten)]
        common: Common,
        /// Cut the set into a folder of so many files.
        #[arg(long, value_name = "N", default_value = "1", value_parser = positive)]
        shards: usize,
    },
    /// A folder with IDX files of images and labels, as MNIST's.
    Idx(Common),
    /// A folder with a folder of PNG files for each class.
    Png(Common),
    /// A folder with NumPy's images.npy (n, c, h, w) and labels.npy.
    Npy(Common),
}

#[derive(Args)]
pub(super) struct Common {
    /// The set.
    data: PathBuf,
    /// The file or folder to make.
    out: PathBuf,
    /// Replace what an export of the same kind made.
    #[arg(long)]
    force: bool,
}

impl Export {
    pub(super) fn resolve(self) -> Action {
        let (format, common) = match self {
            Self::Tfrecord { common, shards } => (Format::Tfrecord(shards), common),
            Self::Idx(common) => (Format::Idx, common),
            Self::Png(common) => (Format::Png, common),
            Self::Npy(common) => (Format::Npy, common),
        };
        Action::Export {
            data: common.data,
            out: common.out,
            format,
            force: common.force,
        }
    }
}

/// TensorFlow's record files of examples, plain or .gz; checksums are checked.
#[derive(Args)]
pub(super) struct Tfrecord {
    /// The record files, then the file to make (or with --shards the folder).
    #[arg(required = true, num_args = 2.., value_names = ["FILES", "OUT"])]
    files: Vec<PathBuf>,
    /// The feature that is the image, as a JPEG, PNG or WebP file.
    #[arg(long, value_name = "NAME", default_value = "image/encoded")]
    image: String,
    /// The feature that is the label: a number, or the name of a class.
    #[arg(long, value_name = "NAME", default_value = "image/class/label")]
    label: String,
    /// The number of the first class.
    #[arg(long, value_name = "N", default_value_t = 0)]
    first_label: i64,
    /// What images become: channels, height and width.
    #[arg(long, value_name = "CxHxW", default_value = "3x224x224", value_parser = shape)]
    shape: Shape,
    /// What becomes of images with other proportions.
    #[arg(long, value_enum, default_value = "crop")]
    fit: FitChoice,
    /// Images are bytes of pixels (h, w, c), of that shape already.
    #[arg(long)]
    raw: bool,
    /// Number of classes [default: the highest label plus one].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    classes: Option<u32>,
    /// Cut the set into a folder of so many files.
    #[arg(long, value_name = "N", default_value = "1", value_parser = positive)]
    shards: usize,
    /// Replace an existing set.
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum FitChoice {
    /// The middle, as large as it can be.
    Crop,
    /// All of it, with black around.
    Pad,
    /// All of it, distorted.
    Stretch,
}

impl FitChoice {
    pub(super) fn resolve(self) -> Fit {
        match self {
            Self::Crop => Fit::Crop,
            Self::Pad => Fit::Pad,
            Self::Stretch => Fit::Stretch,
        }
    }
}

impl Tfrecord {
    pub(super) fn resolve(mut self) -> Action {
        let out = self.files.pop().expect("clap asks for at least two paths");
        Action::ImportExamples(Box::new(examples::Import {
            files: self.files,
            out,
            image: self.image,
            label: self.label,
            first: self.first_label,
            shape: self.shape,
            fit: self.fit.resolve(),
            raw: self.raw,
            classes: self.classes,
            shards: self.shards,
            force: self.force,
        }))
    }
}
