//! Two random words into two normal numbers (Box–Muller), in plain arithmetic that the compiler turns into wide vectors.
//!
//! Only additions, multiplications, one division and one square root, all of which IEEE 754 rounds the same everywhere, and
//! none of them fused: the same bits on any machine. The polynomials are those of fdlibm for the reduced ranges.

const LOW: u64 = 0xffff_ffff;
/// The bits of 2⁵²: with an integer below 2⁵² in its last bits it is that much more.
const TWO_52_BITS: u64 = 0x4330_0000_0000_0000;
const TWO_52: f64 = (1u64 << 52) as f64;
const EXPONENT: u32 = 52;
/// The bits of √½: mantissas are taken from there to √2.
const ROOT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;

/// Of (ln m - 2s) / s in powers of s², where s = (m - 1) / (m + 1).
const LOG: [f64; 7] = [
    6.666_666_666_666_735e-1,
    3.999_999_999_940_942e-1,
    2.857_142_874_366_239e-1,
    2.222_219_843_214_978_4e-1,
    1.818_357_216_161_805e-1,
    1.531_383_769_920_937_3e-1,
    1.479_819_860_511_658_6e-1,
];
/// Of (sin x - x) / x³ in powers of x².
const SIN: [f64; 6] = [
    -1.666_666_666_666_663_2e-1,
    8.333_333_333_322_49e-3,
    -1.984_126_982_985_795e-4,
    2.755_731_370_707_006_8e-6,
    -2.505_076_025_340_686_4e-8,
    1.589_690_995_211_55e-10,
];
/// Of (cos x - 1 + x²/2) / x⁴ in powers of x².
const COS: [f64; 6] = [
    4.166_666_666_666_66e-2,
    -1.388_888_888_887_411e-3,
    2.480_158_728_947_673e-5,
    -2.755_731_435_139_066_3e-7,
    2.087_572_321_298_175e-9,
    -1.135_964_755_778_819_5e-11,
];

/// Two independent normal numbers of the lower halves of `a`, which is how far from zero, and `b`, which is the direction.
///
/// With 32 bits for the distance none is beyond 6.77, which 10¹¹ normal numbers pass once.
#[inline(always)]
pub(super) fn pair(a: u64, b: u64) -> (f64, f64) {
    let distance = minus_two_log(a & LOW).sqrt();
    // Directions within 45° of the first axis, then mirrored at the diagonal or not, and at the origin or not.
    let (sin, cos) = direction(b);
    let mirrored = 0u64.wrapping_sub(b >> 30 & 1);
    let swap = (sin.to_bits() ^ cos.to_bits()) & mirrored;
    let distance = f64::from_bits(distance.to_bits() ^ (b & 0x8000_0000) << 32);
    (
        distance * f64::from_bits(cos.to_bits() ^ swap),
        distance * f64::from_bits(sin.to_bits() ^ swap),
    )
}

/// -2 ln u, where u = (word + ½) / 2³².
#[inline(always)]
fn minus_two_log(word: u64) -> f64 {
    let v = f64::from_bits(TWO_52_BITS | word) - (TWO_52 - 0.5);
    // v = m·2^(e - 1), where m is from √½ to √2 and e is not negative.
    let bits = v.to_bits();
    let e = (bits - (ROOT_HALF - (1 << EXPONENT))) >> EXPONENT;
    let m = f64::from_bits(bits + (1 << EXPONENT) - (e << EXPONENT));
    let power = f64::from_bits(TWO_52_BITS | e) - (TWO_52 + 33.0);
    let f = m - 1.0;
    let s = f / (2.0 + f);
    let log = 2.0 * s + s * (s * s * polynomial(&LOG, s * s));
    -2.0 * (power * std::f64::consts::LN_2 + log)
}

/// Sine and cosine of an angle from -π/4 to π/4 by the lower 30 bits of `word`.
#[inline(always)]
fn direction(word: u64) -> (f64, f64) {
    const STEP: f64 = std::f64::consts::FRAC_PI_2 / (1u64 << 31) as f64;
    // Odd numbers less 2³⁰: symmetric, and never zero.
    let odd = (word << 1) & 0x7fff_ffff | 1;
    let x = (f64::from_bits(TWO_52_BITS | odd) - (TWO_52 + (1u64 << 30) as f64)) * STEP;
    let w = x * x;
    let sin = x + x * w * polynomial(&SIN, w);
    let cos = 1.0 - (0.5 * w - w * w * polynomial(&COS, w));
    (sin, cos)
}

#[inline(always)]
fn polynomial<const N: usize>(coefficients: &[f64; N], x: f64) -> f64 {
    let mut sum = coefficients[N - 1];
    for i in (0..N - 1).rev() {
        sum = sum * x + coefficients[i];
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words that try both ends, all powers of two and much in between.
    fn words() -> impl Iterator<Item = u64> {
        let powers = (0..32).flat_map(|bit| [1u64 << bit, (1 << bit) - 1, (1 << bit) + 1]);
        let spread = (0..200_000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32);
        powers.chain([LOW, LOW - 1]).chain(spread)
    }

    #[test]
    fn the_logarithm_is_as_good_as_libms() {
        let mut worst = 0.0f64;
        for word in words() {
            // 1 - u is exact, and log1p of it keeps what ln of a number near 1 would lose.
            let rest = ((1u64 << 32) - word) as f64 - 0.5;
            let exact = -2.0 * libm::log1p(-rest / (1u64 << 32) as f64);
            worst = worst.max((minus_two_log(word) / exact - 1.0).abs());
        }
        assert!(worst < 1e-15, "{worst}");
    }

    #[test]
    fn sine_and_cosine_are_as_good_as_libms() {
        let mut worst = 0.0f64;
        for word in words() {
            let t = (word & 0x3fff_ffff) as f64 + 0.5 - (1u64 << 29) as f64;
            let x = t * (std::f64::consts::FRAC_PI_2 / (1u64 << 30) as f64);
            let (sin, cos) = direction(word);
            worst = worst.max((sin / libm::sin(x) - 1.0).abs());
            worst = worst.max((cos / libm::cos(x) - 1.0).abs());
        }
        assert!(worst < 1e-15, "{worst}");
    }

    #[test]
    fn the_pair_goes_round_the_whole_circle() {
        for (b, signs) in [
            (0x0000_0000, (1.0, -1.0)),
            (0x3fff_ffff, (1.0, 1.0)),
            (0x4000_0000, (-1.0, 1.0)),
            (0x8000_0000, (-1.0, 1.0)),
            (0xffff_ffff, (-1.0, -1.0)),
        ] {
            let (x, y) = pair(1 << 31, b);
            assert_eq!((x.signum(), y.signum()), signs, "{b:x}");
            let square = minus_two_log(1 << 31);
            assert!(((x * x + y * y) / square - 1.0).abs() < 1e-15);
        }
        let (x, y) = pair(0, 0);
        assert!(x.hypot(y) < 6.77 && x.hypot(y) > 6.76);
    }
}
