//! All ranks pack photos: they take partitions in turns, then make the shards ready, then the first tells of it.

use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Instant;

use super::listing::{Listing, apart, seen};
use super::making::{failures, few, gather, told};
use super::manifest::{self, ShardFile};
use super::partitions::partitions;
use super::taker::{COUNTERS, Taker};
use super::work::{Lock, Note, Plan, Work};
use super::writer::Writer;
use super::{Pack, Records, shards};
use crate::comm::{Comm, Counters, agree, path_of_first};
use crate::data::{Dataset, MOST_DECODED};
use crate::observe::Progress;
use crate::{Error, Result};

/// Partitions for each rank, where nothing else is asked for.
const EACH: usize = 2;

/// What came of it; the same on every rank.
#[derive(Clone, Debug)]
pub struct Report {
    /// Photos that are in the set.
    pub samples: u64,
    /// What each class is called, and its samples.
    pub classes: Vec<(String, u64)>,
    /// Photos that could not be read, and why.
    pub failures: Vec<(String, String)>,
    /// Files that are no photos by their names.
    pub others: u64,
    /// Files of the set.
    pub shards: usize,
    /// Bytes of them.
    pub bytes: u64,
    /// Photos that an earlier job had done already.
    pub before: u64,
    /// Photos that each rank has done now.
    pub by_rank: Vec<u64>,
    /// The time that all took.
    pub seconds: f64,
}

/// Makes a set of photos; *collective*. The bytes are the same on any number of ranks.
pub fn pack(comm: &dyn Comm, pack: &Pack) -> Result<Report> {
    let start = Instant::now();
    agree(comm, check(pack))?;
    let work = agree(comm, Work::of(&pack.out))?;
    let is_free = match comm.rank() {
        0 => work.is_free(pack.force),
        _ => Ok(()),
    };
    agree(comm, is_free)?;
    let (listing, digest) = list(comm, pack)?;
    let job = Job {
        comm,
        pack,
        work,
        listing,
        digest,
        provenance: provenance(comm, pack),
    };
    job.run().map(|report| Report {
        seconds: start.elapsed().as_secs_f64(),
        ..report
    })
}

/// Where the photos come from, in words, the same on all ranks and however their folder was named; *collective*.
fn provenance(comm: &dyn Comm, pack: &Pack) -> String {
    let folder = fs::canonicalize(&pack.photos).unwrap_or_else(|_| pack.photos.clone());
    let folder = path_of_first(comm, Some(folder));
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    format!("photos of {name}, {} to {}", pack.fit, pack.shape)
}

fn check(pack: &Pack) -> Result<()> {
    if !matches!(pack.shape.c, 1 | 3) {
        let problem = "photos have 1 channel (grey) or 3 (red, green, blue)";
        return Err(Error::Usage(format!("{problem}, got {}", pack.shape)));
    }
    if pack.records == Records::Jpeg && pack.shape.len() > MOST_DECODED {
        let problem = format!("{} is too large for --records jpeg", pack.shape);
        let most = format!("at most {MOST_DECODED} values are possible");
        return Err(Error::Usage(format!("{problem}: {most}")));
    }
    if pack.quality.is_some() && pack.records == Records::Pixels {
        let problem = "--quality is of JPEG files: give --records jpeg too";
        return Err(Error::Usage(problem.into()));
    }
    apart(pack)
}

/// The photos, the same on all ranks, and what stands for them; *collective*.
fn list(comm: &dyn Comm, pack: &Pack) -> Result<(Listing, u64)> {
    let known = |like: &PathBuf| {
        let set = Dataset::open(like)?;
        match set.class_names.is_empty() {
            false => Ok(serde_json::to_vec(&set.class_names).expect("plain values")),
            true => Err(Error::file(
                &set.path,
                "does not say what its classes are called",
                "--like takes a set that was packed from photos",
            )),
        }
    };
    let like = pack.like.as_ref().filter(|_| comm.rank() == 0);
    let known = agree(comm, like.map(known).transpose())?.unwrap_or_default();
    let known: Option<Vec<String>> = match &comm.gather(&known)[0] {
        text if text.is_empty() => None,
        text => Some(serde_json::from_slice(text).expect("as the first rank wrote it")),
    };
    let listing = Listing::shared(comm, &pack.photos, &pack.labels, known.as_deref())?;
    seen(
        comm,
        &pack.photos,
        &pack.photos.join(&listing.photos[0].path),
    )?;
    let digest = listing.digest(comm, &pack.photos);
    let listing = match pack.shuffle {
        Some(seed) => listing.shuffled(seed),
        None => listing,
    };
    Ok((listing, digest))
}

/// All that packing needs.
pub(super) struct Job<'a> {
    pub(super) comm: &'a dyn Comm,
    pub(super) pack: &'a Pack,
    pub(super) work: Work,
    pub(super) listing: Listing,
    digest: u64,
    pub(super) provenance: String,
}

