//! The pixels of one shard: mapped when they lie in one piece, else read through HDF5; or decoded from photos.

use std::ops::Range;
use std::path::{Path, PathBuf};

use memmap2::{Advice, Mmap};

use super::Shape;
use super::encoded::Encoded;
use super::folder::Folder;
use super::map::map;
use crate::backend::cpu::{prefetch, scale};
use crate::h5::{Element, Table};
use crate::{Error, Result};

/// Bytes of a sample worth prefetching: behind these the hardware has seen the stream.
const FAR: usize = 1024;

/// How pixels become inputs: `value = pixel × factor + shift`, per channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaling {
    /// Per channel: factor and shift of a pixel in 0…1.
    channels: Vec<(f32, f32)>,
}

impl Scaling {
    /// Bytes become 0…1; floats stay as they are.
    pub fn unit(channels: usize) -> Self {
        Self {
            channels: vec![(1.0, 0.0); channels],
        }
    }

    /// Given factors and shifts, one per channel.
    pub fn of_channels(factors: &[f32], shifts: &[f32]) -> Self {
        Self {
            channels: factors
                .iter()
                .copied()
                .zip(shifts.iter().copied())
                .collect(),
        }
    }

    /// Factors and shifts, one per channel.
    pub fn channels(&self) -> (Vec<f32>, Vec<f32>) {
        self.channels.iter().copied().unzip()
    }

    /// As `unit`, then each channel to mean 0 and deviation 1.
    pub fn normal(mean: &[f32], std: &[f32]) -> Self {
        let channel = |(&mean, &std): (&f32, &f32)| {
            let factor = if std > 0.0 { 1.0 / std } else { 1.0 };
            (factor, -mean * factor)
        };
        Self {
            channels: mean.iter().zip(std).map(channel).collect(),
        }
    }
}

impl Scaling {
    /// Factor and shift of a byte, if all channels have the same.
    pub fn uniform(&self) -> Option<(f32, f32)> {
        let &(factor, shift) = self.channels.first()?;
        let same = self
            .channels
            .iter()
            .all(|&channel| channel == (factor, shift));
        same.then_some((factor / 255.0, shift))
    }

    /// Scales the bytes of one or more samples with so many pixels in a channel.
    pub fn bytes(&self, plane: usize, pixels: &[u8], out: &mut [f32]) {
        let planes = out.chunks_exact_mut(plane).zip(pixels.chunks_exact(plane));
        for ((out, pixels), (factor, shift)) in planes.zip(self.channels.iter().cycle()) {
            scale::bytes(pixels, factor / 255.0, *shift, out);
        }
    }

    /// Scales the floats of one sample where they are.
    pub(super) fn values(&self, plane: usize, values: &mut [f32]) {
        for (values, (factor, shift)) in values.chunks_exact_mut(plane).zip(&self.channels) {
            values
                .iter_mut()
                .for_each(|value| *value = *value * factor + shift);
        }
    }

    /// Scales the floats of one sample, stored in little-endian order.
    fn floats(&self, plane: usize, bytes: &[u8], out: &mut [f32]) {
        let planes = out
            .chunks_exact_mut(plane)
            .zip(bytes.chunks_exact(4 * plane));
        for ((out, bytes), (factor, shift)) in planes.zip(&self.channels) {
            scale::floats(bytes, *factor, *shift, out);
        }
    }
}

/// The numbers of a table as bytes: mapped when they lie in one piece, else read through HDF5.
pub(super) enum Bytes {
    Mapped { map: Mmap, start: usize },
    Read(Table),
}

impl Bytes {
    /// Maps `table` of numbers of so many bytes if it can be, after checking that the file holds all of it.
    pub(super) fn open(path: &Path, table: Table, width: u64) -> Result<Self> {
        let Some(start) = table.offset() else {
            return Ok(Self::Read(table));
        };
        let map = map(path)?;
        let end = table.end(start, width);
        if end.is_none_or(|end| map.len() < end) {
            let problem = format!("ends at byte {}, before its images do", map.len());
            return Err(Error::file(path, problem, "copy or make it again"));
        }
        Ok(Self::Mapped {
            map,
            start: start as usize,
        })
    }

