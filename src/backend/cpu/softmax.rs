//! Softmax with cross-entropy over `z: (n, classes)`; safe for logits of any finite size.

use serde::{Deserialize, Serialize};

use super::{exp, wide};

/// What a batch of predictions adds up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// Sum of the losses.
    pub loss: f64,
    /// How many were right; a tie goes to the lower class.
    pub correct: u64,
    /// How many there were.
    pub count: u64,
}

impl Tally {
    /// Both together.
    pub fn plus(self, other: Self) -> Self {
        Self {
            loss: self.loss + other.loss,
            correct: self.correct + other.correct,
            count: self.count + other.count,
        }
    }

    /// Loss of one sample on average.
    pub fn mean_loss(self) -> f64 {
        self.loss / self.count as f64
    }

    /// Share of right answers.
    pub fn accuracy(self) -> f64 {
        self.correct as f64 / self.count as f64
    }
}

/// The losses, and in place of each logit its gradient times `scale`: `(softmax(z) − onehot) × scale`.
pub fn cross_entropy(z: &mut [f32], labels: &[u32], scale: f32) -> Tally {
    if labels.is_empty() {
        return Tally::default();
    }
    let classes = z.len() / labels.len();
    let mut tally = Tally {
        count: labels.len() as u64,
        ..Tally::default()
    };
    for (row, &label) in z.chunks_exact_mut(classes).zip(labels) {
        // Written as a comparison, which is one instruction where `f32::max` is four; a NaN shows in the sum below.
        let larger = |top: f32, &z: &f32| if z > top { z } else { top };
        let top = row.iter().fold(f32::NEG_INFINITY, larger);
        let best = row.iter().position(|&z| z == top);
        tally.correct += u64::from(best == Some(label as usize));
        row.iter_mut().for_each(|z| *z -= top);
        tally.loss -= f64::from(row[label as usize]);
    }
    exp_all(z);
    for (row, &label) in z.chunks_exact_mut(classes).zip(labels) {
        let sum: f32 = row.iter().sum();
        // A logit that is NaN or infinite has become NaN in the sum, and so does the loss.
        tally.loss += f64::from(sum.ln());
        let factor = scale / sum;
        row.iter_mut().for_each(|z| *z *= factor);
        row[label as usize] -= scale;
    }
    tally
}

/// Replaces each value, none above zero, by its exponential.
fn exp_all(values: &mut [f32]) {
    wide(|| values.iter_mut().for_each(|x| *x = exp(*x)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_logits_give_finite_losses_and_gradients() {
        let mut z = [1e30, -1e30, 0.0, 3e38, 3e38, -3e38];
        let tally = cross_entropy(&mut z, &[0, 1], 1.0);
        assert!((tally.loss - 2f64.ln()).abs() < 1e-6, "{tally:?}");
        assert!(z.iter().all(|g| g.is_finite()), "{z:?}");
        assert_eq!((tally.correct, tally.count), (1, 2));
    }

    #[test]
    fn a_nan_or_infinite_logit_shows_in_the_loss() {
        for bad in [f32::NAN, f32::INFINITY] {
            let tally = cross_entropy(&mut [0.0, bad, 0.0], &[0], 1.0);
            assert!(!tally.loss.is_finite(), "{bad} gives {tally:?}");
        }
    }

    #[test]
    fn gradients_match_central_differences() {
        let z = [0.3f32, -1.2, 2.0, 0.1, 0.0, -0.5];
        let labels = [2, 1];
        let mut grads = z;
        cross_entropy(&mut grads, &labels, 1.0);
        for i in 0..z.len() {
            let loss = |h: f32| {
                let mut moved = z;
                moved[i] += h;
                cross_entropy(&mut moved, &labels, 1.0).loss
            };
            let slope = (loss(1e-2) - loss(-1e-2)) / 2e-2;
            assert!(
                (slope - f64::from(grads[i])).abs() < 1e-4,
                "{i}: {slope} {}",
                grads[i]
            );
        }
    }
}
