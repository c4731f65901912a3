//! Layers' arithmetic on CPUs: BLAS for large products, own kernels where BLAS is far from the limit.
//!
//! Kernels are compiled for several instruction sets and chosen at run time by [`has_avx2`], so that one program
//! serves every node of a cluster.

pub mod linear;
mod narrow;
pub mod scale;
pub mod softmax;

/// Whether this machine has AVX2 and fused multiply-add.
#[cfg(target_arch = "x86_64")]
pub fn has_avx2() -> bool {
    std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
}

/// Whether this machine has AVX2 and fused multiply-add.
#[cfg(not(target_arch = "x86_64"))]
pub fn has_avx2() -> bool {
    false
}
