//! Which photos there are, and what is on them.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use xxhash_rust::xxh3::Xxh3;

use super::pattern::Pattern;
use crate::comm::{Comm, agree};
use crate::data::sampler::Permutation;
use crate::{Error, Result};

/// Endings of files that are photos, in small letters.
const ENDINGS: [&str; 4] = ["jpg", "jpeg", "png", "webp"];

/// Photos that a digest stands for before it becomes a part of that of all.
const BLOCK: usize = 64;

/// The most classes, as data sets have them.
const MOST_CLASSES: usize = 1 << 24;

/// Where the classes of photos come from.
#[derive(Clone, Debug)]
pub enum Labels {
    /// A folder for each class.
    Folders,
    /// A table of paths and labels.
    Table(PathBuf),
    /// The photos' names.
    Names(Pattern),
}

/// One photo.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::data) struct Photo {
    /// Where it is, from the folder of all on.
    pub(in crate::data) path: PathBuf,
    pub(in crate::data) label: u32,
}

/// All photos, in the order that they will have.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::data) struct Listing {
    /// What the classes are called.
    pub(in crate::data) classes: Vec<String>,
    pub(in crate::data) photos: Vec<Photo>,
    /// Files that are no photos by their names.
    pub(super) others: u64,
}

impl Listing {
    /// The photos in the folders of `folder`, one for each class; `known` are classes in the order they must have.
    pub(in crate::data) fn new(folder: &Path, known: Option<&[String]>) -> Result<Self> {
        let mut found = folders(folder)?;
        found.look_through(folder, 0..found.classes.len())?;
        found.settled(folder, known)
    }

    /// The same on all ranks, which look through the folders together; the classes may come from elsewhere; *collective*.
    pub(super) fn shared(
        comm: &dyn Comm,
        folder: &Path,
        labels: &Labels,
        known: Option<&[String]>,
    ) -> Result<Self> {
        let first = || match labels {
            Labels::Folders => folders(folder),
            Labels::Table(table) => by_table(folder, table),
            Labels::Names(pattern) => by_name(folder, pattern),
        };
        let mine = (comm.rank() == 0).then(first).transpose();
        let bytes = agree(comm, mine)?.map_or(Vec::new(), |found| found.bytes());
        let mut found = Self::read(&comm.gather(&bytes)[0]);
        let first = found.classes.first().filter(|_| found.photos.is_empty());
        seen(comm, folder, &folder.join(first.map_or("", String::as_str)))?;
        if let Labels::Folders = labels {
            let mut mine = Self {
                classes: found.classes.clone(),
                photos: Vec::new(),
                others: 0,
            };
            let classes = (comm.rank()..found.classes.len()).step_by(comm.size());
            agree(comm, mine.look_through(folder, classes))?;
            mine.classes.clear();
            for bytes in comm.gather(&mine.bytes()) {
                let Self { photos, others, .. } = Self::read(&bytes);
                found.photos.extend(photos);
                found.others += others;
            }
            // Those of a class come from one rank, in order.
            found.photos.sort_by_key(|photo| photo.label);
        }
        agree(comm, found.settled(folder, known))
    }

    /// Adds the photos in the folders of these classes.
    fn look_through(
        &mut self,
        folder: &Path,
        classes: impl IntoIterator<Item = usize>,
    ) -> Result<()> {
        for i in classes {
            let (class, label) = (&self.classes[i], i as u32);
            let mut found = Vec::new();
            let (path, name) = (folder.join(class), Path::new(class));
            walk(&path, name, &mut found, &mut self.others)?;
            let photo = |path: PathBuf| Photo { path, label };
            self.photos.extend(found.into_iter().map(photo));
        }
        Ok(())
    }

    /// With the classes in their order, which are `known` or those that were found.
    fn settled(mut self, folder: &Path, known: Option<&[String]>) -> Result<Self> {
        if self.photos.is_empty() {
            let problem = format!("holds no photos ({} files are none)", self.others);
            let hint = "photos end in .jpg, .jpeg, .png or .webp, and are in a folder for each class unless --labels or --pattern is given";
            return Err(Error::file(folder, problem, hint));
        }
        let classes = match known {
            Some(known) => known.to_vec(),
            None => order(self.classes.iter().cloned()),
        };
        if classes.len() > MOST_CLASSES {
            let problem = format!("has {} classes", classes.len());
            return Err(Error::file(
                folder,
                problem,
                "at most 2^24 can be told apart",
            ));
        }
        let numbers: HashMap<&str, u32> = (classes.iter().map(String::as_str)).zip(0..).collect();
        let numbers: Vec<Option<&u32>> = (self.classes.iter())
            .map(|class| numbers.get(class.as_str()))
            .collect();
        for Photo { path, label } in &mut self.photos {
            let class = *label as usize;
            let Some(&number) = numbers[class] else {
                let class = &self.classes[class];
                let problem =
                    format!("is of class {class}, which the set that it is to fit does not have");
                let hint = "give a set that was made from photos of all these classes";
                return Err(Error::file(&*path, problem, hint));
            };
            *label = number;
        }
        Ok(Self { classes, ..self })
    }

