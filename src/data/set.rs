//! A data set open for reading: one HDF5 file, or a folder of shards in the order of their names.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use super::cache::{Cache, Caching};
use super::folder::Folder;
use super::origin::packed_by;
use super::photos::{Fit, Listing, Readers};
use super::pixels::Pixels;
use super::shard::Head;
use super::{MOST_DECODED, Scaling, Shape};
use crate::comm::{Comm, agree};
use crate::h5::Element;
use crate::train::readable;
use crate::{Error, Result};

/// The most threads of a rank that decode photos, where nothing else is asked for.
const MOST_DECODERS: usize = 4;

/// What photos become that are read one file at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Channels, height and width.
    pub shape: Shape,
    /// How they become that.
    pub fit: Fit,
}

/// Labelled images, all of one shape.
pub struct Dataset {
    /// The file or folder it was opened from.
    pub path: PathBuf,
    /// One sample's dimensions.
    pub shape: Shape,
    /// How many classes the labels may name.
    pub classes: u32,
    /// Mean of each channel, with bytes scaled to 0…1; empty if the file does not say.
    pub mean: Vec<f32>,
    /// Standard deviation of each channel, likewise.
    pub std: Vec<f32>,
    /// Where the samples came from, in words.
    pub provenance: String,
    /// What the classes are called; may be empty.
    pub class_names: Vec<String>,
    /// How photos of other proportions became pixels, where that is known.
    pub fit: Option<Fit>,
    labels: Vec<u32>,
    shards: Arc<Vec<Shard>>,
    /// The samples of the shards that belong to the set, where not all do.
    chosen: Option<Vec<usize>>,
    /// Where samples of the shards are kept, if they are.
    cache: Option<Arc<Cache>>,
    /// Threads that decode photos.
    decoders: usize,
}

struct Shard {
    path: PathBuf,
    /// Number of the shard's first sample in the whole set.
    first: usize,
    pixels: Pixels,
}

impl Dataset {
    /// Opens a file, or all `*.h5` files of a folder; labels and shapes are checked, pixels when they are used.
    pub fn open(path: &Path) -> Result<Self> {
        let mut set: Option<Self> = None;
        let mut shards: Vec<Shard> = Vec::new();
        for file in shard_paths(path)? {
            let (head, pixels) = Head::open(&file)?;
            let classes = head
                .classes
                .unwrap_or_else(|| head.labels.iter().max().map_or(0, |&top| top + 1));
            let set = set.get_or_insert_with(|| Self {
                path: path.to_path_buf(),
                shape: head.shape,
                classes,
                mean: head.mean,
                std: head.std,
                provenance: head.provenance,
                class_names: head.class_names,
                fit: head.fit.or_else(|| packed_by(path)),
                labels: Vec::new(),
                shards: Arc::default(),
                chosen: None,
                cache: None,
                decoders: decoders(),
            });
            if head.shape != set.shape {
                return Err(Error::Mismatch {
                    what: format!("image shape of {}", file.display()),
                    expected: format!("{} as in the first shard", set.shape),
                    got: head.shape.to_string(),
                    hint: "all shards of a set must have one shape",
                });
            }
            let first = shards.first().map(|shard| shard.pixels.element());
            let (got, first) = (pixels.element(), first.unwrap_or(pixels.element()));
            if got != first {
                return Err(Error::Mismatch {
                    what: format!("pixels of {}", file.display()),
                    expected: format!("{} as in the first shard", name(first)),
                    got: name(got).into(),
                    hint: "all shards of a set must have one kind of pixels",
                });
            }
            set.classes = set.classes.max(classes);
            let first = set.labels.len();
            set.labels.extend(head.labels);
            shards.push(Shard {
                path: file,
                first,
                pixels,
            });
        }
        let mut set = set.expect("a set has at least one shard");
        set.shards = Arc::new(shards);
        if set.is_empty() {
            return Err(Error::file(
                path,
                "holds no samples",
                "make or import the set again",
            ));
        }
        Ok(set)
    }

    /// A set of some of the samples, in the order given; the pixels stay where they are.
    pub fn part(&self, chosen: Vec<usize>) -> Self {
        Self {
            path: self.path.clone(),
            shape: self.shape,
            classes: self.classes,
            mean: self.mean.clone(),
            std: self.std.clone(),
            provenance: self.provenance.clone(),
            class_names: self.class_names.clone(),
            fit: self.fit,
            labels: chosen.iter().map(|&index| self.labels[index]).collect(),
            shards: self.shards.clone(),
            chosen: Some(chosen.into_iter().map(|index| self.row(index)).collect()),
            cache: self.cache.clone(),
            decoders: self.decoders,
        }
    }

