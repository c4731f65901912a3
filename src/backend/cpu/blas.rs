//! OpenBLAS's threads, one a rank unless the user says otherwise, and the core that it takes this one for.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int};
use std::os::unix::process::CommandExt;
use std::process::Command;

use super::{Isa, isa};

// Links the BLAS that `ndarray` calls.
use openblas_src as _;

unsafe extern "C" {
    fn openblas_set_num_threads(threads: c_int);
    fn openblas_get_num_threads() -> c_int;
    fn openblas_get_corename() -> *const c_char;
}

/// The variable by which OpenBLAS is told which core this is; it looks before the program begins.
const CORE: &str = "OPENBLAS_CORETYPE";

/// Cores that OpenBLAS knows and that have no AVX2. It takes a processor younger than itself for the first one, and is
/// then several times slower than it could be.
const OLD: [&str; 18] = [
    "Prescott",
    "Katmai",
    "Coppermine",
    "Northwood",
    "Banias",
    "Core2",
    "Penryn",
    "Dunnington",
    "Nehalem",
    "Sandybridge",
    "Atom",
    "Nano",
    "Athlon",
    "Opteron",
    "Opteron_SSE3",
    "Barcelona",
    "Bobcat",
    "Bulldozer",
];

/// Starts the program again, in the same process, with the core named to OpenBLAS, if that took it for one without the
/// vectors that it has; returns otherwise, or where the user named the core.
pub fn start_with_known_core() {
    let name = match isa() {
        Isa::Portable => return,
        Isa::Avx2 => "Haswell",
        Isa::Avx512 => "SkylakeX",
    };
    let old = OLD.iter().any(|old| old.eq_ignore_ascii_case(&blas_core()));
    if !old || std::env::var_os(CORE).is_some() {
        return;
    }
    let mut arguments = std::env::args_os();
    let first = arguments.next().unwrap_or_default();
    let Ok(program) = std::env::current_exe() else {
        return;
    };
    let mut again = Command::new(program);
    // Comes back only if it fails: then all goes on, slowly.
    let _ = again.arg0(first).args(arguments).env(CORE, name).exec();
}

/// The core that BLAS's products are made for.
pub fn blas_core() -> String {
    // SAFETY: the function returns a string that stays.
    let name = unsafe { CStr::from_ptr(openblas_get_corename()) };
    name.to_string_lossy().into_owned()
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
