//! Files as memory.
#![allow(unsafe_code)]

use std::fs::File;
use std::path::Path;

use memmap2::Mmap;

use crate::{Error, Result};

/// The bytes of a file.
pub(super) fn map(path: &Path) -> Result<Mmap> {
    let file = File::open(path).map_err(Error::io("read", path))?;
    // SAFETY: the map is read-only; a set is written under another name and renamed when complete, so a file that changes under a
    // run is outside what phalanx or any mapped reader can promise.
    unsafe { Mmap::map(&file) }.map_err(Error::io("map", path))
}
