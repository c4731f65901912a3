//! Sums of what is in the memory of devices, by an MPI that reads and writes it (CUDA-aware).
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use mpi::ffi;

use crate::backend::cuda::{View, ViewMut};
use crate::{Error, Result};

/// Elements handed to MPI in one call: its counts are C ints.
const MOST: usize = 1 << 30;

/// Whether MPI says that it takes addresses of devices' memory. Those that can have a function to ask, as an extension of the
/// standard.
pub(super) fn supported() -> bool {
    // SAFETY: looks a name up in what is loaded already.
    let function = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"MPIX_Query_cuda_support".as_ptr()) };
    if function.is_null() {
        return false;
    }
    // SAFETY: MPI libraries that have it declare it so.
    let ask: unsafe extern "C" fn() -> c_int = unsafe { std::mem::transmute(function) };
    // SAFETY: MPI has started, and the function only answers.
    unsafe { ask() == 1 }
}

/// Sets `to` to the sum over the ranks of `comm` of `from`, of which nothing is under way any more; *collective*.
pub(super) fn sum(comm: ffi::MPI_Comm, from: View<f32>, to: ViewMut<f32>) -> Result<()> {
    assert_eq!(from.len(), to.len(), "as many values on both sides");
    for start in (0..from.len()).step_by(MOST) {
        let count = (from.len() - start).min(MOST);
        let place = |address: u64| (address + 4 * start as u64) as *mut c_void;
        // SAFETY: both are so many floats that live longer than the call, and MPI said that it takes such addresses.
        let code = unsafe {
            ffi::MPI_Allreduce(
                place(from.address()),
                place(to.address()),
                count as c_int,
                ffi::RSMPI_FLOAT,
                ffi::RSMPI_SUM,
                comm,
            )
        };
        if code != ffi::MPI_SUCCESS as c_int {
            let call = "MPI_Allreduce";
            return Err(Error::Mpi { call, code });
        }
    }
    Ok(())
}
