//! `phalanx data import` of sparse rows from text.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::bytes;
use crate::data::rows::MOST_FEATURES;
use crate::data::text::features::{self, DEFAULT_FEATURES};
use crate::data::text::{Format, Import, table};

#[derive(Subcommand)]
pub(super) enum Text {
    Libsvm(Libsvm),
    Criteo(Criteo),
    Csv(Box<Csv>),
    Vw(Vw),
}

#[derive(Args)]
struct Common {
    /// Text files, plain or .gz, then the folder to make.
    #[arg(required = true, num_args = 2.., value_names = ["INPUT", "OUT"])]
    files: Vec<PathBuf>,
    /// Make rows as those of this set were made, so that it and the new one fit together.
    #[arg(long, value_name = "SET")]
    like: Option<PathBuf>,
    /// Text in a shard, and in memory on a rank, in bytes or such as 16MiB.
    #[arg(long, value_name = "SIZE", default_value = "16MiB", value_parser = bytes)]
    shard_size: usize,
    /// Leave bad lines out, and tell how many and the first.
    #[arg(long)]
    skip_bad: bool,
    /// Replace an existing set.
    #[arg(long)]
    force: bool,
}

#[derive(Args)]
struct Hashed {
    /// Features to hash into, up to 2^32; 33762578 is a well-known choice for click logs [default: 4194304, which is 2^22].
    #[arg(long, value_name = "N", value_parser = count, conflicts_with = "like")]
    features: Option<usize>,
    /// Features to hash into as a power of two, 1 to 32.
    #[arg(long, value_name = "B", value_parser = clap::value_parser!(u32).range(1..=32), conflicts_with_all = ["like", "features"])]
    bits: Option<u32>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Numeric {
    /// A feature for each range of a logarithmic scale.
    Bucket,
    /// One feature, with the number's logarithm as value.
    Value,
}

/// LibSVM text, `label index:value …`; with all cores, or under mpirun with all its ranks.
///
/// Labels are 0 and 1, or -1 and 1. What follows a `#` is a comment. Features keep their numbers. Unless --like, or
/// --features and --base, tell what is needed, the text is read twice.
#[derive(Args)]
pub(super) struct Libsvm {
    #[command(flatten)]
    common: Common,
    /// How many features there are [default: as many as the highest index tells].
    #[arg(long, value_name = "N", value_parser = count, conflicts_with = "like")]
    features: Option<usize>,
    /// Number of the first feature in the text: auto is 1, unless feature 0 occurs.
    #[arg(long, value_name = "BASE", default_value = "auto", value_parser = ["auto", "0", "1"], conflicts_with = "like")]
    base: String,
}

/// Click logs as Criteo published them: label, 13 integers, 26 hexadecimal categories; with all cores, or under mpirun with all its ranks.
///
/// Columns are separated by tabs, and may be empty: that is a feature too.
#[derive(Args)]
pub(super) struct Criteo {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    hashed: Hashed,
    /// What becomes of the integers.
    #[arg(
        long,
        value_name = "WAY",
        default_value = "bucket",
        conflicts_with = "like"
    )]
    numeric: Numeric,
    /// Keep what features are called, such as C7=68fd1e64.
    #[arg(long)]
    names: bool,
}

