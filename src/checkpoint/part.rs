//! `part-NNNNN.h5`: what one rank wrote down, and how it is found whole again.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::Snapshot;
use super::manifest::{Array, DAMAGED, PartFile, VERSION};
use crate::h5::File;
use crate::{Error, Result, files};

/// Values that are written at once: others who use HDF5 meanwhile wait no longer than for that.
const AT_ONCE: usize = 1 << 20;
/// The data set that holds the note.
const NOTE: &str = "note";

/// Which part of which checkpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) step: u64,
    pub(super) rank: usize,
    pub(super) ranks: usize,
}

/// The name of a rank's part.
pub(super) fn name(rank: usize) -> String {
    format!("part-{rank:05}.h5")
}

/// Where a rank says in text what its part holds, until the manifest does.
pub(super) fn about(folder: &Path, rank: usize) -> PathBuf {
    folder.join(name(rank)).with_extension("json")
}

/// Writes a rank's part and what it holds into `folder`, durably; `advanced` is told of every step forward.
pub(super) fn write(
    folder: &Path,
    place: Place,
    snapshot: &Snapshot,
    advanced: &dyn Fn(),
) -> Result<()> {
    fs::create_dir_all(folder).map_err(Error::io("create folder", folder))?;
    let path = folder.join(name(place.rank));
    let file = File::create(&path)?;
    let filled = fill(&file, place, snapshot, advanced);
    // Closed in any case: what HDF5 holds open it would try to write again at the end of the program.
    let closed = file.close();
    filled.and(closed)?;
    files::sync(&path)?;
    advanced();
    let (bytes, xxh3) = files::checksum(&path, advanced)?;
    let arrays = snapshot.pieces().map(|piece| piece.array.clone()).collect();
    let part = PartFile {
        bytes,
        xxh3,
        arrays,
    };
    let text = serde_json::to_string(&part).expect("plain values");
    files::write_text(&about(folder, place.rank), &text)
}

fn fill(file: &File, place: Place, snapshot: &Snapshot, advanced: &dyn Fn()) -> Result<()> {
    file.set_text("format", "phalanx checkpoint")?;
    file.set_numbers("version", &[VERSION])?;
    file.set_numbers("step", &[place.step])?;
    file.set_numbers("rank", &[place.rank as u64])?;
    file.set_numbers("ranks", &[place.ranks as u64])?;
    file.filled(NOTE, snapshot.note.as_bytes())?;
    for piece in snapshot.pieces() {
        let Array {
            name, start, of, ..
        } = &piece.array;
        let table = file.new_table::<f32>(name, &[piece.values.len()])?;
        if let Some(of) = of {
            table.set_numbers("start", &[*start])?;
            table.set_numbers("of", &[*of])?;
        }
        for (i, values) in piece.values.chunks(AT_ONCE).enumerate() {
            table.write(i * AT_ONCE, values)?;
            advanced();
        }
    }
    Ok(())
}

/// Refuses a part that is not, byte for byte, the one that was written.
pub(super) fn verify(path: &Path, expected: &PartFile) -> Result<()> {
    let size = fs::metadata(path).map_err(Error::io("read", path))?.len();
    if size != expected.bytes {
        let problem = format!("has {size} bytes, expected {}", expected.bytes);
        return Err(Error::file(path, problem, DAMAGED));
    }
    let (_, found) = files::checksum(path, &|| ())?;
    if found != expected.xxh3 {
        let problem = format!("is damaged: checksum {found}, expected {}", expected.xxh3);
        return Err(Error::file(path, problem, DAMAGED));
    }
    Ok(())
}

/// A part that was verified, open for reading.
pub(super) struct Part {
    file: File,
}

impl Part {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path)?;
        Ok(Self { file })
    }

    /// Values of the array `name`, counted from the first that is here.
    pub(super) fn read(&self, name: &str, range: Range<usize>, out: &mut [f32]) -> Result<()> {
        let table = self.file.table(name)?;
        let there = match table.shape()[..] {
            [there] => there,
            _ => 0,
        };
        if range.end > there {
            let problem = format!(
                "`{name}` has {there} values, expected at least {}",
                range.end
            );
            return Err(Error::file(self.file.path(), problem, DAMAGED));
        }
        for (i, out) in out.chunks_mut(AT_ONCE).enumerate() {
            let start = range.start + i * AT_ONCE;
            out.copy_from_slice(&table.read::<f32>(start..start + out.len())?);
        }
        Ok(())
    }

    /// The note.
    pub(super) fn note(&self) -> Result<String> {
        let table = self.file.table(NOTE)?;
        let bytes = table.read::<u8>(0..table.shape().first().copied().unwrap_or(0))?;
        String::from_utf8(bytes)
            .map_err(|_| Error::file(self.file.path(), "its note is not text", DAMAGED))
    }
}