    /// Whether they are seen in memory.
    pub(super) fn is_mapped(&self) -> bool {
        matches!(self, Self::Mapped { .. })
    }

    /// Passes bytes of a table of bytes to `visit`.
    pub(super) fn with<R>(
        &self,
        range: Range<usize>,
        visit: impl FnOnce(&[u8]) -> Result<R>,
    ) -> Result<R> {
        match self {
            Self::Mapped { map, start } => visit(&map[start + range.start..start + range.end]),
            Self::Read(table) => visit(&table.read(range)?),
        }
    }

    /// Asks the system to bring bytes into memory, without waiting.
    pub(super) fn hint(&self, range: Range<usize>) {
        if let Self::Mapped { map, start } = self {
            // Only advice: a refusal costs speed, nothing else.
            let _ = map.advise_range(Advice::WillNeed, start + range.start, range.len());
        }
    }

    /// Starts bringing bytes from memory into the cache.
    pub(super) fn prefetch(&self, range: Range<usize>) {
        if let Self::Mapped { map, start } = self {
            prefetch(&map[start + range.start..][..range.len().min(FAR)]);
        }
    }
}

/// Where a shard's pixels come from.
enum Source {
    /// As they are stored.
    Plain(Bytes),
    /// Out of photos.
    Encoded(Encoded),
    /// Out of photos in their own files.
    Folder(Folder),
}

/// The images of one shard.
pub(super) struct Pixels {
    path: PathBuf,
    shape: Shape,
    element: Element,
    source: Source,
}

impl Pixels {
    /// The pixels of `table`, mapped if they can be.
    pub(super) fn open(path: &Path, table: Table, shape: Shape) -> Result<Self> {
        let element = table.element();
        let width = match element {
            Element::U8 => 1,
            Element::F32 => 4,
            _ => {
                let hint = "see data/README.md for the format";
                return Err(Error::file(path, "`images` must be u8 or f32", hint));
            }
        };
        Ok(Self {
            path: path.to_path_buf(),
            shape,
            element,
            source: Source::Plain(Bytes::open(path, table, width)?),
        })
    }

    /// The pixels that photos become.
    pub(super) fn of_photos(path: &Path, photos: Encoded) -> Self {
        Self::decoded(path, photos.shape(), Source::Encoded(photos))
    }

    /// The pixels that photos in their own files become.
    pub(super) fn of_folder(path: &Path, photos: Folder) -> Self {
        Self::decoded(path, photos.shape(), Source::Folder(photos))
    }

    fn decoded(path: &Path, shape: Shape, source: Source) -> Self {
        Self {
            path: path.to_path_buf(),
            shape,
            element: Element::U8,
            source,
        }
    }

    /// Whether they are decoded when they are asked for.
    pub(super) fn is_encoded(&self) -> bool {
        !matches!(self.source, Source::Plain(_))
    }

    /// Whether each sample is a file by itself.
    pub(super) fn is_folder(&self) -> bool {
        matches!(self.source, Source::Folder(_))
    }

    /// The photos that are files by themselves, from the folder of all on.
    pub(super) fn photos(&self) -> &[PathBuf] {
        match &self.source {
            Source::Folder(photos) => photos.photos(),
            Source::Plain(_) | Source::Encoded(_) => &[],
        }
    }

    /// Passes the file of photo `row` to `visit`, where a shard holds photos.
    pub(super) fn with_record<R>(
        &self,
        row: usize,
        visit: impl FnOnce(&[u8]) -> Result<R>,
    ) -> Option<Result<R>> {
        match &self.source {
            Source::Encoded(photos) => Some(photos.records().with(photos.range(row), visit)),
            Source::Plain(_) | Source::Folder(_) => None,
        }
    }

