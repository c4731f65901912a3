//! `MPI_Win`, which rsmpi does not wrap: one-sided windows and node-shared memory.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::rc::Rc;
use std::slice;
use std::sync::atomic::AtomicU32;

use mpi::environment::Universe;
use mpi::ffi;
use mpi::raw::AsRaw;
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, Equivalence};

use super::{Counters, Window, shared::Cells};
use crate::{Error, Result};

/// Values in one call: counts are C ints, and MPI holds the target's lock during a call.
const MOST: usize = 1 << 28;

/// An MPI window in one shared lock-all epoch from birth to `close`.
///
/// There is no `Drop`: freeing a window is collective, and a rank that leaves by an error must not wait for the others.
struct Epoch {
    win: ffi::MPI_Win,
    /// MPI must not end before its windows.
    _universe: Rc<Universe>,
}

impl Epoch {
    /// Takes charge of `win`; *collective*.
    ///
    /// # Safety
    /// `win` must be a live window over `comm`, not yet locked, whose memory this rank has initialised.
    unsafe fn open(
        win: ffi::MPI_Win,
        comm: &SimpleCommunicator,
        universe: Rc<Universe>,
    ) -> Result<Self> {
        // SAFETY: `win` is live and unlocked by this function's contract.
        unsafe {
            check(
                "MPI_Win_set_errhandler",
                ffi::MPI_Win_set_errhandler(win, ffi::RSMPI_ERRORS_RETURN),
            )?;
            check("MPI_Win_lock_all", ffi::MPI_Win_lock_all(0, win))?;
            check("MPI_Win_sync", ffi::MPI_Win_sync(win))?;
            check("MPI_Barrier", ffi::MPI_Barrier(comm.as_raw()))?;
        }
        Ok(Self {
            win,
            _universe: universe,
        })
    }

    fn flush(&self, owner: usize) -> Result<()> {
        // SAFETY: the window is live and its epoch open until `close`.
        check("MPI_Win_flush", unsafe {
            ffi::MPI_Win_flush(owner as c_int, self.win)
        })
    }

    /// Frees the window; *collective*.
    fn close(&mut self) -> Result<()> {
        // SAFETY: `close` takes the place of drop and is called once, by owners that are consumed.
        unsafe {
            check("MPI_Win_unlock_all", ffi::MPI_Win_unlock_all(self.win))?;
            check("MPI_Win_free", ffi::MPI_Win_free(&mut self.win))
        }
    }
}

/// Numbers from `MPI_Win_allocate`, the only kind of window that Open MPI serves from shared memory inside a node.
pub(super) struct RmaWindow<T> {
    epoch: Epoch,
    /// Added while reading: an accumulate of zeros is atomic with respect to `add`, a plain get is not.
    zeros: RefCell<Vec<T>>,
}

impl<T: Equivalence + Copy + Default> RmaWindow<T> {
    pub(super) fn new(
        comm: &SimpleCommunicator,
        universe: Rc<Universe>,
        init: &[T],
    ) -> Result<Self> {
        let mut base: *mut T = ptr::null_mut();
        // SAFETY: both out-pointers outlive the call; MPI owns the memory, which holds as many values as `init`, and no
        // rank can reach it before the barrier in `open`.
        let epoch = unsafe {
            let mut win = ffi::RSMPI_WIN_NULL;
            let out = (&raw mut base).cast::<c_void>();
            let (size, info) = (size_of_val(init) as ffi::MPI_Aint, ffi::RSMPI_INFO_NULL);
            let unit = size_of::<T>() as c_int;
            check(
                "MPI_Win_allocate",
                ffi::MPI_Win_allocate(size, unit, info, comm.as_raw(), out, &mut win),
            )?;
            if !init.is_empty() {
                ptr::copy_nonoverlapping(init.as_ptr(), base, init.len());
            }
            Epoch::open(win, comm, universe)?
        };
        Ok(Self {
            epoch,
            zeros: RefCell::default(),
        })
    }

    /// Adds `delta` to `owner`'s values from `offset` on and copies what was there before to `out`; at most `MOST` values.
    fn fetch_add(&self, owner: usize, offset: usize, delta: &[T], out: &mut [T]) -> Result<()> {
        let kind = T::equivalent_datatype().as_raw();
        let (n, at) = (delta.len() as c_int, offset as ffi::MPI_Aint);
        assert!(delta.len() == out.len() && delta.len() <= MOST);
        let (from, to) = (delta.as_ptr().cast(), out.as_mut_ptr().cast());
        let (rank, win) = (owner as c_int, self.epoch.win);
        // SAFETY: `delta` and `out` hold n values and are borrowed until the flush completes the transfer.
        let code = unsafe {
            let op = ffi::RSMPI_SUM;
            ffi::MPI_Get_accumulate(from, n, kind, to, n, kind, rank, at, n, kind, op, win)
        };
        check("MPI_Get_accumulate", code)?;
        self.epoch.flush(owner)
    }

