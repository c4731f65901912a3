//! Mean and deviation of channels, from sums of whole numbers: the same bits in whatever order they are added.

use crate::backend::cpu::wide;

/// Sum and sum of squares of a channel's bytes.
pub(in crate::data) fn moments(plane: &[u8]) -> [u64; 2] {
    // So few that 32 bits hold the sums, and each sum by itself: so a processor adds many at once.
    let some = |bytes: &[u8]| {
        let (mut sum, mut squares) = (0i32, 0i32);
        wide(|| {
            sum = bytes.iter().map(|&byte| i32::from(byte)).sum();
            let square = |&byte: &u8| i32::from(byte) * i32::from(byte);
            squares = bytes.iter().map(square).sum();
        });
        [sum as u64, squares as u64]
    };
    let plus = |[a, b]: [u64; 2], [c, d]: [u64; 2]| [a + c, b + d];
    plane.chunks(1 << 14).map(some).fold([0; 2], plus)
}

/// Adds what was found of each channel.
pub(in crate::data) fn add_moments(
    sums: &mut [[u64; 2]],
    more: impl IntoIterator<Item = [u64; 2]>,
) {
    for (sum, more) in sums.iter_mut().zip(more) {
        sum[0] += more[0];
        sum[1] += more[1];
    }
}

/// Mean and deviation of `count` bytes with this sum and sum of squares, scaled to 0…1.
pub(in crate::data) fn figures([sum, squares]: [u128; 2], count: u128) -> (f32, f32) {
    let count = count as f64;
    let mean = sum as f64 / 255.0 / count;
    let square = squares as f64 / (255.0 * 255.0) / count;
    let variance = (square - mean * mean).max(0.0);
    (mean as f32, variance.sqrt() as f32)
}
