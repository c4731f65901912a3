//! A·X = B for a symmetric positive definite A, on one rank: Cholesky's factors, by LAPACK.

use ndarray::linalg::general_mat_mul;
use ndarray::{Array1, Array2, OwnedRepr, ShapeBuilder};
use ndarray_linalg::cholesky::{CholeskyFactorized, DeterminantC};
use ndarray_linalg::{FactorizeC, FactorizeCInto, Lapack, SolveC, UPLO};

use super::real::Real;
use super::source::Source;
use crate::{Error, Result};

/// Differences of a_ij and a_ji, in roundings of the largest element, that still count as symmetric.
const SYMMETRIC: f64 = 16.0;

/// Cholesky's factors of a small matrix that is in memory.
pub struct Factors(CholeskyFactorized<OwnedRepr<f64>>);

impl Factors {
    /// Those of `a`, if it is symmetric and positive definite.
    pub fn of(a: Array2<f64>) -> Option<Self> {
        a.factorizec_into(UPLO::Lower).ok().map(Self)
    }

    /// A⁻¹·b.
    pub fn solve(&self, b: &Array1<f64>) -> Array1<f64> {
        self.0.solvec(b).expect("b is as long as A is wide")
    }

    /// The logarithm of A's determinant.
    pub fn ln_det(&self) -> f64 {
        self.0.ln_detc()
    }
}

/// Numbers that LAPACK solves systems of.
pub trait Solvable: Real + Lapack {}

impl Solvable for f32 {}
impl Solvable for f64 {}

/// A solution.
pub struct Solved<T> {
    /// X.
    pub x: Array2<T>,
    /// ‖A·X − B‖ / (‖A‖ ‖X‖ + ‖B‖), Frobenius norms: the relative change of A and B for which X is exact.
    pub backward_error: f64,
}

/// Bytes that it takes to solve a system with `n` unknowns and `columns` right sides.
pub fn solve_bytes<T>(n: usize, columns: usize) -> usize {
    size_of::<T>() * (2 * n * n + 3 * n * columns)
}

/// Solves A·X = B.
pub fn solve<T: Solvable>(a: &Source, b: &Source) -> Result<Solved<T>> {
    let read = |source: &Source| {
        let mut all = Array2::<T>::zeros((source.rows(), source.cols()));
        source.read(0..source.rows(), 0..source.cols(), all.view_mut())?;
        Ok(all)
    };
    let (full, right) = (read(a)?, read(b)?);
    refuse_lopsided(a, &full)?;
    let factors = full.factorizec(UPLO::Lower).map_err(|_| {
        let hint = "Cholesky's factors need a symmetric matrix whose eigenvalues are all above zero, beyond rounding";
        Error::file(a.name(), "is not positive definite", hint)
    })?;
    // LAPACK wants the columns of X in one piece each.
    let mut x = Array2::zeros((right.nrows(), right.ncols()).f());
    x.assign(&right);
    for mut column in x.columns_mut() {
        factors
            .solvec_inplace(&mut column)
            .map_err(|error| Error::Wrong(format!("LAPACK cannot solve the system ({error})")))?;
    }
    let mut rest = right.clone();
    general_mat_mul(T::one(), &full, &x, -T::one(), &mut rest);
    let size = |of: &Array2<T>| {
        of.iter()
            .map(|value| value.wide().powi(2))
            .sum::<f64>()
            .sqrt()
    };
    let scale = size(&full) * size(&x) + size(&right);
    Ok(Solved {
        backward_error: if scale > 0.0 {
            size(&rest) / scale
        } else {
            0.0
        },
        x: x.as_standard_layout().into_owned(),
    })
}

/// LAPACK looks at one half of A only.
fn refuse_lopsided<T: Real>(a: &Source, full: &Array2<T>) -> Result<()> {
    let largest = full
        .iter()
        .map(|value| value.wide().abs())
        .fold(0.0, f64::max);
    for ((i, j), value) in full.indexed_iter() {
        let off = (value.wide() - full[(j, i)].wide()).abs();
        if off > SYMMETRIC * T::ROUNDOFF * largest {
            let problem = format!(
                "is not symmetric: element ({i}, {j}) is {value}, and ({j}, {i}) is {}",
                full[(j, i)]
            );
            let hint = "only symmetric positive definite systems can be solved";
            return Err(Error::file(a.name(), problem, hint));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(text: &str, rows: usize, cols: usize) -> Source {
        Source::open(text, (Some(rows), Some(cols)), 1).unwrap()
    }

    #[test]
    fn a_system_is_solved_to_rounding_and_others_are_refused() {
        // The inverse of min(i, j) has 2 on its diagonal, 1 in the last place, and -1 beside it.
        let (a, b) = (open("minij", 30, 30), open("identity", 30, 30));
        let solved = solve::<f64>(&a, &b).unwrap();
        for ((i, j), value) in solved.x.indexed_iter() {
            let expected = match (i, i.abs_diff(j)) {
                (29, 0) => 1.0,
                (_, 0) => 2.0,
                (_, 1) => -1.0,
                _ => 0.0,
            };
            assert!((value - expected).abs() < 1e-10, "({i}, {j}) is {value}");
        }
        assert!(solved.backward_error < 1e-15);
        assert!(solve::<f32>(&a, &b).unwrap().backward_error < 1e-6);
        let error = |text: &str| {
            solve::<f64>(&open(text, 30, 30), &b)
                .map(|_| ())
                .unwrap_err()
        };
        assert!(error("random:normal").to_string().contains("not symmetric"));
        assert!(error("ones").to_string().contains("not positive definite"));
    }
}
