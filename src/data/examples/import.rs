//! Importing examples of images and labels from TensorFlow's record files.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::Example;
use crate::data::photos::{Fit, MOST_PIXELS, Reader};
use crate::data::{Description, SetWriter, Shape, file_names, unpack};
use crate::observe::Progress;
use crate::tfrecord::{self, Broken, Records};
use crate::{Error, Result, interrupt};

/// The most classes, as data sets have them.
const MOST_CLASSES: i64 = 1 << 24;

/// What to import, and how.
#[derive(Clone, Debug)]
pub struct Import {
    /// Record files, plain or gzipped.
    pub files: Vec<PathBuf>,
    /// The set to make.
    pub out: PathBuf,
    /// The feature that is the image: JPEG, PNG or WebP, or pixels.
    pub image: String,
    /// The feature that is the label: a number, or a name.
    pub label: String,
    /// What is taken off numbers: 1 where they count from 1.
    pub first: i64,
    /// What images become.
    pub shape: Shape,
    /// How they become that.
    pub fit: Fit,
    /// Whether images are bytes of pixels (h, w, c) of that shape.
    pub raw: bool,
    /// Number of classes; without, the highest label plus one.
    pub classes: Option<u32>,
    /// Files to cut the set into.
    pub shards: usize,
    /// Whether an existing set may be replaced.
    pub force: bool,
}

/// A class, as an example tells it.
#[derive(Clone, Debug, PartialEq)]
enum Class {
    Number(u32),
    Name(String),
}

/// Makes a set of examples, in their order.
pub fn import(import: &Import) -> Result<()> {
    if !matches!(import.shape.c, 1 | 3) && !import.raw {
        let problem = "photos have 1 channel (grey) or 3 (red, green, blue)";
        return Err(Error::Usage(format!("{problem}, got {}", import.shape)));
    }
    let (labels, names) = labels(import)?;
    let most = labels.iter().max().map_or(0, |&label| label + 1);
    let classes = import.classes.unwrap_or(most);
    if classes < most {
        let labels = match names.len() {
            0 => format!("a label is {}", most - 1),
            named => format!("labels have {named} names"),
        };
        let problem = format!("{labels}, and there are {classes} classes");
        return Err(Error::Usage(problem));
    }
    let about = Description {
        samples: labels.len(),
        shape: import.shape,
        classes,
        class_names: names,
        float: false,
        shards: import.shards,
        provenance: format!("tfrecord: {}", file_names(&import.files)),
        force: import.force,
    };
    let mut writer = SetWriter::create(&import.out, about)?;
    let mut reader = Reader::new(import.shape, import.fit, MOST_PIXELS);
    let mut pixels = vec![0; import.shape.len()];
    let progress = Progress::new("importing", labels.len() as u64);
    let mut labels = labels.into_iter();
    each(import, &mut |example| {
        let feature = example.feature(&import.image)?;
        let Some(bytes) = feature.one_of_bytes() else {
            let words = feature.words();
            return Err(format!("its `{}` is {words}, no image", import.image));
        };
        let pixels = match import.raw {
            true => planes(bytes, import.shape, &mut pixels)?,
            false => reader.pixels(bytes)?,
        };
        progress.add(1);
        // A file that changes meanwhile is found by its checksums or by a label that is not there.
        let label = labels.next().ok_or("is one more than there were before")?;
        Ok(writer.push(pixels, label))
    })?;
    if labels.next().is_some() {
        let problem = "has fewer records than a moment ago";
        return Err(Error::file(&import.files[0], problem, "import it again"));
    }
    writer.finish()
}

/// The labels of all examples, and what classes are called where labels are names.
fn labels(import: &Import) -> Result<(Vec<u32>, Vec<String>)> {
    let mut classes = Vec::new();
    each(import, &mut |example| {
        let class = class(example, import)?;
        let mixed = classes.first().is_some_and(|first| {
            std::mem::discriminant::<Class>(first) != std::mem::discriminant(&class)
        });
        if mixed {
            return Err(format!(
                "its `{}` is a number or a name, unlike those before",
                import.label
            ));
        }
        classes.push(class);
        Ok(Ok(()))
    })?;
    if classes.is_empty() {
        let hint = "is it the right file?";
        return Err(Error::file(&import.files[0], "holds no records", hint));
    }
    let names: BTreeSet<&str> = (classes.iter())
        .filter_map(|class| match class {
            Class::Name(name) => Some(name.as_str()),
            Class::Number(_) => None,
        })
        .collect();
    let names: Vec<&str> = names.into_iter().collect();
    let number = |class: &Class| match class {
        Class::Number(number) => *number,
        Class::Name(name) => {
            let at = names.binary_search(&name.as_str());
            at.expect("all names were collected") as u32
        }
    };
    let numbers = classes.iter().map(number).collect();
    let names = names.iter().map(|name| name.to_string()).collect();
    Ok((numbers, names))
}

fn class(example: &Example, import: &Import) -> Result<Class, String> {
    let feature = example.feature(&import.label)?;
    if let Some(number) = feature.one_integer() {
        let number = number.checked_sub(import.first);
        return match number.filter(|number| (0..MOST_CLASSES).contains(number)) {
            Some(number) => Ok(Class::Number(number as u32)),
            None => Err(format!(
                "its `{}` is {}, below {} or beyond all classes",
                import.label,
                feature.one_integer().unwrap_or(0),
                import.first
            )),
        };
    }
    let name = feature
        .one_of_bytes()
        .and_then(|name| std::str::from_utf8(name).ok());
    match name {
        Some(name) if !name.contains(char::is_control) => Ok(Class::Name(name.into())),
        _ => {
            let words = feature.words();
            Err(format!("its `{}` is {words}, no label", import.label))
        }
    }
}

/// Passes all examples of all files to `visit`, which may find one to be no good, or fail itself.
fn each(
    import: &Import,
    visit: &mut dyn FnMut(&Example) -> Result<Result<()>, String>,
) -> Result<()> {
    for path in &import.files {
        let mut records = Records::new(content(path)?);
        let mut number = 0;
        loop {
            interrupt::check()?;
            let Some(record) = records.read().map_err(|broken| fault(path, broken))? else {
                break;
            };
            let seen = Example::from_bytes(record).and_then(|example| visit(&example));
            seen.map_err(|problem| {
                let hint = "--image and --label name the features";
                Error::file(path, format!("record {number} {problem}"), hint)
            })??;
            number += 1;
        }
    }
    Ok(())
}

/// The content of a file, plain or gzipped. A plain one may begin with the bytes of gzipped ones: as a record's length.
fn content(path: &Path) -> Result<Box<dyn Read>> {
    match tfrecord::is_at(path).map_err(Error::io("read", path))? {
        true => unpack::plain(path),
        false => unpack::open(path),
    }
}

fn fault(path: &Path, broken: Broken) -> Error {
    match broken {
        Broken::Io(error) => Error::io("read", path)(error),
        broken => Error::file(path, broken, "is it a record file, and copied as a whole?"),
    }
}

/// Pixels (h, w, c) as (c, h, w).
fn planes<'a>(bytes: &[u8], shape: Shape, out: &'a mut [u8]) -> Result<&'a [u8], String> {
    if bytes.len() != shape.len() {
        let got = bytes.len();
        return Err(format!(
            "has {got} bytes of pixels, expected {}",
            shape.len()
        ));
    }
    let (c, plane) = (shape.c, shape.h * shape.w);
    for (i, &byte) in bytes.iter().enumerate() {
        out[i % c * plane + i / c] = byte;
    }
    Ok(out)
}
