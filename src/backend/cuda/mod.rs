//! Layers' arithmetic on NVIDIA GPUs: own kernels (`kernels/*.cu`), compiled at first use for the device found.
//!
//! One file an operation, with the names and the order of arguments of [`super::cpu`]; a [`Stream`] comes first. What is launched
//! runs later, in the order of its stream: [`Stream::wait`] waits for it, and an [`Event`] lets another stream wait.
//! Errors of a kernel show at the next wait.
//!
//! ```text
//!  Device ─▶ Stream ─▶ activation::relu(&stream, x) …
//!     │        └ upload, download (wait) · send, receive (pinned memory, do not wait) · Event
//!     ├─▶ Buffer ─▶ View, ViewMut (parts of it)
//!     └─▶ module: kernels/*.cu ─▶ NVRTC ─▶ a file for each architecture and source ─▶ Kernel
//! ```
//!
//! Nothing is summed by atomics: the same call on the same values gives the same bits. Multiplication and addition are fused only
//! where a kernel says so, so that other arithmetic rounds as on the CPU.

pub mod activation;
pub mod batch_norm;
pub mod bias;
pub mod blas;
pub mod conv2d;
mod device;
mod driver;
pub mod dropout;
pub mod gemm;
mod launch;
pub mod linear;
pub mod local_response;
mod memory;
mod missing;
mod module;
pub mod pool;
pub mod reduce;
pub mod scale;
pub mod softmax;
mod stream;
mod tiles;
pub mod update;

pub use device::{Device, Facts};
pub use memory::{Buffer, Element, Pinned, View, ViewMut};
pub use missing::{Missing, OLDEST};
pub use module::{Source, architecture, compile, ptx};
pub use stream::{Event, Stream};