    /// Copies `owner`'s values from `offset` on to `out`, each atomically.
    fn fetch(&self, owner: usize, offset: usize, out: &mut [T]) -> Result<()> {
        let mut zeros = self.zeros.borrow_mut();
        if zeros.len() < out.len().min(MOST) {
            zeros.resize(out.len().min(MOST), T::default());
        }
        let parts = out.chunks_mut(MOST).enumerate();
        for (i, part) in parts {
            self.fetch_add(owner, offset + i * MOST, &zeros[..part.len()], part)?;
        }
        Ok(())
    }
}

impl RmaWindow<f32> {
    /// Adds `delta` to stretches of `owner`'s memory and, where `out` is given, copies what was there before to it. One
    /// message for every `STRETCHES`, all of them on their way together.
    fn fetch_add_at(
        &self,
        owner: usize,
        (places, width): (&[u32], usize),
        delta: &[f32],
        mut out: Option<&mut [f32]>,
    ) -> Result<()> {
        assert!(places.len() * width == delta.len() && delta.len() <= MOST);
        let mut kinds = Vec::new();
        let parts = places
            .chunks(STRETCHES)
            .zip(delta.chunks(STRETCHES * width));
        for (i, (places, delta)) in parts.enumerate() {
            let kind = stretches(places, width)?;
            kinds.push(kind);
            let to = out.as_deref_mut().map(|out| {
                let out = &mut out[i * STRETCHES * width..][..delta.len()];
                out.as_mut_ptr()
            });
            // SAFETY: `delta` and `out` hold as many values as the stretches, and are borrowed until the flush completes the
            // transfer; places are inside of the owner's memory, as whoever calls has checked.
            unsafe { self.start_add(owner, kind, delta, to)? };
        }
        self.epoch.flush(owner)?;
        // SAFETY: all transfers are complete, and nobody else knows these types.
        let mut freed = kinds
            .iter_mut()
            .map(|kind| unsafe { ffi::MPI_Type_free(kind) });
        freed.try_for_each(|code| check("MPI_Type_free", code))
    }

    /// Starts to add `delta` to where `kind` says in `owner`'s memory, and to copy what was there to `out`, if any.
    ///
    /// # Safety
    /// `delta` and `out` must hold as many values as `kind`, until the window is flushed.
    unsafe fn start_add(
        &self,
        owner: usize,
        kind: ffi::MPI_Datatype,
        delta: &[f32],
        out: Option<*mut f32>,
    ) -> Result<()> {
        let float = f32::equivalent_datatype().as_raw();
        let (n, rank, win) = (delta.len() as c_int, owner as c_int, self.epoch.win);
        let from: *const c_void = delta.as_ptr().cast();
        // SAFETY: by this function's contract.
        unsafe {
            let op = ffi::RSMPI_SUM;
            match out {
                Some(out) => check(
                    "MPI_Get_accumulate",
                    ffi::MPI_Get_accumulate(
                        from,
                        n,
                        float,
                        out.cast(),
                        n,
                        float,
                        rank,
                        0,
                        1,
                        kind,
                        op,
                        win,
                    ),
                ),
                None => check(
                    "MPI_Accumulate",
                    ffi::MPI_Accumulate(from, n, float, rank, 0, 1, kind, op, win),
                ),
            }
        }
    }
}

/// Stretches of one message: what describes them must fit into one of Open MPI's buffers of 8 KiB, or it damages its memory
/// (4.1.4, between hosts).
const STRETCHES: usize = 256;

/// The type of `width` floats at each of the `places`, which count stretches.
fn stretches(places: &[u32], width: usize) -> Result<ffi::MPI_Datatype> {
    let stretch = (width * size_of::<f32>()) as ffi::MPI_Aint;
    let at = |&place: &u32| place as ffi::MPI_Aint * stretch;
    let mut places: Vec<ffi::MPI_Aint> = places.iter().map(at).collect();
    let float = f32::equivalent_datatype().as_raw();
    let mut kind = float;
    let (count, width) = (places.len() as c_int, width as c_int);
    // SAFETY: all pointers outlive the calls, and there are `count` places.
    unsafe {
        let code = ffi::MPI_Type_create_hindexed_block(
            count,
            width,
            places.as_mut_ptr(),
            float,
            &mut kind,
        );
        check("MPI_Type_create_hindexed_block", code)?;
        check("MPI_Type_commit", ffi::MPI_Type_commit(&mut kind))?;
    }
    Ok(kind)
}