/// Tables with a line for each row (CSV, TSV); with all cores, or under mpirun with all its ranks.
///
/// Each value of a column is a feature; numbers become ranges of a logarithmic scale. Without --numeric-columns, the first
/// 1000 lines of the first file decide: a column of numbers only, more than 10 different ones, is numeric; what was decided
/// is shown. A test set takes the decision over with --like. Fields may be quoted, but must end on their line.
#[derive(Args)]
pub(super) struct Csv {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    hashed: Hashed,
    /// Line 1 of each file is a row; columns are called 1, 2, ….
    #[arg(long)]
    no_header: bool,
    /// What is between columns: one character, or tab.
    #[arg(long, value_name = "CHAR", default_value = ",", value_parser = separator)]
    separator: u8,
    /// The column of labels, by name or number [default: the last].
    #[arg(long, value_name = "COLUMN", conflicts_with = "like")]
    label: Option<String>,
    /// The label that means 1; all others mean 0 [default: 1, true, yes, t or y, against 0, -1, false, no, f or n].
    #[arg(long, value_name = "VALUE", conflicts_with = "like")]
    positive: Option<String>,
    /// Columns of numbers, by name or number [default: the first 1000 lines decide].
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        conflicts_with = "like"
    )]
    numeric_columns: Option<Vec<String>>,
    /// What becomes of numbers.
    #[arg(
        long,
        value_name = "WAY",
        default_value = "bucket",
        conflicts_with = "like"
    )]
    numeric: Numeric,
    /// Columns to leave out, by name or number.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        conflicts_with = "like"
    )]
    drop: Vec<String>,
    /// Do not keep what features are called, such as education=Bachelors.
    #[arg(long)]
    no_names: bool,
}

/// Vowpal Wabbit's text, `label |namespace feature:value …`; with all cores, or under mpirun with all its ranks.
///
/// Labels are 0 and 1, or -1 and 1. Importance and base may be there, but only as 1 and 0. No constant is added:
/// training has its own.
#[derive(Args)]
pub(super) struct Vw {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    hashed: Hashed,
    /// Keep what features are called, such as user^age.
    #[arg(long)]
    names: bool,
}

impl Text {
    pub(super) fn resolve(self) -> Import {
        match self {
            Self::Libsvm(Libsvm {
                common,
                features,
                base,
            }) => {
                // `auto` is no number.
                let base = base.parse().ok();
                common.import(Format::Libsvm { features, base }, false)
            }
            Self::Criteo(Criteo {
                common,
                hashed,
                numeric,
                names,
            }) => {
                let (features, numeric) = (hashed.features(), numeric.into());
                common.import(Format::Criteo { features, numeric }, names)
            }
            Self::Csv(csv) => csv.resolve(),
            Self::Vw(Vw {
                common,
                hashed,
                names,
            }) => {
                let features = hashed.features();
                common.import(Format::Vw { features }, names)
            }
        }
    }
}

impl Csv {
    fn resolve(self) -> Import {
        let options = table::Options {
            features: self.hashed.features(),
            numeric: self.numeric.into(),
            numeric_columns: self.numeric_columns,
            label: self.label,
            positive: self.positive,
            drop: self.drop,
        };
        let format = Format::Csv {
            header: !self.no_header,
            separator: self.separator,
            options,
        };
        self.common.import(format, !self.no_names)
    }
}

impl Common {
    fn import(self, format: Format, names: bool) -> Import {
        let Self {
            files: mut inputs,
            like,
            shard_size,
            skip_bad,
            force,
        } = self;
        Import {
            out: inputs.pop().expect("clap asks for at least two paths"),
            inputs,
            format,
            like,
            names,
            shard_size,
            skip_bad,
            force,
        }
    }
}

impl Hashed {
    fn features(&self) -> usize {
        let power = self.bits.map(|bits| 1 << bits);
        self.features.or(power).unwrap_or(DEFAULT_FEATURES)
    }
}

impl From<Numeric> for features::Numeric {
    fn from(typed: Numeric) -> Self {
        match typed {
            Numeric::Bucket => Self::Bucket,
            Numeric::Value => Self::Value,
        }
    }
}

/// A number of features.
fn count(text: &str) -> Result<usize, String> {
    match super::positive(text)? {
        number if number > MOST_FEATURES => Err(format!("must be at most {MOST_FEATURES}")),
        number => Ok(number),
    }
}

/// What may stand between columns.
fn separator(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [b'"' | b'\n' | b'\r'] => Err("quotes and line ends have another meaning".into()),
        [byte] if byte.is_ascii() => Ok(*byte),
        _ => Err("expected one character of ASCII, or tab".into()),
    }
}
