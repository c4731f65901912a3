//! `phalanx data`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::export::{Export, Tfrecord};
use super::pack::PackArgs;
use super::text::Text;
use super::{below_one, positive};
use crate::commands::data::Action;
use crate::data::rows::MOST_FEATURES;
use crate::data::synthetic::{Amount, Kind};
use crate::data::{Shape, clicks, idx, split};

/// Make, import, pack, export, describe and split data sets.
///
/// The format is specified in data/README.md. Sets are written under a temporary name and appear when complete.
#[derive(Subcommand)]
pub(super) enum Data {
    /// Make a synthetic set: the same bytes for the same arguments, on any machine.
    #[command(subcommand)]
    Make(Make),
    /// Import a set from another format.
    #[command(subcommand)]
    Import(Import),
    Pack(Box<PackArgs>),
    /// Write a set of images in another program's format.
    #[command(subcommand)]
    Export(Export),
    /// Read a whole set and show shapes, counts, classes and checksum.
    Describe {
        /// An HDF5 file or a folder of shards.
        data: PathBuf,
    },
    /// Copy a set into a training part and a validation part.
    Split {
        /// The set to split; it stays as it is.
        data: PathBuf,
        /// The new training set.
        train: PathBuf,
        /// The new validation set.
        validation: PathBuf,
        /// Share of the samples for the validation set.
        #[arg(long, value_name = "X", default_value = "0.1", value_parser = fraction)]
        fraction: f64,
        /// Names the choice.
        #[arg(long, value_name = "N", default_value_t = 1)]
        seed: u64,
        /// Replace existing sets.
        #[arg(long)]
        force: bool,
    },
}

#[derive(Subcommand)]
pub(super) enum Make {
    /// Drawn digits: strokes, shift, rotation, noise. Softmax regression reaches about 90 %, a CNN over 99 %.
    Digits {
        /// The file to make, or with --shards the folder.
        out: PathBuf,
        #[command(flatten)]
        amount: AmountArgs,
        /// Height and width.
        #[arg(long, value_name = "N", default_value = "28", value_parser = clap::value_parser!(u32).range(8..=4096))]
        side: u32,
    },
    /// Painted images of any size and number of classes.
    Images {
        /// The file to make, or with --shards the folder.
        out: PathBuf,
        #[command(flatten)]
        amount: AmountArgs,
        /// Channels, height and width.
        #[arg(long, value_name = "CxHxW", default_value = "3x224x224", value_parser = shape)]
        shape: Shape,
        /// Number of classes.
        #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
        classes: u32,
    },
    /// Click logs: sparse rows of 39 features each, with the skew of real logs and a true model that is known.
    ///
    /// A row has 13 columns of numbers in buckets and 26 of words, with as many different ones as in Criteo's Kaggle set, some
    /// of them very often and most hardly ever (Zipf's law, exponent 1.1). Labels are drawn from a logistic model that is linear in
    /// the features; the set knows the log loss of that model, which nobody can beat. Cores share the work, or under mpirun ranks.
    Clicks(ClicksArgs),
}

#[derive(Args)]
pub(super) struct ClicksArgs {
    /// The folder to make, of shards with 262144 rows each.
    out: PathBuf,
    /// Number of rows.
    #[arg(long, short = 'n', value_name = "N", default_value = "1000000", value_parser = positive)]
    rows: usize,
    /// Number of features; where values are more, rare ones share them.
    #[arg(long, value_name = "N", default_value = "33762578", value_parser = features)]
    features: usize,
    /// As --features with two to the power of N.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=32), conflicts_with = "features")]
    bits: Option<u32>,
    /// Share of the rows that are positive, nearly.
    #[arg(long, value_name = "X", default_value = "0.25", value_parser = below_one)]
    positives: f64,
    /// The key of all randomness: of the true model, and of the rows.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of the first row: give a test set the numbers behind the training set's.
    #[arg(long, value_name = "N", default_value_t = 0)]
    first: u64,
    /// Replace an existing set.
    #[arg(long)]
    force: bool,
}

#[derive(Args)]
pub(super) struct AmountArgs {
    /// Number of samples.
    #[arg(long, short = 'n', value_name = "N", default_value = "10000", value_parser = positive)]
    samples: usize,
    /// The key of all randomness.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Number of the first sample: give a test set the numbers behind the training set's.
    #[arg(long, value_name = "N", default_value_t = 0)]
    first: u64,
    /// Cut the set into a folder of so many files.
    #[arg(long, value_name = "N", default_value = "1", value_parser = positive)]
    shards: usize,
    /// Replace an existing set.
    #[arg(long)]
    force: bool,
}