    /// Whether what is stored is seen in memory.
    pub(super) fn is_mapped(&self) -> bool {
        match &self.source {
            Source::Plain(bytes) => bytes.is_mapped(),
            Source::Encoded(photos) => photos.records().is_mapped(),
            Source::Folder(_) => true,
        }
    }

    /// What the file holds of sample `row`, and where; nothing where each sample is a file.
    fn stored(&self, row: usize) -> Option<(&Bytes, Range<usize>)> {
        match &self.source {
            Source::Plain(bytes) => {
                let each = self.bytes_per_sample();
                Some((bytes, row * each..(row + 1) * each))
            }
            Source::Encoded(photos) => Some((photos.records(), photos.range(row))),
            Source::Folder(_) => None,
        }
    }

    /// The element type: `U8` or `F32`.
    pub(super) fn element(&self) -> Element {
        self.element
    }

    /// Asks the system to bring sample `row` into memory, without waiting.
    pub(super) fn hint(&self, row: usize) {
        if let Some((bytes, range)) = self.stored(row) {
            bytes.hint(range);
        }
    }

    /// The same for the samples from one to another.
    pub(super) fn hint_all(&self, first: usize, last: usize) {
        if let (Some((bytes, from)), Some((_, to))) = (self.stored(first), self.stored(last)) {
            bytes.hint(from.start..to.end);
        }
    }

    /// Starts bringing sample `row` from memory into the cache.
    pub(super) fn prefetch(&self, row: usize) {
        if let Some((bytes, range)) = self.stored(row) {
            bytes.prefetch(range);
        }
    }

    /// The sample's bytes as they are stored.
    pub(super) fn with_bytes<R>(
        &self,
        row: usize,
        visit: impl FnOnce(&[u8]) -> Result<R>,
    ) -> Result<R> {
        match &self.source {
            Source::Encoded(photos) => photos.with_pixels(row, visit),
            Source::Folder(photos) => photos.with_pixels(row, visit),
            Source::Plain(bytes) if bytes.is_mapped() => {
                let each = self.bytes_per_sample();
                bytes.with(row * each..(row + 1) * each, visit)
            }
            Source::Plain(Bytes::Read(table)) if self.element == Element::F32 => {
                let values: Vec<f32> = table.read(row..row + 1)?;
                let bytes: Vec<u8> = values
                    .iter()
                    .flat_map(|value| value.to_le_bytes())
                    .collect();
                visit(&bytes)
            }
            // Rows of a table that has them as its first dimension.
            Source::Plain(bytes) => bytes.with(row..row + 1, visit),
        }
    }

    /// Writes the bytes of sample `row`, scaled, into `out`; a value that is not finite is an error.
    pub(super) fn convert(
        &self,
        row: usize,
        bytes: &[u8],
        scaling: &Scaling,
        out: &mut [f32],
    ) -> Result<()> {
        let plane = self.shape.h * self.shape.w;
        if self.element == Element::U8 {
            scaling.bytes(plane, bytes, out);
            return Ok(());
        }
        scaling.floats(plane, bytes, out);
        match out.iter().position(|value| !value.is_finite()) {
            None => Ok(()),
            Some(at) => Err(self.not_finite(row, at, out[at])),
        }
    }

    fn not_finite(&self, row: usize, at: usize, value: f32) -> Error {
        let (plane, w) = (self.shape.h * self.shape.w, self.shape.w);
        let (channel, y, x) = (at / plane, at % plane / w, at % w);
        let problem = format!(
            "sample {row} has a pixel that is {value} (channel {channel}, row {y}, column {x})"
        );
        Error::file(
            &self.path,
            problem,
            "mend or remove that sample; `phalanx data describe` checks the whole set",
        )
    }

    /// Bytes of a sample, as `with_bytes` passes them.
    pub(super) fn bytes_per_sample(&self) -> usize {
        self.shape.len() * if self.element == Element::U8 { 1 } else { 4 }
    }
}
