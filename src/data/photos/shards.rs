//! Shards of photos: pixels go to their slots at once, encoded records into parts that are joined at the end.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::listing::Photo;
use super::work::{Note, Work};
use crate::data::{Description, ENCODED, Shape};
use crate::h5;
use crate::{Error, Result, files};

/// Bytes that are written at once.
const AT_ONCE: usize = 1 << 20;

/// What all shards say of the set.
pub(super) struct About {
    pub(super) description: Description,
    pub(super) fit: String,
    pub(super) mean: Vec<f32>,
    pub(super) std: Vec<f32>,
}

/// Where the pixels of photos go: every photo has a slot in a shard, read or not. They are written some at once, up to whole
/// multiples of that in the file: systems keep what is written so in larger pieces, which come to the disk with less work.
pub(super) struct Slots<'a> {
    work: &'a Work,
    each: usize,
    /// Pixels that are to be written one behind the other, the shard and the slot where that begins, and how many bytes of the
    /// first are written.
    some: Vec<Vec<u8>>,
    first: (usize, usize),
    begun: usize,
    /// Memory to be used again.
    spare: Vec<Vec<u8>>,
    /// A shard, its file and where the pixels begin there.
    open: Option<(usize, File, u64)>,
    /// Those that were written before, and are not known to be on the disk.
    unsynced: Vec<File>,
}

impl<'a> Slots<'a> {
    pub(super) fn new(work: &'a Work, shape: Shape) -> Self {
        Self {
            work,
            each: shape.len(),
            some: Vec::new(),
            first: (0, 0),
            begun: 0,
            spare: Vec::new(),
            open: None,
            unsynced: Vec::new(),
        }
    }

    /// Has the pixels written of the photo in a slot of a shard, and may give other memory for them.
    pub(super) fn write(&mut self, at: (usize, usize), pixels: &mut Vec<u8>) -> Result<()> {
        let (shard, slot) = self.first;
        if at != (shard, slot + self.some.len()) {
            self.flush(1)?;
        }
        if self.some.is_empty() {
            (self.first, self.begun) = (at, 0);
        }
        self.some.push(std::mem::take(pixels));
        // Of large photos, no more than one is kept in memory.
        let is_large = self.each > AT_ONCE / 2;
        self.flush(if is_large { 1 } else { AT_ONCE })?;
        *pixels = self.spare.pop().unwrap_or_else(|| vec![0; self.each]);
        Ok(())
    }

    /// Writes what is to be written, up to a multiple of `whole` bytes in the file.
    fn flush(&mut self, whole: usize) -> Result<()> {
        let ((shard, slot), each) = (self.first, self.each);
        if self.some.is_empty() {
            return Ok(());
        }
        let path = self.work.slots(shard);
        let (file, start) = match &mut self.open {
            Some((open, file, start)) if *open == shard => (file, *start),
            open => {
                self.unsynced.extend(open.take().map(|(_, file, _)| file));
                let start = place(&path)?;
                let file = File::options().write(true).open(&path);
                let file = file.map_err(Error::io("write", &path))?;
                let (_, file, start) = open.insert((shard, file, start));
                (file, *start)
            }
        };
        // In bytes of the file, and behind the first of `some`.
        let first = start as usize + slot * each;
        let end = (first + self.some.len() * each) / whole * whole;
        let Some(end) = end.checked_sub(first).filter(|end| *end > self.begun) else {
            return Ok(());
        };
        let within = |photo: usize, at: usize| at.saturating_sub(photo * each).min(each);
        let photos = self.some.iter().enumerate();
        let parts: Vec<&[u8]> = photos
            .map(|(i, photo)| &photo[within(i, self.begun)..within(i, end)])
            .collect();
        let written = files::write_all_at(file, &parts, (first + self.begun) as u64);
        written.map_err(Error::io("write", &path))?;
        self.spare.extend(self.some.drain(..end / each));
        (self.first.1, self.begun) = (slot + end / each, end % each);
        Ok(())
    }

    /// Writes all, and gives the files that were written since this was called last, for what is not on the disk yet.
    pub(super) fn unsynced(&mut self) -> Result<Vec<File>> {
        self.flush(1)?;
        let mut files = std::mem::take(&mut self.unsynced);
        if let Some((shard, file, _)) = &self.open {
            let path = self.work.slots(*shard);
            files.push(file.try_clone().map_err(Error::io("write", path))?);
        }
        Ok(files)
    }
}

