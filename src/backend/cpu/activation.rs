//! Activations in place: ReLU and tanh, each with its gradient from what came out of it.
//!
//! Cost: 8 bytes an element forward (read, write), 12 backward; all of them run at the speed of memory, tanh at a
//! third of it.

use super::exp;
use super::wide;

/// `x = max(x, 0)`; NaN stays NaN.
pub fn relu(x: &mut [f32]) {
    wide(|| x.iter_mut().for_each(|x| *x = positive(*x)));
}

/// `d = 0` where `y ≤ 0`; `y` is what [`relu`] left, `d` the gradient with respect to it.
pub fn relu_backward(y: &[f32], d: &mut [f32]) {
    assert_eq!(y.len(), d.len(), "as many gradients as outputs");
    wide(|| {
        d.iter_mut()
            .zip(y)
            .for_each(|(d, &y)| *d = if y <= 0.0 { 0.0 } else { *d })
    });
}

/// `x = tanh(x)`, right to 3 units in the last place.
pub fn tanh(x: &mut [f32]) {
    wide(|| x.iter_mut().for_each(|x| *x = tanh_of(*x)));
}

/// `d = d·(1 − y²)`; `y` is what [`tanh`] left, `d` the gradient with respect to it.
pub fn tanh_backward(y: &[f32], d: &mut [f32]) {
    assert_eq!(y.len(), d.len(), "as many gradients as outputs");
    wide(|| d.iter_mut().zip(y).for_each(|(d, &y)| *d *= 1.0 - y * y));
}

// Written as the comparison that is false for NaN, which so goes through.
#[inline(always)]
fn positive(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

/// Near zero an odd polynomial (Cephes's coefficients), which keeps all digits of small x; elsewhere by e^(−2|x|).
/// Both are computed and one is taken: vectors cannot branch.
#[inline(always)]
fn tanh_of(x: f32) -> f32 {
    let size = x.abs();
    let z = x * x;
    let p = -5.704_988_7e-3 * z + 2.063_909e-2;
    let p = p * z - 5.373_971_6e-2;
    let p = p * z + 1.333_144_2e-1;
    let p = p * z - 3.333_328e-1;
    let near = p * z * size + size;
    let e = exp(-2.0 * size);
    let far = (1.0 - e) / (1.0 + e);
    let magnitude = if size < 0.625 { near } else { far };
    magnitude.copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relu_keeps_the_positive_and_nan_and_its_gradient_follows() {
        let x = [-1.0, 0.0, 2.5, f32::NAN, f32::NEG_INFINITY, f32::INFINITY];
        let mut y = x;
        relu(&mut y);
        assert_eq!(y[..3], [0.0, 0.0, 2.5]);
        assert!(y[3].is_nan() && y[4] == 0.0 && y[5] == f32::INFINITY);
        let mut d = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        relu_backward(&y, &mut d);
        assert_eq!(d, [0.0, 0.0, 3.0, 4.0, 0.0, 6.0]);
    }

    #[test]
    fn tanh_is_right_to_a_few_units_in_the_last_place() {
        let x: Vec<f32> = (-1_000_000..=1_000_000).map(|i| i as f32 * 1e-5).collect();
        let mut y = x.clone();
        tanh(&mut y);
        let mut worst = 0.0f64;
        for (&x, &y) in x.iter().zip(&y).filter(|(x, _)| **x != 0.0) {
            let truth = f64::from(x).tanh();
            let unit = f64::from(f32::from_bits((truth.abs() as f32).to_bits() + 1))
                - f64::from(truth.abs() as f32);
            worst = worst.max((f64::from(y) - truth).abs() / unit);
        }
        assert!(worst < 3.0, "{worst} units in the last place");
    }

    #[test]
    fn tanh_of_the_extremes() {
        let mut x = [0.0, -0.0, 1e-40, -1e-30, 90.0, f32::NEG_INFINITY, f32::NAN];
        tanh(&mut x);
        assert_eq!(x[..6], [0.0, 0.0, 1e-40, -1e-30, 1.0, -1.0]);
        assert!(x[1].is_sign_negative() && x[6].is_nan());
    }

    #[test]
    fn the_gradient_of_tanh_matches_central_differences() {
        let x = [-3.0f32, -0.7, -0.1, 0.0, 0.4, 0.62, 0.63, 2.0, 5.0];
        let (mut y, mut dx) = (x, [2.0; 9]);
        tanh(&mut y);
        tanh_backward(&y, &mut dx);
        for (&x, &dx) in x.iter().zip(&dx) {
            let x = f64::from(x);
            let slope = ((x + 1e-5).tanh() - (x - 1e-5).tanh()) / 1e-5;
            assert!((slope - f64::from(dx)).abs() < 1e-6, "{x}: {slope} {dx}");
        }
    }
}
