//! Matrices in blocks over ranks: where they come from, products, traces.

mod real;

pub use real::{Precision, Real};
