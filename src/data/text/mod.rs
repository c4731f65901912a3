//! Importing sparse rows from text, by all ranks together: LibSVM, click logs, tables and Vowpal Wabbit's format.
//!
//! Files are cut into pieces at line ends; rank r of P reads those whose number leaves r when divided by P, and makes a
//! shard of each. A shard depends on its piece alone, so that the set is the same on any number of ranks.

mod criteo;
mod encoding;
pub mod features;
mod libsvm;
mod numbers;
mod pieces;
pub mod table;
mod used;
mod vw;
mod walk;

pub use encoding::Encoding;
pub use used::collisions;

use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::comm::{Comm, agree};
use crate::data::file_names;
use crate::data::rows::{About, Block, MOST_FEATURES, SetFolder, write_together};
use crate::{Error, Result};
use features::{HASHING, Numeric, Tokens};
use libsvm::Span;
use used::Used;
use walk::Walk;

/// What to import, and how.
#[derive(Clone, Debug)]
pub struct Import {
    /// Text files, plain or gzipped.
    pub inputs: Vec<PathBuf>,
    /// The folder of shards to make.
    pub out: PathBuf,
    /// The format of the text.
    pub format: Format,
    /// A set whose encoding is taken over, in place of what the format's options ask for.
    pub like: Option<PathBuf>,
    /// Whether to keep what features are called.
    pub names: bool,
    /// Bytes of text in a shard, about.
    pub shard_size: usize,
    /// Whether lines that make no sense are left out.
    pub skip_bad: bool,
    /// Whether an existing set may be replaced.
    pub force: bool,
}

/// A format, with what may be chosen.
#[derive(Clone, Debug)]
pub enum Format {
    /// `label index:value …`.
    Libsvm {
        /// How many features there are; without, the highest index tells.
        features: Option<usize>,
        /// The first feature's number; without, 0 if that occurs, else 1.
        base: Option<u32>,
    },
    /// A label, 13 integers, 26 categories.
    Criteo {
        /// Features to hash into.
        features: usize,
        /// What becomes of integers.
        numeric: Numeric,
    },
    /// Columns with a separator between them.
    Csv {
        /// Whether line 1 of each file names the columns.
        header: bool,
        /// What is between columns.
        separator: u8,
        /// What becomes of them.
        options: table::Options,
    },
    /// Vowpal Wabbit's.
    Vw {
        /// Features to hash into.
        features: usize,
    },
}

/// What an import made; the same on every rank.
#[derive(Clone, Debug)]
pub struct Report {
    /// Rows.
    pub rows: u64,
    /// Rows with label 1.
    pub positives: u64,
    /// Features that are not zero, over all rows.
    pub nonzeros: u64,
    /// Files.
    pub shards: u64,
    /// Features that occur.
    pub used: u64,
    /// Lines that were left out.
    pub bad: u64,
    /// The first of them, and what is wrong with it.
    pub first_bad: Option<String>,
    /// How lines became rows.
    pub encoding: Encoding,
    /// Bytes of the files, and the time that all took.
    pub bytes: u64,
    /// See `bytes`.
    pub seconds: f64,
}

/// Makes rows of lines.
trait LineParser {
    /// Makes a row of a line, or none of one without content; else says what is wrong. What it has made of a bad line
    /// is forgotten.
    fn parse(&mut self, line: &[u8], block: &mut Block) -> std::result::Result<(), String>;

    /// Looks at line 1 of a file: whether it is a heading and no row, or why it cannot be one.
    fn heading(&mut self, _line: &[u8]) -> std::result::Result<bool, String> {
        Ok(false)
    }

    /// What to do about a bad line.
    fn hint(&self) -> &'static str;
}

