//! The exponential and the logarithm in forms that compilers turn into vectors: no branches, no tables.

/// `eˣ` for x ≤ 0 to 2 units in the last place; below −87, where it is less than 2e-38, it is 0.
///
/// x = n·ln 2 + r with |r| ≤ ln 2 / 2; a polynomial for eʳ, and 2ⁿ by its bits.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    const ROUND: f32 = 12_582_912.0; // 1.5 · 2²³: adding it leaves the integer in the low bits.
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = x - n * 0.693_145_75 - n * 1.428_606_8e-6;
    let p = 1.0 / 720.0 * r + 1.0 / 120.0;
    let p = p * r + 1.0 / 24.0;
    let p = p * r + 1.0 / 6.0;
    let p = p * r + 0.5;
    let p = p * r * r + r + 1.0;
    let two_to_n = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
    if x < -87.0 { 0.0 } else { p * two_to_n }
}

/// `ln(1 + x)` for x from 0 to 1, to 2 units in the last place.
///
/// With s = x / (2 + x), which is at most ⅓, it is 2·artanh(s) = 2·(s + s³/3 + s⁵/5 + …); behind s¹³ comes less than 2e-8
/// of it.
#[inline(always)]
pub fn ln_1p(x: f32) -> f32 {
    let s = x / (2.0 + x);
    let t = s * s;
    let p = 2.0 / 13.0 * t + 2.0 / 11.0;
    let p = p * t + 2.0 / 9.0;
    let p = p * t + 2.0 / 7.0;
    let p = p * t + 2.0 / 5.0;
    let p = p * t + 2.0 / 3.0;
    p * t * s + 2.0 * s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_is_right_to_two_units_in_the_last_place() {
        let mut worst = 0.0f64;
        // Every 128th float from −87 to −0, those next to zero included.
        for bits in (0..87f32.to_bits()).step_by(128) {
            let x = -f32::from_bits(bits);
            let truth = libm::exp(f64::from(x));
            worst = worst.max((f64::from(exp(x)) - truth).abs() / truth);
        }
        assert!(worst < 2.5e-7, "relative error {worst}");
        assert!(exp(-87.0) > 1e-38);
        for far in [-87.1, -1e10, -1e30, f32::MIN, f32::NEG_INFINITY] {
            assert_eq!(exp(far), 0.0);
        }
        assert_eq!((exp(0.0), exp(-0.0)), (1.0, 1.0));
        assert!(exp(f32::NAN).is_nan());
    }

    #[test]
    fn the_logarithm_is_right_to_two_units_in_the_last_place() {
        let mut worst = 0.0f64;
        // Every 128th normal float up to 1.
        for bits in (f32::MIN_POSITIVE.to_bits()..=1f32.to_bits()).step_by(128) {
            let x = f32::from_bits(bits);
            let truth = libm::log1p(f64::from(x));
            worst = worst.max((f64::from(ln_1p(x)) - truth).abs() / truth);
        }
        assert!(worst < 2.5e-7, "relative error {worst}");
        assert_eq!(ln_1p(0.0), 0.0);
        assert!(ln_1p(f32::NAN).is_nan());
    }
}
