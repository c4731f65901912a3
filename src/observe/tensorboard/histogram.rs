//! How values are spread, as TensorBoard shows it.

use super::proto;

/// Buckets of equal width between the least and the greatest value; TensorBoard draws 30.
const BUCKETS: usize = 60;

/// The histogram of the finite ones among `values`; nothing if there are none.
pub(super) fn of(values: &[f32]) -> Option<proto::Histogram> {
    let finite = || values.iter().filter(|value| value.is_finite());
    let (mut least, mut greatest) = (f32::INFINITY, f32::NEG_INFINITY);
    finite().for_each(|&value| {
        least = least.min(value);
        greatest = greatest.max(value);
    });
    if least > greatest {
        return None;
    }
    let (min, max) = (f64::from(least), f64::from(greatest));
    let width = (max - min) / BUCKETS as f64;
    let buckets = if width > 0.0 { BUCKETS } else { 1 };
    let mut counts = vec![0.0; buckets];
    let (mut sum, mut sum_squares) = (0.0, 0.0);
    for value in finite().map(|&value| f64::from(value)) {
        let bucket = if width > 0.0 {
            ((value - min) / width) as usize
        } else {
            0
        };
        counts[bucket.min(buckets - 1)] += 1.0;
        sum += value;
        sum_squares += value * value;
    }
    let limit = |i: usize| {
        if i + 1 == buckets {
            max
        } else {
            min + width * (i + 1) as f64
        }
    };
    Some(proto::Histogram {
        min,
        max,
        num: counts.iter().sum(),
        sum,
        sum_squares,
        limits: (0..buckets).map(limit).collect(),
        counts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finite_value_is_counted_once_and_in_its_bucket() {
        let mut values: Vec<f32> = (0..=600).map(|i| i as f32 / 10.0).collect();
        values.extend([f32::NAN, f32::INFINITY]);
        let histogram = of(&values).unwrap();
        assert_eq!((histogram.min, histogram.max), (0.0, 60.0));
        assert_eq!(histogram.num, 601.0);
        assert!((histogram.sum - 18030.0).abs() < 0.01);
        assert_eq!(histogram.counts[0], 10.0);
        // The greatest value has no bucket of its own.
        assert_eq!(histogram.counts[59], 11.0);
        assert_eq!(histogram.limits[59], 60.0);
    }

    #[test]
    fn equal_values_have_one_bucket_and_no_values_none() {
        let one = of(&[0.5; 4]).unwrap();
        assert_eq!((one.counts, one.limits), (vec![4.0], vec![0.5]));
        assert_eq!(of(&[f32::NAN]), None);
    }
}