impl Window for RmaWindow<f32> {
    fn get(&self, owner: usize, offset: usize, out: &mut [f32]) -> Result<()> {
        self.fetch(owner, offset, out)
    }

    fn add(&self, owner: usize, offset: usize, delta: &[f32], out: &mut [f32]) -> Result<()> {
        let parts = delta.chunks(MOST).zip(out.chunks_mut(MOST));
        for (i, (delta, out)) in parts.enumerate() {
            self.fetch_add(owner, offset + i * MOST, delta, out)?;
            // The owner's memory holds the same sum of the same two numbers.
            let pairs = out.iter_mut().zip(delta);
            pairs.for_each(|(value, change)| *value += change);
        }
        Ok(())
    }

    fn get_at(&self, owner: usize, places: &[u32], width: usize, out: &mut [f32]) -> Result<()> {
        let zeros = vec![0.0; out.len()];
        self.fetch_add_at(owner, (places, width), &zeros, Some(out))
    }

    fn add_at(&self, owner: usize, places: &[u32], width: usize, delta: &[f32]) -> Result<()> {
        self.fetch_add_at(owner, (places, width), delta, None)
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.epoch.close()
    }
}

/// Counters on rank 0.
impl Counters for RmaWindow<u64> {
    fn add(&self, i: usize, amount: u64) -> Result<u64> {
        let mut before = [0];
        self.fetch_add(0, i, &[amount], &mut before)?;
        Ok(before[0])
    }

    fn read(&self, out: &mut [u64]) -> Result<()> {
        self.fetch(0, 0, out)
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.epoch.close()
    }
}

/// Cells from `MPI_Win_allocate_shared`.
pub(super) struct NodeCells {
    segments: Vec<(*const AtomicU32, usize)>,
    epoch: Epoch,
}

impl NodeCells {
    pub(super) fn new(
        comm: &SimpleCommunicator,
        universe: Rc<Universe>,
        len: usize,
    ) -> Result<Self> {
        let bytes = (len * size_of::<u32>()) as ffi::MPI_Aint;
        let unit = size_of::<u32>() as c_int;
        let mut base: *mut u32 = ptr::null_mut();
        // SAFETY: both out-pointers outlive the call; MPI owns the memory, which holds `len` cells, and no rank reads
        // this rank's before the barrier in `open`.
        let (win, epoch) = unsafe {
            let mut win = ffi::RSMPI_WIN_NULL;
            let out = (&raw mut base).cast::<c_void>();
            let info = ffi::RSMPI_INFO_NULL;
            let code =
                ffi::MPI_Win_allocate_shared(bytes, unit, info, comm.as_raw(), out, &mut win);
            check("MPI_Win_allocate_shared", code)?;
            if len > 0 {
                base.write_bytes(0, len);
            }
            (win, Epoch::open(win, comm, universe)?)
        };
        let segments = (0..comm.size())
            .map(|owner| segment(win, owner))
            .collect::<Result<_>>()?;
        Ok(Self { segments, epoch })
    }
}

/// Where `owner`'s cells are in this process, and how many they are.
fn segment(win: ffi::MPI_Win, owner: c_int) -> Result<(*const AtomicU32, usize)> {
    let (mut bytes, mut unit, mut base) = (0, 0, ptr::null_mut::<u32>());
    // SAFETY: the out-pointers outlive the call.
    let code = unsafe {
        let out = (&raw mut base).cast::<c_void>();
        ffi::MPI_Win_shared_query(win, owner, &mut bytes, &mut unit, out)
    };
    check("MPI_Win_shared_query", code)?;
    let len = bytes as usize / size_of::<u32>();
    let start = if len == 0 {
        ptr::NonNull::dangling().as_ptr()
    } else {
        base
    };
    Ok((start.cast(), len))
}

impl Cells for NodeCells {
    fn of(&self, owner: usize) -> &[AtomicU32] {
        let (base, len) = self.segments[owner];
        // SAFETY: MPI keeps the segment mapped until `close` consumes these cells, it is aligned to a cell, and every
        // access by every rank goes through these atomics.
        unsafe { slice::from_raw_parts(base, len) }
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.epoch.close()
    }
}

fn check(call: &'static str, code: c_int) -> Result<()> {
    if code == ffi::MPI_SUCCESS as c_int {
        Ok(())
    } else {
        Err(Error::Mpi { call, code })
    }
}
