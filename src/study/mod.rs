//! What measurements say: medians and regressions with confidence intervals, and which of several models describes them best.
//!
//! Everything here is a pure function of numbers.

mod curves;
mod least_squares;
mod middle;
mod student;
#[cfg(test)]
mod tests;

pub use curves::{Curve, Described, Shape, describe};
pub use least_squares::{Estimate, Fitted, Measured, fit};
pub use middle::{Middle, median};

/// Pearson's correlation; none where one of the two does not vary.
pub fn correlation(x: &[f64], y: &[f64]) -> Option<f64> {
    let (x, y) = (centred(x), centred(y));
    let product = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
    let both = (product(&x, &x) * product(&y, &y)).sqrt();
    (both > 0.0).then(|| (product(&x, &y) / both).clamp(-1.0, 1.0))
}

/// The mean of some values.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn centred(values: &[f64]) -> Vec<f64> {
    let mean = mean(values);
    values.iter().map(|value| value - mean).collect()
}
