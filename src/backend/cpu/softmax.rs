//! Softmax with cross-entropy, in one pass over `z: (n, classes)`; safe for logits of any finite size.

/// What a batch of predictions adds up to.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
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
        let label = label as usize;
        let (best, top) =
            row.iter()
                .enumerate()
                .fold((0, f32::NEG_INFINITY), |(best, top), (i, &z)| {
                    if z > top { (i, z) } else { (best, top) }
                });
        let truth = row[label];
        let mut sum = 0.0;
        for z in row.iter_mut() {
            *z = (*z - top).exp();
            sum += *z;
        }
        // NaN logits never exceed `top`, so the sum carries them into the loss.
        tally.loss += f64::from(sum.ln() - (truth - top));
        tally.correct += u64::from(best == label);
        let factor = scale / sum;
        row.iter_mut().for_each(|z| *z *= factor);
        row[label] -= scale;
    }
    tally
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