    /// Stands for names, labels, lengths and times of all photos; *collective*.
    pub(super) fn digest(&self, comm: &dyn Comm, folder: &Path) -> u64 {
        let about = |hash: &mut Xxh3, Photo { path, label }: &Photo| {
            // A photo that is not there is a bad photo, of which the one who reads it tells.
            let (bytes, time) = fs::metadata(folder.join(path)).map_or((0, 0), |about| {
                let time = about.modified().ok();
                let time = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
                (about.len(), time.map_or(0, |time| time.as_nanos() as u64))
            });
            hash.update(path.as_os_str().as_bytes());
            for number in [u64::from(*label), bytes, time] {
                hash.update(&number.to_le_bytes());
            }
        };
        let some = |photos: &[Photo]| {
            let mut hash = Xxh3::new();
            photos.iter().for_each(|photo| about(&mut hash, photo));
            hash.digest().to_le_bytes()
        };
        let blocks: Vec<&[Photo]> = self.photos.chunks(BLOCK).collect();
        let share = |rank: usize| rank * blocks.len() / comm.size();
        let mine = &blocks[share(comm.rank())..share(comm.rank() + 1)];
        let mine: Vec<u8> = mine.iter().flat_map(|block| some(block)).collect();
        let mut hash = Xxh3::new();
        (self.classes.iter()).for_each(|class| hash.update(format!("{class}\n").as_bytes()));
        (comm.gather(&mine).iter()).for_each(|digests| hash.update(digests));
        hash.digest()
    }

    /// The same photos in the order that `seed` names.
    pub(super) fn shuffled(mut self, seed: u64) -> Self {
        let order = Permutation::new(self.photos.len(), seed, 0);
        let photo = |i: usize| self.photos[order.at(i)].clone();
        self.photos = (0..self.photos.len()).map(photo).collect();
        self
    }

    /// All of it as bytes: a number, classes in lines, and behind a zero each the photos. A path has any bytes but zero.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.others.to_le_bytes().to_vec();
        (self.classes.iter()).for_each(|class| bytes.extend(format!("{class}\n").as_bytes()));
        for Photo { path, label } in &self.photos {
            bytes.push(0);
            bytes.extend(format!("{label} ").as_bytes());
            bytes.extend(path.as_os_str().as_bytes());
        }
        bytes
    }

    fn read(bytes: &[u8]) -> Self {
        let (others, bytes) = bytes.split_first_chunk().expect("eight bytes");
        let mut lines = bytes.split(|&byte| byte == 0);
        let classes = String::from_utf8_lossy(lines.next().expect("split gives one at least"));
        let photo = |line: &[u8]| {
            let blank = line.iter().position(|&byte| byte == b' ');
            let (label, path) = line.split_at(blank.expect("a blank behind the label"));
            let label = std::str::from_utf8(label)
                .ok()
                .and_then(|text| text.parse().ok());
            Photo {
                path: OsString::from_vec(path[1..].to_vec()).into(),
                label: label.expect("a number was written"),
            }
        };
        Self {
            classes: classes.split_terminator('\n').map(str::to_owned).collect(),
            photos: lines.map(photo).collect(),
            others: u64::from_le_bytes(*others),
        }
    }

    /// Photos of each class.
    pub(super) fn counts(&self) -> Vec<u64> {
        let mut counts = vec![0; self.classes.len()];
        (self.photos.iter()).for_each(|photo| counts[photo.label as usize] += 1);
        counts
    }
}

/// Names of classes, each once: whole numbers by their value and with none left out, names by their letters.
fn order(names: impl Iterator<Item = String>) -> Vec<String> {
    let names: BTreeSet<String> = names.collect();
    let numbers: Option<Vec<usize>> = (names.iter())
        .map(|name| match name.parse::<usize>() {
            Ok(number) if number < MOST_CLASSES && name == &number.to_string() => Some(number),
            _ => None,
        })
        .collect();
    match numbers.as_ref().and_then(|numbers| numbers.iter().max()) {
        Some(&most) => (0..=most).map(|number| number.to_string()).collect(),
        None => names.into_iter().collect(),
    }
}

/// The folders of `folder`, which are classes; of photos in them it knows nothing yet.
fn folders(folder: &Path) -> Result<Listing> {
    let mut found = Named::default();
    for (name, path, kind) in entries(folder)? {
        if kind == Kind::File {
            found.others += 1;
            continue;
        }
        let class = (name.to_str()).filter(|name| !name.contains(char::is_control));
        let Some(class) = class else {
            let problem = "is a folder whose name cannot be that of a class";
            return Err(Error::file(path, problem, "rename it: plain UTF-8"));
        };
        found.label(class);
    }
    Ok(found.listing())
}

