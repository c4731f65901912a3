//! Labelled images and sparse rows on disk and on their way into a batch: the formats, the order, the loader, and who
//! makes sets.

mod augment;
mod cache;
pub mod cifar;
pub mod clicks;
pub mod describe;
pub mod digits;
mod encoded;
pub mod examples;
pub mod export;
mod fingerprint;
mod folder;
pub mod idx;
pub mod images;
mod loader;
mod map;
mod measure;
mod origin;
mod part;
pub mod photos;
mod pixels;
pub mod rows;
pub mod sampler;
mod set;
mod shard;
pub mod split;
mod steps;
pub mod synthetic;
pub mod text;
mod unpack;
mod writer;

pub use augment::Augment;
pub use cache::Caching;
pub use loader::{Batch, Images, Loader};
pub use origin::Origin;
pub use part::{Part, Values};
pub use pixels::Scaling;
pub use sampler::Shuffle;
use set::shard_paths;
pub use set::{Dataset, Frame};
pub use steps::{Length, Piece, Place, Steps};
pub use writer::{Description, SetWriter};
use writer::{MANIFEST, only_shards};

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The format's version that this program writes, and the newest it reads.
pub const VERSION: u32 = 1;

/// The version of files that hold photos as JPEG files.
const ENCODED: u32 = 2;

/// The most values that such a photo may become: its file cannot tell that more is a slip.
const MOST_DECODED: usize = 1 << 24;

/// What files are called, for words on where samples come from: their folders are nobody's business.
fn file_names(paths: &[PathBuf]) -> String {
    let name = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    };
    paths.iter().map(name).collect::<Vec<_>>().join(", ")
}

/// One sample's dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Channels.
    pub c: usize,
    /// Rows.
    pub h: usize,
    /// Columns.
    pub w: usize,
}

impl Shape {
    /// Values in one sample.
    pub fn len(self) -> usize {
        self.c * self.h * self.w
    }

    /// Whether a sample holds no value at all.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}×{}×{}", self.c, self.h, self.w)
    }
}
