//! Samples as they were decoded or read once: kept by each rank for itself, or once for all ranks of a node.
#![allow(unsafe_code)]

use std::slice;
use std::sync::atomic::{AtomicU32, Ordering};

use memmap2::{MmapOptions, MmapRaw};

use crate::comm::{Comm, agree};
use crate::{Error, Result};

/// Where samples are kept between two epochs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Caching {
    /// Nowhere: they are decoded each time.
    #[default]
    None,
    /// In the memory of each rank that has asked for them.
    Memory,
    /// In memory that all ranks of a node share.
    Node,
}

impl Caching {
    /// As the user reads and types it.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Memory => "memory",
            Self::Node => "node",
        }
    }
}

/// Nobody has brought a sample; somebody is at it; it is there and stays as it is.
const EMPTY: u32 = 0;
const TAKEN: u32 = 1;
const READY: u32 = 2;

/// Room for so many samples of so many bytes each, with the state of each in front.
pub(super) struct Cache {
    map: MmapRaw,
    samples: usize,
    each: usize,
}

impl Cache {
    /// Bytes of a cache.
    pub(super) fn bytes(samples: usize, each: usize) -> usize {
        front(samples).saturating_add(samples.saturating_mul(each))
    }

    /// One of this rank alone; memory is taken as samples come.
    pub(super) fn of_rank(samples: usize, each: usize) -> Result<Self> {
        let bytes = Self::bytes(samples, each);
        let map = MmapOptions::new().len(bytes).map_anon();
        let map = map.map_err(Error::io("get memory for", "--cache"))?;
        Ok(Self {
            map: map.into(),
            samples,
            each,
        })
    }

    /// One of all ranks of `node`; *collective*.
    pub(super) fn of_node(node: &dyn Comm, samples: usize, each: usize) -> Result<Self> {
        let bytes = Self::bytes(samples, each);
        let file = node.common_file(bytes)?;
        let map = MmapOptions::new().len(bytes).map_raw(&file);
        let map = agree(node, map.map_err(Error::io("map memory for", "--cache")))?;
        Ok(Self { map, samples, each })
    }

    /// A sample that is there.
    pub(super) fn ready(&self, sample: usize) -> Option<&[u8]> {
        let ready = self.state(sample).load(Ordering::Acquire) == READY;
        // SAFETY: the place lies within the map, and whoever wrote it did so before it became ready; nobody writes to it again.
        ready.then(|| unsafe { slice::from_raw_parts(self.place(sample), self.each) })
    }

    /// Keeps a sample, unless it is there already or somebody else is at it.
    pub(super) fn keep(&self, sample: usize, bytes: &[u8]) {
        assert_eq!(bytes.len(), self.each, "all samples have one size");
        let state = self.state(sample);
        let mine = state.compare_exchange(EMPTY, TAKEN, Ordering::Relaxed, Ordering::Relaxed);
        if mine.is_ok() {
            // SAFETY: the place lies within the map, only the one who found it empty writes to it, and nobody reads it before
            // it is ready.
            unsafe {
                self.place(sample)
                    .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
            };
            state.store(READY, Ordering::Release);
        }
    }

    fn state(&self, sample: usize) -> &AtomicU32 {
        assert!(sample < self.samples, "a sample of the set");
        // SAFETY: states are in front of the map, aligned as its pages are, and every access to them is atomic.
        unsafe { &*self.map.as_mut_ptr().cast::<AtomicU32>().add(sample) }
    }

    fn place(&self, sample: usize) -> *mut u8 {
        assert!(sample < self.samples, "a sample of the set");
        let at = front(self.samples) + sample * self.each;
        // SAFETY: the map has room for all samples behind their states.
        unsafe { self.map.as_mut_ptr().add(at) }
    }
}

/// Bytes of the states of so many samples, up to the next line of a processor's cache.
fn front(samples: usize) -> usize {
    samples
        .saturating_mul(size_of::<AtomicU32>())
        .saturating_add(63)
        & !63
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::run_ranks;

    #[test]
    fn what_one_rank_brought_all_ranks_of_the_node_have() {
        run_ranks(3, |comm| {
            let cache = Cache::of_node(comm, 100, 7).unwrap();
            assert_eq!(cache.ready(42), None);
            comm.barrier();
            let mine = [comm.rank() as u8; 7];
            cache.keep(10 + comm.rank(), &mine);
            cache.keep(42, &mine);
            comm.barrier();
            (0..3).for_each(|rank| assert_eq!(cache.ready(10 + rank), Some(&[rank as u8; 7][..])));
            // One of the three was the first, and the others left it as it was.
            let kept = cache.ready(42).unwrap().to_vec();
            cache.keep(42, &[99; 7]);
            let all = comm.gather(&kept);
            assert!(
                all.iter().all(|other| *other == kept && kept[0] < 3),
                "{all:?}"
            );
            assert_eq!(cache.ready(99), None);
        });
    }

    #[test]
    fn a_cache_of_a_rank_is_its_own_and_holds_all() {
        let (one, other) = (Cache::of_rank(3, 5).unwrap(), Cache::of_rank(3, 5).unwrap());
        (0..3).for_each(|i| one.keep(i, &[i as u8; 5]));
        assert!((0..3).all(|i| one.ready(i) == Some(&[i as u8; 5])));
        assert!((0..3).all(|i| other.ready(i).is_none()));
        assert_eq!(Cache::bytes(usize::MAX, 2), usize::MAX, "and no overflow");
    }
}
