//! The logistic loss of one row.

use crate::nn::Tally;

/// The loss of a row with this logit, and the derivative of the loss by the logit: p − y.
#[inline(always)]
pub fn loss(logit: f32, label: bool) -> (f32, f32) {
    let y = f32::from(u8::from(label));
    // Of the smaller side only, so that nothing overflows: e ≤ 1.
    let e = libm::expf(-logit.abs());
    let p = if logit >= 0.0 { 1.0 } else { e } / (1.0 + e);
    let loss = logit.max(0.0) - y * logit + libm::log1pf(e);
    (loss, p - y)
}

/// Counts a row, and gives the derivative of its loss by its logit.
#[inline(always)]
pub(super) fn note(tally: &mut Tally, logit: f32, label: bool) -> f32 {
    let (loss, slope) = loss(logit, label);
    tally.loss += f64::from(loss);
    tally.correct += u64::from((logit > 0.0) == label);
    tally.count += 1;
    slope
}

/// The probability that goes with a logit.
pub fn probability(logit: f32) -> f32 {
    let e = libm::expf(-logit.abs());
    if logit >= 0.0 {
        1.0 / (1.0 + e)
    } else {
        e / (1.0 + e)
    }
}

/// How much rows count: their gradient is multiplied by the weight of their label.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassWeights {
    /// Of rows with label 0.
    pub negative: f32,
    /// Of rows with label 1.
    pub positive: f32,
}

impl ClassWeights {
    /// That of a row.
    #[inline(always)]
    pub fn of(self, label: bool) -> f32 {
        if label { self.positive } else { self.negative }
    }
}

impl Default for ClassWeights {
    fn default() -> Self {
        Self {
            negative: 1.0,
            positive: 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_and_derivative_agree_with_double_precision() {
        for logit in [-90.0, -20.0, -1.5, -1e-3, 0.0, 0.3, 4.0, 30.0, 88.0f32] {
            for label in [false, true] {
                let (z, y) = (f64::from(logit), f64::from(u8::from(label)));
                let expected = (1.0 + (-z.abs()).exp()).ln() + z.max(0.0) - y * z;
                let p = 1.0 / (1.0 + (-z).exp());
                let (loss, slope) = loss(logit, label);
                assert!((f64::from(loss) - expected).abs() <= 1e-6 * (1.0 + expected));
                assert!((f64::from(slope) - (p - y)).abs() < 1e-6);
                assert!((f64::from(probability(logit)) - p).abs() < 1e-6);
            }
        }
        assert!(loss(f32::NAN, true).0.is_nan());
        assert_eq!(loss(1e30, true).0, 0.0);
    }
}
