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
use crate::files::{aside, put, put_back, sync, write_text};
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
    pub(super) provenance: String,
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
    /// Whether it speaks of photos in `range` that could be read.
    pub(super) fn has_read(&self, range: &Range<usize>) -> bool {
        let both = self.start.max(range.start)..self.end.min(range.end);
        let bad = self.failures.iter().filter(|(i, _)| both.contains(i));
        both.len() > bad.count()
    }

    /// Whether it can be of a set of so many photos.
    fn is_sound(&self, photos: usize) -> bool {
        let range = self.start..self.end;
        let lengths = self.lengths.is_empty() || self.lengths.len() == range.len();
        let failures = self.failures.iter().all(|(photo, _)| range.contains(photo));
        !range.is_empty() && self.end <= photos && lengths && failures
    }
}

/// The folders in it.
const FOLDERS: [&str; 4] = ["notes", "slots", "parts", "set"];

/// The folder of what is being packed.
#[derive(Clone)]
pub(super) struct Work {
    path: PathBuf,
    /// The set that it becomes.
    out: PathBuf,
}

/// Nobody else packs into the same folder while it is held.
pub(super) struct Lock(#[allow(dead_code)] File);

/// Where it is kept what packing to `out` had done before it ended early, if it had done something and nobody is at it.
pub fn kept(out: &Path) -> Option<PathBuf> {
    let work = Work::of(out).ok()?;
    let mut notes = fs::read_dir(work.path.join("notes")).ok()?;
    (notes.next().is_some() && work.lock().is_ok()).then_some(work.path)
}

impl Work {
    /// Where a set called `out` is packed.
    pub(super) fn of(out: &Path) -> Result<Self> {
        let Some(name) = out.file_name() else {
            return Err(Error::Usage(format!("{} names no folder", out.display())));
        };
        let work = format!(".{}.packing", name.to_string_lossy());
        Ok(Self {
            path: out.with_file_name(work),
            out: out.with_file_name(name),
        })
    }

    /// Refuses to pack where something is that is to stay; by one rank.
    pub(super) fn is_free(&self, force: bool) -> Result<()> {
        let out = &self.out;
        if out.is_symlink() {
            let hint = "give the name of the folder that it leads to, or of one to make";
            return Err(Error::file(out, "is a link", hint));
        }
        if out.exists() && !force {
            self.remove_ended();
            return Err(Error::Exists(out.clone()));
        }
        if out.exists() && !out.is_dir() {
            let hint = "give the name of a folder to make";
            return Err(Error::file(out, "is a file", hint));
        }
        match out.exists() {
            true => only_shards(out),
            false => Ok(()),
        }
    }

    /// Makes or takes up the folder; by one rank.
    pub(super) fn begin(&self, plan: &Plan, force: bool) -> Result<Lock> {
        let create =
            |path: &Path| fs::create_dir_all(path).map_err(Error::io("create folder", path));
        create(&self.path)?;
        let lock = self.lock()?;
        put_back(&self.set(), &self.out)?;
        self.is_free(force)?;
        let text = serde_json::to_string_pretty(plan).expect("plain values");
        let written = fs::read_to_string(self.plan());
        let is_other = !matches!(&written, Ok(written) if *written == text);
        // Whoever was stopped when the set had just taken its place has left nothing to go on with.
        if is_other || !self.set().is_dir() {
            if written.is_ok() && is_other {
                log::warn!(
                    "{} was begun with other photos or settings: it begins anew",
                    self.out.display()
                );
            }
            let any = self.remove_folders()?;
            if written.is_ok() {
                fs::remove_file(self.plan()).map_err(Error::io("remove", self.plan()))?;
            }
            // Nothing of another plan may be there with this one.
            if written.is_ok() || any {
                sync(&self.path)?;
            }
            fs::write(self.plan(), &text).map_err(Error::io("write", self.plan()))?;
        }
        for folder in FOLDERS {
            create(&self.path.join(folder))?;
        }
        Ok(lock)
    }

    /// Keeps others from packing into the folder.
    fn lock(&self) -> Result<Lock> {
        let path = self.path.join("lock");
        let file = File::create(&path).map_err(Error::io("create", &path))?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                let hint = "wait for the other, or give another name";
                Err(Error::file(
                    &self.out,
                    "is being packed by another job",
                    hint,
                ))
            }
            // Not every file system has locks.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(Lock(file)),
        }
    }

    /// Removes the folders in it; whether there were any.
    fn remove_folders(&self) -> Result<bool> {
        let folders = FOLDERS.map(|folder| self.path.join(folder));
        let old = folders.into_iter().chain([aside(&self.set())]);
        let old: Vec<PathBuf> = old.filter(|folder| folder.exists()).collect();
        for folder in &old {
            fs::remove_dir_all(folder).map_err(Error::io("remove", folder))?;
        }
        Ok(!old.is_empty())
    }

    /// Removes all that is left of a job whose set has its place; the plan is among the last.
    fn remove(&self, lock: Lock) -> Result<()> {
        self.remove_folders()?;
        // Where a file that is open cannot go, its folder could not either.
        drop(lock);
        fs::remove_dir_all(&self.path).map_err(Error::io("remove", &self.path))
    }

    /// The same for a job that was stopped when it did that.
    fn remove_ended(&self) {
        let has_ended = self.plan().exists() && !self.set().exists();
        if let (true, Ok(lock)) = (has_ended, self.lock()) {
            // What cannot be removed is in nobody's way.
            let _ = self.remove(lock);
        }
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

    /// Encoded records of the stretch that begins so.
    pub(super) fn part(&self, start: usize) -> PathBuf {
        self.path.join("parts").join(format!("{start:09}.bin"))
    }

    /// A shard that is ready.
    pub(super) fn ready(&self, shard: usize) -> PathBuf {
        self.path.join("set").join(name(shard))
    }

    /// The set that takes its place.
    pub(super) fn set(&self) -> PathBuf {
        self.path.join("set")
    }

    /// A shard on its way there, where it is not made of its slots in place.
    pub(super) fn copied(&self, shard: usize) -> PathBuf {
        self.path.join("parts").join(name(shard))
    }

    /// Puts a shard that was made and is on the disk into the set, unless it is there.
    pub(super) fn settle(&self, shard: usize, made: &Path) -> Result<()> {
        let (ready, slots) = (self.ready(shard), self.slots(shard));
        if made == ready {
            return Ok(());
        }
        fs::rename(made, &ready).map_err(Error::io("rename to", &ready))?;
        if slots.exists() {
            sync(&self.set())?;
            fs::remove_file(&slots).map_err(Error::io("remove", &slots))?;
        }
        Ok(())
    }

    /// What must be on the disk before any note is: the plan, and which files of pixels there are.
    pub(super) fn before_notes(&self) -> Result<Vec<File>> {
        let paths = [self.plan(), self.path.clone(), self.path.join("slots")];
        let open = |path: &PathBuf| File::open(path).map_err(Error::io("read", path));
        paths.iter().map(open).collect()
    }

    /// Which files of encoded records there are; on the disk before a note tells of them.
    pub(super) fn parts(&self) -> Result<File> {
        let path = self.path.join("parts");
        File::open(&path).map_err(Error::io("read", path))
    }

    /// Says durably that stretches are done, one at least, whose files are on the disk.
    pub(super) fn write(&self, notes: &[Note]) -> Result<()> {
        let name = format!("{:09}-{:09}.json", notes[0].start, notes[0].end);
        let text = serde_json::to_string(notes).expect("plain values");
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
            // One that is not whole is that of stretches that are not done.
            let told: Vec<Note> = serde_json::from_str(&text).unwrap_or_default();
            notes.extend(told.into_iter().filter(|note| note.is_sound(photos)));
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

    /// Puts the set in its place, whose files are on the disk, and removes all else; by the rank that holds the lock.
    pub(super) fn finish(&self, lock: Lock, force: bool) -> Result<()> {
        sync(&self.set())?;
        put(&self.set(), &self.out, force)?;
        self.remove(lock)
    }
}

/// The name of a shard.
pub(super) fn name(shard: usize) -> String {
    format!("shard-{shard:05}.h5")
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
    fn notes_that_cannot_be_are_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let work = Work::of(&folder.path().join("set")).unwrap();
        fs::create_dir_all(work.path.join("notes")).unwrap();
        for (start, end) in [(3, 5), (0, 2), (4, 6), (8, 12)] {
            work.write(&[note(start, end)]).unwrap();
        }
        fs::write(work.path.join("notes/half.json"), "[{\"start\": 6, \"e").unwrap();
        assert_eq!(work.read(10).unwrap(), [note(0, 2), note(3, 5)]);
    }
}
