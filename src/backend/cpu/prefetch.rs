//! Asking for memory ahead of its use.
#![allow(unsafe_code)]

/// Starts bringing `bytes` into the cache; changes nothing else.
pub fn prefetch(bytes: &[u8]) {
    bytes.chunks(64).for_each(|line| prefetch_line(&line[0]));
}

/// Starts bringing the line of memory in which `value` begins into the cache; changes nothing else.
#[inline(always)]
pub fn prefetch_line<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and cannot fault; SSE is part of x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>((&raw const *value).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
