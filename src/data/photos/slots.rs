//! Where the pixels of photos go, some at once.

use std::fs::File;
use std::path::Path;

use super::shards::AT_ONCE;
use super::work::Work;
use crate::data::Shape;
use crate::h5;
use crate::{Error, Result, files};

/// Where the pixels of photos go: every photo has a slot in a shard, read or not. They are written some at once, up to whole
/// multiples of that in the file: systems keep what is written so in larger pieces, which come to the disk with less work.
pub(super) struct Slots<'a> {
    work: &'a Work,
    each: usize,
    /// Pixels that are to be written one behind the other, the shard and the slot where that begins, and how many bytes of the
    /// first are written.
    some: Vec<Vec<u8>>,
    first: (usize, usize),
    begun: usize,
    /// Memory to be used again.
    spare: Vec<Vec<u8>>,
    /// A shard, its file and where the pixels begin there.
    open: Option<(usize, File, u64)>,
    /// Those that were written before, and are not known to be on the disk.
    unsynced: Vec<File>,
}

impl<'a> Slots<'a> {
    pub(super) fn new(work: &'a Work, shape: Shape) -> Self {
        Self {
            work,
            each: shape.len(),
            some: Vec::new(),
            first: (0, 0),
            begun: 0,
            spare: Vec::new(),
            open: None,
            unsynced: Vec::new(),
        }
    }

    /// Has the pixels written of the photo in a slot of a shard, and may give other memory for them.
    pub(super) fn write(&mut self, at: (usize, usize), pixels: &mut Vec<u8>) -> Result<()> {
        let (shard, slot) = self.first;
        if at != (shard, slot + self.some.len()) {
            self.flush(1)?;
        }
        if self.some.is_empty() {
            (self.first, self.begun) = (at, 0);
        }
        self.some.push(std::mem::take(pixels));
        // Of large photos, no more than one is kept in memory.
        let is_large = self.each > AT_ONCE / 2;
        self.flush(if is_large { 1 } else { AT_ONCE })?;
        *pixels = self.spare.pop().unwrap_or_else(|| vec![0; self.each]);
        Ok(())
    }

    /// Writes what is to be written, up to a multiple of `whole` bytes in the file.
    fn flush(&mut self, whole: usize) -> Result<()> {
        let ((shard, slot), each) = (self.first, self.each);
        if self.some.is_empty() {
            return Ok(());
        }
        let path = self.work.slots(shard);
        let (file, start) = match &mut self.open {
            Some((open, file, start)) if *open == shard => (file, *start),
            open => {
                self.unsynced.extend(open.take().map(|(_, file, _)| file));
                let start = place(&path)?;
                let file = File::options().write(true).open(&path);
                let file = file.map_err(Error::io("write", &path))?;
                let (_, file, start) = open.insert((shard, file, start));
                (file, *start)
            }
        };
        // In bytes of the file, and behind the first of `some`.
        let first = start as usize + slot * each;
        let end = (first + self.some.len() * each) / whole * whole;
        let Some(end) = end.checked_sub(first).filter(|end| *end > self.begun) else {
            return Ok(());
        };
        let within = |photo: usize, at: usize| at.saturating_sub(photo * each).min(each);
        let photos = self.some.iter().enumerate();
        let parts: Vec<&[u8]> = photos
            .map(|(i, photo)| &photo[within(i, self.begun)..within(i, end)])
            .collect();
        let written = files::write_all_at(file, &parts, (first + self.begun) as u64);
        written.map_err(Error::io("write", &path))?;
        self.spare.extend(self.some.drain(..end / each));
        (self.first.1, self.begun) = (slot + end / each, end % each);
        Ok(())
    }

    /// How many files `unsynced` would give, or one less.
    pub(super) fn files(&self) -> usize {
        self.unsynced.len()
    }

    /// Writes all, and gives the files that were written since this was called last, for what is not on the disk yet.
    pub(super) fn unsynced(&mut self) -> Result<Vec<File>> {
        self.flush(1)?;
        let mut files = std::mem::take(&mut self.unsynced);
        if let Some((shard, file, _)) = &self.open {
            let path = self.work.slots(*shard);
            files.push(file.try_clone().map_err(Error::io("write", path))?);
        }
        Ok(files)
    }
}

/// Where the pixels of a shard begin in its file.
pub(super) fn place(path: &Path) -> Result<u64> {
    let offset = h5::File::place_in_own(path, "images")?;
    offset.ok_or_else(|| Error::file(path, "has no place for pixels", "remove it, and pack again"))
}

#[cfg(test)]
mod tests {
    use super::super::shards::make_room;
    use super::super::shards::tests::{description, photos};
    use super::*;

    #[test]
    fn every_slot_has_its_pixels_in_whatever_pieces_they_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let work = Work::of(&folder.path().join("set")).unwrap();
        std::fs::create_dir_all(work.slots(0).parent().unwrap()).unwrap();
        // Some of a piece, more than half of one, and more than two.
        for (h, w) in [(300, 301), (800, 1000), (1700, 1301)] {
            let shape = Shape { c: 1, h, w };
            let each = shape.len();
            let shards = [0, 1].map(|shard| work.slots(shard));
            for shard in &shards {
                make_room(shard, photos().iter(), &description(shape)).unwrap();
            }
            let pixels = |shard: usize, slot: usize| -> Vec<u8> {
                let byte = |i: usize| (i / 7 + 31 * slot + 101 * shard) as u8;
                (0..each).map(byte).collect()
            };
            // One that cannot be read is left out, and so is one that another rank writes.
            let order = [
                (0, 3),
                (0, 4),
                (0, 5),
                (0, 7),
                (0, 8),
                (1, 0),
                (1, 1),
                (0, 0),
            ];
            let mut slots = Slots::new(&work, shape);
            for (i, &(shard, slot)) in order.iter().enumerate() {
                let mut memory = pixels(shard, slot);
                slots.write((shard, slot), &mut memory).unwrap();
                assert_eq!(memory.len(), each);
                let kept = (slots.some.len() + slots.spare.len()) * each;
                assert!(kept <= 2 * AT_ONCE, "{kept} bytes are kept of {shape}");
                if i == 1 {
                    assert_eq!(slots.unsynced().unwrap().len(), 1);
                }
            }
            assert_eq!(slots.unsynced().unwrap().len(), 3);
            for (shard, path) in shards.iter().enumerate() {
                let start = place(path).unwrap() as usize;
                let bytes = std::fs::read(path).unwrap();
                for slot in 0..9 {
                    let expected = match order.contains(&(shard, slot)) {
                        true => pixels(shard, slot),
                        false => vec![0; each],
                    };
                    let got = &bytes[start + slot * each..][..each];
                    assert!(got == expected, "slot {slot} of shard {shard}, {shape}");
                }
            }
        }
    }
}
