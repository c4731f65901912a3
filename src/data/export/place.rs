//! Where an export may go: apart from its set, and over nothing but an older export of its kind.

use std::collections::HashSet;
use std::fs::{self, FileType};
use std::io;
use std::path::{Component, Path, PathBuf};

use super::{Format, names};
use crate::data::Dataset;
use crate::{Error, Result, tfrecord};

/// Refuses to write `data` as `out` where that would hurt the set, cannot be, or would replace anything else than an export
/// of this format; and to replace at all unless `force`.
pub(super) fn check(data: &Dataset, format: Format, out: &Path, force: bool) -> Result<()> {
    let single = format == Format::Tfrecord(1);
    let bytes = out.as_os_str().as_encoded_bytes();
    if single && (bytes.ends_with(b"/") || bytes.ends_with(b"/.")) {
        let problem = format!("{} names a folder, and the export is a file", out.display());
        let hint = "leave out what is behind its name, or give --shards";
        return Err(Error::Usage(format!("{problem}: {hint}")));
    }
    let place = absolute(out)?;
    apart(data, out, &place)?;
    let kind = match fs::symlink_metadata(&place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        about => about.map_err(Error::io("read", out))?.file_type(),
    };
    let (is, wanted) = (words(kind), if single { "a file" } else { "a folder" });
    if is != wanted {
        let problem = format!("is {is}, and the export is {wanted}");
        return Err(Error::file(out, problem, "give another name"));
    }
    if !force {
        return Err(Error::Exists(out.to_path_buf()));
    }
    if !single {
        return only(out, format);
    }
    match tfrecord::is_at(&place).map_err(Error::io("read", out))? {
        true => Ok(()),
        false => Err(other(out, "does not begin as a record file does".into())),
    }
}

fn words(kind: FileType) -> &'static str {
    match kind {
        kind if kind.is_symlink() => "a link",
        kind if kind.is_dir() => "a folder",
        kind if kind.is_file() => "a file",
        _ => "neither a file nor a folder",
    }
}

fn other(out: &Path, problem: String) -> Error {
    let hint = "--force replaces exports of the same kind only; give another name";
    Error::file(out, problem, hint)
}

/// Where `out` is, the links of its folders followed but not its own. Folders may be missing.
fn absolute(out: &Path) -> Result<PathBuf> {
    let nameless = || Error::Usage(format!("{} names no file", out.display()));
    let name = out.file_name().ok_or_else(nameless)?;
    let folder = out.parent().unwrap_or(Path::new(""));
    let mut place = PathBuf::new();
    for there in folder.ancestors() {
        // An empty path is the folder that the process is in.
        let Ok(known) = Path::new(".").join(there).canonicalize() else {
            continue;
        };
        place = known;
        for missing in folder.components().skip(there.components().count()) {
            match missing {
                Component::ParentDir => _ = place.pop(),
                missing => place.push(missing),
            }
        }
        break;
    }
    Ok(place.join(name))
}

/// Refuses a place that is the set, in it or around it: one of the two would be lost or be part of the other.
fn apart(data: &Dataset, out: &Path, place: &Path) -> Result<()> {
    for path in std::iter::once(&*data.path).chain(data.files()) {
        let source = path.canonicalize().map_err(Error::io("read", path))?;
        let problem = match (place.starts_with(&source), source.starts_with(place)) {
            (true, true) => "is",
            (true, false) => "lies in",
            (false, true) => "holds",
            (false, false) => continue,
        };
        let problem = format!("{problem} the set that is exported, {}", path.display());
        return Err(Error::file(out, problem, "give a place beside it"));
    }
    Ok(())
}

/// Refuses to replace a folder that holds anything else than this format writes.
fn only(folder: &Path, format: Format) -> Result<()> {
    let refuse = |path: PathBuf| {
        let problem = format!("holds {}, which no export wrote", path.display());
        Err(other(folder, problem))
    };
    let mut files = entries(folder)?;
    if format == Format::Png {
        for (path, kind) in std::mem::take(&mut files) {
            if !kind.is_dir() || !names::is_folder(name(&path)) {
                return refuse(path);
            }
            files.extend(entries(&path)?);
        }
    }
    let mut seen = HashSet::new();
    for (path, kind) in files {
        let known = kind.is_file() && names::is_file(name(&path), format);
        // No name is there twice, as in folders of photos that are counted by class.
        if !known || !seen.insert(name(&path).to_owned()) {
            return refuse(path);
        }
    }
    Ok(())
}

/// What the file or folder at a path is called; nothing if that is no text, as of none that was exported.
fn name(path: &Path) -> &str {
    let name = path.file_name().and_then(|name| name.to_str());
    name.unwrap_or_default()
}

/// What a folder holds, links as links.
fn entries(folder: &Path) -> Result<Vec<(PathBuf, FileType)>> {
    let unread = || Error::io("read folder", folder);
    let about = |entry: fs::DirEntry| Ok((entry.path(), entry.file_type()?));
    let entries = fs::read_dir(folder).map_err(unread())?;
    let all = entries.map(|entry| entry.and_then(about).map_err(unread()));
    all.collect()
}
