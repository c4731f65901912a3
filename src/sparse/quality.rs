//! How good predictions of clicks are: log loss, AUC, accuracy, calibration.

use crate::comm::Comm;

/// Bins of logits that pairs are ranked by.
const BINS: usize = 1 << 16;
/// Half of the bins are for logits from minus to plus this.
const HALF: f64 = 8.0;
/// Bins of predictions in the table of calibration.
const TENTHS: usize = 10;
/// Sums of losses and predictions are whole numbers of this part of one: they are the same in any order, and so on any
/// number of ranks.
const UNIT: f64 = 1.0 / (1u64 << 40) as f64;
/// A loss counts at most as so much: 2²³ of them in units fit into 64 bits.
const MOST_LOSS: f64 = (1 << 23) as f64 - 1.0;
/// Parts of 32 bits of a sum, so that ranks can add them up as 64 bits.
const LIMBS: usize = 4;

/// Collects predictions and labels, in 1 MiB of memory whatever their number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quality {
    /// By bin of the logit: rows of label 0, then rows of label 1.
    counts: Vec<u64>,
    loss: u128,
    right: u64,
    not_finite: u64,
    tenths: [Tenth; TENTHS],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tenth {
    count: u64,
    positives: u64,
    predictions: u128,
}

/// What the rows with a finite logit say together.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Rows.
    pub count: u64,
    /// Mean log loss.
    pub loss: f64,
    /// How well rows are ranked; nothing if all have the same label.
    pub auc: Option<Auc>,
    /// Share of rows on whose side of 0.5 the prediction is; 0.5 itself is taken for 0.
    pub accuracy: f64,
    /// Mean predicted chance of label 1.
    pub prediction: f64,
    /// Share of rows with label 1.
    pub positives: f64,
    /// The same by predicted chance, in ten bins of equal width.
    pub calibration: Vec<Calibration>,
}

/// The area under the ROC curve: the share of pairs of a positive and a negative row in which the positive has the higher
/// logit, ties counted half.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Auc {
    /// With all logits of a bin taken as ties.
    pub value: f64,
    /// How far it can be from the exact area at most.
    pub error: f64,
}

/// Rows whose predictions are alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Calibration {
    /// How many.
    pub count: u64,
    /// Their mean prediction; 0 if there are none.
    pub prediction: f64,
    /// Share of label 1 among them; 0 if there are none.
    pub positives: f64,
}

impl Default for Quality {
    fn default() -> Self {
        Self {
            counts: vec![0; 2 * BINS],
            loss: 0,
            right: 0,
            not_finite: 0,
            tenths: Default::default(),
        }
    }
}

impl Quality {
    /// Takes the prediction for a row, and its label.
    pub fn add(&mut self, logit: f32, label: bool) {
        if !logit.is_finite() {
            self.not_finite += 1;
            return;
        }
        let logit = f64::from(logit);
        // exp of a negative number only: no logit is too large for it.
        let small = (-logit.abs()).exp();
        let wrong = if label { -logit } else { logit };
        let loss = wrong.max(0.0) + small.ln_1p();
        let prediction = if logit > 0.0 { 1.0 } else { small } / (1.0 + small);
        self.counts[usize::from(label) * BINS + bin(logit)] += 1;
        self.loss += u128::from(units(loss));
        self.right += u64::from((logit > 0.0) == label);
        let tenth = (prediction * TENTHS as f64) as usize;
        let tenth = &mut self.tenths[tenth.min(TENTHS - 1)];
        tenth.count += 1;
        tenth.positives += u64::from(label);
        tenth.predictions += u128::from(units(prediction));
    }

    /// Takes what another has collected.
    pub fn merge(&mut self, other: &Self) {
        let mut sums = self.numbers();
        let pairs = sums.iter_mut().zip(other.numbers());
        pairs.for_each(|(sum, number)| *sum += number);
        self.set_numbers(&sums);
    }

    /// Takes what all ranks have collected: the same on every rank, bit for bit, however rows were divided; *collective*.
    /// Costs a sum of 1 MiB over ranks.
    pub fn merge_over(&mut self, comm: &dyn Comm) {
        let mut sums = self.numbers();
        comm.sum(&mut sums);
        self.set_numbers(&sums);
    }

    /// Rows whose logit was infinite or no number. They count nowhere else.
    pub fn not_finite(&self) -> u64 {
        self.not_finite
    }

