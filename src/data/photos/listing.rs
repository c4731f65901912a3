//! Which photos there are, and what is on them.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use xxhash_rust::xxh3::Xxh3;

use super::pattern::Pattern;
use crate::comm::Comm;
use crate::data::sampler::Permutation;
use crate::{Error, Result};

/// Endings of files that are photos, in small letters.
const ENDINGS: [&str; 4] = ["jpg", "jpeg", "png", "webp"];

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
    /// Stands for names, labels, lengths and times of all photos.
    pub(super) digest: u64,
}

/// A photo whose class has a name and no number yet.
type Named = (PathBuf, String);

impl Listing {
    /// Looks through `folder`; `known` are classes in the order they must have.
    pub(in crate::data) fn new(
        folder: &Path,
        labels: &Labels,
        known: Option<&[String]>,
    ) -> Result<Self> {
        let mut others = 0;
        let (named, found) = match labels {
            Labels::Folders => by_folder(folder, &mut others)?,
            Labels::Table(table) => (by_table(folder, table)?, BTreeSet::new()),
            Labels::Names(pattern) => (by_name(folder, pattern, &mut others)?, BTreeSet::new()),
        };
        if named.is_empty() {
            let problem = format!("holds no photos ({} files are none)", others);
            let hint = "photos end in .jpg, .jpeg, .png or .webp, and are in a folder for each class unless --labels or --pattern is given";
            return Err(Error::file(folder, problem, hint));
        }
        let classes = match known {
            Some(known) => known.to_vec(),
            None => order(named.iter().map(|(_, class)| class.clone()).chain(found)),
        };
        if classes.len() > MOST_CLASSES {
            let problem = format!("has {} classes", classes.len());
            return Err(Error::file(
                folder,
                problem,
                "at most 2^24 can be told apart",
            ));
        }
        let photos = number(named, &classes)?;
        Ok(Self {
            digest: digest(folder, &classes, &photos)?,
            classes,
            photos,
            others,
        })
    }

    /// The same photos in the order that `seed` names.
    pub(super) fn shuffled(mut self, seed: u64) -> Self {
        let order = Permutation::new(self.photos.len(), seed, 0);
        let photo = |i: usize| self.photos[order.at(i)].clone();
        self.photos = (0..self.photos.len()).map(photo).collect();
        self
    }

    /// What the first rank found, on every rank; *collective*.
    pub(super) fn of_first(comm: &dyn Comm, mine: Option<Self>) -> Self {
        let text = mine.map_or(Vec::new(), |listing| listing.bytes());
        Self::read(&comm.gather(&text)[0])
    }

