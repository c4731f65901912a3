//! Shards of what was read: ranks make them in turns, bring them to the disk, and put them into the set.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;

use serde::Serialize;
use serde::de::DeserializeOwned;
use xxhash_rust::xxh3::xxh3_64;

use super::manifest::ShardFile;
use super::pack::Job;
use super::shards::{self, About};
use super::taker::{FAILED, NEXT_SHARD, failed, unreadable};
use super::work::{Note, name};
use super::writer::Writer;
use super::{Bad, Records, figures};
use crate::comm::{Comm, Counters, agree};
use crate::data::Description;
use crate::data::map::map;
use crate::{Error, Result, interrupt};

/// The most shards: their names have so many digits.
const MOST_SHARDS: usize = 100_000;

/// A shard that this rank has made, and where it is until it is in the set.
struct Made {
    file: ShardFile,
    shard: usize,
    path: PathBuf,
}

impl Job<'_> {
    /// Makes shards of what was read, and puts them into the set once `writer` and those of other ranks are at their ends:
    /// whoever takes this up believes what is there; *collective*.
    pub(super) fn make_all(
        &self,
        notes: &[Note],
        mut writer: Writer,
        counters: &dyn Counters,
    ) -> Result<Vec<ShardFile>> {
        let Self { comm, pack, .. } = *self;
        let failures = failures(notes);
        agree(comm, self.judge(&failures))?;
        let about = self.about(notes, failures.len());
        let lengths: Vec<u32> = notes.iter().flat_map(|note| note.lengths.clone()).collect();
        let encoded = shards::divide(&lengths, pack.shard_size);
        let all = match pack.records {
            Records::Pixels => self.shards(),
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
        // Copies without bad photos, of which there may be many, should not be on the disk all at once.
        let at_once = pack.records == Records::Pixels && !failures.is_empty();
        if at_once {
            agree(comm, writer.wait())?;
        }
        let settle = |made: &Made| self.work.settle(made.shard, &made.path);
        let made = self.make(counters, all, |shard| {
            let (samples, path) = make(shard)?;
            let made = made(shard, samples, path, |file| {
                writer.write(&self.work, Vec::new(), vec![file])
            })?;
            if at_once {
                writer.wait()?;
                made.iter().try_for_each(settle)?;
            }
            Ok(made)
        });
        let made = agree(comm, told(counters, made))?;
        agree(comm, writer.end())?;
        if !at_once {
            agree(comm, made.iter().try_for_each(settle))?;
        }
        let mine: Vec<ShardFile> = made.into_iter().map(|made| made.file).collect();
        let mut shards: Vec<ShardFile> = gather(comm, &mine);
        shards.sort_by(|a, b| a.file.cmp(&b.file));
        Ok(shards)
    }

    /// Makes shards that no other rank makes.
    fn make(
        &self,
        counters: &dyn Counters,
        all: usize,
        mut make: impl FnMut(usize) -> Result<Option<Made>>,
    ) -> Result<Vec<Made>> {
        let mut made = Vec::new();
        loop {
            let shard = counters.add(NEXT_SHARD, 1)? as usize;
            if shard >= all || failed(counters)? {
                return Ok(made);
            }
            interrupt::check()?;
            made.extend(make(shard).inspect_err(|_| {
                // Where the disk is full, others may need its room.
                let _ = fs::remove_file(self.work.copied(shard));
            })?);
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

    /// What is known of the set before photos are read.
    pub(super) fn description(&self) -> Description {
        Description {
            samples: self.listing.photos.len(),
            shape: self.pack.shape,
            classes: self.listing.classes.len() as u32,
            class_names: self.listing.classes.clone(),
            float: false,
            shards: 1,
            provenance: self.provenance.clone(),
            force: self.pack.force,
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
        About {
            description: self.description(),
            fit: pack.fit.to_string(),
            mean,
            std,
        }
    }
}

/// A shard of so many samples that is at `path`, of which `write` brings the file to the disk while its checksum is taken: as
/// memory, which takes less than half of the time that reading it would. None without samples.
fn made(
    shard: usize,
    samples: usize,
    path: PathBuf,
    write: impl FnOnce(File) -> Result<()>,
) -> Result<Option<Made>> {
    if samples == 0 {
        return Ok(None);
    }
    write(File::open(&path).map_err(Error::io("sync", &path))?)?;
    let bytes = map(&path)?;
    let file = ShardFile {
        file: name(shard),
        samples,
        bytes: bytes.len() as u64,
        xxh3: format!("{:016x}", xxh3_64(&bytes)),
    };
    Ok(Some(Made { file, shard, path }))
}

/// Which photos could not be read, and why.
pub(super) fn failures(notes: &[Note]) -> BTreeMap<usize, &str> {
    (notes.iter())
        .flat_map(|note| note.failures.iter().map(|(i, why)| (*i, why.as_str())))
        .collect()
}

/// Lets others know at once that a rank has failed, before they agree.
pub(super) fn told<T>(counters: &dyn Counters, mine: Result<T>) -> Result<T> {
    if mine.is_err() {
        counters.add(FAILED, 1)?;
    }
    mine
}

/// What all ranks have, in the order of ranks; *collective*.
pub(super) fn gather<T: Serialize + DeserializeOwned>(comm: &dyn Comm, mine: &[T]) -> Vec<T> {
    let text = serde_json::to_vec(mine).expect("plain values");
    let read =
        |text: &Vec<u8>| -> Vec<T> { serde_json::from_slice(text).expect("as that rank wrote it") };
    comm.gather(&text).iter().flat_map(read).collect()
}

/// Refuses more shards than can be told apart.
pub(super) fn few(shards: usize) -> Result<()> {
    match shards <= MOST_SHARDS {
        true => Ok(()),
        false => Err(Error::Usage(format!(
            "{shards} shards, at most {MOST_SHARDS} are possible: give a larger --shard-size"
        ))),
    }
}
