//! Writing a data set: streamed, in one or many shards, visible only when complete.

use std::fs;
use std::path::Path;

use super::{Shape, VERSION};
use crate::comm::block;
use crate::files::Staged;
use crate::h5::{File, Table, is_hdf5};
use crate::{Error, Result};

/// What is known of a set before its first sample is written.
#[derive(Clone, Debug)]
pub struct Description {
    /// Number of samples.
    pub samples: usize,
    /// One sample's dimensions.
    pub shape: Shape,
    /// Number of classes.
    pub classes: u32,
    /// What the classes are called; may be empty.
    pub class_names: Vec<String>,
    /// Whether pixels are 32-bit floats instead of bytes.
    pub float: bool,
    /// How many files to cut it into; one gives a plain file, more a folder.
    pub shards: usize,
    /// Where the samples come from, in words.
    pub provenance: String,
    /// Whether an existing set of the same name may be replaced.
    pub force: bool,
}

/// Takes samples one by one; what was taken is visible under its name after `finish` only.
pub struct SetWriter {
    about: Description,
    staged: Staged,
    shards: Vec<ShardWriter>,
    /// The shard that takes the next sample.
    current: usize,
    moments: Moments,
}

/// Writes one file of a set.
struct ShardWriter {
    file: File,
    images: Table,
    labels: Table,
    capacity: usize,
    written: usize,
    float: bool,
    pixels: Vec<u8>,
    pending: Vec<u32>,
}

/// Bytes collected before they go to HDF5.
const CHUNK: usize = 4 << 20;

/// What says in words how a set of photos was packed.
pub(super) const MANIFEST: &str = "manifest.json";

/// Bytes of pixels beyond which no file system can hold a set.
const MOST_BYTES: usize = 1 << 60;

impl SetWriter {
    /// Starts a set at `out`.
    pub fn create(out: &Path, about: Description) -> Result<Self> {
        check(out, &about)?;
        let staged = Staged::new(out, about.force)?;
        let shards = if about.shards == 1 {
            vec![ShardWriter::create(staged.path(), about.samples, &about)?]
        } else {
            fs::create_dir(staged.path()).map_err(Error::io("create folder", staged.path()))?;
            let shard = |i| {
                let name = format!("shard-{i:04}-of-{:04}.h5", about.shards);
                let samples = block(about.samples, about.shards, i).len();
                ShardWriter::create(&staged.path().join(name), samples, &about)
            };
            (0..about.shards).map(shard).collect::<Result<_>>()?
        };
        let moments = Moments::new(about.shape, about.float);
        Ok(Self {
            about,
            staged,
            shards,
            current: 0,
            moments,
        })
    }

    /// Adds the next sample, its pixels as they will be stored (bytes, or floats in little-endian order).
    pub fn push(&mut self, pixels: &[u8], label: u32) -> Result<()> {
        crate::interrupt::check()?;
        assert!(
            label < self.about.classes,
            "the label is one of the announced classes"
        );
        self.moments.add(pixels);
        let shard = &mut self.shards[self.current];
        shard.push(pixels, label)?;
        self.current += usize::from(shard.is_full());
        Ok(())
    }

    /// Puts the set in its place.
    pub fn finish(self) -> Result<()> {
        assert_eq!(
            self.current, self.about.shards,
            "as many samples as announced"
        );
        let (mean, std) = self.moments.finish();
        for shard in self.shards {
            shard.close(&self.about, &mean, &std)?;
        }
        self.staged.commit()
    }
}

impl Description {
    /// Says in `file` what a set is that has these means and deviations.
    pub(super) fn write(&self, file: &File, version: u32, mean: &[f32], std: &[f32]) -> Result<()> {
        file.set_text("format", "phalanx images")?;
        file.set_numbers("version", &[version])?;
        file.set_numbers("classes", &[self.classes])?;
        if !self.class_names.is_empty() {
            file.set_text("class_names", &self.class_names.join("\n"))?;
        }
        file.set_numbers("mean", mean)?;
        file.set_numbers("std", std)?;
        file.set_text("provenance", &self.provenance)
    }
}

/// Refuses what cannot be a set, and to replace what is not one.
fn check(out: &Path, about: &Description) -> Result<()> {
    if about.samples == 0 || about.shape.is_empty() || about.classes == 0 {
        let problem = "a data set needs at least one sample, one pixel and one class";
        return Err(Error::Usage(problem.into()));
    }
    let bytes = about.samples.checked_mul(4 * about.shape.len());
    if bytes.is_none_or(|bytes| bytes > MOST_BYTES) {
        let problem = format!(
            "{} samples of {} are more than a data set can hold",
            about.samples, about.shape
        );
        return Err(Error::Usage(problem));
    }
    if about.shards == 0 || about.shards > about.samples {
        let problem = format!(
            "{} shards asked for, 1 to {} are possible",
            about.shards, about.samples
        );
        return Err(Error::Usage(problem));
    }
    if about.force && out.is_dir() {
        only_shards(out)?;
    } else if about.force && out.exists() && !is_hdf5(out) {
        let hint = "--force replaces data sets only; give another name";
        return Err(Error::file(out, "is a file that is not a data set", hint));
    }
    Ok(())
}

