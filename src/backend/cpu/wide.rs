//! Work compiled once for AVX2 and once for any machine: plain loops that the compiler turns into wide vectors.
#![allow(unsafe_code)]

/// Does `work`, with the widest vectors that this machine has.
///
/// Both versions give the same bits: the compiler fuses no multiplication with an addition unless told to. What `work`
/// calls must be small or `#[inline(always)]`, or it is compiled for any machine only.
#[inline(always)]
pub fn wide<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(target_arch = "x86_64")]
    if super::has_avx2() {
        // SAFETY: the instructions were just found to be there.
        return unsafe { with_avx2(work) };
    }
    work()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn with_avx2<R>(work: impl FnOnce() -> R) -> R {
    work()
}