/// Where the pixels of a shard begin in its file.
fn place(path: &Path) -> Result<u64> {
    let offset = h5::File::place_in_own(path, "images")?;
    offset.ok_or_else(|| Error::file(path, "has no place for pixels", "remove it, and pack again"))
}

/// Makes a file with room for the pixels of these photos; where some are `noted` as done, it must be there.
pub(super) fn reserve(
    work: &Work,
    (shard, noted): (usize, bool),
    photos: &[Photo],
    shape: Shape,
) -> Result<()> {
    let path = work.slots(shard);
    if !noted {
        return make_room(&path, photos.iter(), shape);
    }
    if path.exists() || work.ready(shard).exists() {
        return Ok(());
    }
    let hint = "remove that folder, and pack again";
    let problem = format!(
        "has notes of pixels that are gone, those of {}",
        path.display()
    );
    Err(Error::file(work.path(), problem, hint))
}

/// A file with room for the pixels of `photos`, and with their labels.
fn make_room<'a>(path: &Path, photos: impl Iterator<Item = &'a Photo>, shape: Shape) -> Result<()> {
    let labels: Vec<u32> = photos.map(|photo| photo.label).collect();
    let Shape { c, h, w } = shape;
    let file = h5::File::create_in_pages(path)?;
    drop(file.reserve::<u8>("images", &[labels.len(), c, h, w])?);
    file.filled("labels", &labels)?;
    file.close()?;
    files::take_room(path)
}

/// Makes a shard of the slots for `photos`, without those that are `bad`; gives how many samples it has, and where it is.
pub(super) fn finish_slots(
    work: &Work,
    shard: usize,
    photos: &[Photo],
    bad: &[usize],
    about: &About,
) -> Result<(usize, PathBuf)> {
    let (from, ready) = (work.slots(shard), work.ready(shard));
    let good = photos.len() - bad.len();
    if good == 0 || ready.exists() {
        return Ok((good, ready));
    }
    // Whoever was stopped here before may have said something else of the set, or a part of it.
    let is_begun = h5::text(&from, "format").is_some();
    let made = match bad.is_empty() && !is_begun {
        true => from,
        false => without(work, shard, photos, bad, about.description.shape)?,
    };
    let (file, version) = (h5::File::open_to_write(&made)?, crate::data::VERSION);
    (about.description).write(&file, version, &about.mean, &about.std)?;
    file.close().map(|()| (good, made))
}

/// Copies the slots for `photos` without those that are `bad`; gives where they are.
fn without(
    work: &Work,
    shard: usize,
    photos: &[Photo],
    bad: &[usize],
    shape: Shape,
) -> Result<PathBuf> {
    let (from, made) = (work.slots(shard), work.copied(shard));
    let good: Vec<usize> = (0..photos.len())
        .filter(|slot| bad.binary_search(slot).is_err())
        .collect();
    make_room(&made, good.iter().map(|&slot| &photos[slot]), shape)?;
    let place_of = |slot: usize| (slot * shape.len()) as u64;
    let (start, to) = (place(&from)?, place(&made)?);
    let source = File::open(&from).map_err(Error::io("read", &from))?;
    let copy = File::options().write(true).open(&made);
    let copy = copy.map_err(Error::io("write", &made))?;
    let mut pixels = vec![0; shape.len()];
    for (i, &slot) in good.iter().enumerate() {
        let read = source.read_exact_at(&mut pixels, start + place_of(slot));
        read.map_err(Error::io("read", &from))?;
        let written = copy.write_all_at(&pixels, to + place_of(i));
        written.map_err(Error::io("write", &made))?;
    }
    Ok(made)
}

/// Encoded records of a stretch on their way to the disk.
pub(super) struct Part {
    file: std::io::BufWriter<File>,
    path: PathBuf,
}

