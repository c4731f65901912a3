//! Data sets for other programs: TensorFlow's records, IDX, folders of PNG files, NumPy's arrays.

mod files;
mod names;
mod place;
#[cfg(test)]
mod tests;

pub use files::{Format, export};