/// Photos whose names tell their classes.
fn by_name(folder: &Path, pattern: &Pattern) -> Result<Listing> {
    let (mut photos, mut found) = (Vec::new(), Named::default());
    walk(folder, Path::new(""), &mut photos, &mut found.others)?;
    for photo in photos {
        let name = photo.file_name().and_then(|name| name.to_str());
        let class = name.and_then(|name| pattern.class(name));
        let Some(class) = class.filter(|class| !class.contains(char::is_control)) else {
            let problem = format!("has a name that does not fit the pattern {pattern}");
            let hint =
                "photos without a label cannot be packed: mend the pattern, or move them away";
            return Err(Error::file(folder.join(&photo), problem, hint));
        };
        let label = found.label(class);
        found.photos.push(Photo { path: photo, label });
    }
    Ok(found.listing())
}

/// Photos of a table of paths and labels.
fn by_table(folder: &Path, table: &Path) -> Result<Listing> {
    let wrong = |line: usize, problem: String| Error::Line {
        path: table.to_path_buf(),
        line,
        problem,
        hint: "a line is the path of a photo from PHOTOS on, a comma and its class",
    };
    let file = fs::File::open(table).map_err(Error::io("read", table))?;
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(file);
    let (mut found, mut lines) = (Named::default(), HashMap::new());
    for (i, row) in reader.records().enumerate() {
        let row = row.map_err(|error| {
            let line = error.position().map_or(0, |place| place.line() as usize);
            wrong(line, error.to_string())
        })?;
        let line = row.position().map_or(i + 1, |place| place.line() as usize);
        let fields: Vec<&str> = row.iter().map(str::trim).collect();
        let (path, class) = match fields[..] {
            ["path", "label"] if i == 0 => continue,
            [path, class] if !path.is_empty() && !class.is_empty() => (path, class),
            _ => return Err(wrong(line, format!("has {} fields", fields.len()))),
        };
        if class.contains(char::is_control) {
            return Err(wrong(line, "has a class with a line end in it".into()));
        }
        if let Some(first) = lines.insert(path.to_owned(), line) {
            let problem = format!("names {path}, as line {first} does already");
            return Err(wrong(line, problem));
        }
        if !folder.join(path).exists() {
            return Err(wrong(line, format!("names {path}, which is not there")));
        }
        let (path, label) = (PathBuf::from(path), found.label(class));
        found.photos.push(Photo { path, label });
    }
    Ok(found.listing())
}

/// Classes get numbers in the order that they are met.
#[derive(Default)]
struct Named {
    numbers: HashMap<String, u32>,
    photos: Vec<Photo>,
    others: u64,
}

impl Named {
    fn label(&mut self, class: &str) -> u32 {
        if let Some(&number) = self.numbers.get(class) {
            return number;
        }
        let number = self.numbers.len() as u32;
        self.numbers.insert(class.to_owned(), number);
        number
    }

    fn listing(self) -> Listing {
        let mut classes = vec![String::new(); self.numbers.len()];
        for (class, number) in self.numbers {
            classes[number as usize] = class;
        }
        Listing {
            classes,
            photos: self.photos,
            others: self.others,
        }
    }
}

/// Adds the photos below `folder`, which is called `name`.
fn walk(folder: &Path, name: &Path, photos: &mut Vec<PathBuf>, others: &mut u64) -> Result<()> {
    for (entry, path, kind) in entries(folder)? {
        let name = name.join(&entry);
        if kind == Kind::Link && leads_back(&path)? {
            let problem = "is a link to a folder that it lies in: the way through it has no end";
            return Err(Error::file(path, problem, "remove the link"));
        }
        if kind != Kind::File {
            walk(&path, &name, photos, others)?;
        } else if is_photo(&name) {
            photos.push(name);
        } else {
            *others += 1;
        }
    }
    Ok(())
}

/// Whether a folder is one of those that its path goes through.
fn leads_back(path: &Path) -> Result<bool> {
    let id = |path: &Path| {
        let about = fs::metadata(path).map_err(Error::io("read folder", path))?;
        Ok((about.dev(), about.ino()))
    };
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
enum Kind {
    Folder,
    /// A link that leads to a folder.
    Link,
    /// Anything else.
    File,
}

/// What is in a folder, by name, and what it is; hidden files are not.
fn entries(folder: &Path) -> Result<Vec<(OsString, PathBuf, Kind)>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::io("read folder", folder))? {
        let entry = entry.map_err(Error::io("read folder", folder))?;
        let (name, path) = (entry.file_name(), entry.path());
        if name.as_bytes().starts_with(b".") {
            continue;
        }
        let at = |is_folder, folder| if is_folder { folder } else { Kind::File };
        // The folder knows what most entries are; a link has to be followed.
        let kind = match entry.file_type() {
            Ok(kind) if !kind.is_symlink() => at(kind.is_dir(), Kind::Folder),
            _ => {
                let about = fs::metadata(&path).map_err(Error::io("read", &path))?;
                at(about.is_dir(), Kind::Link)
            }
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

/// Whether every rank sees `path`, which is, or is a part of, `whole`; *collective*.
pub(super) fn seen(comm: &dyn Comm, whole: &Path, path: &Path) -> Result<()> {
    let seen = path.symlink_metadata().map(|_| ()).map_err(|_| {
        Error::file(
            whole,
            format!("is not seen by rank {}", comm.rank()),
            "give a place that all hosts share, or start all ranks on one host",
        )
    });
    agree(comm, seen)
}
