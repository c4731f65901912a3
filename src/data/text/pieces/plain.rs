//! Pieces of a plain file, read where they are.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use memchr::memchr;

use super::{STEP, refuse_long};
use crate::{Error, Result};

/// A plain file.
pub(super) struct Plain {
    file: File,
    length: u64,
}

impl Plain {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(Error::io("read", path))?;
        let length = file.metadata().map_err(Error::io("read", path))?.len();
        Ok(Self { file, length })
    }

    /// Its bytes.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Reads the lines whose first byte is in `begin..end`; gives where they begin in the file, and in `text`.
    pub(super) fn read(
        &self,
        path: &Path,
        begin: u64,
        end: u64,
        text: &mut Vec<u8>,
    ) -> Result<(u64, usize)> {
        let end = end.min(self.length);
        // A line begins behind a line end: the byte in front tells whether one begins right here.
        let from = begin.saturating_sub(1);
        self.add(path, from, (end - from) as usize, text)?;
        let skip = match memchr(b'\n', text) {
            _ if begin == 0 => 0,
            Some(newline) => newline + 1,
            None => text.len(),
        };
        if skip < text.len() && text.last() != Some(&b'\n') {
            self.end_line(path, end, text)?;
        }
        Ok((from + skip as u64, skip))
    }

    /// Reads on from `end` to the end of the line.
    fn end_line(&self, path: &Path, end: u64, text: &mut Vec<u8>) -> Result<()> {
        let mut at = end;
        while at < self.length {
            let old = text.len();
            let more = (self.length - at).min(STEP as u64);
            self.add(path, at, more as usize, text)?;
            at += more;
            if let Some(newline) = memchr(b'\n', &text[old..]) {
                text.truncate(old + newline + 1);
                return Ok(());
            }
            refuse_long(path, at - end)?;
        }
        Ok(())
    }

    fn add(&self, path: &Path, at: u64, bytes: usize, text: &mut Vec<u8>) -> Result<()> {
        let old = text.len();
        text.resize(old + bytes, 0);
        self.file
            .read_exact_at(&mut text[old..], at)
            .map_err(Error::io("read", path))
    }
}
