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

use super::{Window, shared::Cells};
use crate::{Error, Result};

/// Bytes before the floats of a window: the counter, alone on its cache line.
const HEAD: usize = 64;
/// Floats in one call: counts are C ints, and MPI holds the target's lock during a call.
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

/// A counter and floats from `MPI_Win_allocate`, the only kind that Open MPI serves from shared memory inside a node.
pub(super) struct RmaWindow {
    epoch: Epoch,
    /// Added while reading: an accumulate of zeros is atomic with respect to `add`, a plain get is not.
    zeros: RefCell<Vec<f32>>,
}

impl RmaWindow {
    pub(super) fn new(
        comm: &SimpleCommunicator,
        universe: Rc<Universe>,
        init: &[f32],
    ) -> Result<Self> {
        let bytes = HEAD + size_of_val(init);
        let mut base: *mut u8 = ptr::null_mut();
        // SAFETY: both out-pointers outlive the call; MPI owns the memory, which holds `bytes` bytes, and no rank can
        // reach it before the barrier in `open`.
        let epoch = unsafe {
            let mut win = ffi::RSMPI_WIN_NULL;
            let out = (&raw mut base).cast::<c_void>();
            let (size, info) = (bytes as ffi::MPI_Aint, ffi::RSMPI_INFO_NULL);
            check(
                "MPI_Win_allocate",
                ffi::MPI_Win_allocate(size, 1, info, comm.as_raw(), out, &mut win),
            )?;
            base.write_bytes(0, HEAD);
            ptr::copy_nonoverlapping(
                init.as_ptr().cast::<u8>(),
                base.add(HEAD),
                size_of_val(init),
            );
            Epoch::open(win, comm, universe)?
        };
        Ok(Self {
            epoch,
            zeros: RefCell::default(),
        })
    }
}

/// Where element `offset` of the floats is, in bytes from the start of the window.
fn place(offset: usize) -> ffi::MPI_Aint {
    (HEAD + offset * size_of::<f32>()) as ffi::MPI_Aint
}

impl Window for RmaWindow {
    fn get(&self, owner: usize, offset: usize, out: &mut [f32]) -> Result<()> {
        let kind = f32::equivalent_datatype().as_raw();
        let mut zeros = self.zeros.borrow_mut();
        if zeros.len() < out.len().min(MOST) {
            zeros.resize(out.len().min(MOST), 0.0);
        }
        for (i, part) in out.chunks_mut(MOST).enumerate() {
            let (n, at) = (part.len() as c_int, place(offset + i * MOST));
            let (from, to) = (zeros.as_ptr().cast(), part.as_mut_ptr().cast());
            // SAFETY: `zeros` and `part` hold n floats and are borrowed until the flush completes the transfer.
            let code = unsafe {
                let (op, win) = (ffi::RSMPI_SUM, self.epoch.win);
                ffi::MPI_Get_accumulate(
                    from,
                    n,
                    kind,
                    to,
                    n,
                    kind,
                    owner as c_int,
                    at,
                    n,
                    kind,
                    op,
                    win,
                )
            };
            check("MPI_Get_accumulate", code)?;
            self.epoch.flush(owner)?;
        }
        Ok(())
    }

    fn add(&self, owner: usize, offset: usize, delta: &[f32]) -> Result<()> {
        let kind = f32::equivalent_datatype().as_raw();
        for (i, part) in delta.chunks(MOST).enumerate() {
            let (n, at) = (part.len() as c_int, place(offset + i * MOST));
            // SAFETY: `part` holds n floats and is borrowed until the flush completes the transfer.
            let code = unsafe {
                let (from, op, win) = (part.as_ptr().cast(), ffi::RSMPI_SUM, self.epoch.win);
                ffi::MPI_Accumulate(from, n, kind, owner as c_int, at, n, kind, op, win)
            };
            check("MPI_Accumulate", code)?;
            self.epoch.flush(owner)?;
        }
        Ok(())
    }

    fn fetch_add(&self, owner: usize, amount: u64) -> Result<u64> {
        let kind = u64::equivalent_datatype().as_raw();
        let mut before = 0u64;
        // SAFETY: `amount` and `before` outlive the flush; the counter is the first eight bytes of every window.
        let code = unsafe {
            let (from, to) = ((&raw const amount).cast(), (&raw mut before).cast());
            ffi::MPI_Fetch_and_op(
                from,
                to,
                kind,
                owner as c_int,
                0,
                ffi::RSMPI_SUM,
                self.epoch.win,
            )
        };
        check("MPI_Fetch_and_op", code)?;
        self.epoch.flush(owner)?;
        Ok(before)
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
