//! Layers' arithmetic on CPUs: BLAS for large products, own kernels where BLAS is far from the limit.
//!
//! Kernels are compiled for several instruction sets and chosen at run time by [`isa()`], so that one program serves every
//! node of a cluster.

pub mod activation;
pub mod batch_norm;
mod blas;
mod cells;
mod clock;
pub mod conv2d;
pub mod dropout;
mod exp;
mod finite;
mod isa;
pub mod lanes;
pub mod linear;
pub mod local_response;
mod marks;
mod narrow;
mod peak;
pub mod pool;
mod prefetch;
pub mod scale;
mod scratch;
pub mod softmax;
mod wide;

pub use blas::{blas_core, blas_threads, one_blas_thread, start_with_known_core};
pub use cells::{Cell, LANES, LaneWork, Lanes, in_lanes};
pub use clock::{Clock, Timed};
pub use exp::{exp, ln_1p};
pub use finite::{finite, odd};
#[cfg(test)]
pub(crate) use isa::tests::with_each_set;
pub use isa::{Isa, choice, isa};
pub use marks::mark_bytes;
pub use peak::peak_flops;
pub use prefetch::{prefetch, prefetch_line};
pub use scratch::Scratch;
pub(crate) use wide::{Work, wide};

/// The rows that go into a layer.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// As they are.
    Floats(&'a [f32]),
    /// Bytes, each standing for `byte × factor + shift`.
    Bytes {
        /// The bytes.
        pixels: &'a [u8],
        /// What to multiply by.
        factor: f32,
        /// What to add.
        shift: f32,
    },
}

impl<'a> Input<'a> {
    /// Number of values.
    pub fn len(self) -> usize {
        match self {
            Self::Floats(values) => values.len(),
            Self::Bytes { pixels, .. } => pixels.len(),
        }
    }

    /// Whether there is no value.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Some of the values.
    fn part(self, range: std::ops::Range<usize>) -> Self {
        match self {
            Self::Floats(values) => Self::Floats(&values[range]),
            Self::Bytes {
                pixels,
                factor,
                shift,
            } => Self::Bytes {
                pixels: &pixels[range],
                factor,
                shift,
            },
        }
    }

    /// The floats, for layers that take nothing else.
    pub fn floats(self) -> &'a [f32] {
        match self {
            Self::Floats(values) => values,
            Self::Bytes { .. } => {
                unreachable!("a layer gets bytes only if it says that it takes them")
            }
        }
    }
}

/// Whether the kernels use AVX2 and fused multiply-add.
pub fn has_avx2() -> bool {
    isa() >= Isa::Avx2
}
