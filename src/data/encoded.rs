//! The photos of one shard as files in a row, which are decoded when they are asked for.

use std::path::{Path, PathBuf};

use super::photos::{Fit, Readers};
use super::pixels::Bytes;
use super::{ENCODED, MOST_DECODED, Shape};
use crate::h5::{Element, File};
use crate::{Error, Result};

/// The `records` of one shard.
pub(super) struct Encoded {
    path: PathBuf,
    records: Bytes,
    /// Where each record begins, and the last ends.
    starts: Vec<u64>,
    readers: Readers,
}

impl Encoded {
    /// Whether `file` holds photos as files.
    pub(super) fn is_in(file: &File) -> bool {
        file.has("records")
    }

    /// Opens the records of `file`; each lies where `starts` says, or it is refused.
    pub(super) fn open(path: &Path, file: &File) -> Result<Self> {
        let wrong = |problem: String| {
            let hint = "see data/README.md for the format, or pack the photos again";
            Error::file(path, problem, hint)
        };
        let version = file.numbers("version").and_then(|v| v.first().copied());
        if version.is_some_and(|version| version > f64::from(ENCODED)) {
            let version = version.unwrap_or(0.0);
            let problem =
                format!("has format version {version}, this program reads up to {ENCODED}");
            return Err(Error::file(path, problem, "update phalanx"));
        }
        let dims: Vec<f64> = file.numbers("shape").unwrap_or_default();
        let whole = |dim: f64, most: usize| {
            let good = dim.fract() == 0.0 && (1.0..=most as f64).contains(&dim);
            good.then_some(dim as usize)
        };
        let shape = match dims[..] {
            [c, h, w] => match (whole(c, 3), whole(h, 1 << 14), whole(w, 1 << 14)) {
                (Some(c @ (1 | 3)), Some(h), Some(w)) => Some(Shape { c, h, w }),
                _ => None,
            },
            _ => None,
        };
        let shape = shape.filter(|shape| shape.len() <= MOST_DECODED);
        let shape = shape.ok_or_else(|| {
            wrong(format!(
                "attribute `shape` is {dims:?}, expected c, h and w"
            ))
        })?;
        let fit = file.text("fit").unwrap_or_else(|| Fit::Crop.to_string());
        let fit = fit
            .parse()
            .map_err(|problem| wrong(format!("attribute `fit`: {problem}")))?;
        let (records, starts) = (file.table("records")?, file.table("starts")?);
        if records.element() != Element::U8 || records.shape().len() != 1 {
            return Err(wrong("`records` must be bytes in one dimension".into()));
        }
        let &[count] = starts.shape().as_slice() else {
            return Err(wrong(format!("`starts` has shape {:?}", starts.shape())));
        };
        let starts: Vec<u64> = starts.read(0..count)?;
        let bytes = records.len() as u64;
        let rising = starts.windows(2).all(|pair| pair[0] <= pair[1]);
        if starts.first() != Some(&0) || starts.last() != Some(&bytes) || !rising {
            let problem =
                format!("`starts` does not rise from 0 to {bytes}, the bytes of `records`");
            return Err(wrong(problem));
        }
        Ok(Self {
            path: path.to_path_buf(),
            records: Bytes::open(path, records, 1)?,
            starts,
            readers: Readers::new(shape, fit),
        })
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// What they become.
    pub(super) fn shape(&self) -> Shape {
        self.readers.shape()
    }

    /// The bytes that are read of the shard's file.
    pub(super) fn records(&self) -> &Bytes {
        &self.records
    }

    /// Where record `row` is among all bytes.
    pub(super) fn range(&self, row: usize) -> std::ops::Range<usize> {
        self.starts[row] as usize..self.starts[row + 1] as usize
    }

    /// The pixels of record `row`.
    pub(super) fn with_pixels<R>(
        &self,
        row: usize,
        visit: impl FnOnce(&[u8]) -> Result<R>,
    ) -> Result<R> {
        self.readers.with(|reader| {
            self.records.with(self.range(row), |file| {
                let pixels = reader.pixels(file).map_err(|problem| {
                    let problem = format!("sample {row} {problem}");
                    Error::file(&self.path, problem, "pack the photos again")
                });
                pixels.and_then(visit)
            })
        })
    }
}
