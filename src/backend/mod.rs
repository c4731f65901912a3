//! Arithmetic of the layers, by device.

pub mod cpu;
pub mod cuda;
mod wanted;

pub use wanted::{Gemm, Wanted};
