//! One rank that takes partitions of photos, reads them, and notes what became of them.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::thread::JoinHandle;

use super::pack::Job;
use super::reader::Reader;
use super::shards::{Part, Slots};
use super::work::{Note, Work};
use super::{Bad, Records, add_moments, moments};
use crate::comm::Counters;
use crate::observe::Progress;
use crate::{Error, Result, interrupt};

/// The most photos between two notes.
const STRETCH: usize = 512;
/// Photos between two looks at what others do.
const LOOK: u64 = 16;

/// What ranks count together: what was taken, who failed, what was done.
pub(super) const COUNTERS: usize = 3;
pub(super) const NEXT: usize = 0;
pub(super) const FAILED: usize = 1;
const DONE: usize = 2;

/// Whether a rank has failed.
pub(super) fn failed(counters: &dyn Counters) -> Result<bool> {
    let mut now = [0; FAILED + 1];
    counters.read(&mut now)?;
    Ok(now[FAILED] > 0)
}

/// A photo that cannot be read, where that is the end.
pub(super) fn unreadable(path: &Path, why: &str) -> Error {
    let hint = "--bad skip leaves out what cannot be read, tells of it, and goes on from where this stopped";
    Error::file(path, why, hint)
}

/// One rank at work.
pub(super) struct Taker<'a> {
    job: &'a Job<'a>,
    reader: Reader,
    slots: Slots<'a>,
    counters: &'a dyn Counters,
    progress: Option<Progress>,
    /// Photos that the bar has shown.
    shown: u64,
    /// Photos that this rank has read.
    taken: u64,
    /// The note that is being written.
    noting: Option<JoinHandle<Result<()>>>,
}

impl<'a> Taker<'a> {
    /// A rank that has taken nothing.
    pub(super) fn new(
        job: &'a Job<'a>,
        counters: &'a dyn Counters,
        progress: Option<Progress>,
    ) -> Self {
        Self {
            job,
            reader: Reader::of(job.pack),
            slots: Slots::new(&job.work, job.pack.shape),
            counters,
            progress,
            shown: 0,
            taken: 0,
            noting: None,
        }
    }

    /// Photos that it has read.
    pub(super) fn read(&self) -> u64 {
        self.taken
    }

    /// Takes partitions as long as there are any.
    pub(super) fn take(&mut self, partitions: &[Range<usize>]) -> Result<()> {
        loop {
            let next = self.counters.add(NEXT, 1)? as usize;
            let Some(partition) = partitions.get(next) else {
                return Ok(());
            };
            let mut start = partition.start;
            while start < partition.end {
                if failed(self.counters)? {
                    return Ok(());
                }
                let end = partition.end.min(start + STRETCH);
                self.stretch(start..end)?;
                start = end;
            }
        }
    }

    /// Reads photos, stores what they become, and leaves a note once that is on the disk.
    fn stretch(&mut self, range: Range<usize>) -> Result<()> {
        let (job, pack) = (self.job, self.job.pack);
        let mut note = Note {
            start: range.start,
            end: range.end,
            failures: Vec::new(),
            sums: vec![[0; 2]; pack.shape.c],
            lengths: Vec::new(),
        };
        let mut part = match pack.records {
            Records::Pixels => None,
            Records::Jpeg => Some(Part::create(&job.work, &range)?),
        };
        for i in range {
            interrupt::check()?;
            let path = pack.photos.join(&job.listing.photos[i].path);
            let outcome = self.photo(i, &path, &mut note, part.as_mut())?;
            if let Err(why) = outcome {
                if pack.bad == Bad::Stop {
                    return Err(unreadable(&path, &why));
                }
                note.failures.push((i, why));
                if part.is_some() {
                    note.lengths.push(0);
                }
            }
            self.taken += 1;
            if self.taken.is_multiple_of(LOOK) && self.look()? {
                return Ok(());
            }
        }
        let file = match part {
            Some(part) => Some(part.unsynced()?),
            None => self.slots.unsynced()?,
        };
        self.noted()?;
        self.noting = Some(write_note(&job.work, note, file)?);
        Ok(())
    }

    /// Stores what becomes of photo `i`, or says why nothing does.
    fn photo(
        &mut self,
        i: usize,
        path: &Path,
        note: &mut Note,
        part: Option<&mut Part>,
    ) -> Result<Result<(), String>> {
        let pixels = match self.reader.photo(path) {
            Ok(pixels) => pixels,
            Err(why) => return Ok(Err(why)),
        };
        let plane = pixels.len() / note.sums.len();
        let sums: Vec<[u64; 2]> = pixels.chunks_exact(plane).map(moments).collect();
        if let Some(part) = part {
            let record = match self.reader.jpeg(self.job.pack.quality) {
                Ok(record) => record,
                Err(why) => return Ok(Err(why)),
            };
            note.lengths.push(record.len() as u32);
            part.push(&record)?;
        } else {
            let each = self.job.per_shard();
            self.slots.write(i / each, i % each, pixels)?;
        }
        add_moments(&mut note.sums, sums);
        Ok(Ok(()))
    }

    /// Tells what was done and shows what all have done; whether somebody failed.
    fn look(&mut self) -> Result<bool> {
        let before = self.counters.add(DONE, LOOK)?;
        if let Some(progress) = &self.progress {
            let done = before + LOOK;
            progress.add(done - self.shown);
            self.shown = done;
        }
        failed(self.counters)
    }

    /// Waits for the note that is being written.
    pub(super) fn noted(&mut self) -> Result<()> {
        match self.noting.take() {
            Some(writer) => writer.join().expect("a writer of notes does not panic"),
            None => Ok(()),
        }
    }
}

/// Writes a note once `file` is on the disk, while other photos are read.
fn write_note(work: &Work, note: Note, file: Option<File>) -> Result<JoinHandle<Result<()>>> {
    let work = work.clone();
    let write = move || {
        if let Some(file) = file {
            file.sync_data().map_err(Error::io("write", work.path()))?;
        }
        work.write(&note)
    };
    std::thread::Builder::new()
        .name("phalanx notes".into())
        .spawn(write)
        .map_err(Error::io("start a thread for", "notes"))
}