    /// All of it as bytes: two numbers, classes in lines, and behind a zero each the photos. A path has any bytes but
    /// zero.
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = [self.others.to_le_bytes(), self.digest.to_le_bytes()].concat();
        bytes.extend(self.classes.join("\n").as_bytes());
        for Photo { path, label } in &self.photos {
            bytes.push(0);
            bytes.extend(format!("{label} ").as_bytes());
            bytes.extend(path.as_os_str().as_bytes());
        }
        bytes
    }

    fn read(bytes: &[u8]) -> Self {
        let number =
            |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let mut lines = bytes[16..].split(|&byte| byte == 0);
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
            classes: classes.split('\n').map(str::to_owned).collect(),
            photos: lines.map(photo).collect(),
            others: number(0),
            digest: number(8),
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

fn number(named: Vec<Named>, classes: &[String]) -> Result<Vec<Photo>> {
    let numbers: HashMap<&str, u32> = (classes.iter().map(String::as_str)).zip(0..).collect();
    let photo = |(path, class): Named| match numbers.get(class.as_str()) {
        Some(&label) => Ok(Photo { path, label }),
        None => {
            let problem =
                format!("is of class {class}, which the set that it is to fit does not have");
            let hint = "give a set that was made from photos of all these classes";
            Err(Error::file(path, problem, hint))
        }
    };
    named.into_iter().map(photo).collect()
}

fn digest(folder: &Path, classes: &[String], photos: &[Photo]) -> Result<u64> {
    let mut hash = Xxh3::new();
    (classes.iter()).for_each(|class| hash.update(format!("{class}\n").as_bytes()));
    for Photo { path, label } in photos {
        let place = folder.join(path);
        // A photo that is not there is a bad photo, of which the one who reads it tells.
        let (bytes, time) = fs::metadata(&place).map_or((0, 0), |about| {
            let time = about.modified().ok();
            let time = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            (about.len(), time.map_or(0, |time| time.as_nanos() as u64))
        });
        hash.update(path.as_os_str().as_bytes());
        for number in [u64::from(*label), bytes, time] {
            hash.update(&number.to_le_bytes());
        }
    }
    Ok(hash.digest())
}

/// Photos in folders named after their classes, in order, and all classes, also those without photos.
fn by_folder(folder: &Path, others: &mut u64) -> Result<(Vec<Named>, BTreeSet<String>)> {
    let (mut named, mut classes) = (Vec::new(), BTreeSet::new());
    for (name, path) in entries(folder)? {
        if !is_folder(&path)? {
            *others += 1;
            continue;
        }
        let class = name
            .into_string()
            .ok()
            .filter(|name| !name.contains(char::is_control));
        let Some(class) = class else {
            let problem = "is a folder whose name cannot be that of a class";
            return Err(Error::file(path, problem, "rename it: plain UTF-8"));
        };
        let mut photos = Vec::new();
        walk(&path, Path::new(&class), &mut photos, others)?;
        named.extend(photos.into_iter().map(|photo| (photo, class.clone())));
        classes.insert(class);
    }
    Ok((named, classes))
}

/// Photos whose names tell their classes.
fn by_name(folder: &Path, pattern: &Pattern, others: &mut u64) -> Result<Vec<Named>> {
    let mut photos = Vec::new();
    walk(folder, Path::new(""), &mut photos, others)?;
    let named = |photo: PathBuf| {
        let name = photo.file_name().and_then(|name| name.to_str());
        match name.and_then(|name| pattern.class(name)) {
            Some(class) => Ok((photo.clone(), class.to_owned())),
            None => {
                let problem = format!("has a name that does not fit the pattern {pattern}");
                let hint =
                    "photos without a label cannot be packed: mend the pattern, or move them away";
                Err(Error::file(folder.join(&photo), problem, hint))
            }
        }
    };
    photos.into_iter().map(named).collect()
}

/// Photos of a table of paths and labels.
fn by_table(folder: &Path, table: &Path) -> Result<Vec<Named>> {
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
    let (mut named, mut lines) = (Vec::new(), HashMap::new());
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
        named.push((PathBuf::from(path), class.to_owned()));
    }
    Ok(named)
}

/// Adds the photos below `folder`, which is called `name`.
fn walk(folder: &Path, name: &Path, photos: &mut Vec<PathBuf>, others: &mut u64) -> Result<()> {
    for (entry, path) in entries(folder)? {
        let name = name.join(&entry);
        if is_folder(&path)? {
            walk(&path, &name, photos, others)?;
        } else if is_photo(&name) {
            photos.push(name);
        } else {
            *others += 1;
        }
    }
    Ok(())
}

/// What is in a folder, by name; hidden files are not.
fn entries(folder: &Path) -> Result<Vec<(OsString, PathBuf)>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::io("read folder", folder))? {
        let entry = entry.map_err(Error::io("read folder", folder))?;
        let name = entry.file_name();
        if !name.as_bytes().starts_with(b".") {
            entries.push((name, entry.path()));
        }
    }
    entries.sort();
    Ok(entries)
}

/// Whether it is a folder, or leads to one.
fn is_folder(path: &Path) -> Result<bool> {
    let about = fs::metadata(path).map_err(Error::io("read", path))?;
    Ok(about.is_dir())
}

fn is_photo(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| ENDINGS.contains(&ending.to_ascii_lowercase().as_str()))
}
