//! Work compiled for each set of vector instructions and for any machine: plain loops that the compiler turns into wide
//! vectors.

#[cfg(target_arch = "x86_64")]
use super::isa::{Avx2, Avx512, Vectors};

/// Something to do: a closure of one short loop, or, for anything longer, a type whose `run` is `#[inline(always)]`,
/// because closures beyond a few hundred instructions are compiled for any machine only.
pub trait Work {
    /// Does it.
    fn run(self);
}

impl<F: FnOnce()> Work for F {
    #[inline(always)]
    fn run(self) {
        self();
    }
}

/// Does `work` with the widest vectors that this machine has.
///
/// All versions give the same bits: the compiler fuses no multiplication with an addition unless told to.
#[inline(always)]
pub fn wide(work: impl Work) {
    #[cfg(target_arch = "x86_64")]
    {
        if let Some(isa) = Avx512::here() {
            return isa.run(work);
        }
        if let Some(isa) = Avx2::here() {
            return isa.run(work);
        }
    }
    work.run();
}
