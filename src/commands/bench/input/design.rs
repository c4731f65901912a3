//! What is measured: every combination of what was asked for, several times, in random order.

use serde::Serialize;

use crate::data::Caching;
use crate::data::sampler::Permutation;

/// Where samples come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Photos, a file for each.
    Files,
    /// Shards of JPEG files.
    Jpeg,
    /// Shards of pixels, mapped.
    Pixels,
    /// As many bytes copied from memory to memory: what nothing can exceed.
    Copy,
}

impl Kind {
    /// As the user reads and types it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Jpeg => "jpeg",
            Self::Pixels => "pixels",
            Self::Copy => "copy",
        }
    }

    /// Whether photos are decoded, so that it pays to keep them.
    fn is_decoded(self) -> bool {
        matches!(self, Self::Files | Self::Jpeg)
    }
}

/// What may be varied; numbers among them are what regressions are over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Factor {
    /// Where samples come from.
    Kind,
    /// How many ranks read.
    Ranks,
    /// Samples of a batch.
    Batch,
    /// Batches that are read.
    Batches,
    /// Samples of the set.
    Samples,
    /// How often the same batches were read, this time included.
    Repetition,
    /// Where samples are kept.
    Cache,
    /// Whether the files were in memory before.
    Cold,
}

impl Factor {
    /// Those that are numbers.
    pub const NUMBERS: [Self; 5] = [
        Self::Batch,
        Self::Batches,
        Self::Samples,
        Self::Repetition,
        Self::Ranks,
    ];

    /// As the user reads it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kind => "kind",
            Self::Ranks => "ranks",
            Self::Batch => "batch",
            Self::Batches => "batches",
            Self::Samples => "samples",
            Self::Repetition => "repetition",
            Self::Cache => "cache",
            Self::Cold => "cold",
        }
    }
}

/// One of the combinations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Where samples come from.
    pub kind: Kind,
    /// How many ranks read.
    pub ranks: usize,
    /// Samples of a rank's batch.
    pub batch: usize,
    /// Batches of each rank.
    pub batches: usize,
    /// Samples of the set.
    pub samples: usize,
    /// Where samples are kept.
    pub cache: Caching,
    /// Whether files are put out of memory first.
    pub cold: bool,
}

impl Setting {
    /// A row of it, of so many seconds, with images of so many bytes.
    pub fn row(&self, repetition: usize, seconds: f64, each: usize) -> Row {
        let images = self.batch * self.batches * self.ranks;
        Row {
            run: 0,
            kind: self.kind,
            ranks: self.ranks,
            batch: self.batch,
            batches: self.batches,
            samples: self.samples,
            repetition,
            cache: self.cache.name(),
            cold: self.cold,
            repeat: 0,
            images,
            seconds,
            images_per_s: images as f64 / seconds,
            mb_per_s: (images * each) as f64 / seconds / 1e6,
            files_mb: 0.0,
            disk_mb: 0.0,
        }
    }
}

/// The lists of which all combinations are measured.
#[derive(Clone, Debug)]
pub struct Design {
    /// Where samples come from.
    pub kinds: Vec<Kind>,
    /// How many ranks read.
    pub ranks: Vec<usize>,
    /// Samples of a rank's batch.
    pub batch: Vec<usize>,
    /// Batches of each rank.
    pub batches: Vec<usize>,
    /// Samples of the set.
    pub samples: Vec<usize>,
    /// Where samples are kept.
    pub caches: Vec<Caching>,
    /// Whether files are put out of memory first.
    pub cold: Vec<bool>,
    /// How often each combination is measured.
    pub repeats: usize,
    /// Names the order.
    pub seed: u64,
}

impl Design {
    /// With each value of a list once.
    pub fn once(mut self) -> Self {
        fn once<T: PartialEq>(list: &mut Vec<T>) {
            let all = std::mem::take(list);
            for one in all {
                if !list.contains(&one) {
                    list.push(one);
                }
            }
        }
        let numbers = [&mut self.ranks, &mut self.batch, &mut self.batches];
        numbers.into_iter().for_each(once);
        once(&mut self.samples);
        once(&mut self.kinds);
        once(&mut self.caches);
        once(&mut self.cold);
        self
    }

