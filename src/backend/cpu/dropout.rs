//! Dropout: each value is dropped with probability `rate`, and what is kept is divided by `1 − rate`.
//!
//! Nothing is stored: whether element i of a sample is kept is a pure function of (seed, layer, step, sample, i), so the
//! backward pass asks again, and any number of ranks drops the same values of the same sample.
//!
//! Cost: about 12 integer instructions for 8 elements, 8 bytes an element.

use super::wide;
use crate::rng::mix;

/// What names the masks of one layer in one step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mask {
    /// Of the run.
    pub seed: u64,
    /// Which layer of the model.
    pub layer: u64,
    /// Which step of the run.
    pub step: u64,
    /// Probability that a value is dropped, `0 ≤ rate ≤ 1`.
    pub rate: f32,
}

impl Mask {
    /// Drops some of `values`; row r belongs to the sample that `samples[r]` names. The backward pass is the same call.
    pub fn apply(self, samples: &[u64], values: &mut [f32]) {
        let Some(len) = row_length(samples, values) else {
            return;
        };
        for (&sample, values) in samples.iter().zip(values.chunks_exact_mut(len)) {
            let row = self.row(sample);
            wide(|| (0..).zip(values).for_each(|(i, v)| *v *= row.factor(i)));
        }
    }

    /// Below it, of 2³² bits, a value is dropped. A rate of 1 saturates; the scale of zero then drops the one value in 2³² that
    /// would be kept.
    pub(in crate::backend) fn threshold(self) -> u32 {
        assert!((0.0..=1.0).contains(&self.rate), "rate {}", self.rate);
        (f64::from(self.rate) * 4_294_967_296.0) as u32
    }

    /// What kept values are multiplied by.
    pub(in crate::backend) fn scale(self) -> f32 {
        if self.rate < 1.0 {
            1.0 / (1.0 - self.rate)
        } else {
            0.0
        }
    }

    fn row(self, sample: u64) -> Row {
        let key = [self.layer, self.step, sample]
            .iter()
            .fold(mix(self.seed), |key, &part| {
                mix(key.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ mix(part))
            });
        Row {
            low: key as u32,
            high: (key >> 32) as u32,
            threshold: self.threshold(),
            scale: self.scale(),
        }
    }
}

fn row_length(samples: &[u64], values: &[f32]) -> Option<usize> {
    let len = values.len().checked_div(samples.len()).unwrap_or(0);
    assert_eq!(len * samples.len(), values.len(), "rows of one length");
    (len > 0).then_some(len)
}

/// The mask of one sample.
#[derive(Clone, Copy)]
struct Row {
    low: u32,
    high: u32,
    threshold: u32,
    scale: f32,
}

impl Row {
    /// What element i is multiplied by. Multiplied, not replaced: a NaN must not hide behind the mask.
    #[inline(always)]
    fn factor(self, i: u32) -> f32 {
        if self.bits(i) >= self.threshold {
            self.scale
        } else {
            0.0
        }
    }

    /// 32 random bits. Products of 32 bits, because AVX2 has none of 64; half of the key goes in before the first round
    /// and half between the rounds, so that two samples never walk through the same sequence at different places.
    #[inline(always)]
    fn bits(self, i: u32) -> u32 {
        let mut x = i ^ self.low;
        x = (x ^ (x >> 16)).wrapping_mul(0x21f0_aaad);
        x = (x ^ (x >> 15)).wrapping_add(self.high);
        x = (x ^ (x >> 16)).wrapping_mul(0x735a_2d97);
        x ^ (x >> 15)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASK: Mask = Mask {
        seed: 7,
        layer: 2,
        step: 100,
        rate: 0.5,
    };

    fn masks(mask: Mask, samples: &[u64], len: usize) -> Vec<f32> {
        let mut values = vec![1.0; samples.len() * len];
        mask.apply(samples, &mut values);
        values
    }

    /// How many standard deviations `hits` of `n` are away from probability `p`.
    fn deviations(hits: usize, n: usize, p: f64) -> f64 {
        let n = n as f64;
        (hits as f64 - n * p).abs() / (n * p * (1.0 - p)).sqrt()
    }

    #[test]
    fn the_keep_rate_is_right_and_the_mean_stays() {
        let samples: Vec<u64> = (0..100).collect();
        for rate in [0.1, 0.5, 0.9] {
            let values = masks(Mask { rate, ..MASK }, &samples, 4097);
            let kept = values.iter().filter(|v| **v != 0.0).count();
            let off = deviations(kept, values.len(), 1.0 - f64::from(rate));
            assert!(off < 3.0, "rate {rate}: {off} deviations");
            let scale = 1.0 / (1.0 - rate);
            assert!(values.iter().all(|&v| v == 0.0 || v == scale));
        }
    }

    #[test]
    fn a_batch_in_two_parts_drops_the_same_values() {
        let samples = [3, 1 << 40, 17, 5, 4];
        let whole = masks(MASK, &samples, 33);
        let mut parts = masks(MASK, &samples[..2], 33);
        parts.extend(masks(MASK, &samples[2..], 33));
        assert_eq!(whole, parts);
    }

    #[test]
    fn masks_of_other_steps_layers_samples_seeds_and_places_are_independent() {
        let len = 100_000;
        let base = masks(MASK, &[1000], len);
        let mut others = vec![
            masks(Mask { step: 101, ..MASK }, &[1000], len),
            masks(Mask { layer: 3, ..MASK }, &[1000], len),
            masks(Mask { seed: 8, ..MASK }, &[1000], len),
        ];
        others.extend((0..50).map(|s| masks(MASK, &[s], len)));
        for shift in [1, 2, 8, 13, 55] {
            let mut shifted = base.clone();
            shifted.rotate_left(shift);
            others.push(shifted);
        }
        let mut squares = 0.0;
        for other in &others {
            let equal = base.iter().zip(other).filter(|(a, b)| a == b).count();
            let off = deviations(equal, len, 0.5);
            assert!(off < 4.0, "{off} deviations");
            squares += off * off;
        }
        let mean = squares / others.len() as f64;
        assert!((0.4..1.6).contains(&mean), "mean square deviation {mean}");
    }

    #[test]
    fn the_backward_pass_drops_what_the_forward_pass_dropped() {
        let (mut y, mut dx) = (vec![2.0; 300], vec![3.0; 300]);
        MASK.apply(&[5, 6], &mut y);
        MASK.apply(&[5, 6], &mut dx);
        assert!(y.iter().zip(&dx).all(|(y, dx)| y * 1.5 == *dx));
        assert_eq!(
            y[..150],
            masks(MASK, &[5], 150)
                .iter()
                .map(|m| m * 2.0)
                .collect::<Vec<_>>()
        );
    }

    #[test]
    fn rates_of_zero_and_one_keep_all_and_nothing() {
        assert_eq!(masks(Mask { rate: 0.0, ..MASK }, &[1], 1000), [1.0; 1000]);
        assert_eq!(masks(Mask { rate: 1.0, ..MASK }, &[1], 1000), [0.0; 1000]);
        assert!(masks(MASK, &[], 10).is_empty());
    }

    #[test]
    fn a_nan_does_not_hide_behind_the_mask() {
        let mut values = [f32::NAN; 64];
        MASK.apply(&[9], &mut values);
        assert!(values.iter().all(|v| v.is_nan()));
    }

    #[test]
    fn the_first_mask_never_changes() {
        let first = masks(MASK, &[0], 16)
            .iter()
            .fold(0u16, |bits, &v| bits << 1 | u16::from(v != 0.0));
        assert_eq!(first, 0x6863);
    }
}
