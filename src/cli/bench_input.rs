//! `phalanx bench input`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::data::shape;
use super::export::FitChoice;
use super::input::CacheArg;
use super::{positive, threads};
use crate::commands::bench::input::{Design, Kind, Settings};
use crate::data::{Frame, Shape};

/// Images a second from photos, file by file, and from records; and what that depends on.
///
/// Measures every combination of the lists below several times in random order; start it under mpirun with the most ranks to
/// measure. Prints how much faster one way is than another where nothing else differs, a regression by each parameter (linear,
/// logarithmic and saturating, compared by AIC) and one by all together, with confidence intervals.
#[derive(Args)]
pub(super) struct BenchInput {
    /// A folder of photos, with a folder for each class [default: photos are painted, and removed again].
    photos: Option<PathBuf>,
    /// How many photos to paint [default: 600, more where batches and ranks ask for them].
    #[arg(long, value_name = "N", value_parser = positive, conflicts_with = "photos")]
    painted: Option<usize>,
    /// What photos become: 1 channel (grey) or 3, height and width.
    #[arg(long, value_name = "CxHxW", default_value = "3x192x192", value_parser = shape)]
    shape: Shape,
    /// What becomes of photos with other proportions.
    #[arg(long, value_enum, default_value = "crop")]
    fit: FitChoice,
    /// Where samples come from: files, shards of JPEG files, shards of pixels, or as many bytes copied in memory.
    #[arg(
        long,
        value_enum,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "files,jpeg,pixels"
    )]
    kinds: Vec<KindArg>,
    /// Samples of a rank's batch.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "8,16,32,64", value_parser = positive)]
    batch: Vec<usize>,
    /// Batches that each rank reads.
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "4,8,16", value_parser = positive)]
    batches: Vec<usize>,
    /// Samples of the set that they are drawn from [default: a third, two thirds, and all of the photos, if a step fits into that].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = positive)]
    samples: Vec<usize>,
    /// How often the same batches are read, one time after the other.
    #[arg(long, value_name = "N", default_value = "2", value_parser = positive)]
    repetitions: usize,
    /// How many ranks read [default: 1, 2, 4 and so on, up to all].
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = positive)]
    ranks: Vec<usize>,
    /// Where decoded samples are kept.
    #[arg(
        long,
        value_enum,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "none,memory,node"
    )]
    cache: Vec<CacheArg>,
    /// Whether files are in memory before they are read (warm), or the system is asked to forget them (cold).
    #[arg(
        long,
        value_enum,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "warm,cold"
    )]
    files: Vec<FilesArg>,
    /// How often each combination is measured.
    #[arg(long, value_name = "N", default_value = "3", value_parser = positive)]
    repeats: usize,
    /// Threads of each rank that decode photos.
    #[arg(long, value_name = "N", default_value = "1", value_parser = threads)]
    decoders: usize,
    /// Scale pixels to floats too, as the first layer of a model does.
    #[arg(long)]
    floats: bool,
    /// Names the order of the measurements.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// The folder in which sets are packed for the time of the study; on the disk to measure [default: that for temporary files].
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
    /// The folder to make: study.html with all tables and plots, plots as SVG and PNG, measurements.csv, regressions.csv,
    /// residuals.csv and speedups.csv. A study that is interrupted or fails tells what it has; of one that is killed, measurements.csv is left
    /// in .DIR.partial-… beside it.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace an older study.
    #[arg(long)]
    force: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum KindArg {
    Files,
    Jpeg,
    Pixels,
    Copy,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum FilesArg {
    Warm,
    Cold,
}

impl BenchInput {
    pub(super) fn resolve(self) -> Settings {
        let kind = |kind: KindArg| match kind {
            KindArg::Files => Kind::Files,
            KindArg::Jpeg => Kind::Jpeg,
            KindArg::Pixels => Kind::Pixels,
            KindArg::Copy => Kind::Copy,
        };
        Settings {
            photos: self.photos,
            painted: self.painted,
            frame: Frame {
                shape: self.shape,
                fit: self.fit.resolve(),
            },
            design: Design {
                kinds: self.kinds.into_iter().map(kind).collect(),
                ranks: self.ranks,
                batch: self.batch,
                batches: self.batches,
                samples: self.samples,
                caches: self.cache.into_iter().map(CacheArg::resolve).collect(),
                cold: self
                    .files
                    .into_iter()
                    .map(|files| files == FilesArg::Cold)
                    .collect(),
                repeats: self.repeats,
                seed: self.seed,
            },
            repetitions: self.repetitions,
            decoders: self.decoders,
            floats: self.floats,
            work: self.work,
            out: self.out,
            force: self.force,
        }
    }
}
