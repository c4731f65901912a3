//! Tables of photos and their classes: CSV.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::path::{Component, Path, PathBuf};

use super::listing::{Listing, Named, Photo};
use crate::{Error, Result};

/// What a line has to be.
const LINE: &str = "a line is the path of a photo from PHOTOS on, a comma and its class";

/// Photos of a table of paths, which begin in `folder`, and labels.
pub(super) fn listing(folder: &Path, table: &Path) -> Result<Listing> {
    let file = File::open(table).map_err(Error::io("read", table))?;
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(file);
    let (mut found, mut lines) = (Named::default(), HashMap::new());
    for (i, row) in reader.records().enumerate() {
        let row = row.map_err(|error| unread(table, error))?;
        let line = row.position().map_or(i + 1, |place| place.line() as usize);
        let wrong = |problem: String| wrong(table, line, problem);
        let fields: Vec<Cow<str>> = row.iter().map(plain).collect();
        let (name, class) = match &fields[..] {
            [path, label] if i == 0 && is_heading(path, label) => continue,
            [path, class] if !path.is_empty() && !class.is_empty() => (&**path, &**class),
            _ => return Err(wrong(format!("has {} fields", fields.len()))),
        };
        if class.contains(char::is_control) {
            return Err(wrong("has a class with a line end in it".into()));
        }
        let Some(path) = inside(name) else {
            return Err(wrong(format!("names {name}, which is not in PHOTOS")));
        };
        if let Some(first) = lines.insert(path.clone(), line) {
            return Err(wrong(format!("names {name}, as line {first} does already")));
        }
        if folder.join(&path).symlink_metadata().is_err() {
            return Err(wrong(format!("names {name}, which is not there")));
        }
        let label = found.label(class);
        found.photos.push(Photo { path, label });
    }
    if found.photos.is_empty() {
        return Err(Error::file(table, "names no photos", LINE));
    }
    Ok(found.listing())
}

fn wrong(table: &Path, line: usize, problem: String) -> Error {
    Error::Line {
        path: table.to_path_buf(),
        line,
        problem,
        hint: LINE,
    }
}

/// What is said of a table, or a line of it, that cannot be read.
fn unread(table: &Path, error: csv::Error) -> Error {
    let line = error.position().map(|place| place.line() as usize);
    match (line, error.to_string(), error.into_kind()) {
        (_, _, csv::ErrorKind::Io(error)) => Error::io("read", table)(error),
        (Some(line), problem, _) => wrong(table, line, problem),
        (None, problem, _) => Error::file(table, problem, LINE),
    }
}

fn is_heading(path: &str, label: &str) -> bool {
    path.eq_ignore_ascii_case("path") && label.eq_ignore_ascii_case("label")
}

/// A field without blanks around it; quotes that blanks stand before are quotes too.
fn plain(field: &str) -> Cow<'_, str> {
    let trimmed = field.trim();
    let quoted = trimmed
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    match quoted {
        Some(inner) if field.starts_with(char::is_whitespace) => {
            inner.replace("\"\"", "\"").trim().to_owned().into()
        }
        _ => trimmed.into(),
    }
}

/// A path as it is written plainly, if it leads down from where it begins.
fn inside(path: &str) -> Option<PathBuf> {
    let parts = Path::new(path).components();
    let plain = |part: &Component| !matches!(part, Component::CurDir);
    let name = |part: Component| match part {
        Component::Normal(name) => Some(name.to_owned()),
        _ => None,
    };
    let path: Option<PathBuf> = parts.filter(plain).map(name).collect();
    path.filter(|path| !path.as_os_str().is_empty())
}
