//! Numbers of an HDF5 table as one slice: mapped where they lie in one piece and aligned, else read into memory.
#![allow(unsafe_code)]

use std::ops::Deref;
use std::path::Path;
use std::slice;
use std::sync::Arc;

use memmap2::{Advice, Mmap};

use crate::data;
use crate::h5::{Number, Table};
use crate::{Error, Result};

/// All numbers of a table.
pub(super) enum Mapped<T> {
    Map {
        map: Arc<Mmap>,
        start: usize,
        len: usize,
    },
    Read(Vec<T>),
}

/// The bytes of a file, which is read from the begin to the end.
pub(super) fn map(path: &Path) -> Result<Arc<Mmap>> {
    let map = data::map::map(path)?;
    // Rows are read in order; where the system does not take advice, it reads ahead by itself.
    let _ = map.advise(Advice::WillNeed);
    Ok(Arc::new(map))
}

impl<T: Number> Mapped<T> {
    /// The numbers of `table`, which is in the mapped file at `path`.
    pub(super) fn open(path: &Path, map: &Arc<Mmap>, table: &Table) -> Result<Self> {
        let len = table.len();
        let place = table.offset().filter(|_| table.holds::<T>());
        let aligned = place.filter(|place| place % align_of::<T>() as u64 == 0);
        let Some(start) = aligned.filter(|_| len > 0) else {
            let numbers = if len > 0 {
                table.read(0..table.shape()[0])?
            } else {
                Vec::new()
            };
            return Ok(Self::Read(numbers));
        };
        let end = table.end(start, size_of::<T>() as u64);
        if end.is_none_or(|end| map.len() < end) {
            let problem = format!("ends at byte {}, before its rows do", map.len());
            return Err(Error::file(path, problem, "copy or make it again"));
        }
        Ok(Self::Map {
            map: map.clone(),
            start: start as usize,
            len,
        })
    }

    /// Whether it takes no memory of its own.
    pub(super) fn is_mapped(&self) -> bool {
        matches!(self, Self::Map { .. })
    }
}

impl<T: Number> Deref for Mapped<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            // SAFETY: `open` checked that so many numbers are there and that their place in the file is aligned; maps
            // begin at a page. Any bits are a number, and the map is read-only and as long alive as this.
            Self::Map { map, start, len } => unsafe {
                slice::from_raw_parts(map.as_ptr().add(*start).cast(), *len)
            },
            Self::Read(numbers) => numbers,
        }
    }
}