impl Job<'_> {
    fn run(&self) -> Result<Report> {
        let Self { comm, pack, .. } = *self;
        let lock = match comm.rank() {
            0 => self.work.begin(&self.plan(), pack.force).map(Some),
            _ => Ok(None),
        };
        let lock = agree(comm, lock)?;
        seen(comm, self.work.path(), &self.work.set())?;
        let before = self.work.notes(comm, self.listing.photos.len())?;
        let counters = comm.counters(COUNTERS)?;
        let packed = self.read_all(&before, counters.as_ref());
        let packed = packed.and_then(|(notes, writer, done)| {
            let shards = self.make_all(&notes, writer, counters.as_ref())?;
            Ok((self.place(lock, &notes, &shards)?, done))
        });
        agree(comm, counters.close())?;
        let (report, done) = packed?;
        let by_rank = comm.gather(&done.to_le_bytes());
        let count =
            |bytes: &Vec<u8>| u64::from_le_bytes(bytes.as_slice().try_into().expect("eight bytes"));
        Ok(Report {
            before: before
                .iter()
                .map(|note| (note.end - note.start) as u64)
                .sum(),
            by_rank: by_rank.iter().map(count).collect(),
            ..report
        })
    }

    fn plan(&self) -> Plan {
        Plan {
            version: 5,
            shape: self.pack.shape,
            fit: self.pack.fit.to_string(),
            records: self.pack.records,
            quality: self.pack.quality,
            shuffle: self.pack.shuffle,
            shard_size: self.pack.shard_size,
            most_pixels: self.pack.most_pixels,
            photos: self.listing.photos.len(),
            digest: self.digest,
            provenance: self.provenance.clone(),
        }
    }

    /// How many shards of pixels there are.
    pub(super) fn shards(&self) -> usize {
        let most = (self.pack.shard_size / self.pack.shape.len()).max(1);
        self.listing.photos.len().div_ceil(most)
    }

    /// The photos of a shard of pixels: as many as of any other, or one more.
    pub(super) fn in_shard(&self, shard: usize) -> Range<usize> {
        let (all, shards) = (self.listing.photos.len(), self.shards());
        shard * all / shards..(shard + 1) * all / shards
    }

    /// The shard of a photo, and its slot there.
    pub(super) fn slot(&self, photo: usize) -> (usize, usize) {
        let shard = ((photo + 1) * self.shards() - 1) / self.listing.photos.len();
        (shard, photo - self.in_shard(shard).start)
    }

    /// Reads what no note speaks of. Gives notes of all photos in order, who still writes this rank's, and how many photos it
    /// has read; *collective*.
    fn read_all(
        &self,
        before: &[Note],
        counters: &dyn Counters,
    ) -> Result<(Vec<Note>, Writer, u64)> {
        let (comm, all) = (self.comm, self.listing.photos.len());
        if self.pack.records == Records::Pixels {
            let (shards, description) = (self.shards(), self.description());
            let reserve = |shard: usize| {
                let range = self.in_shard(shard);
                let noted = before.iter().any(|note| note.has_read(&range));
                let photos = &self.listing.photos[range];
                shards::reserve(&self.work, (shard, noted), photos, &description)
            };
            let mut mine = (comm.rank()..shards).step_by(comm.size());
            let reserved = few(shards).and_then(|()| mine.try_for_each(reserve));
            agree(comm, reserved)?;
        }
        let parts = self.pack.partitions.unwrap_or(EACH * comm.size());
        let partitions = partitions(before, all, parts, comm.size());
        let left: usize = partitions.iter().map(ExactSizeIterator::len).sum();
        let progress =
            (comm.rank() == 0 && left > 0).then(|| Progress::new("packing photos", left as u64));
        let mut taker = Taker::new(self, counters, progress);
        let taken = taker.take(&partitions);
        let (notes, writer, read) = taker.end();
        // On one node, all see at once what a rank has written; elsewhere only once it has come to the disk.
        let several = comm.local_size() < comm.size();
        let writer = taken.and(writer).and_then(|writer| match several {
            true => writer.end().map(|()| Writer::of(comm.local_size())),
            false => Ok(writer),
        });
        let writer = agree(comm, told(counters, writer))?;
        let mut notes: Vec<Note> = gather(comm, &notes);
        notes.extend_from_slice(before);
        notes.sort_by_key(|note| note.start);
        Ok((notes, writer, read))
    }

    fn report(&self, notes: &[Note], shards: &[ShardFile]) -> Report {
        let (listing, failures) = (&self.listing, failures(notes));
        let mut counts = listing.counts();
        for i in failures.keys() {
            counts[listing.photos[*i].label as usize] -= 1;
        }
        let named = |(i, why): (&usize, &&str)| {
            let path = listing.photos[*i].path.display().to_string();
            (path, why.to_string())
        };
        Report {
            samples: shards.iter().map(|shard| shard.samples as u64).sum(),
            classes: listing.classes.iter().cloned().zip(counts).collect(),
            failures: failures.iter().map(named).collect(),
            others: listing.others,
            shards: shards.len(),
            bytes: shards.iter().map(|shard| shard.bytes).sum(),
            before: 0,
            by_rank: Vec::new(),
            seconds: 0.0,
        }
    }

    /// Tells of shards in a manifest, and puts the set in its place, which the first rank does, who holds the lock; *collective*.
    fn place(&self, lock: Option<Lock>, notes: &[Note], shards: &[ShardFile]) -> Result<Report> {
        let report = self.report(notes, shards);
        let place = |lock: Lock| {
            manifest::write(&self.work.set(), self.pack, &report, shards)?;
            self.work.finish(lock, self.pack.force)
        };
        agree(self.comm, lock.map_or(Ok(()), place)).map(|()| report)
    }
}
