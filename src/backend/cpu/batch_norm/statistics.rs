//! What a channel is normalised by: moments of the batch in training, running estimates in evaluation.

/// What each channel is normalised by.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics {
    /// Subtracted.
    pub mean: Vec<f32>,
    /// Multiplied by: `1 / √(variance + eps)`.
    pub inv_std: Vec<f32>,
}

impl Statistics {
    /// Of `c` channels with mean 0 and variance 1.
    pub fn new(c: usize) -> Self {
        Self {
            mean: vec![0.0; c],
            inv_std: vec![1.0; c],
        }
    }

    /// For training: from the sums that [`super::Channels::sums`] gave, added up over ranks. At least one element.
    pub fn of_batch(&mut self, sums: &[f64], eps: f32) {
        let batch = moments(sums).zip(self.mean.iter_mut().zip(&mut self.inv_std));
        for ((mean, variance), (m, inv_std)) in batch {
            *m = mean as f32;
            *inv_std = (1.0 / (variance + f64::from(eps)).sqrt()) as f32;
        }
    }

    /// For evaluation: from the running estimates.
    pub fn of_run(&mut self, running: &Running, eps: f32) {
        self.mean.copy_from_slice(&running.mean);
        for (inv_std, var) in self.inv_std.iter_mut().zip(&running.var) {
            *inv_std = 1.0 / (var + eps).sqrt();
        }
    }
}

/// Running estimates, which evaluation normalises by.
#[derive(Clone, Debug, PartialEq)]
pub struct Running {
    /// Of the mean.
    pub mean: Vec<f32>,
    /// Of the variance, unbiased.
    pub var: Vec<f32>,
}

impl Running {
    /// Of `c` channels: mean 0, variance 1.
    pub fn new(c: usize) -> Self {
        Self {
            mean: vec![0.0; c],
            var: vec![1.0; c],
        }
    }

    /// `(1 − momentum) · running + momentum · batch`, from the same sums as [`Statistics::of_batch`].
    /// A batch of fewer than two elements a channel has no unbiased variance, and changes nothing; nor does one whose
    /// sums are not finite, for the step may be skipped and estimates would never recover.
    pub fn update(&mut self, sums: &[f64], momentum: f32) {
        let count = sums[sums.len() - 1];
        if count < 2.0 || !sums.iter().all(|sum| sum.is_finite()) {
            return;
        }
        let towards = |old: &mut f32, new: f64| {
            let momentum = f64::from(momentum);
            *old = ((1.0 - momentum) * f64::from(*old) + momentum * new) as f32;
        };
        let estimates = self.mean.iter_mut().zip(&mut self.var);
        for ((mean, variance), (m, var)) in moments(sums).zip(estimates) {
            towards(m, mean);
            towards(var, variance * count / (count - 1.0));
        }
    }
}

/// Mean and (biased) variance of each channel.
fn moments(sums: &[f64]) -> impl Iterator<Item = (f64, f64)> {
    let c = sums.len() / 2;
    let count = sums[2 * c];
    let pairs = sums[..c].iter().zip(&sums[c..2 * c]);
    pairs.map(move |(sum, squares)| {
        let mean = sum / count;
        // Rounding can bring a variance of nothing below zero; a NaN must stay one.
        let variance = squares / count - mean * mean;
        (mean, if variance < 0.0 { 0.0 } else { variance })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_estimates_take_the_unbiased_variance() {
        // Of 1, 2, 3, 6: sum 12, squares 50, mean 3, biased variance 3.5, unbiased 14/3.
        let mut running = Running::new(1);
        running.update(&[12.0, 50.0, 4.0], 0.1);
        assert!((running.mean[0] - 0.3).abs() < 1e-7, "{running:?}");
        assert!(
            (running.var[0] - (0.9 + 1.4 / 3.0)).abs() < 1e-6,
            "{running:?}"
        );
        let mut stats = Statistics::new(1);
        stats.of_batch(&[12.0, 50.0, 4.0], 0.5);
        assert_eq!((stats.mean[0], stats.inv_std[0]), (3.0, 0.5));
    }

    #[test]
    fn a_batch_of_one_element_or_of_no_number_changes_no_estimate() {
        let mut running = Running::new(2);
        running.update(&[5.0, 7.0, 25.0, 49.0, 1.0], 0.1);
        assert_eq!(running, Running::new(2));
        running.update(&[5.0, f64::NAN, 25.0, f64::INFINITY, 9.0], 0.1);
        assert_eq!(running, Running::new(2));
    }

    #[test]
    fn a_nan_shows_and_a_constant_has_no_variance() {
        let mut stats = Statistics::new(2);
        stats.of_batch(&[f64::NAN, 0.3, 1.0, 0.03 - 1e-18, 3.0], 1e-4);
        assert!(
            stats.mean[0].is_nan() && (stats.inv_std[1] - 100.0).abs() < 1e-3,
            "{stats:?}"
        );
    }
}