/// Refuses a folder with anything else in it than the shards that a writer makes: all of it would be replaced.
pub(super) fn only_shards(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(Error::io("read folder", folder))? {
        let name = entry
            .map_err(Error::io("read folder", folder))?
            .file_name()
            .to_string_lossy()
            .into_owned();
        if !(name.starts_with("shard-") && name.ends_with(".h5")) && name != MANIFEST {
            let problem = format!("is a folder that is not a data set: it holds {name}");
            let hint = "--force replaces data sets only; give another name";
            return Err(Error::file(folder, problem, hint));
        }
    }
    Ok(())
}

impl ShardWriter {
    /// A file for so many samples.
    fn create(path: &Path, samples: usize, about: &Description) -> Result<Self> {
        let file = File::create(path)?;
        let Shape { c, h, w } = about.shape;
        let images = match about.float {
            true => file.new_table::<f32>("images", &[samples, c, h, w])?,
            false => file.new_table::<u8>("images", &[samples, c, h, w])?,
        };
        Ok(Self {
            labels: file.new_table::<u32>("labels", &[samples])?,
            file,
            images,
            capacity: samples,
            written: 0,
            float: about.float,
            pixels: Vec::new(),
            pending: Vec::new(),
        })
    }

    fn is_full(&self) -> bool {
        self.written + self.pending.len() == self.capacity
    }

    /// Adds the next sample.
    fn push(&mut self, pixels: &[u8], label: u32) -> Result<()> {
        self.pixels.extend_from_slice(pixels);
        self.pending.push(label);
        if self.pixels.len() < CHUNK && !self.is_full() {
            Ok(())
        } else {
            self.flush()
        }
    }

    /// Says what the set is, when all samples are there.
    fn close(self, about: &Description, mean: &[f32], std: &[f32]) -> Result<()> {
        about.write(&self.file, VERSION, mean, std)?;
        drop((self.images, self.labels));
        self.file.close()
    }

    fn flush(&mut self) -> Result<()> {
        if self.float {
            self.images
                .write(self.written, &floats(&self.pixels).collect::<Vec<f32>>())?;
        } else {
            self.images.write(self.written, &self.pixels)?;
        }
        self.labels.write(self.written, &self.pending)?;
        self.written += self.pending.len();
        self.pixels.clear();
        self.pending.clear();
        Ok(())
    }
}

fn floats(bytes: &[u8]) -> impl Iterator<Item = f32> + '_ {
    let float = |four: &[u8]| f32::from_le_bytes(four.try_into().expect("chunks of four"));
    bytes.chunks_exact(4).map(float)
}

/// Sums of pixels and of their squares per channel; of bytes taken as 0…1.
struct Moments {
    float: bool,
    /// Bytes of one channel of one sample.
    plane: usize,
    count: f64,
    sums: Vec<(f64, f64)>,
}

impl Moments {
    fn new(shape: Shape, float: bool) -> Self {
        let plane = shape.h * shape.w * if float { 4 } else { 1 };
        Self {
            float,
            plane,
            count: 0.0,
            sums: vec![(0.0, 0.0); shape.c],
        }
    }

    fn add(&mut self, pixels: &[u8]) {
        for (sums, plane) in self.sums.iter_mut().zip(pixels.chunks_exact(self.plane)) {
            if self.float {
                sums.0 += floats(plane).map(f64::from).sum::<f64>();
                sums.1 += floats(plane)
                    .map(|p| f64::from(p) * f64::from(p))
                    .sum::<f64>();
            } else {
                sums.0 += plane.iter().map(|&p| u64::from(p)).sum::<u64>() as f64 / 255.0;
                let squares = plane
                    .iter()
                    .map(|&p| u64::from(p) * u64::from(p))
                    .sum::<u64>();
                sums.1 += squares as f64 / (255.0 * 255.0);
            }
        }
        self.count += (self.plane / if self.float { 4 } else { 1 }) as f64;
    }

    /// Mean and standard deviation per channel, bytes taken as 0…1.
    fn finish(&self) -> (Vec<f32>, Vec<f32>) {
        let channel = |&(sum, squares): &(f64, f64)| {
            let mean = sum / self.count;
            let variance = squares / self.count - mean * mean;
            (mean as f32, variance.max(0.0).sqrt() as f32)
        };
        self.sums.iter().map(channel).unzip()
    }
}
