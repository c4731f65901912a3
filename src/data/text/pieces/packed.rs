//! Pieces of a gzipped file, which has to be unpacked from its begin.

use std::io::Read;
use std::path::Path;

use memchr::{memchr, memchr_iter};

use super::{STEP, damaged, refuse_long};
use crate::Result;
use crate::data::unpack::Unpacked;

/// A gzipped file.
pub(super) struct Packed {
    from: Unpacked,
    /// Text that was unpacked and belongs to later pieces.
    rest: Vec<u8>,
    /// Where `rest` begins in the unpacked text, and how many lines are in front of it.
    at: u64,
    lines: usize,
    ended: bool,
}

impl Packed {
    pub(super) fn open(path: &Path) -> Result<Self> {
        Ok(Self {
            from: Unpacked::open(path)?,
            rest: Vec::new(),
            at: 0,
            lines: 0,
            ended: false,
        })
    }

    /// Bytes of the file that were taken so far.
    pub(super) fn taken(&mut self) -> u64 {
        self.from.taken()
    }

    /// Unpacks the lines whose first byte is in `begin..begin + size` of the text, which is where the last piece ended;
    /// gives how many lines are in front of them. None if the text ends before `begin`.
    pub(super) fn read(
        &mut self,
        path: &Path,
        begin: u64,
        size: usize,
        text: &mut Vec<u8>,
    ) -> Result<Option<usize>> {
        std::mem::swap(text, &mut self.rest);
        let want = (begin + size as u64).saturating_sub(self.at) as usize;
        if want > 0 && !self.ended {
            self.ended = self.fill(path, want, text)?;
        }
        if begin >= self.at + text.len() as u64 {
            return Ok(None);
        }
        let cut = match want {
            0 => 0,
            _ if want > text.len() => text.len(),
            _ => memchr(b'\n', &text[want - 1..]).map_or(text.len(), |newline| want + newline),
        };
        self.rest.extend_from_slice(&text[cut..]);
        text.truncate(cut);
        let lines = self.lines;
        self.at += cut as u64;
        self.lines += memchr_iter(b'\n', text).count();
        Ok(Some(lines))
    }

    /// Unpacks until `text` holds `want` bytes and the end of the line they end in; tells whether there is no more.
    fn fill(&mut self, path: &Path, want: usize, text: &mut Vec<u8>) -> Result<bool> {
        let (mut need, mut searched) = (want.saturating_sub(text.len()), want - 1);
        loop {
            let got = self.from.by_ref().take(need as u64).read_to_end(text);
            if got.map_err(|error| damaged(path, &error))? < need {
                return Ok(true);
            }
            if memchr(b'\n', &text[searched..]).is_some() {
                return Ok(false);
            }
            searched = text.len();
            refuse_long(path, (searched - want) as u64)?;
            need = STEP;
        }
    }
}
