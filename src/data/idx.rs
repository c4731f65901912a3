//! Importing IDX files (MNIST, Fashion-MNIST and relatives), plain or gzipped.

use std::io::Read;
use std::path::{Path, PathBuf};

use super::{Description, SetWriter, Shape, unpack};
use crate::observe::Progress;
use crate::{Error, Result};

/// What an import does beside reading.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Number of classes; without it, the highest label plus one.
    pub classes: Option<u32>,
    /// Files to cut the set into.
    pub shards: usize,
    /// Whether an existing set may be replaced.
    pub force: bool,
}

/// Values in one image beyond which the header must be wrong: they decide how much memory is taken before any is read.
const LARGEST: usize = 1 << 24;
const HINT: &str = "get the file again; IDX files are described in data/README.md";

/// Makes a set at `out` from an image file and a label file.
pub fn import(images: &Path, labels: &Path, out: &Path, options: Options) -> Result<()> {
    let mut names = Idx::open(labels)?;
    let &[n] = names.dims.as_slice() else {
        return Err(names.bad(format!(
            "has {} dimensions, labels have one",
            names.dims.len()
        )));
    };
    let mut pixels = Idx::open(images)?;
    let shape = match *pixels.dims.as_slice() {
        [_, h, w] => Shape { c: 1, h, w },
        [_, c, h, w] => Shape { c, h, w },
        _ => {
            return Err(pixels.bad(format!(
                "has {} dimensions, images have three or four",
                pixels.dims.len()
            )));
        }
    };
    if pixels.dims[0] != n {
        return Err(Error::Mismatch {
            what: format!("labels in {}", labels.display()),
            expected: format!(
                "{} as there are images in {}",
                pixels.dims[0],
                images.display()
            ),
            got: n.to_string(),
            hint: "give the image file and the label file of the same set",
        });
    }
    if n == 0 || pixels.dims.contains(&0) {
        return Err(pixels.bad("holds no samples".into()));
    }
    let values = [shape.c, shape.h, shape.w]
        .iter()
        .try_fold(1usize, |product, &dim| product.checked_mul(dim));
    if values.is_none_or(|values| values > LARGEST) {
        return Err(pixels.bad(format!(
            "claims images of {shape}, more than {LARGEST} values each"
        )));
    }
    let labels = names.labels(n, options.classes)?;
    let classes = options
        .classes
        .unwrap_or_else(|| labels.iter().max().map_or(1, |&top| u32::from(top) + 1));
    let name = |path: &Path| {
        path.file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned()
    };
    let about = Description {
        samples: n,
        shape,
        classes,
        class_names: Vec::new(),
        float: false,
        shards: options.shards,
        provenance: format!("IDX files {} and {}", name(images), name(&names.path)),
        force: options.force,
    };
    let mut writer = SetWriter::create(out, about)?;
    let progress = Progress::new("importing", n as u64);
    let mut image = vec![0; shape.len()];
    for (i, &label) in labels.iter().enumerate() {
        pixels.fill(&mut image, || format!("image {i} of {n}"))?;
        writer.push(&image, u32::from(label))?;
        progress.add(1);
    }
    pixels.end()?;
    writer.finish()
}

/// An IDX file behind its header.
struct Idx {
    path: PathBuf,
    dims: Vec<usize>,
    body: Box<dyn Read>,
}

impl Idx {
    fn open(path: &Path) -> Result<Self> {
        let mut idx = Self {
            path: path.to_path_buf(),
            dims: Vec::new(),
            body: unpack::open(path)?,
        };
        let mut head = [0; 4];
        idx.fill(&mut head, || "its header".into())?;
        let [0, 0, 0x08, rank @ 1..=4] = head else {
            let problem = format!(
                "is not an IDX file of bytes (magic {head:02x?}, expected [00, 00, 08, 01 to 04])"
            );
            return Err(idx.bad(problem));
        };
        for _ in 0..rank {
            let mut dim = [0; 4];
            idx.fill(&mut dim, || "its header".into())?;
            idx.dims.push(u32::from_be_bytes(dim) as usize);
        }
        Ok(idx)
    }

    fn labels(&mut self, n: usize, classes: Option<u32>) -> Result<Vec<u8>> {
        // Read as they come: a header that lies about n must not decide how much memory is taken.
        let mut labels = Vec::new();
        let read = self.body.by_ref().take(n as u64).read_to_end(&mut labels);
        read.map_err(|error| self.bad(format!("cannot be read to its end ({error})")))?;
        if labels.len() < n {
            return Err(self.bad(format!("is cut short: {} of {n} labels", labels.len())));
        }
        self.end()?;
        let end = classes.unwrap_or(256);
        match labels.iter().position(|&label| u32::from(label) >= end) {
            None => Ok(labels),
            Some(at) => Err(self.bad(format!(
                "label {at} is {}, expected 0 to {}",
                labels[at],
                end - 1
            ))),
        }
    }

    fn fill(&mut self, out: &mut [u8], what: impl Fn() -> String) -> Result<()> {
        self.body
            .read_exact(out)
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::UnexpectedEof => {
                    self.bad(format!("is cut short: it ends inside {}", what()))
                }
                _ => self.bad(format!("cannot be read at {} ({error})", what())),
            })
    }

    fn end(&mut self) -> Result<()> {
        match self.body.read(&mut [0]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(self.bad("is longer than its header says".into())),
            Err(error) => Err(self.bad(format!("cannot be read to its end ({error})"))),
        }
    }

    fn bad(&self, problem: String) -> Error {
        Error::file(&self.path, problem, HINT)
    }
}
