//! Shards of photos: pixels go to their slots at once, encoded records into parts that are joined at the end.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use super::listing::Photo;
use super::work::{Note, Work};
use crate::data::{Description, ENCODED, Shape, ShardWriter};
use crate::h5;
use crate::{Error, Result, files};

/// Bytes that are copied at once.
const AT_ONCE: usize = 4 << 20;

/// What all shards say of the set.
pub(super) struct About {
    pub(super) description: Description,
    pub(super) fit: String,
    pub(super) mean: Vec<f32>,
    pub(super) std: Vec<f32>,
}

/// Where the pixels of photos go: as many photos to a shard as fit, read or not.
pub(super) struct Slots<'a> {
    work: &'a Work,
    each: usize,
    open: Option<(usize, File, u64)>,
}

impl<'a> Slots<'a> {
    pub(super) fn new(work: &'a Work, shape: Shape) -> Self {
        Self {
            work,
            each: shape.len(),
            open: None,
        }
    }

    /// Writes the pixels of the photo in `slot` of `shard`.
    pub(super) fn write(&mut self, shard: usize, slot: usize, pixels: &[u8]) -> Result<()> {
        let path = self.work.slots(shard);
        let (file, start) = match &mut self.open {
            Some((open, file, start)) if *open == shard => (file, *start),
            open => {
                if let Some((last, file, _)) = open.take() {
                    let path = self.work.slots(last);
                    file.sync_data().map_err(Error::io("write", path))?;
                }
                let start = place(&path)?;
                let file = File::options().write(true).open(&path);
                let file = file.map_err(Error::io("write", &path))?;
                let (_, file, start) = open.insert((shard, file, start));
                (file, *start)
            }
        };
        let at = start + (slot * self.each) as u64;
        file.write_all_at(pixels, at)
            .map_err(Error::io("write", &path))
    }

    /// The file that was written last, for what is not on the disk yet.
    pub(super) fn unsynced(&self) -> Result<Option<File>> {
        let clone = |(shard, file, _): &(usize, File, u64)| {
            let path = self.work.slots(*shard);
            file.try_clone().map_err(Error::io("write", path))
        };
        self.open.as_ref().map(clone).transpose()
    }
}

/// Where the pixels of a shard begin in its file.
fn place(path: &std::path::Path) -> Result<u64> {
    let offset = h5::File::open(path)?.table("images")?.offset();
    offset.ok_or_else(|| Error::file(path, "has no place for pixels", "remove it, and pack again"))
}

/// Makes a file with room for the pixels of these photos, unless it is there; where some are `noted` as done, it must be.
pub(super) fn reserve(
    work: &Work,
    (shard, noted): (usize, bool),
    photos: &[Photo],
    shape: Shape,
) -> Result<()> {
    let path = work.slots(shard);
    if path.exists() || work.ready(shard).exists() {
        return Ok(());
    }
    if noted {
        let hint = "remove that folder, and pack again";
        let problem = format!(
            "has notes of pixels that are gone, those of {}",
            path.display()
        );
        return Err(Error::file(work.path(), problem, hint));
    }
    let staged = files::Staged::new(&path, false)?;
    let file = h5::File::create(staged.path())?;
    let Shape { c, h, w } = shape;
    drop(file.reserve::<u8>("images", &[photos.len(), c, h, w])?);
    let labels: Vec<u32> = photos.iter().map(|photo| photo.label).collect();
    file.filled("labels", &labels)?;
    file.close()?;
    staged.commit()
}

/// Makes a shard ready of the slots for `photos`, without those that are `bad`; gives how many samples it has.
pub(super) fn finish_slots(
    work: &Work,
    shard: usize,
    photos: &[Photo],
    bad: &[usize],
    about: &About,
) -> Result<usize> {
    let (from, ready) = (work.slots(shard), work.ready(shard));
    let good = photos.len() - bad.len();
    if good == 0 || ready.exists() {
        return Ok(good);
    }
    let (mean, std) = (&about.mean, &about.std);
    if bad.is_empty() {
        let file = h5::File::open_to_write(&from)?;
        // Whoever was stopped here before has said a part of it already.
        if file.text("provenance").is_none() {
            about
                .description
                .write(&file, crate::data::VERSION, mean, std)?;
        }
        file.close()?;
        files::sync(&from)?;
        fs::rename(&from, &ready).map_err(Error::io("rename to", &ready))?;
        return Ok(good);
    }
    let staged = files::Staged::new(&ready, false)?;
    let mut writer = ShardWriter::create(staged.path(), good, &about.description)?;
    let (start, each) = (place(&from)?, about.description.shape.len());
    let file = File::open(&from).map_err(Error::io("read", &from))?;
    let mut pixels = vec![0; each];
    for (slot, photo) in photos.iter().enumerate() {
        if bad.binary_search(&slot).is_err() {
            let at = start + (slot * each) as u64;
            file.read_exact_at(&mut pixels, at)
                .map_err(Error::io("read", &from))?;
            writer.push(&pixels, photo.label)?;
        }
    }
    writer.close(&about.description, mean, std)?;
    staged.commit()?;
    fs::remove_file(&from).map_err(Error::io("remove", &from))?;
    Ok(good)
}