    /// What was collected, in few numbers; nothing without any row of a finite logit.
    pub fn summary(&self) -> Option<Summary> {
        let total = |of: &dyn Fn(&Tenth) -> u64| self.tenths.iter().map(of).sum::<u64>();
        let (count, positives) = (total(&|t| t.count), total(&|t| t.positives));
        if count == 0 {
            return None;
        }
        let predictions: u128 = self.tenths.iter().map(|tenth| tenth.predictions).sum();
        let mean = |sum: u128, count: u64| sum as f64 * UNIT / count.max(1) as f64;
        let share = |part: u64, count: u64| part as f64 / count.max(1) as f64;
        let calibration = self.tenths.iter().map(|tenth| Calibration {
            count: tenth.count,
            prediction: mean(tenth.predictions, tenth.count),
            positives: share(tenth.positives, tenth.count),
        });
        Some(Summary {
            count,
            loss: mean(self.loss, count),
            auc: self.auc(positives, count - positives),
            accuracy: share(self.right, count),
            prediction: mean(predictions, count),
            positives: share(positives, count),
            calibration: calibration.collect(),
        })
    }

    fn auc(&self, positives: u64, negatives: u64) -> Option<Auc> {
        let pairs = u128::from(positives) * u128::from(negatives);
        if pairs == 0 {
            return None;
        }
        let (mut below, mut won, mut tied) = (0, 0, 0);
        for (&zeros, &ones) in self.counts[..BINS].iter().zip(&self.counts[BINS..]) {
            let (zeros, ones) = (u128::from(zeros), u128::from(ones));
            won += ones * below;
            tied += ones * zeros;
            below += zeros;
        }
        let half = tied as f64 / 2.0;
        Some(Auc {
            value: (won as f64 + half) / pairs as f64,
            error: half / pairs as f64,
        })
    }

    /// All that was collected as numbers whose sums are those of what several collected.
    fn numbers(&self) -> Vec<u64> {
        let mut numbers = self.counts.clone();
        numbers.extend([self.right, self.not_finite]);
        numbers.extend(limbs(self.loss));
        for tenth in &self.tenths {
            numbers.extend([tenth.count, tenth.positives]);
            numbers.extend(limbs(tenth.predictions));
        }
        numbers
    }

    fn set_numbers(&mut self, numbers: &[u64]) {
        let (counts, rest) = numbers.split_at(2 * BINS);
        self.counts.copy_from_slice(counts);
        (self.right, self.not_finite) = (rest[0], rest[1]);
        let (loss, rest) = rest[2..].split_at(LIMBS);
        self.loss = whole(loss);
        for (tenth, numbers) in self.tenths.iter_mut().zip(rest.chunks_exact(2 + LIMBS)) {
            (tenth.count, tenth.positives) = (numbers[0], numbers[1]);
            tenth.predictions = whole(&numbers[2..]);
        }
    }
}

/// The bin of a logit; never falls where the logit rises.
///
/// Around 0 a bin is 2.4·10⁻⁴ wide, at 8 four times that, at 80 a hundred times: fine where predictions are, and there is
/// none so far out that it had no bin. For a million normal logits with a deviation of 1 the error of the area is at most
/// 3.5·10⁻⁵.
fn bin(logit: f64) -> usize {
    // Each operation keeps the order of its operands, rounding included.
    let out = 1.0 - HALF / (HALF + logit.abs());
    let place = 0.5 + 0.5 * out.copysign(logit);
    ((place * BINS as f64) as usize).min(BINS - 1)
}

fn units(number: f64) -> u64 {
    (number.min(MOST_LOSS) / UNIT).round() as u64
}

fn limbs(sum: u128) -> [u64; LIMBS] {
    std::array::from_fn(|i| u64::from((sum >> (32 * i)) as u32))
}

