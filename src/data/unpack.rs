//! Files that may be gzipped.

use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::{Error, Result};

/// The content of a gzipped file, of one member or several.
pub(super) struct Unpacked(MultiGzDecoder<BufReader<File>>);

impl Unpacked {
    /// Opens a file that is gzipped.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(Error::io("read", path))?;
        Ok(Self(MultiGzDecoder::new(BufReader::with_capacity(
            1 << 20,
            file,
        ))))
    }

    /// Bytes of the packed file that were taken so far.
    pub(super) fn taken(&mut self) -> u64 {
        // Only a progress bar asks.
        self.0.get_mut().stream_position().unwrap_or(0)
    }
}

impl Read for Unpacked {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(out)
    }
}

/// Whether a file begins as gzipped ones do.
pub(super) fn is_packed(path: &Path) -> Result<bool> {
    let file = File::open(path).map_err(Error::io("read", path))?;
    let mut magic = Vec::new();
    file.take(2)
        .read_to_end(&mut magic)
        .map_err(Error::io("read", path))?;
    Ok(magic == [0x1f, 0x8b])
}

/// The content of a file, plain or gzipped.
pub(super) fn open(path: &Path) -> Result<Box<dyn Read>> {
    if is_packed(path)? {
        return Ok(Box::new(Unpacked::open(path)?));
    }
    plain(path)
}

/// The content of a file as it is.
pub(super) fn plain(path: &Path) -> Result<Box<dyn Read>> {
    let file = File::open(path).map_err(Error::io("read", path))?;
    Ok(Box::new(BufReader::with_capacity(1 << 20, file)))
}

/// The bytes of a gzipped file with this content.
#[cfg(test)]
pub(super) fn packed(content: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer
        .write_all(content)
        .expect("memory takes all that is written");
    packer.finish().expect("memory takes all that is written")
}
