//! What BLAS reaches on a core, to tell how far from it a product is.

use std::hint::black_box;
use std::time::{Duration, Instant};

use ndarray::Array2;
use ndarray::linalg::general_mat_mul;

use super::real::Real;

/// Side of the matrices: they stay in the cache.
const SIDE: usize = 512;
const TRIALS: usize = 3;
const TRIAL: Duration = Duration::from_millis(30);

/// FLOP/s of this rank's products of matrices that are at hand: the best of several trials.
pub fn gemm_peak<T: Real>() -> f64 {
    let a = Array2::from_elem((SIDE, SIDE), T::nearest(0.5));
    let mut c = Array2::zeros((SIDE, SIDE));
    let mut trial = || {
        let (start, mut flop) = (Instant::now(), 0.0);
        while start.elapsed() < TRIAL {
            general_mat_mul(T::one(), &a, &a, T::zero(), &mut c);
            black_box(&c);
            flop += 2.0 * (SIDE * SIDE * SIDE) as f64;
        }
        flop / start.elapsed().as_secs_f64()
    };
    (0..TRIALS).map(|_| trial()).fold(0.0, f64::max)
}
