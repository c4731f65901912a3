//! OpenBLAS's threads: one a rank, unless the user says otherwise.
#![allow(unsafe_code)]

use std::ffi::c_int;

// Links the BLAS that `ndarray` calls.
use openblas_src as _;

unsafe extern "C" {
    fn openblas_set_num_threads(threads: c_int);
    fn openblas_get_num_threads() -> c_int;
}

/// Keeps BLAS to the thread that calls it: threads of several ranks on the same cores are ruinous.
/// `OPENBLAS_NUM_THREADS` or `OMP_NUM_THREADS`, where set, is obeyed.
pub fn one_blas_thread() {
    let chosen = ["OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"]
        .iter()
        .any(|name| std::env::var_os(name).is_some());
    if !chosen {
        // SAFETY: the function takes any number, and no product is under way.
        unsafe { openblas_set_num_threads(1) };
    }
}

/// Threads that BLAS divides a product among.
pub fn blas_threads() -> usize {
    // SAFETY: the function only reads a number.
    let threads = unsafe { openblas_get_num_threads() };
    usize::try_from(threads).unwrap_or(1)
}
