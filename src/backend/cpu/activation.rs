//! Activations, element by element: ReLU and tanh, each with its gradient from what came out of it.
//!
//! Cost: 8 bytes an element forward (read, write), 12 backward; all of them run at the speed of memory, tanh at a
//! third of it.

use super::softmax::exp;
use super::wide;

/// `y = max(x, 0)`; NaN stays NaN.
pub fn relu(x: &[f32], y: &mut [f32]) {
    assert_eq!(x.len(), y.len(), "as many outputs as inputs");
    wide(|| y.iter_mut().zip(x).for_each(|(y, &x)| *y = positive(x)));
}

/// `x = max(x, 0)` in place; NaN stays NaN.
pub fn relu_in_place(x: &mut [f32]) {
    wide(|| x.iter_mut().for_each(|x| *x = positive(*x)));
}

/// `dx = dy` where `y > 0`, else 0; `y` is what [`relu`] gave.
pub fn relu_backward(y: &[f32], dy: &[f32], dx: &mut [f32]) {
    backward(y, dy, dx, relu_slope);
}

/// `d = 0` where `y ≤ 0`: [`relu_backward`] with the gradients in place.
pub fn relu_backward_in_place(y: &[f32], d: &mut [f32]) {
    assert_eq!(y.len(), d.len(), "as many gradients as outputs");
    wide(|| {
        d.iter_mut()
            .zip(y)
            .for_each(|(d, &y)| *d = relu_slope(y, *d))
    });
}

/// `y = tanh(x)`, right to 3 units in the last place.
pub fn tanh(x: &[f32], y: &mut [f32]) {
    assert_eq!(x.len(), y.len(), "as many outputs as inputs");
    wide(|| y.iter_mut().zip(x).for_each(|(y, &x)| *y = tanh_of(x)));
}

/// `x = tanh(x)` in place, right to 3 units in the last place.
pub fn tanh_in_place(x: &mut [f32]) {
    wide(|| x.iter_mut().for_each(|x| *x = tanh_of(*x)));
}

/// `dx = dy·(1 − y²)`; `y` is what [`tanh`] gave.
pub fn tanh_backward(y: &[f32], dy: &[f32], dx: &mut [f32]) {
    backward(y, dy, dx, |y, dy| dy * (1.0 - y * y));
}

#[inline(always)]
fn backward(y: &[f32], dy: &[f32], dx: &mut [f32], slope: impl Fn(f32, f32) -> f32) {
    assert_eq!(y.len(), dy.len(), "as many gradients as outputs");
    assert_eq!(y.len(), dx.len(), "as many gradients out as in");
    wide(|| {
        let pairs = y.iter().zip(dy);
        dx.iter_mut()
            .zip(pairs)
            .for_each(|(dx, (&y, &dy))| *dx = slope(y, dy));
    });
}

// Written as the comparison that is false for NaN, which so goes through.
#[inline(always)]
fn positive(x: f32) -> f32 {
    if x < 0.0 { 0.0 } else { x }
}

#[inline(always)]
fn relu_slope(y: f32, dy: f32) -> f32 {
    if y <= 0.0 { 0.0 } else { dy }
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
        let mut y = [9.0; 6];
        relu(&x, &mut y);
        assert_eq!(y[..3], [0.0, 0.0, 2.5]);
        assert!(y[3].is_nan() && y[4] == 0.0 && y[5] == f32::INFINITY);
        let mut z = x;
        relu_in_place(&mut z);
        assert_eq!(z.map(f32::to_bits), y.map(f32::to_bits));

        let dy = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let mut dx = [9.0; 6];
        relu_backward(&y, &dy, &mut dx);
        assert_eq!(dx, [0.0, 0.0, 3.0, 4.0, 0.0, 6.0]);
        let mut d = dy;
        relu_backward_in_place(&y, &mut d);
        assert_eq!(d, dx);
    }

    #[test]
    fn tanh_is_right_to_a_few_units_in_the_last_place() {
        let x: Vec<f32> = (-1_000_000..=1_000_000).map(|i| i as f32 * 1e-5).collect();
        let mut y = vec![0.0; x.len()];
        tanh(&x, &mut y);
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
        tanh_in_place(&mut x);
        assert_eq!(x[..6], [0.0, 0.0, 1e-40, -1e-30, 1.0, -1.0]);
        assert!(x[1].is_sign_negative() && x[6].is_nan());
    }

    #[test]
    fn the_gradient_of_tanh_matches_central_differences() {
        let x = [-3.0f32, -0.7, -0.1, 0.0, 0.4, 0.62, 0.63, 2.0, 5.0];
        let (mut y, mut dx) = ([0.0; 9], [9.0; 9]);
        tanh(&x, &mut y);
        tanh_backward(&y, &[2.0; 9], &mut dx);
        for (&x, &dx) in x.iter().zip(&dx) {
            let x = f64::from(x);
            let slope = ((x + 1e-5).tanh() - (x - 1e-5).tanh()) / 1e-5;
            assert!((slope - f64::from(dx)).abs() < 1e-6, "{x}: {slope} {dx}");
        }
    }

    #[test]
    fn empty_batches_are_fine() {
        relu(&[], &mut []);
        tanh(&[], &mut []);
        relu_backward(&[], &[], &mut []);
    }
}
