//! Options of how samples become batches.

use clap::{Args, ValueEnum};

use super::data::shape;
use super::export::FitChoice;
use super::{positive, threads};
use crate::commands::train::Input;
use crate::data::{Caching, Shape, Shuffle};
use crate::{Error, Result};

/// Samples of the buffer, where shards are shuffled and nothing else is asked for.
const BUFFER: usize = 10_000;

#[derive(Args)]
#[command(next_help_heading = "Input")]
pub(super) struct InputArgs {
    /// Where DATA is a folder of photos, with a folder for each class: what they become, 1 channel (grey) or 3, height and width.
    /// Each is decoded when it is trained on.
    #[arg(long, value_name = "CxHxW", value_parser = shape)]
    shape: Option<Shape>,
    /// What becomes of photos with other proportions [default: crop, or for test photos beside a packed set what became of its
    /// photos].
    #[arg(long, value_enum, requires = "shape")]
    fit: Option<FitChoice>,
    /// Where samples are kept that were decoded, or read through HDF5: nowhere, in the memory of each rank, or once for all
    /// ranks of a node. Pixels that are mapped need none: the system keeps them, once for a node.
    #[arg(long, value_enum, default_value = "none")]
    cache: CacheArg,
    /// Threads of each rank that decode photos ahead of training [default: a rank's cores, at most 4].
    #[arg(long, value_name = "N", value_parser = threads)]
    decoders: Option<usize>,
    /// Draw each sample from the whole set (samples), or take the shards in random order and draw from so many samples at a
    /// time (shards): for sets that are larger than memory, and were packed with --shuffle.
    #[arg(long, value_enum, default_value = "samples")]
    shuffle: ShuffleArg,
    /// With --shuffle shards: the samples to draw from at a time [default: 10000].
    #[arg(long, value_name = "N", value_parser = positive)]
    buffer: Option<usize>,
}

#[derive(Clone, Copy, ValueEnum)]
pub(super) enum CacheArg {
    None,
    Memory,
    Node,
}

impl CacheArg {
    pub(super) fn resolve(self) -> Caching {
        match self {
            Self::None => Caching::None,
            Self::Memory => Caching::Memory,
            Self::Node => Caching::Node,
        }
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum ShuffleArg {
    Samples,
    Shards,
}

impl InputArgs {
    pub(super) fn resolve(&self) -> Result<Input> {
        let shuffle = match (self.shuffle, self.buffer) {
            (ShuffleArg::Samples, None) => Shuffle::Samples,
            (ShuffleArg::Samples, Some(_)) => {
                let problem = "--buffer is for --shuffle shards: give both";
                return Err(Error::Usage(problem.into()));
            }
            (ShuffleArg::Shards, buffer) => Shuffle::Shards(buffer.unwrap_or(BUFFER)),
        };
        Ok(Input {
            shape: self.shape,
            fit: self.fit.map(FitChoice::resolve),
            caching: self.cache.resolve(),
            decoders: self.decoders,
            shuffle,
        })
    }
}
