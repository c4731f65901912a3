//! The logistic loss of one row.
// Lanes are indexed: iterators would hide which is which.
#![allow(clippy::needless_range_loop)]

use crate::backend::cpu::{exp, ln_1p};
use crate::nn::Tally;

/// The loss of a row with this logit, and the derivative of the loss by the logit: p − y.
#[inline(always)]
pub fn loss_and_slope(logit: f32, label: bool) -> (f32, f32) {
    (loss(logit, number(label)), slope(logit, label))
}

#[inline(always)]
fn loss(logit: f32, y: f32) -> f32 {
    let above = if logit > 0.0 { logit } else { 0.0 };
    // Of the smaller side only, so that nothing overflows: e ≤ 1.
    above - y * logit + ln_1p(exp(-logit.abs()))
}

/// The derivative of a row's loss by its logit.
#[inline(always)]
pub(super) fn slope(logit: f32, label: bool) -> f32 {
    probability(logit) - number(label)
}

#[inline(always)]
fn number(label: bool) -> f32 {
    f32::from(u8::from(label))
}

/// Counts a row, and gives the derivative of its loss by its logit.
#[inline(always)]
pub(super) fn note(tally: &mut Tally, logit: f32, label: bool) -> f32 {
    let (loss, slope) = loss_and_slope(logit, label);
    tally.loss += f64::from(loss);
    tally.correct += u64::from((logit > 0.0) == label);
    tally.count += 1;
    slope
}

/// Logits and labels of rows that are counted together, in vectors.
#[derive(Default)]
pub(super) struct Noted {
    logits: [f32; Self::MOST],
    labels: [f32; Self::MOST],
    len: usize,
}

impl Noted {
    /// The most rows.
    pub(super) const MOST: usize = 16;

    /// Takes note of a row.
    #[inline(always)]
    pub(super) fn add(&mut self, logit: f32, label: bool, tally: &mut Tally) {
        self.logits[self.len] = logit;
        self.labels[self.len] = number(label);
        self.len += 1;
        tally.correct += u64::from((logit > 0.0) == label);
        tally.count += 1;
        if self.len == Self::MOST {
            self.count(tally);
        }
    }

    /// Counts the losses of the rows noted so far.
    #[inline(always)]
    pub(super) fn count(&mut self, tally: &mut Tally) {
        let mut losses = [0.0; Self::MOST];
        for i in 0..Self::MOST {
            losses[i] = loss(self.logits[i], self.labels[i]);
        }
        for loss in &losses[..self.len] {
            tally.loss += f64::from(*loss);
        }
        self.len = 0;
    }
}

/// The probability that goes with a logit.
#[inline(always)]
pub fn probability(logit: f32) -> f32 {
    let e = exp(-logit.abs());
    let side = if logit >= 0.0 { 1.0 } else { e };
    side / (1.0 + e)
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
                let (loss, slope) = loss_and_slope(logit, label);
                assert!((f64::from(loss) - expected).abs() <= 1e-6 * (1.0 + expected));
                assert!((f64::from(slope) - (p - y)).abs() < 1e-6);
                assert!((f64::from(probability(logit)) - p).abs() < 1e-6);
            }
        }
        assert!(loss(f32::NAN, 1.0).is_nan());
        assert_eq!(loss(1e30, 1.0), 0.0);
    }
}
