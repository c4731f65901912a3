//! Which photos there are, and what is on them.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use xxhash_rust::xxh3::Xxh3;

use super::pattern::Pattern;
use super::walk::{Kind, Walk, entries};
use super::{Pack, table};
use crate::comm::{Comm, agree};
use crate::data::sampler::Permutation;
use crate::{Error, Result};

/// Photos that a digest stands for before it becomes a part of that of all.
const BLOCK: usize = 64;

/// The most classes, as data sets have them.
const MOST_CLASSES: usize = 1 << 24;

/// The most classes without a name that numbers may leave between them, unless there are as many with one.
const MOST_UNNAMED: usize = 1000;

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
            Labels::Table(table) => table::listing(folder, table),
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
            let found = Walk::through(&folder.join(class), Path::new(class))?;
            let photo = |path: PathBuf| Photo { path, label };
            self.photos.extend(found.photos.into_iter().map(photo));
            self.others += found.others;
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

/// Names of classes, each once: names by their letters, whole numbers by their value, and with none left out unless too many are.
fn order(names: impl Iterator<Item = String>) -> Vec<String> {
    let names: BTreeSet<String> = names.collect();
    let number = |name: &String| {
        let number = name.parse::<usize>().ok();
        number.filter(|number| name == &number.to_string())
    };
    let numbers: Option<BTreeSet<usize>> = names.iter().map(number).collect();
    let Some((numbers, &last)) = numbers.as_ref().and_then(|all| Some((all, all.last()?))) else {
        return names.into_iter().collect();
    };
    match last - (numbers.len() - 1) > MOST_UNNAMED.max(numbers.len()) {
        true => numbers.iter().map(usize::to_string).collect(),
        false => (0..=last).map(|number| number.to_string()).collect(),
    }
}

/// Refuses to make the set of folders of photos in one of them, or beside them: the next job would take it for a class.
pub(super) fn apart(pack: &Pack) -> Result<()> {
    let out = std::path::absolute(&pack.out).map_err(Error::io("find", &pack.out))?;
    // What is not there yet has no real path.
    let real = |path: &Path| path.canonicalize().ok();
    let place = out.ancestors().skip(1).find_map(real);
    let below = |photos: PathBuf| place.is_some_and(|place| place.starts_with(photos));
    if matches!(pack.labels, Labels::Folders) && real(&pack.photos).is_some_and(below) {
        let (out, photos) = (pack.out.display(), pack.photos.display());
        return Err(Error::Usage(format!(
            "{out} is in {photos}, whose folders are classes: the set would be one of them; give another place"
        )));
    }
    Ok(())
}

/// The folders of `folder`, which are classes; of photos in them it knows nothing yet.
fn folders(folder: &Path) -> Result<Listing> {
    let mut found = Named::default();
    for (name, path, kind) in entries(folder)? {
        match kind {
            Kind::Folder | Kind::Link => {}
            Kind::File => {
                found.others += 1;
                continue;
            }
            // It may be a class.
            Kind::Lost => {
                fs::metadata(&path).map_err(Error::io("read", &path))?;
            }
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
    let walk = Walk::through(folder, Path::new(""))?;
    let mut found = Named {
        others: walk.others,
        ..Named::default()
    };
    for photo in walk.photos {
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

/// Classes get numbers in the order that they are met.
#[derive(Default)]
pub(super) struct Named {
    numbers: HashMap<String, u32>,
    pub(super) photos: Vec<Photo>,
    others: u64,
}

impl Named {
    /// The number of a class.
    pub(super) fn label(&mut self, class: &str) -> u32 {
        if let Some(&number) = self.numbers.get(class) {
            return number;
        }
        let number = self.numbers.len() as u32;
        self.numbers.insert(class.to_owned(), number);
        number
    }

    /// What was met.
    pub(super) fn listing(self) -> Listing {
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