/// A line without its carriage return, and line 1 without a byte order mark.
fn plain(line: &[u8], first: bool) -> &[u8] {
    let line = match line.strip_prefix(b"\xef\xbb\xbf") {
        Some(rest) if first => rest,
        _ => line,
    };
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// Makes a set of sparse rows from text; *collective*.
pub fn import(comm: &dyn Comm, import: &Import) -> Result<Report> {
    let start = Instant::now();
    let walk = Walk::new(comm, import)?;
    let encoding = encoding(&walk, comm, import)?;
    let report = write_together(comm, &import.out, import.force, |place| {
        write(&walk, comm, import, &encoding, place)
    })?;
    Ok(Report {
        bytes: walk.bytes(),
        seconds: start.elapsed().as_secs_f64(),
        ..report
    })
}

/// What decides on the numbers of features; *collective*.
fn encoding(walk: &Walk, comm: &dyn Comm, import: &Import) -> Result<Encoding> {
    if let Some(set) = &import.like {
        return agree(comm, like(set, &import.format));
    }
    match &import.format {
        &Format::Libsvm { features, base } => numbered(walk, comm, features, base),
        &Format::Criteo { features, numeric } => Ok(Encoding::Criteo {
            features,
            hashing: HASHING,
            numeric,
        }),
        &Format::Vw { features } => Ok(Encoding::Vw {
            features,
            hashing: HASHING,
        }),
        Format::Csv {
            header,
            separator,
            options,
        } => {
            let (input, layout) = (&import.inputs[0], (*header, *separator));
            let scheme = table::Scheme::decide(input, layout, options, import.skip_bad);
            Ok(Encoding::Csv {
                features: options.features,
                hashing: HASHING,
                scheme: agree(comm, scheme)?,
            })
        }
    }
}

/// The encoding of a set that was made from the same format.
fn like(set: &Path, format: &Format) -> Result<Encoding> {
    let encoding = Encoding::of(set)?;
    let same = matches!(
        (&encoding, format),
        (Encoding::Libsvm { .. }, Format::Libsvm { .. })
            | (Encoding::Criteo { .. }, Format::Criteo { .. })
            | (Encoding::Csv { .. }, Format::Csv { .. })
            | (Encoding::Vw { .. }, Format::Vw { .. })
    );
    if same {
        return Ok(encoding);
    }
    let problem = format!("was imported from another format: {}", encoding.text());
    let hint = "--like takes a set that the same kind of import made";
    Err(Error::file(set, problem, hint))
}

/// What numbered features need, by a first pass over the text where the options leave something open; *collective*.
fn numbered(
    walk: &Walk,
    comm: &dyn Comm,
    features: Option<usize>,
    base: Option<u32>,
) -> Result<Encoding> {
    if let (Some(features), Some(base)) = (features, base) {
        return Ok(Encoding::Libsvm { features, base });
    }
    let mut span = Span::NONE;
    let mut lines = libsvm::Lines::new(0, MOST_FEATURES);
    walk.go("looking", &mut lines, &mut |_, block| {
        span.widen(block.indices());
        Ok(())
    })?;
    // The lowest of all ranks as the greatest distance to the end.
    let mut ends = [MOST_FEATURES as u64 - span.lowest, span.highest];
    comm.max(&mut ends);
    let (lowest, highest) = (MOST_FEATURES as u64 - ends[0], ends[1]);
    let base = base.unwrap_or(u32::from(lowest > 0));
    let count = (highest as usize + 1).saturating_sub(base as usize).max(1);
    Ok(Encoding::Libsvm {
        features: features.unwrap_or(count),
        base,
    })
}

fn parser(import: &Import, encoding: &Encoding) -> Box<dyn LineParser> {
    let tokens = Tokens::new(encoding.features(), import.names);
    match (encoding, &import.format) {
        (&Encoding::Libsvm { features, base }, _) => Box::new(libsvm::Lines::new(base, features)),
        (&Encoding::Criteo { numeric, .. }, _) => Box::new(criteo::Lines::new(tokens, numeric)),
        (Encoding::Vw { .. }, _) => Box::new(vw::Lines::new(tokens)),
        (
            Encoding::Csv { scheme, .. },
            &Format::Csv {
                header, separator, ..
            },
        ) => Box::new(table::Lines::new(
            tokens,
            scheme.clone(),
            (header, separator),
        )),
        (Encoding::Csv { .. }, _) => unreachable!("an encoding is that of its format"),
    }
}

/// Writes all shards into the folder at `place`; *collective*.
fn write(
    walk: &Walk,
    comm: &dyn Comm,
    import: &Import,
    encoding: &Encoding,
    place: &Path,
) -> Result<Report> {
    let about = About {
        features: encoding.features(),
        provenance: format!("text: {}", file_names(&import.inputs)),
        encoding: encoding.text(),
        best_loss: None,
    };
    let mut used = Used::new(about.features);
    let mut counts = [0; 4];
    let mut lines = parser(import, encoding);
    let bad = walk.go("importing", lines.as_mut(), &mut |number, block| {
        used.mark(block.indices());
        let (rows, nonzeros) = (block.len() as u64, block.indices().len() as u64);
        let mine = [rows, block.positives() as u64, nonzeros, 1];
        counts.iter_mut().zip(mine).for_each(|(sum, n)| *sum += n);
        SetFolder::write_shard(place, number, &about, block)
    })?;
    comm.sum(&mut counts);
    let [rows, positives, nonzeros, shards] = counts;
    let (bad, first_bad) = walk.first_bad(bad);
    if rows == 0 {
        let (path, why) = (&import.inputs[0], first_bad.unwrap_or_default());
        let problem = format!("there is no good row in it, nor in what was given with it\n  {why}");
        let hint = "is it the right file, in this format?";
        return agree(comm, Err(Error::file(path, problem.trim_end(), hint)));
    }
    Ok(Report {
        rows,
        positives,
        nonzeros,
        shards,
        used: used.count(comm),
        bad,
        first_bad,
        encoding: encoding.clone(),
        bytes: 0,
        seconds: 0.0,
    })
}

#[cfg(test)]
mod tests;
