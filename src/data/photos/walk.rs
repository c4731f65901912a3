//! Looking through folders of photos, and wherever links in them lead.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::{Error, Result, files};

/// Endings of files that are photos, in small letters.
const ENDINGS: [&str; 4] = ["jpg", "jpeg", "png", "webp"];

/// What tells folders apart: their device, and their number there.
type Id = (u64, u64);

/// What was found below a folder.
#[derive(Default)]
pub(super) struct Walk {
    /// The photos, in order.
    pub(super) photos: Vec<PathBuf>,
    /// Files that are no photos by their names.
    pub(super) others: u64,
    /// Folders that were looked through, and whether a link led there.
    entered: HashMap<Id, (PathBuf, bool)>,
}

impl Walk {
    /// All below `folder`, which is called `name`.
    pub(super) fn through(folder: &Path, name: &Path) -> Result<Self> {
        let mut walk = Self::default();
        walk.enter(folder, name, false)?;
        Ok(walk)
    }

    fn enter(&mut self, folder: &Path, name: &Path, linked: bool) -> Result<()> {
        let this = (folder.to_path_buf(), linked);
        let before = self.entered.insert(id(folder)?, this);
        // Without links no two folders are one, whatever a file system says of their numbers.
        if let Some((before, _)) = before.filter(|(_, before)| linked || *before) {
            let problem = format!(
                "is the folder {} once more, through a link: its photos would be there twice",
                before.display()
            );
            return Err(Error::file(folder, problem, "remove the link"));
        }
        for (entry, path, kind) in entries(folder)? {
            let name = name.join(&entry);
            if kind == Kind::Link && leads_back(&path)? {
                let problem =
                    "is a link to a folder that it lies in: the way through it has no end";
                return Err(Error::file(path, problem, "remove the link"));
            }
            match kind {
                Kind::Folder | Kind::Link => {
                    self.enter(&path, &name, linked || kind == Kind::Link)?;
                }
                // Who reads a photo says that it is lost.
                Kind::Lost | Kind::File if is_photo(&name) => self.photos.push(name),
                Kind::Lost | Kind::File => self.others += 1,
            }
        }
        Ok(())
    }
}

fn id(folder: &Path) -> Result<Id> {
    let about = fs::metadata(folder).map_err(Error::io("read folder", folder))?;
    Ok((about.dev(), about.ino()))
}

/// Whether a folder is one of those that its path goes through.
fn leads_back(path: &Path) -> Result<bool> {
    let this = id(path)?;
    let through = path.ancestors().skip(1);
    for folder in through.filter(|folder| !folder.as_os_str().is_empty()) {
        if id(folder)? == this {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What there is in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Folder,
    /// A link that leads to a folder.
    Link,
    /// A link that leads nowhere.
    Lost,
    /// Anything else.
    File,
}

/// What is in a folder, by name, and what it is; hidden files are not.
pub(super) fn entries(folder: &Path) -> Result<Vec<(OsString, PathBuf, Kind)>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::io("read folder", folder))? {
        let entry = entry.map_err(Error::io("read folder", folder))?;
        let (name, path) = (entry.file_name(), entry.path());
        if name.as_bytes().starts_with(b".") {
            continue;
        }
        // The folder knows what most entries are; a link has to be followed.
        let kind = match entry.file_type() {
            Ok(kind) if kind.is_dir() => Kind::Folder,
            Ok(kind) if !kind.is_symlink() => Kind::File,
            _ => match fs::metadata(&path) {
                Ok(about) if about.is_dir() => Kind::Link,
                Ok(_) => Kind::File,
                Err(error) if files::is_about_file(&error) => Kind::Lost,
                Err(error) => return Err(Error::io("read", &path)(error)),
            },
        };
        entries.push((name, path, kind));
    }
    entries.sort();
    Ok(entries)
}

fn is_photo(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| ENDINGS.contains(&ending.to_ascii_lowercase().as_str()))
}
