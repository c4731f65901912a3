//! What is done of a set that is being packed, on disk: who comes again goes on from there.
//!
//! Beside OUT is a folder `.OUT.packing` with the plan, a note for each stretch of photos that is done, what became of them,
//! and at last the set, which then takes its place as a whole.

use std::fs::{self, File, TryLockError};
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Records;
use crate::comm::Comm;
use crate::data::{Shape, only_shards};
use crate::files::{put, write_text};
use crate::{Error, Result};

/// What decides on every byte of the set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) version: u32,
    pub(super) shape: Shape,
    pub(super) fit: String,
    pub(super) records: Records,
    pub(super) quality: Option<u8>,
    pub(super) shuffle: Option<u64>,
    pub(super) shard_size: usize,
    pub(super) most_pixels: u64,
    pub(super) photos: usize,
    /// Of the listing.
    pub(super) digest: u64,
}

/// What became of photos one behind the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Note {
    /// The first, and the one behind the last.
    pub(super) start: usize,
    pub(super) end: usize,
    /// Which could not be read, and why.
    pub(super) failures: Vec<(usize, String)>,
    /// Of each channel, the sum of the bytes and of their squares.
    pub(super) sums: Vec<[u64; 2]>,
    /// Of encoded records, the bytes of each, 0 where it could not be read.
    pub(super) lengths: Vec<u32>,
}

impl Note {
    /// Whether it can be of a set of so many photos.
    fn is_sound(&self, photos: usize) -> bool {
        let range = self.start..self.end;
        let lengths = self.lengths.is_empty() || self.lengths.len() == range.len();
        let failures = self.failures.iter().all(|(photo, _)| range.contains(photo));
        !range.is_empty() && self.end <= photos && lengths && failures
    }
}

/// The folder of what is being packed.
#[derive(Clone)]
pub(super) struct Work {
    path: PathBuf,
}

/// Nobody else packs into the same folder while it is held.
pub(super) struct Lock(#[allow(dead_code)] File);

impl Work {
    /// Where a set called `out` is packed.
    pub(super) fn of(out: &Path) -> Result<Self> {
        let Some(name) = out.file_name() else {
            return Err(Error::Usage(format!("{} names no folder", out.display())));
        };
        let name = format!(".{}.packing", name.to_string_lossy());
        Ok(Self {
            path: out.with_file_name(name),
        })
    }

    /// Makes or takes up the folder; by one rank.
    pub(super) fn begin(&self, out: &Path, plan: &Plan, force: bool) -> Result<Lock> {
        if out.exists() && !force {
            return Err(Error::Exists(out.to_path_buf()));
        }
        if out.is_dir() {
            only_shards(out)?;
        } else if out.exists() {
            let hint = "give the name of a folder to make";
            return Err(Error::file(out, "is a file", hint));
        }
        let create =
            |path: &Path| fs::create_dir_all(path).map_err(Error::io("create folder", path));
        create(&self.path)?;
        let lock = self.path.join("lock");
        let file = File::create(&lock).map_err(Error::io("create", &lock))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let hint = "wait for the other, or give another name";
                return Err(Error::file(out, "is being packed by another job", hint));
            }
            // Not every file system has locks.
            Err(TryLockError::Error(_)) => {}
        }
        let text = serde_json::to_string_pretty(plan).expect("plain values");
        let written = fs::read_to_string(self.plan());
        if !matches!(&written, Ok(written) if *written == text) {
            if written.is_ok() {
                log::warn!(
                    "{} was begun with other photos or settings: it begins anew",
                    out.display()
                );
            }
            for folder in ["notes", "slots", "parts", "set"] {
                let folder = self.path.join(folder);
                if folder.exists() {
                    fs::remove_dir_all(&folder).map_err(Error::io("remove", &folder))?;
                }
            }
            write_text(&self.plan(), &text)?;
        }
        for folder in ["notes", "slots", "parts", "set"] {
            create(&self.path.join(folder))?;
        }
        Ok(Lock(file))
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn plan(&self) -> PathBuf {
        self.path.join("plan.json")
    }

    /// A file of pixels that ranks write together.
    pub(super) fn slots(&self, shard: usize) -> PathBuf {
        self.path.join("slots").join(name(shard))
    }

    /// Encoded records of a stretch.
    pub(super) fn part(&self, range: &Range<usize>) -> PathBuf {
        let name = format!("{:09}-{:09}.bin", range.start, range.end);
        self.path.join("parts").join(name)
    }

    /// A shard that is ready.
    pub(super) fn ready(&self, shard: usize) -> PathBuf {
        self.path.join("set").join(name(shard))
    }

    /// The set that takes its place.
    pub(super) fn set(&self) -> PathBuf {
        self.path.join("set")
    }

    /// Says durably that a stretch is done.
    pub(super) fn write(&self, note: &Note) -> Result<()> {
        let name = format!("{:09}-{:09}.json", note.start, note.end);
        let text = serde_json::to_string(note).expect("plain values");
        write_text(&self.path.join("notes").join(name), &text)
    }

    /// What is done, in order, as the first rank finds it; *collective*.
    pub(super) fn notes(&self, comm: &dyn Comm, photos: usize) -> Result<Vec<Note>> {
        let mine = match comm.rank() {
            0 => self
                .read(photos)
                .map(|notes| serde_json::to_vec(&notes).expect("plain values")),
            _ => Ok(Vec::new()),
        };
        let text = comm.gather(&crate::comm::agree(comm, mine)?).swap_remove(0);
        Ok(serde_json::from_slice(&text).expect("as the first rank wrote it"))
    }

    fn read(&self, photos: usize) -> Result<Vec<Note>> {
        let folder = self.path.join("notes");
        let mut notes: Vec<Note> = Vec::new();
        for entry in fs::read_dir(&folder).map_err(Error::io("read folder", &folder))? {
            let path = entry.map_err(Error::io("read folder", &folder))?.path();
            let text = fs::read_to_string(&path).map_err(Error::io("read", &path))?;
            // One that is not whole is that of a stretch that is not done.
            let note = serde_json::from_str(&text).ok();
            notes.extend(note.filter(|note: &Note| note.is_sound(photos)));
        }
        notes.sort_by_key(|note| (note.start, note.end));
        let mut end = 0;
        notes.retain(|note| {
            let fits = note.start >= end;
            end = if fits { note.end } else { end };
            fits
        });
        Ok(notes)
    }

    /// Puts the set in its place, and removes all else; by one rank.
    pub(super) fn finish(&self, out: &Path, force: bool) -> Result<()> {
        put(&self.set(), out, force)?;
        fs::remove_dir_all(&self.path).map_err(Error::io("remove", &self.path))
    }
}

