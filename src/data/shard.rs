//! One file of a set: what it says of its samples, checked.

use std::path::Path;

use super::encoded::Encoded;
use super::photos::Fit;
use super::pixels::Pixels;
use super::{Shape, VERSION};
use crate::h5::{Element, File};
use crate::{Error, Result};

/// The most classes a set may have: beyond it a label or attribute is damaged.
const MOST_CLASSES: u32 = 1 << 24;

/// A shard's attributes and labels, before it joins the set.
pub(super) struct Head {
    pub(super) shape: Shape,
    pub(super) classes: Option<u32>,
    pub(super) mean: Vec<f32>,
    pub(super) std: Vec<f32>,
    pub(super) provenance: String,
    pub(super) class_names: Vec<String>,
    pub(super) fit: Option<Fit>,
    pub(super) labels: Vec<u32>,
}

impl Head {
    /// Opens a shard: what it says of its samples, and their pixels.
    pub(super) fn open(path: &Path) -> Result<(Self, Pixels)> {
        let hint = "see data/README.md for the format";
        let file = File::open(path)?;
        // First, as other kinds of sets count their versions by themselves.
        if Encoded::is_in(&file) {
            let photos = Encoded::open(path, &file)?;
            let head = Self::of(path, &file, photos.len(), photos.shape())?;
            return Ok((head, Pixels::of_photos(path, photos)));
        }
        let images = file.table("images")?;
        let version = file
            .numbers("version")
            .map_or(VERSION, |v| v.first().map_or(0, |&v| v as u32));
        if version > VERSION {
            let problem =
                format!("has format version {version}, this program reads up to {VERSION}");
            return Err(Error::file(path, problem, "update phalanx"));
        }
        let &[n, c, h, w] = images.shape().as_slice() else {
            let problem = format!(
                "`images` has shape {:?}, expected (n, c, h, w)",
                images.shape()
            );
            return Err(Error::file(path, problem, hint));
        };
        let shape = Shape { c, h, w };
        if n > 0 && shape.is_empty() {
            return Err(Error::file(
                path,
                format!("its images are empty ({shape})"),
                hint,
            ));
        }
        let head = Self::of(path, &file, n, shape)?;
        Ok((head, Pixels::open(path, images, shape)?))
    }

    /// What a file with `n` images says of them.
    fn of(path: &Path, file: &File, n: usize, shape: Shape) -> Result<Self> {
        let hint = "see data/README.md for the format";
        let labels = file.table("labels")?;
        if labels.shape() != [n] {
            let problem = format!("has {n} images but labels of shape {:?}", labels.shape());
            return Err(Error::file(path, problem, "make or import the set again"));
        }
        let classes = file
            .numbers("classes")
            .and_then(|values| values.first().map(|&v| v as u32));
        if classes.is_some_and(|classes| !(1..=MOST_CLASSES).contains(&classes)) {
            let problem = format!(
                "attribute `classes` is {}, expected 1 to {MOST_CLASSES}",
                classes.unwrap_or(0)
            );
            return Err(Error::file(path, problem, hint));
        }
        // Without one good number a channel there are none: only `--normalize` asks for them.
        let per_channel = |name| -> Vec<f32> {
            let values = file.numbers(name).unwrap_or_default();
            let good = values.len() == shape.c && values.iter().all(|value| value.is_finite());
            if good {
                values.iter().map(|&v| v as f32).collect()
            } else {
                Vec::new()
            }
        };
        Ok(Self {
            shape,
            classes,
            mean: per_channel("mean"),
            std: per_channel("std"),
            provenance: file.text("provenance").unwrap_or_default(),
            class_names: file.text("class_names").map_or(Vec::new(), |names| {
                names.lines().map(str::to_owned).collect()
            }),
            fit: file.text("fit").and_then(|fit| fit.parse().ok()),
            labels: check_labels(path, &labels, n, classes)?,
        })
    }
}

fn check_labels(
    path: &Path,
    table: &crate::h5::Table,
    n: usize,
    classes: Option<u32>,
) -> Result<Vec<u32>> {
    let hint = "see data/README.md for the format";
    if !matches!(table.element(), Element::U8 | Element::Integer) {
        return Err(Error::file(path, "`labels` must be integers", hint));
    }
    let labels: Vec<i64> = if n == 0 {
        Vec::new()
    } else {
        table.read(0..n)?
    };
    let end = i64::from(classes.unwrap_or(MOST_CLASSES));
    match labels.iter().position(|label| !(0..end).contains(label)) {
        None => Ok(labels.iter().map(|&label| label as u32).collect()),
        Some(at) => {
            let problem = format!(
                "sample {at} has label {}, expected 0 to {}",
                labels[at],
                end - 1
            );
            Err(Error::file(path, problem, hint))
        }
    }
}
