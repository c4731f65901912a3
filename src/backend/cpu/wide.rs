//! Work compiled once for AVX2 and once for any machine: plain loops that the compiler turns into wide vectors.
#![allow(unsafe_code)]

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
/// Both versions give the same bits: the compiler fuses no multiplication with an addition unless told to.
#[inline(always)]
pub fn wide(work: impl Work) {
    #[cfg(target_arch = "x86_64")]
    if super::has_avx2() {
        // SAFETY: the instructions were just found to be there.
        return unsafe { with_avx2(work) };
    }
    work.run();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn with_avx2(work: impl Work) {
    work.run();
}
