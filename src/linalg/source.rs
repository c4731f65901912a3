//! Where a matrix comes from: a file, or a formula that makes any block of it out of nothing.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ndarray::ArrayViewMut2;

use super::folder::{FILE, TABLE};
use super::formula::{self, Formula, Made};
use super::stored::Stored;
use super::{Precision, Real};
use crate::{Error, Result};

/// A matrix of which any rank can have any block.
#[derive(Clone, Debug)]
pub struct Source {
    name: String,
    rows: usize,
    cols: usize,
    origin: Origin,
}

#[derive(Clone, Debug)]
enum Origin {
    Stored(Arc<Stored>),
    Made(Made),
}

impl Source {
    /// Opens what `text` names: `FILE.h5:/dataset`, a file with one data set of two dimensions, the folder of an
    /// [`Output`](super::Output), or a formula, which `seed` is for.
    ///
    /// `shape` is what the user said of rows and columns: a formula needs both, a file's must agree. Formulas of the same
    /// name and seed are the same matrix: two random ones need two seeds.
    pub fn open(text: &str, shape: (Option<usize>, Option<usize>), seed: u64) -> Result<Self> {
        let name = text.to_owned();
        if let Some(formula) = Formula::find(text) {
            let (rows, cols) = formula::shape(text, shape)?;
            let origin = Origin::Made(Made::new(formula, seed));
            return Ok(Self {
                name,
                rows,
                cols,
                origin,
            });
        }
        let (path, table) = place(text)?;
        let stored = Stored::open(&path, table.as_deref())?;
        let (rows, cols) = stored.shape();
        fits(text, "rows", shape.0, rows)?;
        fits(text, "columns", shape.1, cols)?;
        let origin = Origin::Stored(Arc::new(stored));
        Ok(Self {
            name,
            rows,
            cols,
            origin,
        })
    }

    /// How many rows it has.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many columns it has.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// As the user wrote it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// That of a file's numbers, where integers count as double; formulas have any.
    pub fn precision(&self) -> Option<Precision> {
        match &self.origin {
            Origin::Stored(stored) => Some(stored.precision()),
            Origin::Made(_) => None,
        }
    }

    /// Whether it is read, and not made.
    pub fn is_file(&self) -> bool {
        matches!(self.origin, Origin::Stored(_))
    }

    /// Has the system begin to read a block that will be wanted soon, where it can; formulas have nothing to read.
    pub fn read_ahead(&self, rows: Range<usize>, cols: Range<usize>) {
        if let Origin::Stored(stored) = &self.origin {
            stored.read_ahead(rows, cols);
        }
    }

    /// Fills `out`, whose rows are contiguous, with the block of so many rows and columns.
    ///
    /// A number that is not finite is an error, which names its place. Reading takes 256 KiB of memory beside `out`, or, of
    /// a file that is not in one piece, 8 MiB or what a row of chunks has across the block, if that is more.
    pub fn read<T: Real>(
        &self,
        rows: Range<usize>,
        cols: Range<usize>,
        mut out: ArrayViewMut2<T>,
    ) -> Result<()> {
        assert!(rows.end <= self.rows && cols.end <= self.cols, "in range");
        assert_eq!(out.dim(), (rows.len(), cols.len()), "a place for the block");
        if out.is_empty() {
            return Ok(());
        }
        let made = match &self.origin {
            Origin::Stored(stored) => return stored.read(rows, cols, out),
            Origin::Made(made) => made,
        };
        for (i, mut row) in rows.zip(out.rows_mut()) {
            let row = row.as_slice_mut().expect("rows are contiguous");
            made.fill(i, cols.start, row);
        }
        Ok(())
    }
}

/// File and data set that `text` names.
fn place(text: &str) -> Result<(PathBuf, Option<String>)> {
    let path = Path::new(text);
    if path.is_dir() {
        let file = path.join(FILE);
        if !file.exists() {
            let problem = format!("is a folder without {FILE}");
            let hint = "give a matrix that phalanx wrote, or FILE.h5:/NAME";
            return Err(Error::file(path, problem, hint));
        }
        return Ok((file, Some(TABLE.into())));
    }
    if path.exists() {
        return Ok((path.into(), None));
    }
    // A colon may be in a file's name too: the first that has a file before it is the one that is meant.
    let mut splits = text
        .match_indices(':')
        .map(|(at, _)| (&text[..at], &text[at + 1..]));
    if let Some((file, table)) = splits.find(|(file, _)| Path::new(file).is_file()) {
        return Ok((file.into(), Some(table.into())));
    }
    if !text.contains(['/', '.']) {
        let names = Formula::names();
        let problem = format!("`{text}` is no file, and no formula either: formulas are {names}");
        return Err(Error::Usage(problem));
    }
    // It is not there: whoever opens it says so.
    let file = text.split_once(":/").map_or(text, |(file, _)| file);
    Ok((file.into(), None))
}

fn fits(text: &str, what: &str, said: Option<usize>, has: usize) -> Result<()> {
    match said {
        Some(said) if said != has => Err(Error::Mismatch {
            what: format!("{what} of {text}"),
            expected: said.to_string(),
            got: has.to_string(),
            hint: "a file has its own size: leave rows and columns out, or give another file",
        }),
        _ => Ok(()),
    }
}