    /// As `open`, where a folder of photos is a set too: with a folder for each class, or for those that are `known`, where there
    /// are any.
    pub fn open_framed(
        path: &Path,
        frame: Option<Frame>,
        known: Option<&[String]>,
    ) -> Result<Self> {
        match frame {
            Some(frame) if path.is_dir() && shards_in(path)?.is_empty() => {
                Self::of_photos(path, frame, known.filter(|names| !names.is_empty()))
            }
            _ => Self::open(path),
        }
    }

    fn of_photos(
        path: &Path,
        Frame { shape, fit }: Frame,
        known: Option<&[String]>,
    ) -> Result<Self> {
        if !matches!(shape.c, 1 | 3) || shape.is_empty() || shape.len() > MOST_DECODED {
            return Err(Error::Mismatch {
                what: format!("--shape for the photos of {}", path.display()),
                expected: format!("1 or 3 channels, and at most {MOST_DECODED} values"),
                got: shape.to_string(),
                hint: "give it as 3x224x224: channels, height and width",
            });
        }
        let listing = Listing::new(path, known)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let labels: Vec<u32> = listing.photos.iter().map(|photo| photo.label).collect();
        let class_names = listing.classes.clone();
        let photos = Folder::new(path, listing, Readers::new(shape, fit));
        let shard = Shard {
            path: path.to_path_buf(),
            first: 0,
            pixels: Pixels::of_folder(path, photos),
        };
        Ok(Self {
            path: path.to_path_buf(),
            shape,
            classes: class_names.len() as u32,
            mean: Vec::new(),
            std: Vec::new(),
            provenance: format!("photos of {name}, {fit} to {shape}"),
            class_names,
            fit: Some(fit),
            labels,
            shards: Arc::new(vec![shard]),
            chosen: None,
            cache: None,
            decoders: decoders(),
        })
    }

    /// Keeps samples from now on, where they have to be decoded or read through HDF5: mapped ones are in memory already, once
    /// for all ranks of a node. Gives the bytes that this is for each rank, of which there may be so many, the same number on all
    /// ranks; *collective*.
    pub fn keep(&mut self, comm: &dyn Comm, caching: Caching, memory: Option<u64>) -> Result<u64> {
        if caching == Caching::None || !self.is_read_ahead() {
            return Ok(0);
        }
        let last = self.chosen.as_ref().and_then(|rows| rows.iter().max());
        let samples = last.map_or(self.len(), |last| last + 1);
        let each = self.shards[0].pixels.bytes_per_sample();
        let bytes = Cache::bytes(samples, each) as u64;
        // The most of all ranks, so that all plan with the same: nodes may have different numbers of them.
        let mut share = [match caching {
            Caching::Node => bytes.div_ceil(comm.local_size() as u64),
            _ => bytes,
        }];
        comm.max(&mut share);
        let [share] = share;
        if let Some(have) = memory.filter(|&have| have < share) {
            let (cache, path) = (caching.name(), self.path.display());
            return Err(Error::Mismatch {
                what: format!("memory of each rank for --cache {cache} of {path}"),
                expected: format!("{} at least", readable(share)),
                got: readable(have),
                hint: "leave --cache out, or pack the photos as pixels, which are mapped",
            });
        }
        let cache = match caching {
            Caching::Node => Cache::of_node(&*comm.node(), samples, each),
            _ => Cache::of_rank(samples, each),
        };
        self.cache = Some(Arc::new(agree(comm, cache)?));
        Ok(share)
    }

    /// How many threads decode photos.
    pub fn decoders(&self) -> usize {
        self.decoders
    }

    /// Has so many threads decode photos.
    pub fn decode_by(&mut self, threads: usize) {
        self.decoders = threads.max(1);
    }

    /// Refuses a set with fewer samples than ranks.
    pub fn enough_for(&self, ranks: usize) -> Result<()> {
        if self.len() >= ranks {
            return Ok(());
        }
        Err(Error::Mismatch {
            what: match self.chosen {
                None => format!("samples in {}", self.path.display()),
                Some(_) => format!("samples to train on in {}", self.path.display()),
            },
            expected: format!("at least one for each of {ranks} ranks"),
            got: self.len().to_string(),
            hint: "start fewer ranks, or use more data",
        })
    }

    /// How to scale pixels to mean 0 and deviation 1, by the set's own figures.
    pub fn normalization(&self) -> Result<Scaling> {
        if self.mean.is_empty() || self.std.is_empty() {
            let hint = "`phalanx data split` writes a set with them";
            let problem = "lacks the attributes `mean` and `std`, or they are not finite";
            return Err(Error::file(&self.path, problem, hint));
        }
        Ok(Scaling::normal(&self.mean, &self.std))
    }

