//! Shards of photos: pixels go to their slots at once, encoded records into parts that are joined at the end.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::listing::Photo;
use super::slots::place;
use super::work::{Note, Work};
use crate::data::{Description, ENCODED, Shape, VERSION};
use crate::h5;
use crate::{Error, Result, files};

/// Bytes that are written at once.
pub(super) const AT_ONCE: usize = 1 << 20;

/// What all shards say of the set.
pub(super) struct About {
    pub(super) description: Description,
    pub(super) fit: String,
    pub(super) mean: Vec<f32>,
    pub(super) std: Vec<f32>,
}

/// Makes a file with room for the pixels of these photos; where some are `noted` as done, it must be there.
pub(super) fn reserve(
    work: &Work,
    (shard, noted): (usize, bool),
    photos: &[Photo],
    description: &Description,
) -> Result<()> {
    let path = work.slots(shard);
    if !noted {
        return make_room(&path, photos.iter(), description);
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

/// A file with room for the pixels of `photos`, and with all else that it will have; means and deviations are zeros yet.
pub(super) fn make_room<'a>(
    path: &Path,
    photos: impl Iterator<Item = &'a Photo>,
    description: &Description,
) -> Result<()> {
    let labels: Vec<u32> = photos.map(|photo| photo.label).collect();
    let Shape { c, h, w } = description.shape;
    let file = h5::File::create_in_pages(path)?;
    drop(file.reserve::<u8>("images", &[labels.len(), c, h, w])?);
    file.filled("labels", &labels)?;
    let zeros = vec![0.0; c];
    description.write(&file, VERSION, &zeros, &zeros)?;
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
    let made = match bad.is_empty() {
        true => from,
        false => without(work, shard, photos, bad, &about.description)?,
    };
    // The slots are the only copy of the pixels: whoever is stopped here leaves a file that can be taken up.
    let file = h5::File::open_to_write(&made)?;
    file.change_numbers("mean", &about.mean)?;
    file.change_numbers("std", &about.std)?;
    file.close().map(|()| (good, made))
}

/// Copies the slots for `photos` without those that are `bad`; gives where they are.
fn without(
    work: &Work,
    shard: usize,
    photos: &[Photo],
    bad: &[usize],
    description: &Description,
) -> Result<PathBuf> {
    let each = description.shape.len();
    let (from, made) = (work.slots(shard), work.copied(shard));
    let good: Vec<usize> = (0..photos.len())
        .filter(|slot| bad.binary_search(slot).is_err())
        .collect();
    make_room(&made, good.iter().map(|&slot| &photos[slot]), description)?;
    let place_of = |slot: usize| (slot * each) as u64;
    let (start, to) = (place(&from)?, place(&made)?);
    let source = File::open(&from).map_err(Error::io("read", &from))?;
    let copy = File::options().write(true).open(&made);
    let copy = copy.map_err(Error::io("write", &made))?;
    let mut pixels = vec![0; each];
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
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn description(shape: Shape) -> Description {
        Description {
            samples: 9,
            shape,
            classes: 9,
            class_names: (0..9).map(|class| format!("class {class}")).collect(),
            float: false,
            shards: 1,
            provenance: "photos of this test".into(),
            force: false,
        }
    }

    pub(in super::super) fn photos() -> Vec<Photo> {
        let photo = |label| Photo {
            path: PathBuf::new(),
            label,
        };
        (0..9).map(photo).collect()
    }

    /// A job that was killed, or whose disk was full, when it said in a shard what the set is could not be taken up.
    #[test]
    fn a_shard_can_be_taken_up_at_any_moment_of_its_making() {
        let folder = tempfile::tempdir().unwrap();
        let work = Work::of(&folder.path().join("set")).unwrap();
        let (slots, ready) = (work.slots(0), work.ready(0));
        std::fs::create_dir_all(slots.parent().unwrap()).unwrap();
        let shape = Shape { c: 3, h: 8, w: 8 };
        let about = |by: f32| About {
            description: description(shape),
            fit: "crop".into(),
            mean: vec![0.1 * by, 0.2 * by, 0.3 * by],
            std: vec![0.4 * by, 0.5 * by, 0.6 * by],
        };
        make_room(&slots, photos().iter(), &description(shape)).unwrap();
        let before = std::fs::read(&slots).unwrap();
        let finish = |about: &About| {
            let made = finish_slots(&work, 0, &photos(), &[], about).unwrap();
            assert_eq!(made, (9, slots.clone()));
            std::fs::read(&slots).unwrap()
        };
        let after = finish(&about(1.0));
        assert_eq!(before.len(), after.len(), "no room is needed any more");
        let changed: Vec<usize> = (0..after.len())
            .filter(|&i| before[i] != after[i])
            .collect();
        assert!((1..=24).contains(&changed.len()), "{changed:?}");
        // Written up to any byte; or said before of a part of the set.
        for &end in &changed {
            let half = [&after[..end], &before[end..]].concat();
            std::fs::write(&slots, half).unwrap();
            assert!(finish(&about(1.0)) == after);
        }
        finish(&about(0.7));
        assert!(finish(&about(1.0)) == after);
        assert!(!ready.exists());
    }
}