#[derive(Subcommand)]
pub(super) enum Import {
    /// IDX files as of MNIST and Fashion-MNIST, plain or .gz.
    Idx {
        /// The image file.
        images: PathBuf,
        /// The label file.
        labels: PathBuf,
        /// The file to make, or with --shards the folder.
        out: PathBuf,
        /// Number of classes [default: the highest label plus one].
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
        classes: Option<u32>,
        /// Cut the set into a folder of so many files.
        #[arg(long, value_name = "N", default_value = "1", value_parser = positive)]
        shards: usize,
        /// Replace an existing set.
        #[arg(long)]
        force: bool,
    },
    /// CIFAR-10's binary version.
    Cifar10 {
        /// The .bin files, then the file to make (or with --shards the folder).
        #[arg(required = true, num_args = 2.., value_names = ["FILES", "OUT"])]
        files: Vec<PathBuf>,
        /// Cut the set into a folder of so many files.
        #[arg(long, value_name = "N", default_value = "1", value_parser = positive)]
        shards: usize,
        /// Replace an existing set.
        #[arg(long)]
        force: bool,
    },
    Tfrecord(Box<Tfrecord>),
    #[command(flatten)]
    Text(Text),
}

impl Data {
    /// Whether ranks can share the work.
    pub(super) fn takes_ranks(&self) -> bool {
        matches!(
            self,
            Self::Make(Make::Clicks(_)) | Self::Import(Import::Text(_)) | Self::Pack(_)
        )
    }

    pub(super) fn resolve(self) -> Action {
        match self {
            Self::Import(import) => import.resolve(),
            Self::Make(make) => make.resolve(),
            Self::Export(export) => export.resolve(),
            Self::Pack(pack) => Action::Pack(Box::new(pack.resolve())),
            Self::Describe { data } => Action::Describe(data),
            Self::Split {
                data,
                train,
                validation,
                fraction,
                seed,
                force,
            } => Action::Split {
                data,
                train,
                validation,
                options: split::Options {
                    fraction,
                    seed,
                    force,
                },
            },
        }
    }
}

impl Make {
    fn resolve(self) -> Action {
        let (kind, amount, out) = match self {
            Self::Digits { out, amount, side } => (
                Kind::Digits {
                    side: side as usize,
                },
                amount,
                out,
            ),
            Self::Images {
                out,
                amount,
                shape,
                classes,
            } => (Kind::Images { shape, classes }, amount, out),
            Self::Clicks(typed) => return typed.resolve(),
        };
        let AmountArgs {
            samples,
            seed,
            first,
            shards,
            force,
        } = amount;
        Action::Make {
            kind,
            amount: Amount {
                samples,
                seed,
                first,
                shards,
                force,
            },
            out,
        }
    }
}

impl ClicksArgs {
    fn resolve(self) -> Action {
        Action::MakeClicks {
            options: clicks::Options {
                rows: self.rows,
                features: self.bits.map_or(self.features, |bits| 1 << bits),
                seed: self.seed,
                first: self.first,
                shard: clicks::SHARD,
                positives: self.positives,
                force: self.force,
            },
            out: self.out,
        }
    }
}

impl Import {
    fn resolve(self) -> Action {
        match self {
            Self::Text(text) => Action::ImportText(Box::new(text.resolve())),
            Self::Tfrecord(typed) => typed.resolve(),
            Self::Idx {
                images,
                labels,
                out,
                classes,
                shards,
                force,
            } => Action::ImportIdx {
                images,
                labels,
                out,
                options: idx::Options {
                    classes,
                    shards,
                    force,
                },
            },
            Self::Cifar10 {
                mut files,
                shards,
                force,
            } => {
                let out = files.pop().expect("clap asks for at least two paths");
                Action::ImportCifar {
                    files,
                    out,
                    shards,
                    force,
                }
            }
        }
    }
}

pub(super) fn features(text: &str) -> Result<usize, String> {
    match positive(text)? {
        number if number > MOST_FEATURES => Err(format!("must be at most {MOST_FEATURES}")),
        number => Ok(number),
    }
}

fn fraction(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value < 1.0 => Ok(value),
        _ => Err("expected a number between 0 and 1".into()),
    }
}

pub(super) fn shape(text: &str) -> Result<Shape, String> {
    let dims: Vec<usize> = text.split('x').map_while(|dim| dim.parse().ok()).collect();
    match *dims.as_slice() {
        [c @ 1..=64, h @ 1..=16384, w @ 1..=16384] if text.split('x').count() == 3 => {
            Ok(Shape { c, h, w })
        }
        _ => Err("expected CxHxW such as 3x224x224".into()),
    }
}
