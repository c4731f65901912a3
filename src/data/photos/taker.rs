//! One rank that takes partitions of photos, reads them, and notes what became of them.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use super::pack::Job;
use super::reader::Reader;
use super::shards::Part;
use super::slots::Slots;
use super::work::Note;
use super::writer::Writer;
use super::{Bad, Records, add_moments, moments};
use crate::comm::Counters;
use crate::observe::Progress;
use crate::{Error, Result, interrupt};

/// The most photos of a note.
const STRETCH: usize = 512;
/// Photos that are brought to the disk together: the fewest, and so many that they are waited for.
const TOGETHER: usize = 128;
const MOST: usize = 2 * STRETCH;
/// Photos and time between two times that notes are written, whichever comes first: what a job that is killed does again.
const UNNOTED: usize = 8 * STRETCH;
const PAUSE: Duration = Duration::from_secs(1);
/// Photos between two looks at what others do.
const LOOK: u64 = 16;

/// What ranks count together: photos and shards that were taken, who failed, what was done.
pub(super) const COUNTERS: usize = 4;
const NEXT: usize = 0;
pub(super) const FAILED: usize = 1;
const DONE: usize = 2;
pub(super) const NEXT_SHARD: usize = 3;

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
    /// What became of them.
    notes: Vec<Note>,
    /// How many of the notes were written, and files that must be on the disk before the next ones are.
    written: usize,
    files: Vec<File>,
    /// Photos that nobody brings to the disk yet.
    behind: usize,
    /// When notes were written last.
    noted: Instant,
    /// What is being written.
    writer: Writer,
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
            notes: Vec::new(),
            written: 0,
            files: Vec::new(),
            behind: 0,
            noted: Instant::now(),
            writer: Writer::of(job.comm.local_size()),
        }
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
                start = self.stretch(start..end)?;
            }
        }
    }

    /// Reads photos as long as no note is due, stores what they become, and leaves a note once that is on the disk. Gives where
    /// it ended.
    fn stretch(&mut self, range: Range<usize>) -> Result<usize> {
        let (job, pack) = (self.job, self.job.pack);
        let mut note = Note {
            start: range.start,
            end: range.start,
            failures: Vec::new(),
            sums: vec![[0; 2]; pack.shape.c],
            lengths: Vec::new(),
        };
        let mut part = match pack.records {
            Records::Pixels => None,
            Records::Jpeg => Some(Part::create(&job.work, range.start)?),
        };
        for i in range.clone() {
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
            note.end = i + 1;
            self.taken += 1;
            if self.taken.is_multiple_of(LOOK) && self.look()? {
                return Ok(range.end);
            }
            // Large photos take long: a note is not late for them.
            let late = self.noted.elapsed() >= PAUSE && !self.writer.is_busy();
            if late || self.open() >= self.writer.most() {
                break;
            }
        }
        if let Some(part) = part {
            self.files.push(part.unsynced()?);
        }
        let end = note.end;
        self.behind += end - note.start;
        self.notes.push(note);
        let unnoted = self.notes[self.written..].iter();
        let unnoted: usize = unnoted.map(|note| note.end - note.start).sum();
        let due = unnoted >= UNNOTED || self.noted.elapsed() >= PAUSE;
        let enough = match self.writer.is_busy() {
            true => MOST,
            false if due => 0,
            false => TOGETHER,
        };
        if self.behind < enough && self.open() < self.writer.most() {
            return Ok(end);
        }
        if let Err(error) = self.writer.wait() {
            // Who knows what has come to the disk: nothing more is noted.
            self.written = self.notes.len();
            return Err(error);
        }
        self.write(due).map(|()| end)
    }

    /// Files that are open until they are on the disk, beside those that the writer has.
    fn open(&self) -> usize {
        self.files.len() + self.slots.files()
    }

    /// Stores what becomes of photo `i`, or says why nothing does.
    fn photo(
        &mut self,
        i: usize,
        path: &Path,
        note: &mut Note,
        part: Option<&mut Part>,
    ) -> Result<Result<(), String>> {
        let pixels = match self.reader.photo(path)? {
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
            self.slots.write(self.job.slot(i), self.reader.memory())?;
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

    /// Ends with all notes that it has, one who writes what is not written of them, and how many photos it has read.
    pub(super) fn end(mut self) -> (Vec<Note>, Result<Writer>, u64) {
        let begun = self.write(true);
        (self.notes, begun.map(|()| self.writer), self.taken)
    }

    /// Begins to bring all to the disk behind what is being written, then the notes if they are `due`.
    fn write(&mut self, due: bool) -> Result<()> {
        let (job, mut notes) = (self.job, Vec::new());
        // A stretch is noted only when all of it is with the system.
        self.files.extend(self.slots.unsynced()?);
        if due {
            if self.written == 0 {
                self.files.extend(job.work.before_notes()?);
            }
            if job.pack.records == Records::Jpeg {
                self.files.push(job.work.parts()?);
            }
            notes = self.notes[self.written..].to_vec();
            self.written = self.notes.len();
            self.noted = Instant::now();
        }
        self.behind = 0;
        let files = std::mem::take(&mut self.files);
        self.writer.write(&job.work, notes, files)
    }
}