impl Part {
    pub(super) fn create(work: &Work, start: usize) -> Result<Self> {
        let path = work.part(start);
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

/// Which photos are in which shard of encoded records: all have about as many bytes, `size` or a little more at most.
pub(super) fn divide(lengths: &[u32], size: usize) -> Vec<Range<usize>> {
    let all: u64 = lengths.iter().map(|&length| u64::from(length)).sum();
    let size = all.div_ceil(all.div_ceil(size.max(1) as u64).max(1));
    let (mut shards, mut start, mut bytes) = (Vec::new(), 0, 0);
    for (i, &length) in lengths.iter().enumerate() {
        bytes += u64::from(length);
        if bytes >= size && length > 0 {
            shards.push(start..i + 1);
            (start, bytes) = (i + 1, 0);
        }
    }
    if bytes > 0 {
        shards.push(start..lengths.len());
    }
    shards
}

/// Makes a shard of the encoded records of `range`; gives how many samples it has, and where it is.
pub(super) fn join(
    work: &Work,
    (shard, range): (usize, &Range<usize>),
    photos: &[Photo],
    notes: &[Note],
    about: &About,
) -> Result<(usize, PathBuf)> {
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
    let (made, ready) = (work.copied(shard), work.ready(shard));
    if ready.exists() {
        return Ok((good.len(), ready));
    }
    let starts: Vec<u64> = std::iter::once(0)
        .chain(good.iter().scan(0, |sum, &i| {
            *sum += length(i);
            Some(*sum)
        }))
        .collect();
    let bytes = *starts.last().expect("one at least");
    let labels: Vec<u32> = good.iter().map(|&i| photos[i].label).collect();
    let file = h5::File::create(&made)?;
    let records = file.new_table::<u8>("records", &[bytes as usize])?;
    let mut written = 0;
    for note in &notes {
        let part = note.start.max(range.start)..note.end.min(range.end);
        let skipped = (note.start..part.start).map(length_in(note)).sum();
        let mut left: u64 = part.map(length_in(note)).sum();
        let path = work.part(note.start);
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
    Ok((good.len(), made))
}

fn length_in(note: &Note) -> impl Fn(usize) -> u64 {
    move |i| u64::from(note.lengths[i - note.start])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_has_its_pixels_in_whatever_pieces_they_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let work = Work::of(&folder.path().join("set")).unwrap();
        std::fs::create_dir_all(work.slots(0).parent().unwrap()).unwrap();
        // Some of a piece, more than half of one, and more than two.
        for (h, w) in [(300, 301), (800, 1000), (1700, 1301)] {
            let shape = Shape { c: 1, h, w };
            let each = shape.len();
            let photos: Vec<Photo> = (0..9)
                .map(|label| Photo {
                    path: PathBuf::new(),
                    label,
                })
                .collect();
            let shards = [0, 1].map(|shard| work.slots(shard));
            for shard in &shards {
                make_room(shard, photos.iter(), shape).unwrap();
            }
            let pixels = |shard: usize, slot: usize| -> Vec<u8> {
                let byte = |i: usize| (i / 7 + 31 * slot + 101 * shard) as u8;
                (0..each).map(byte).collect()
            };
            // One that cannot be read is left out, and so is one that another rank writes.
            let order = [
                (0, 3),
                (0, 4),
                (0, 5),
                (0, 7),
                (0, 8),
                (1, 0),
                (1, 1),
                (0, 0),
            ];
            let mut slots = Slots::new(&work, shape);
            for (i, &(shard, slot)) in order.iter().enumerate() {
                let mut memory = pixels(shard, slot);
                slots.write((shard, slot), &mut memory).unwrap();
                assert_eq!(memory.len(), each);
                let kept = (slots.some.len() + slots.spare.len()) * each;
                assert!(kept <= 2 * AT_ONCE, "{kept} bytes are kept of {shape}");
                if i == 1 {
                    assert_eq!(slots.unsynced().unwrap().len(), 1);
                }
            }
            assert_eq!(slots.unsynced().unwrap().len(), 3);
            for (shard, path) in shards.iter().enumerate() {
                let start = place(path).unwrap() as usize;
                let bytes = std::fs::read(path).unwrap();
                for slot in 0..9 {
                    let expected = match order.contains(&(shard, slot)) {
                        true => pixels(shard, slot),
                        false => vec![0; each],
                    };
                    let got = &bytes[start + slot * each..][..each];
                    assert!(got == expected, "slot {slot} of shard {shard}, {shape}");
                }
            }
        }
    }
}