    /// Samples of a step of all ranks that take the largest one.
    pub fn largest_step(&self) -> usize {
        let most = |list: &[usize]| list.iter().max().copied().unwrap_or(0);
        most(&self.batch) * most(&self.ranks)
    }

    /// Every combination as often as asked for, with the number of the repeat, in random order.
    pub fn runs(&self) -> Vec<(Setting, usize)> {
        let mut all = Vec::new();
        for repeat in 0..self.repeats {
            for &kind in &self.kinds {
                self.of_kind(kind, |setting| all.push((setting, repeat)));
            }
        }
        let order = Permutation::new(all.len(), self.seed, 0);
        (0..all.len()).map(|i| all[order.at(i)]).collect()
    }

    fn of_kind(&self, kind: Kind, mut push: impl FnMut(Setting)) {
        // Mapped pixels are kept by the system, and a copy has no file.
        let caches = match kind.is_decoded() {
            true => &self.caches[..],
            false => &[Caching::None],
        };
        let cold = match kind {
            Kind::Copy => &[false],
            _ => &self.cold[..],
        };
        for &ranks in &self.ranks {
            for &batch in &self.batch {
                for &batches in &self.batches {
                    for &samples in &self.samples {
                        for &cache in caches {
                            for &cold in cold {
                                push(Setting {
                                    kind,
                                    ranks,
                                    batch,
                                    batches,
                                    samples,
                                    cache,
                                    cold,
                                });
                            }
                        }
                    }
                }
            }
        }
    }
}

/// One reading of the batches of a setting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its place in the order of measuring.
    pub run: usize,
    /// Where samples came from.
    pub kind: Kind,
    /// How many ranks read.
    pub ranks: usize,
    /// Samples of a rank's batch.
    pub batch: usize,
    /// Batches of each rank.
    pub batches: usize,
    /// Samples of the set.
    pub samples: usize,
    /// How often the same batches were read, this time included.
    pub repetition: usize,
    /// Where samples were kept.
    pub cache: &'static str,
    /// Whether files were put out of memory before the first repetition.
    pub cold: bool,
    /// The number of the repeat.
    pub repeat: usize,
    /// Images that all ranks read.
    pub images: usize,
    /// From the first start to the last end.
    pub seconds: f64,
    /// Images a second.
    pub images_per_s: f64,
    /// MB of pixels a second.
    pub mb_per_s: f64,
    /// MB of the files that these images are in.
    pub files_mb: f64,
    /// MB that came from a disk meanwhile.
    pub disk_mb: f64,
}

impl Row {
    /// What it has of a factor, as a number.
    pub fn level(&self, factor: Factor) -> f64 {
        match factor {
            Factor::Kind => f64::from(self.kind as u8),
            Factor::Ranks => self.ranks as f64,
            Factor::Batch => self.batch as f64,
            Factor::Batches => self.batches as f64,
            Factor::Samples => self.samples as f64,
            Factor::Repetition => self.repetition as f64,
            Factor::Cache => match self.cache {
                "none" => 0.0,
                "memory" => 1.0,
                _ => 2.0,
            },
            Factor::Cold => f64::from(u8::from(self.cold)),
        }
    }

    /// Whether decoded samples are kept.
    pub fn keeps(&self) -> bool {
        self.cache != "none"
    }

    /// How much of it this run had read before: all by repetition, or what goes round in a set of fewer samples.
    pub fn share_read_before(&self) -> f64 {
        match self.repetition {
            1 => 1.0 - (self.samples as f64 / self.images as f64).min(1.0),
            _ => 1.0,
        }
    }

    /// What it has of all factors but these.
    pub fn cell(&self, but: &[Factor]) -> Vec<u64> {
        let rest = [Factor::Kind, Factor::Cache, Factor::Cold];
        let all = Factor::NUMBERS.into_iter().chain(rest);
        all.filter(|factor| !but.contains(factor))
            .map(|factor| self.level(factor) as u64)
            .collect()
    }
}