    /// Number of samples.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there is no sample.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// All labels, in order.
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// The shard files.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.shards.iter().map(|shard| shard.path.as_path())
    }

    /// The stored element type, `u8` or `f32`.
    pub fn element(&self) -> &'static str {
        name(self.shards[0].pixels.element())
    }

    /// Whether every shard is mapped into memory.
    pub fn is_mapped(&self) -> bool {
        self.shards.iter().all(|shard| shard.pixels.is_mapped())
    }

    /// Whether samples are photos, which are decoded when they are asked for.
    pub fn is_encoded(&self) -> bool {
        self.shards.iter().any(|shard| shard.pixels.is_encoded())
    }

    /// Whether each sample is a file by itself.
    pub fn is_folder(&self) -> bool {
        self.shards[0].pixels.is_folder()
    }

    /// The names of photos, where each sample is a file by itself.
    pub(super) fn photos(&self) -> impl Iterator<Item = &[u8]> {
        let photos = self.shards.iter().flat_map(|shard| shard.pixels.photos());
        photos.map(|photo| photo.as_os_str().as_bytes())
    }

    /// Where samples are kept, if they are.
    pub fn is_cached(&self) -> bool {
        self.cache.is_some()
    }

    /// The first sample of each shard, where samples are in the order of the shards.
    pub fn shard_starts(&self) -> Vec<usize> {
        let starts = self.shards.iter().map(|shard| match &self.chosen {
            None => shard.first,
            Some(chosen) => chosen.partition_point(|&row| row < shard.first),
        });
        let mut starts: Vec<usize> = starts.filter(|&start| start < self.len()).collect();
        starts.dedup();
        starts
    }

    /// Whether a thread reads ahead: where a sample is more than a piece of memory.
    pub fn is_read_ahead(&self) -> bool {
        self.is_encoded() || !self.is_mapped()
    }

    /// Passes sample `index` to `visit` as the file that it is, where it is one.
    pub fn with_record<R>(
        &self,
        index: usize,
        visit: impl FnOnce(&[u8]) -> Result<R>,
    ) -> Option<Result<R>> {
        let (shard, row) = self.locate(index);
        shard.pixels.with_record(row, visit)
    }

    /// Writes sample `index`, scaled, into `out` and returns its label.
    pub fn sample(&self, index: usize, scaling: &Scaling, out: &mut [f32]) -> Result<u32> {
        let (shard, row) = self.locate(index);
        self.with_bytes(index, |bytes| {
            shard.pixels.convert(row, bytes, scaling, out)
        })?;
        Ok(self.labels[index])
    }

    /// Passes sample `index` to `visit` as the bytes that are stored.
    pub fn with_bytes<R>(&self, index: usize, visit: impl FnOnce(&[u8]) -> Result<R>) -> Result<R> {
        let (shard, row) = self.locate(index);
        let Some(cache) = &self.cache else {
            return shard.pixels.with_bytes(row, visit);
        };
        let number = self.row(index);
        match cache.ready(number) {
            Some(bytes) => visit(bytes),
            None => shard.pixels.with_bytes(row, |bytes| {
                cache.keep(number, bytes);
                visit(bytes)
            }),
        }
    }

    /// Starts bringing sample `index` from memory into the cache.
    pub fn prefetch(&self, index: usize) {
        let (shard, row) = self.locate(index);
        shard.pixels.prefetch(row);
    }

    /// Asks the system to bring sample `index` into memory, without waiting.
    pub fn hint(&self, index: usize) {
        let (shard, row) = self.locate(index);
        shard.pixels.hint(row);
    }

    /// The same for all samples from one to another of the same shard, where they lie beside each other.
    pub fn hint_all(&self, first: usize, last: usize) {
        let ((shard, first), (_, last)) = (self.locate(first), self.locate(last));
        shard.pixels.hint_all(first, last);
    }

    /// The number of sample `index` among all that the shards hold.
    fn row(&self, index: usize) -> usize {
        self.chosen.as_ref().map_or(index, |chosen| chosen[index])
    }

    fn locate(&self, index: usize) -> (&Shard, usize) {
        let index = self.row(index);
        let after = self.shards.partition_point(|shard| shard.first <= index);
        let shard = &self.shards[after - 1];
        (shard, index - shard.first)
    }
}

/// What pixels are called.
fn name(element: Element) -> &'static str {
    match element {
        Element::U8 => "u8",
        _ => "f32",
    }
}

pub(super) fn shard_paths(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let files = shards_in(path)?;
    if files.is_empty() {
        let hint = "a data set is one .h5 file or a folder of them; photos in folders are packed (`phalanx data pack`), or trained on with --shape";
        return Err(Error::file(path, "is a folder without .h5 files", hint));
    }
    Ok(files)
}

/// Threads that decode photos in a process that has the machine for itself.
fn decoders() -> usize {
    let cores = thread::available_parallelism().map_or(1, |cores| cores.get());
    cores.min(MOST_DECODERS)
}

/// The `.h5` files of a folder, by name.
fn shards_in(path: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(Error::io("read folder", path))? {
        let file = entry.map_err(Error::io("read folder", path))?.path();
        let hidden = file
            .file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if !hidden && file.extension().is_some_and(|extension| extension == "h5") {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}
