//! All ranks pack photos: they take partitions in turns, then make the shards ready, then the first tells of it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Instant;

use super::listing::Listing;
use super::manifest::{self, ShardFile};
use super::shards::{self, About};
use super::taker::{COUNTERS, FAILED, NEXT, Taker, failed, unreadable};
use super::work::{Note, Plan, Work, name, partitions};
use super::{Bad, Pack, Records, figures};
use crate::comm::{Comm, Counters, agree};
use crate::data::{Dataset, Description, MOST_DECODED};
use crate::observe::Progress;
use crate::{Error, Result, files, interrupt};

/// Partitions for each rank, where nothing else is asked for.
const EACH: usize = 4;
/// The most shards: their names have so many digits.
const MOST_SHARDS: usize = 100_000;

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
    let listing = list(comm, pack)?;
    let job = Job {
        comm,
        pack,
        work: agree(comm, Work::of(&pack.out))?,
        listing,
    };
    let packed = job.run();
    if packed.is_err() && comm.rank() == 0 && job.work.path().exists() {
        log::warn!(
            "what was packed so far is kept in {}; the same command goes on from there",
            job.work.path().display()
        );
    }
    packed.map(|report| Report {
        seconds: start.elapsed().as_secs_f64(),
        ..report
    })
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
    Ok(())
}

/// The photos, as the first rank finds them; *collective*.
fn list(comm: &dyn Comm, pack: &Pack) -> Result<Listing> {
    let found = || {
        let like = pack.like.as_deref().map(Dataset::open).transpose()?;
        if let Some(set) = like.as_ref().filter(|set| set.class_names.is_empty()) {
            let problem = "does not say what its classes are called";
            let hint = "--like takes a set that was packed from photos";
            return Err(Error::file(&set.path, problem, hint));
        }
        let known = like.as_ref().map(|set| &set.class_names[..]);
        let listing = Listing::new(&pack.photos, &pack.labels, known)?;
        Ok(match pack.shuffle {
            Some(seed) => listing.shuffled(seed),
            None => listing,
        })
    };
    let mine = match comm.rank() {
        0 => found().map(Some),
        _ => Ok(None),
    };
    let listing = Listing::of_first(comm, agree(comm, mine)?);
    let first = pack.photos.join(&listing.photos[0].path);
    let seen = match first.symlink_metadata() {
        Ok(_) => Ok(()),
        Err(_) => Err(Error::file(
            &pack.photos,
            format!("is not seen by rank {}", comm.rank()),
            "give a place that all hosts share, or start all ranks on one host",
        )),
    };
    agree(comm, seen)?;
    Ok(listing)
}

/// All that packing needs.
pub(super) struct Job<'a> {
    comm: &'a dyn Comm,
    pub(super) pack: &'a Pack,
    pub(super) work: Work,
    pub(super) listing: Listing,
}