/// The name of a shard.
pub(super) fn name(shard: usize) -> String {
    format!("shard-{shard:05}.h5")
}

/// What is left of `photos` beside these notes, in about `parts` stretches one behind the other.
pub(super) fn partitions(notes: &[Note], photos: usize, parts: usize) -> Vec<Range<usize>> {
    let starts = std::iter::once(0).chain(notes.iter().map(|note| note.end));
    let ends = notes.iter().map(|note| note.start).chain([photos]);
    let gaps: Vec<Range<usize>> = starts.zip(ends).map(|(start, end)| start..end).collect();
    let left: usize = gaps.iter().map(ExactSizeIterator::len).sum();
    let each = left.div_ceil(parts.max(1)).max(1);
    let cut = |gap: Range<usize>| {
        let end = gap.end;
        gap.step_by(each)
            .map(move |start| start..end.min(start + each))
    };
    gaps.into_iter().flat_map(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(start: usize, end: usize) -> Note {
        Note {
            start,
            end,
            failures: Vec::new(),
            sums: Vec::new(),
            lengths: Vec::new(),
        }
    }

    #[test]
    fn partitions_are_what_no_note_speaks_of() {
        assert_eq!(partitions(&[], 10, 4), [0..3, 3..6, 6..9, 9..10]);
        assert_eq!(
            partitions(&[note(2, 4), note(9, 10)], 10, 3),
            [0..2, 4..7, 7..9]
        );
        assert_eq!(partitions(&[note(0, 10)], 10, 3), [0..0; 0]);
        assert_eq!(partitions(&[], 2, 100), [0..1, 1..2]);
    }

    #[test]
    fn notes_that_cannot_be_are_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let work = Work::of(&folder.path().join("set")).unwrap();
        fs::create_dir_all(work.path.join("notes")).unwrap();
        for (start, end) in [(3, 5), (0, 2), (4, 6), (8, 12)] {
            work.write(&note(start, end)).unwrap();
        }
        fs::write(work.path.join("notes/half.json"), "{\"start\": 6, \"e").unwrap();
        assert_eq!(work.read(10).unwrap(), [note(0, 2), note(3, 5)]);
    }
}
