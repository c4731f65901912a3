//! Student's distribution: how far chance alone takes a coefficient.

/// How probable it is that chance is further from zero than `t`, on either side.
pub(super) fn beyond(t: f64, freedom: usize) -> f64 {
    if !t.is_finite() {
        return if t.is_nan() { f64::NAN } else { 0.0 };
    }
    let freedom = freedom as f64;
    beta(freedom / 2.0, 0.5, freedom / (freedom + t * t))
}

/// What chance stays below with this probability, above one half.
pub(super) fn quantile(probability: f64, freedom: usize) -> f64 {
    let outside = 2.0 * (1.0 - probability);
    let (mut low, mut high) = (0.0, 1.0);
    while beyond(high, freedom) > outside && high < 1e12 {
        high *= 2.0;
    }
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        match beyond(middle, freedom) > outside {
            true => low = middle,
            false => high = middle,
        }
    }
    0.5 * (low + high)
}

/// The incomplete beta function, relative to the complete one.
fn beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    // The fraction converges soon on this side of the mean, and both sides add up to one.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta(b, a, 1.0 - x);
    }
    let front =
        libm::lgamma(a + b) - libm::lgamma(a) - libm::lgamma(b) + a * x.ln() + b * (-x).ln_1p();
    front.exp() / a / fraction(a, b, x)
}

/// The continued fraction of the incomplete beta function, from its end back to its beginning.
fn fraction(a: f64, b: f64, x: f64) -> f64 {
    // Far more than any of the arguments here need.
    const TERMS: u32 = 400;
    let term = |m: u32| {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        (even, odd)
    };
    let tail = (1..=TERMS).rev().fold(1.0, |tail, m| {
        let (even, odd) = term(m);
        1.0 + even / (1.0 + odd / tail)
    });
    1.0 + term(0).1 / tail
}
