//! The built-in set that a benchmark runs on.

use std::path::Path;
use std::sync::Arc;

use crate::Result;
use crate::comm::{Comm, agree};
use crate::data::{Dataset, Description, SetWriter, Shape, digits, images};

/// A set: bytes at random in all but name, for the speed does not depend on what is drawn.
#[derive(Clone, Copy)]
pub(super) struct BuiltIn {
    pub(super) shape: Shape,
    pub(super) classes: u32,
    /// The fewest samples.
    pub(super) least: usize,
}

impl BuiltIn {
    /// What it is called in the results.
    pub(super) fn name(self) -> &'static str {
        if self.are_digits() {
            "digits"
        } else {
            "images"
        }
    }

    /// Opens the set, which is there for as long as it takes to open it; *collective*.
    pub(super) fn open(self, comm: &dyn Comm) -> Result<Arc<Dataset>> {
        let mut key = [
            std::process::id().into(),
            std::time::UNIX_EPOCH
                .elapsed()
                .map_or(0, |time| time.as_nanos() as u64),
        ];
        comm.broadcast(0, &mut key);
        let path = std::env::temp_dir().join(format!("phalanx-bench-{}-{}.h5", key[0], key[1]));
        let first = comm.local_rank() == 0;
        agree(comm, if first { self.make(&path) } else { Ok(()) })?;
        let data = agree(comm, Dataset::open(&path))?;
        if first {
            // The map stays; a name that cannot be removed is only litter.
            let _ = std::fs::remove_file(&path);
        }
        Ok(Arc::new(data))
    }

    fn are_digits(self) -> bool {
        let side = digits::SIDE;
        self.classes == 10 && (self.shape.c, self.shape.h, self.shape.w) == (1, side, side)
    }

    fn make(self, path: &Path) -> Result<()> {
        let each = self.shape.len();
        // As many as MNIST has, or a few steps of images; few of them are different.
        let (samples, distinct) = if self.are_digits() {
            (self.least.max(60_000), 2000)
        } else {
            (self.least, (1 << 22) / each + 1)
        };
        let mut pixels = vec![0; distinct * each];
        let Shape { c, h, w } = self.shape;
        let draw = |(index, image): (usize, &mut [u8])| match self.are_digits() {
            true => digits::draw(1, index as u64, h, image),
            false => images::paint(1, index as u64, (c, h, w), self.classes, image),
        };
        let images = pixels.chunks_exact_mut(each).enumerate();
        let labels: Vec<u32> = images.map(draw).collect();
        let about = Description {
            samples,
            shape: self.shape,
            classes: self.classes,
            class_names: Vec::new(),
            float: false,
            shards: 1,
            provenance: "made for a benchmark".into(),
            force: true,
        };
        let mut writer = SetWriter::create(path, about)?;
        for i in (0..samples).map(|i| i % distinct) {
            writer.push(&pixels[i * each..][..each], labels[i])?;
        }
        writer.finish()
    }
}
