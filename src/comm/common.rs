//! One stretch of memory that all ranks of a node have in common, in huge pages where the system gives them.
//!
//! Memory that is read and written here and there needs the address of its page each time: with pages of 2 MiB instead of 4
//! KiB, the processor knows them all. MPI's shared memory cannot be relied on to have any, so this is a file without a name
//! (`memfd`) that the first rank makes and the others open through `/proc`. Where that fails, MPI's memory does.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::PathBuf;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};

use super::shared::Cells;
use super::{Comm, Shared, agree, path_of_first};
use crate::{Error, Result};

/// Bytes of a huge page.
const HUGE: usize = 2 << 20;
/// Asks the system to put what is there into huge pages now (Linux 6.1 and later), whatever it does by itself.
const MADV_COLLAPSE: i32 = 25;

impl dyn Comm + '_ {
    /// `len` zeroed cells that all ranks see as those of the first; all ranks are on one node; *collective*.
    pub fn common(&self, len: usize) -> Result<Shared> {
        match map_together(self, len * size_of::<u32>()) {
            Some(map) => Ok(Shared(Box::new(map))),
            None => self.shared(if self.rank() == 0 { len } else { 0 }),
        }
    }

    /// A file of at least `bytes` zeros in memory, without a name, that all ranks have open; all are on one node; *collective*.
    pub fn common_file(&self, bytes: usize) -> Result<File> {
        let file = open_together(self, bytes);
        let opened = file.ok_or_else(|| {
            let problem = "the ranks of a node cannot open memory of the first one of them";
            Error::Usage(format!("{problem}: are they in different containers?"))
        });
        agree(self, opened)
    }
}

impl Shared {
    /// Asks for huge pages; gives the bytes that are in them. For one rank to do, before others use the memory.
    pub fn enlarge_pages(&self) -> usize {
        self.0.enlarge_pages()
    }
}

/// A mapped file without a name.
struct Map {
    /// What is reserved, and where the cells begin in it.
    reserved: *mut c_void,
    room: usize,
    start: *mut c_void,
    bytes: usize,
    /// So that others can open it; closed by all once they have.
    _file: File,
}

/// On every rank or on none; *collective*.
fn map_together(comm: &dyn Comm, bytes: usize) -> Option<Map> {
    let map = open_together(comm, bytes).and_then(|file| Map::new(file, bytes));
    let mut failed = [u64::from(map.is_none())];
    comm.max(&mut failed);
    map.filter(|_| failed[0] == 0)
}

/// The file of the first rank, on each rank that can open it; *collective*.
fn open_together(comm: &dyn Comm, bytes: usize) -> Option<File> {
    let made = match comm.rank() {
        0 => create(bytes).ok(),
        _ => None,
    };
    let path = made.as_ref().map(|file| {
        let (process, number) = (std::process::id(), file.as_raw_fd());
        PathBuf::from(format!("/proc/{process}/fd/{number}"))
    });
    let path = path_of_first(comm, path.or(Some(PathBuf::new())));
    let file = match &made {
        Some(file) => file.try_clone().ok(),
        None => OpenOptions::new().read(true).write(true).open(&path).ok(),
    };
    // Until all have it open, it must stay where they look for it.
    comm.barrier();
    file
}

/// A file of zeros in memory.
fn create(bytes: usize) -> io::Result<File> {
    // SAFETY: the name is a C string; what is given is a new descriptor that nobody else owns, or an error.
    let file = unsafe {
        match libc::memfd_create(c"phalanx".as_ptr(), libc::MFD_CLOEXEC) {
            -1 => return Err(io::Error::last_os_error()),
            number => File::from_raw_fd(number),
        }
    };
    file.set_len(bytes.next_multiple_of(HUGE) as u64)?;
    Ok(file)
}

impl Map {
    /// Maps the file so that a huge page of it can be one of memory.
    fn new(file: File, bytes: usize) -> Option<Self> {
        let len = bytes.next_multiple_of(HUGE).max(HUGE);
        let room = len + HUGE;
        // SAFETY: the system chooses a free place, which is then this map's alone; the file is mapped into the part of it that
        // begins at a multiple of a huge page and is inside of it.
        unsafe {
            let (none, anonymous) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let reserved = libc::mmap(ptr::null_mut(), room, none, anonymous, -1, 0);
            if reserved == libc::MAP_FAILED {
                return None;
            }
            let start = reserved.byte_add(reserved.align_offset(HUGE));
            let both = libc::PROT_READ | libc::PROT_WRITE;
            let fixed = libc::MAP_SHARED | libc::MAP_FIXED;
            let number = file.as_raw_fd();
            let mapped = libc::mmap(start, len, both, fixed, number, 0);
            let map = Self {
                reserved,
                room,
                start,
                bytes,
                _file: file,
            };
            (mapped == start).then_some(map)
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: nobody else knows of this place, and whoever borrowed cells from it is gone.
        unsafe { libc::munmap(self.reserved, self.room) };
    }
}

impl Cells for Map {
    fn of(&self, owner: usize) -> &[AtomicU32] {
        let len = match owner {
            0 => self.bytes / size_of::<u32>(),
            _ => 0,
        };
        // SAFETY: so many zeroed cells are mapped, aligned to a page, until this is dropped; every rank touches them as atomics.
        unsafe { slice::from_raw_parts(self.start.cast(), len) }
    }

    fn enlarge_pages(&self) -> usize {
        let mut large = 0;
        for at in (0..self.bytes).step_by(HUGE) {
            // A page of which nothing was touched yet is not there to be made larger.
            let cell = &self.of(0)[at / size_of::<u32>()];
            cell.store(cell.load(Ordering::Relaxed), Ordering::Relaxed);
            // SAFETY: the range is mapped; the advice changes no content.
            let refused = unsafe { libc::madvise(self.start.byte_add(at), HUGE, MADV_COLLAPSE) };
            if refused != 0 {
                // Where the system has no huge page left, or does not know the advice, it will not have the next one either.
                break;
            }
            large += HUGE.min(self.bytes - at);
        }
        large
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::run_ranks;

    #[test]
    fn all_ranks_see_one_memory_whatever_its_pages() {
        for len in [1, 1000, (5 << 20) / 4] {
            run_ranks(3, |comm| {
                let memory = comm.common(len).unwrap();
                assert_eq!(memory.of(0).len(), len);
                assert!(memory.of(1).is_empty());
                memory.of(0)[len - 1].fetch_add(1, Ordering::Relaxed);
                comm.barrier();
                assert_eq!(memory.of(0)[len - 1].load(Ordering::Relaxed), 3);
                if comm.rank() == 1 {
                    assert!(memory.enlarge_pages() <= 4 * len);
                }
                comm.barrier();
                assert_eq!(memory.of(0)[len - 1].load(Ordering::Relaxed), 3);
                memory.close().unwrap();
            });
        }
    }
}