/// Encoded records of a stretch on their way to the disk.
pub(super) struct Part {
    file: std::io::BufWriter<File>,
    path: std::path::PathBuf,
}

impl Part {
    pub(super) fn create(work: &Work, range: &Range<usize>) -> Result<Self> {
        let path = work.part(range);
        let file = File::create(&path).map_err(Error::io("create", &path))?;
        Ok(Self {
            file: std::io::BufWriter::with_capacity(1 << 20, file),
            path,
        })
    }

    pub(super) fn push(&mut self, record: &[u8]) -> Result<()> {
        let written = self.file.write_all(record);
        written.map_err(Error::io("write", &self.path))
    }

    /// The file, for what is not on the disk yet.
    pub(super) fn unsynced(self) -> Result<File> {
        let Self { file, path } = self;
        let file = file.into_inner().map_err(|error| error.into_error());
        file.map_err(Error::io("write", path))
    }
}

/// Which photos are in which shard of encoded records: as many as have `size` bytes together, or a little more.
pub(super) fn divide(lengths: &[u32], size: usize) -> Vec<Range<usize>> {
    let (mut shards, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (i, &length) in lengths.iter().enumerate() {
        bytes += length as usize;
        if bytes >= size {
            shards.push(start..i + 1);
            (start, bytes) = (i + 1, 0);
        }
    }
    if bytes > 0 {
        shards.push(start..lengths.len());
    }
    shards
}

/// Makes a shard ready of the encoded records of `range`; gives how many samples it has.
pub(super) fn join(
    work: &Work,
    (shard, range): (usize, &Range<usize>),
    photos: &[Photo],
    notes: &[Note],
    about: &About,
) -> Result<usize> {
    let over = |note: &&Note| note.start < range.end && range.start < note.end;
    let notes: Vec<&Note> = notes.iter().filter(over).collect();
    let length = |i: usize| {
        let note = notes
            .iter()
            .find(|note| (note.start..note.end).contains(&i));
        let note = note.expect("every photo has a note");
        u64::from(note.lengths[i - note.start])
    };
    let good: Vec<usize> = range.clone().filter(|&i| length(i) > 0).collect();
    let ready = work.ready(shard);
    if ready.exists() {
        return Ok(good.len());
    }
    let starts: Vec<u64> = std::iter::once(0)
        .chain(good.iter().scan(0, |sum, &i| {
            *sum += length(i);
            Some(*sum)
        }))
        .collect();
    let bytes = *starts.last().expect("one at least");
    let labels: Vec<u32> = good.iter().map(|&i| photos[i].label).collect();
    let staged = files::Staged::new(&ready, false)?;
    let file = h5::File::create(staged.path())?;
    let records = file.new_table::<u8>("records", &[bytes as usize])?;
    let mut written = 0;
    for note in &notes {
        let part = note.start.max(range.start)..note.end.min(range.end);
        let skipped = (note.start..part.start).map(length_in(note)).sum();
        let mut left: u64 = part.map(length_in(note)).sum();
        let path = work.part(&(note.start..note.end));
        let mut from = File::open(&path).map_err(Error::io("read", &path))?;
        from.seek(SeekFrom::Start(skipped))
            .map_err(Error::io("read", &path))?;
        while left > 0 {
            let mut some = vec![0; left.min(AT_ONCE as u64) as usize];
            from.read_exact(&mut some)
                .map_err(Error::io("read", &path))?;
            records.write(written, &some)?;
            written += some.len();
            left -= some.len() as u64;
        }
    }
    drop(records);
    file.filled("starts", &starts)?;
    file.filled("labels", &labels)?;
    let Shape { c, h, w } = about.description.shape;
    file.set_numbers("shape", &[c as u32, h as u32, w as u32])?;
    file.set_text("fit", &about.fit)?;
    about
        .description
        .write(&file, ENCODED, &about.mean, &about.std)?;
    file.close()?;
    staged.commit()?;
    Ok(good.len())
}

fn length_in(note: &Note) -> impl Fn(usize) -> u64 {
    move |i| u64::from(note.lengths[i - note.start])
}