impl Job<'_> {
    fn run(&self) -> Result<Report> {
        let Self { comm, pack, .. } = *self;
        let lock = match comm.rank() {
            0 => self
                .work
                .begin(&pack.out, &self.plan(), pack.force)
                .map(Some),
            _ => Ok(None),
        };
        let lock = agree(comm, lock)?;
        let seen = match self.work.set().is_dir() {
            true => Ok(()),
            false => Err(Error::file(
                self.work.path(),
                format!("is not seen by rank {}", comm.rank()),
                "give a place that all hosts share, or start all ranks on one host",
            )),
        };
        agree(comm, seen)?;
        let before = self.work.notes(comm, self.listing.photos.len())?;
        let done = self.read_all(&before)?;
        let notes = self.work.notes(comm, self.listing.photos.len())?;
        let report = self.finish(&notes)?;
        drop(lock);
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
            version: 1,
            shape: self.pack.shape,
            fit: self.pack.fit.to_string(),
            records: self.pack.records,
            quality: self.pack.quality,
            shuffle: self.pack.shuffle,
            shard_size: self.pack.shard_size,
            most_pixels: self.pack.most_pixels,
            photos: self.listing.photos.len(),
            digest: self.listing.digest,
        }
    }

    /// Photos that have their slots in one shard of pixels.
    pub(super) fn per_shard(&self) -> usize {
        (self.pack.shard_size / self.pack.shape.len()).max(1)
    }

    /// The photos of a shard of pixels.
    fn in_shard(&self, shard: usize) -> Range<usize> {
        let (each, all) = (self.per_shard(), self.listing.photos.len());
        shard * each..all.min((shard + 1) * each)
    }

    /// Reads what no note speaks of, and writes notes; gives how many photos this rank has read; *collective*.
    fn read_all(&self, notes: &[Note]) -> Result<u64> {
        let (comm, all) = (self.comm, self.listing.photos.len());
        if self.pack.records == Records::Pixels {
            let shards = all.div_ceil(self.per_shard());
            let reserve = |shard: usize| {
                let range = self.in_shard(shard);
                let over = |note: &Note| note.start < range.end && range.start < note.end;
                let noted = notes.iter().any(over);
                let photos = &self.listing.photos[range];
                shards::reserve(&self.work, (shard, noted), photos, self.pack.shape)
            };
            let mut mine = (comm.rank()..shards).step_by(comm.size());
            let reserved = few(shards).and_then(|()| mine.try_for_each(reserve));
            agree(comm, reserved)?;
        }
        let parts = self.pack.partitions.unwrap_or(EACH * comm.size());
        let partitions = partitions(notes, all, parts);
        let counters = comm.counters(COUNTERS)?;
        let left: usize = partitions.iter().map(ExactSizeIterator::len).sum();
        let progress =
            (comm.rank() == 0 && left > 0).then(|| Progress::new("packing photos", left as u64));
        let mut taker = Taker::new(self, counters.as_ref(), progress);
        let taken = taker.take(&partitions);
        let taken = taken.and(taker.noted());
        if taken.is_err() {
            counters.add(FAILED, 1)?;
        }
        let read = taker.read();
        let taken = agree(comm, taken);
        counters.close()?;
        taken.map(|()| read)
    }

    /// Makes shards of what was read, and a set of them; *collective*.
    fn finish(&self, notes: &[Note]) -> Result<Report> {
        let Self { comm, pack, .. } = *self;
        let failures: BTreeMap<usize, &str> = (notes.iter())
            .flat_map(|note| note.failures.iter().map(|(i, why)| (*i, why.as_str())))
            .collect();
        agree(comm, self.judge(&failures))?;
        let about = self.about(notes, failures.len());
        let lengths: Vec<u32> = notes.iter().flat_map(|note| note.lengths.clone()).collect();
        let encoded = shards::divide(&lengths, pack.shard_size);
        let all = match pack.records {
            Records::Pixels => self.listing.photos.len().div_ceil(self.per_shard()),
            Records::Jpeg => encoded.len(),
        };
        agree(comm, few(all))?;
        let make = |shard: usize| match pack.records {
            Records::Pixels => {
                let range = self.in_shard(shard);
                let bad: Vec<usize> = (failures.range(range.clone()))
                    .map(|(i, _)| i - range.start)
                    .collect();
                let photos = &self.listing.photos[range];
                shards::finish_slots(&self.work, shard, photos, &bad, &about)
            }
            Records::Jpeg => {
                let (photos, of) = (&self.listing.photos, (shard, &encoded[shard]));
                shards::join(&self.work, of, photos, notes, &about)
            }
        };
        let counters = comm.counters(COUNTERS)?;
        let made = self.make_all(counters.as_ref(), all, &make);
        if made.is_err() {
            counters.add(FAILED, 1)?;
        }
        let made = agree(comm, made);
        counters.close()?;
        let text = serde_json::to_vec(&made?).expect("plain values");
        let mut shards: Vec<ShardFile> = (comm.gather(&text).iter())
            .flat_map(|text| {
                let shards: Vec<ShardFile> =
                    serde_json::from_slice(text).expect("as that rank wrote it");
                shards
            })
            .collect();
        shards.sort_by(|a, b| a.file.cmp(&b.file));
        let report = self.report(&failures, &shards);
        let placed = match comm.rank() {
            0 => self.place(&report, &shards),
            _ => Ok(()),
        };
        agree(comm, placed).map(|()| report)
    }

    /// Makes shards ready that no other rank makes.
    fn make_all(
        &self,
        counters: &dyn Counters,
        all: usize,
        make: &dyn Fn(usize) -> Result<usize>,
    ) -> Result<Vec<ShardFile>> {
        let mut made = Vec::new();
        loop {
            let shard = counters.add(NEXT, 1)? as usize;
            if shard >= all || failed(counters)? {
                return Ok(made);
            }
            interrupt::check()?;
            let samples = make(shard)?;
            if samples > 0 {
                let (bytes, xxh3) = files::checksum(&self.work.ready(shard), &|| ())?;
                made.push(ShardFile {
                    file: name(shard),
                    samples,
                    bytes,
                    xxh3,
                });
            }
        }
    }

    /// Refuses what cannot become a set.
    fn judge(&self, failures: &BTreeMap<usize, &str>) -> Result<()> {
        let first = failures.first_key_value();
        let path = |&i: &usize| self.pack.photos.join(&self.listing.photos[i].path);
        match first {
            Some((i, why)) if self.pack.bad == Bad::Stop => Err(unreadable(&path(i), why)),
            Some((i, why)) if failures.len() == self.listing.photos.len() => {
                let problem = format!("no photo in it can be read\n  {}: {why}", path(i).display());
                let hint = "is it the right folder?";
                Err(Error::file(&self.pack.photos, problem, hint))
            }
            _ => Ok(()),
        }
    }

    /// What shards say of the set.
    fn about(&self, notes: &[Note], failures: usize) -> About {
        let pack = self.pack;
        let samples = self.listing.photos.len() - failures;
        let plane = (pack.shape.h * pack.shape.w) as u128;
        let count = samples as u128 * plane;
        let total = |channel: usize, power: usize| -> u128 {
            let each = notes
                .iter()
                .map(|note| u128::from(note.sums[channel][power]));
            each.sum()
        };
        let figures = |channel| figures([total(channel, 0), total(channel, 1)], count);
        let (mean, std) = (0..pack.shape.c).map(figures).unzip();
        let folder = pack.photos.file_name().unwrap_or_default();
        About {
            description: Description {
                samples,
                shape: pack.shape,
                classes: self.listing.classes.len() as u32,
                class_names: self.listing.classes.clone(),
                float: false,
                shards: 1,
                provenance: format!(
                    "photos of {}, {} to {}",
                    folder.to_string_lossy(),
                    pack.fit,
                    pack.shape
                ),
                force: pack.force,
            },
            fit: pack.fit.to_string(),
            mean,
            std,
        }
    }

    fn report(&self, failures: &BTreeMap<usize, &str>, shards: &[ShardFile]) -> Report {
        let listing = &self.listing;
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

    /// Writes the manifest and puts the set in its place; by the first rank.
    fn place(&self, report: &Report, shards: &[ShardFile]) -> Result<()> {
        manifest::write(&self.work.set(), self.pack, report, shards)?;
        self.work.finish(&self.pack.out, self.pack.force)
    }
}

fn few(shards: usize) -> Result<()> {
    match shards <= MOST_SHARDS {
        true => Ok(()),
        false => Err(Error::Usage(format!(
            "{shards} shards, at most {MOST_SHARDS} are possible: give a larger --shard-size"
        ))),
    }
}
