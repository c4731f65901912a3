//! Whether numbers are numbers.

use super::wide;

/// Bits of infinity; greater ones are NaN.
const INFINITY: u32 = 0x7f80_0000;

/// Whether no value is NaN or infinite. Cost: 4 bytes a value, read at the speed of memory.
pub fn finite(values: &[f32]) -> bool {
    let mut greatest = 0;
    let greatest_of = |values: &[f32]| {
        let bits = values.iter().map(|value| value.to_bits() & 0x7fff_ffff);
        bits.fold(0, u32::max)
    };
    wide(|| greatest = greatest_of(values));
    greatest < INFINITY
}

/// The first value that is NaN or infinite.
pub fn odd(values: &[f32]) -> Option<f32> {
    values.iter().copied().find(|value| !value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bad_value_anywhere_is_found() {
        let mut values = vec![f32::MAX; 1003];
        values[5] = f32::MIN_POSITIVE / 2.0;
        values[6] = -0.0;
        assert!(finite(&values) && odd(&values).is_none() && finite(&[]));
        for i in [0, 7, 8, 500, 1002] {
            for bad in [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let good = std::mem::replace(&mut values[i], bad);
                assert!(!finite(&values), "{bad} at {i}");
                assert_eq!(odd(&values).map(f32::to_bits), Some(bad.to_bits()));
                values[i] = good;
            }
        }
    }
}
