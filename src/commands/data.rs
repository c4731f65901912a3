//! `phalanx data`: make, import images, pack photos, export, describe, split.

use std::path::{Path, PathBuf};

use super::{pack, rows};
use crate::comm::{Comm, run_ranks};
use crate::data::rows::RowSet;
use crate::data::synthetic::{self, Amount, Kind};
use crate::data::{Dataset, cifar, clicks, describe, examples, export, idx, photos, split, text};
use crate::observe::{say, table};
use crate::{Error, Result};

/// What to do with which files.
pub enum Action {
    /// Make a synthetic set.
    Make {
        /// What to make.
        kind: Kind,
        /// How much of it.
        amount: Amount,
        /// Where to.
        out: PathBuf,
    },
    /// Make click logs.
    MakeClicks {
        /// What to make.
        options: clicks::Options,
        /// Where to.
        out: PathBuf,
    },
    /// Import sparse rows from text.
    ImportText(Box<text::Import>),
    /// Import IDX files.
    ImportIdx {
        /// The image file.
        images: PathBuf,
        /// The label file.
        labels: PathBuf,
        /// Where to.
        out: PathBuf,
        /// How.
        options: idx::Options,
    },
    /// Import CIFAR-10.
    ImportCifar {
        /// The binary files.
        files: Vec<PathBuf>,
        /// Where to.
        out: PathBuf,
        /// Files to cut the set into.
        shards: usize,
        /// Whether an existing set may be replaced.
        force: bool,
    },
    /// Pack photos.
    Pack(Box<photos::Pack>),
    /// Import TensorFlow's examples.
    ImportExamples(Box<examples::Import>),
    /// Export a set of images.
    Export {
        /// The set.
        data: PathBuf,
        /// Where to.
        out: PathBuf,
        /// As what.
        format: export::Format,
        /// Whether what an export made before may be replaced.
        force: bool,
    },
    /// Describe a set.
    Describe(PathBuf),
    /// Split a set.
    Split {
        /// The whole.
        data: PathBuf,
        /// The part to train on.
        train: PathBuf,
        /// The part to validate on.
        validation: PathBuf,
        /// How.
        options: split::Options,
    },
}

/// Classes whose counts are shown one by one.
const SHOWN: usize = 50;

/// Does it and says what came of it; *collective*. What ranks cannot share is done by a single one.
pub fn run(comm: &dyn Comm, action: &Action) -> Result<()> {
    match action {
        Action::MakeClicks { options, out } => {
            clicks::make(comm, *options, out)?;
            made_rows(comm, out)
        }
        Action::Make { kind, amount, out } => {
            synthetic::make(*kind, *amount, out)?;
            made(out)
        }
        Action::ImportText(import) => rows::import(comm, import),
        Action::Pack(asked) => pack::run(comm, asked),
        Action::ImportIdx {
            images,
            labels,
            out,
            options,
        } => {
            idx::import(images, labels, out, *options)?;
            made(out)
        }
        Action::ImportCifar {
            files,
            out,
            shards,
            force,
        } => {
            cifar::import(files, out, *shards, *force)?;
            made(out)
        }
        Action::ImportExamples(asked) => {
            examples::import(asked)?;
            made(&asked.out)
        }
        Action::Export {
            data,
            out,
            format,
            force,
        } => {
            let data = Dataset::open(data)?;
            export::export(&data, *format, out, *force)?;
            say(&format!("{}: {} samples", out.display(), data.len()));
            Ok(())
        }
        Action::Describe(path) if RowSet::is_at(path) => rows::show(path),
        Action::Describe(path) => show(path),
        Action::Split {
            data,
            train,
            validation,
            options,
        } => {
            split::split(&Dataset::open(data)?, train, validation, *options)?;
            made(train)?;
            made(validation)
        }
    }
}

/// The most threads: each holds the rows of a shard, or a photo, in memory.
const MOST_THREADS: usize = 16;

/// As `run`, without a launcher: a thread for each core takes the part of a rank where ranks share the work.
pub fn run_alone(action: &Action) -> Result<()> {
    let threads = match action {
        Action::MakeClicks { .. } | Action::ImportText(_) | Action::Pack(_) => {
            let cores = std::thread::available_parallelism();
            cores.map_or(1, |cores| cores.get().min(MOST_THREADS))
        }
        _ => 1,
    };
    let mut outcomes = run_ranks(threads, |comm| run(comm, action));
    // Who failed has more to tell than who heard of it.
    outcomes.sort_by_key(|outcome| match outcome {
        Err(Error::Peer { .. }) => 1,
        Err(_) => 0,
        Ok(()) => 2,
    });
    outcomes.swap_remove(0)
}

fn made(path: &Path) -> Result<()> {
    let data = Dataset::open(path)?;
    let files = match data.files().count() {
        1 => String::new(),
        count => format!(" in {count} shards"),
    };
    say(&format!(
        "{}: {} samples of {}, {} classes{files}",
        path.display(),
        data.len(),
        data.shape,
        data.classes
    ));
    Ok(())
}

fn made_rows(comm: &dyn Comm, path: &Path) -> Result<()> {
    if comm.rank() > 0 {
        return Ok(());
    }
    let set = RowSet::open(path)?;
    let files = match set.files().count() {
        1 => "1 shard".into(),
        count => format!("{count} shards"),
    };
    let best = match set.about.best_loss {
        Some(loss) => format!(", best log loss {loss:.5}"),
        None => String::new(),
    };
    say(&format!(
        "{}: {} rows of {} features{best}, in {files}",
        path.display(),
        set.len(),
        set.about.features
    ));
    Ok(())
}

fn show(path: &Path) -> Result<()> {
    let data = Dataset::open(path)?;
    let summary = describe::describe(&data)?;
    let channels = |values: &[f32]| {
        values
            .iter()
            .map(|v| format!("{v:.4}"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let rows = [
        ("samples", data.len().to_string()),
        (
            "shape",
            format!("{} (c×h×w), {}", data.shape, data.element()),
        ),
        ("classes", data.classes.to_string()),
        (
            "files",
            format!(
                "{}, {}",
                data.files().count(),
                match (data.is_encoded(), data.is_mapped()) {
                    (true, _) => "of JPEG files",
                    (false, true) => "mapped",
                    (false, false) => "read through HDF5",
                }
            ),
        ),
        ("mean", channels(&data.mean)),
        ("deviation", channels(&data.std)),
        (
            "values",
            format!("{} to {}", summary.range.0, summary.range.1),
        ),
        ("provenance", data.provenance.clone()),
        ("checksum", format!("xxh3:{:016x}", summary.checksum)),
    ];
    say(&table(&path.display().to_string(), &rows));
    say(&table(
        "samples by class",
        &histogram(&data, &summary.histogram),
    ));
    Ok(())
}

/// A bar for each class, up to `SHOWN`; of more, the extremes.
fn histogram(data: &Dataset, counts: &[u64]) -> Vec<(String, String)> {
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    let name = |class: usize| match data.class_names.get(class) {
        Some(name) if *name != class.to_string() => format!("{class} {name}"),
        _ => class.to_string(),
    };
    let bar = |(class, &count): (usize, &u64)| {
        (
            name(class),
            format!("{count:>9} {}", "█".repeat((count * 40 / most) as usize)),
        )
    };
    let mut rows: Vec<_> = counts.iter().enumerate().take(SHOWN).map(bar).collect();
    if counts.len() > SHOWN {
        let least = counts.iter().min().unwrap_or(&0);
        rows.push((
            "…".into(),
            format!("{} classes, {least} to {most} samples each", counts.len()),
        ));
    }
    rows
}
