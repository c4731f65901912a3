//! Data sets for other programs: TensorFlow's records, IDX, folders of PNG files, NumPy's arrays.

mod files;
#[cfg(test)]
mod tests;

pub use files::{Format, export};