fn whole(limbs: &[u64]) -> u128 {
    let place = |(i, &limb): (usize, &u64)| u128::from(limb) << (32 * i);
    limbs.iter().enumerate().map(place).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::{block, run_ranks};
    use crate::rng::Stream;

    /// Logits of a deviation of 1.3 and labels drawn from them.
    fn rows(n: usize) -> Vec<(f32, bool)> {
        let mut stream = Stream::new(&[5]);
        let row = |_| {
            let logit = 1.3 * stream.normal() - 1.4;
            (logit, stream.uniform() < 1.0 / (1.0 + (-logit).exp()))
        };
        (0..n).map(row).collect()
    }

    fn quality(rows: &[(f32, bool)]) -> Quality {
        let mut quality = Quality::default();
        rows.iter()
            .for_each(|&(logit, label)| quality.add(logit, label));
        quality
    }

    /// Over all pairs, one by one.
    fn exact(rows: &[(f32, bool)]) -> f64 {
        let of = |label| {
            rows.iter()
                .filter(move |row| row.1 == label)
                .map(|row| row.0)
        };
        let score = |(one, zero): (f32, f32)| match one.partial_cmp(&zero).unwrap() {
            std::cmp::Ordering::Less => 0.0,
            std::cmp::Ordering::Equal => 0.5,
            std::cmp::Ordering::Greater => 1.0,
        };
        let scores = of(true).flat_map(|one| of(false).map(move |zero| score((one, zero))));
        scores.sum::<f64>() / (of(true).count() * of(false).count()) as f64
    }

    #[test]
    fn the_area_is_that_of_all_pairs() {
        let rows = rows(4000);
        let auc = quality(&rows).summary().unwrap().auc.unwrap();
        assert!((auc.value - exact(&rows)).abs() <= auc.error, "{auc:?}");
        assert!(auc.value > 0.7 && auc.error < 1e-4, "{auc:?}");
        // Few different logits: every pair is either far apart or a tie.
        let ties: Vec<_> = rows.iter().map(|row| (row.0.round(), row.1)).collect();
        let auc = quality(&ties).summary().unwrap().auc.unwrap();
        assert!((auc.value - exact(&ties)).abs() < 1e-12, "{auc:?}");
        let same: Vec<_> = rows.iter().map(|row| (0.3, row.1)).collect();
        let auc = quality(&same).summary().unwrap().auc.unwrap();
        assert_eq!((auc.value, auc.error), (0.5, 0.5));
    }

    #[test]
    fn bins_keep_the_order_of_logits() {
        let mut logits: Vec<f64> = rows(100_000).iter().map(|row| row.0.into()).collect();
        logits.extend([f32::MIN, -1e4, -0.0, 0.0, 1e-40, 1e4, f32::MAX].map(f64::from));
        logits.sort_by(f64::total_cmp);
        assert!(logits.is_sorted_by_key(|&logit| bin(logit)));
        assert_eq!((bin(f32::MIN.into()), bin(f32::MAX.into())), (0, BINS - 1));
        assert!(bin(-20.0) < bin(-19.9) && bin(1e4) < BINS - 1);
    }

    #[test]
    fn losses_and_shares_are_those_of_the_rows() {
        let rows = rows(10_000);
        let summary = quality(&rows).summary().unwrap();
        let chance = |logit: f32| 1.0 / (1.0 + f64::from(-logit).exp());
        let mean =
            |of: &dyn Fn(&(f32, bool)) -> f64| rows.iter().map(of).sum::<f64>() / rows.len() as f64;
        let loss = mean(&|row| {
            -(if row.1 {
                chance(row.0)
            } else {
                1.0 - chance(row.0)
            })
            .ln()
        });
        assert!((summary.loss - loss).abs() < 1e-11, "{}", summary.loss);
        assert!((summary.prediction - mean(&|row| chance(row.0))).abs() < 1e-11);
        assert_eq!(summary.positives, mean(&|row| f64::from(u8::from(row.1))));
        let right = |row: &(f32, bool)| f64::from(u8::from((row.0 > 0.0) == row.1));
        assert_eq!(summary.accuracy, mean(&right));
        let bins = &summary.calibration;
        assert_eq!(bins.iter().map(|bin| bin.count).sum::<u64>(), 10_000);
        for (i, bin) in bins.iter().enumerate() {
            let (low, high) = (i as f64 / 10.0, (i + 1) as f64 / 10.0);
            assert!(bin.count > 0 && (low..high).contains(&bin.prediction));
            // The labels were drawn from the predictions: four deviations of a share.
            let apart = (bin.positives - bin.prediction).abs();
            assert!(apart < 4.0 * (0.25 / bin.count as f64).sqrt(), "{bin:?}");
        }
    }

    #[test]
    fn extreme_logits_have_finite_losses_and_no_number_counts_apart() {
        let loss = |logit, label| quality(&[(logit, label)]).summary().unwrap().loss;
        assert_eq!((loss(1e4, true), loss(-1e4, false)), (0.0, 0.0));
        assert_eq!((loss(1e4, false), loss(-1e4, true)), (1e4, 1e4));
        assert_eq!(loss(f32::MAX, false), MOST_LOSS);
        let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY].map(|logit| (logit, true));
        let odd = quality(&odd);
        assert_eq!((odd.not_finite(), odd.summary()), (3, None));
    }

    #[test]
    fn one_class_has_no_area() {
        for label in [false, true] {
            let summary = quality(&[(0.5, label), (-2.0, label)]).summary().unwrap();
            assert_eq!((summary.auc, summary.accuracy), (None, 0.5));
        }
    }

    #[test]
    fn any_number_of_ranks_finds_the_same_bits() {
        let mut rows = rows(5000);
        rows.extend([(f32::NAN, true), (1e30, false), (-1e30, true)]);
        let expected = quality(&rows);
        for size in 1..=3 {
            let found = run_ranks(size, |comm| {
                let mut quality = quality(&rows[block(rows.len(), size, comm.rank())]);
                quality.merge_over(comm);
                quality
            });
            assert!(found.iter().all(|quality| *quality == expected));
        }
        let mut halves = quality(&rows[..2000]);
        halves.merge(&quality(&rows[2000..]));
        assert!(halves == expected);
    }
}
