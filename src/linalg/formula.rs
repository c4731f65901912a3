//! Matrices that are never stored: each element is a formula of its row and column, and of a seed.

use super::Real;
use super::random::{Law, Random};
use crate::backend::cpu::{Work, wide};
use crate::{Error, Result};

/// The most rows or columns: sums of two indices are exact in `f64`.
pub(super) const MOST: usize = 1 << 50;

/// The names, in the order in which the user reads them, with what each is, where i and j count from 0.
const NAMES: [(&str, Formula); 13] = [
    ("random:normal", Formula::Random(Law::Normal)),
    ("random:uniform", Formula::Random(Law::Uniform)),
    ("random:sign", Formula::Random(Law::Sign)),
    ("identity", Formula::Identity),
    ("ones", Formula::Ones),
    ("hilbert", Formula::Hilbert),
    ("lehmer", Formula::Lehmer),
    ("minij", Formula::MinIj),
    ("moler", Formula::Moler),
    ("laplace", Formula::Laplace),
    ("fiedler", Formula::Fiedler),
    ("parter", Formula::Parter),
    ("hadamard", Formula::Hadamard),
];

/// What the elements are, where i and j count from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Formula {
    /// Random numbers.
    Random(Law),
    /// 1 where i = j, else 0.
    Identity,
    /// 1.
    Ones,
    /// 1 / (i + j + 1): nearly singular, with an inverse of integers.
    Hilbert,
    /// min(i + 1, j + 1) / max(i + 1, j + 1): the trace is n, the inverse tridiagonal.
    Lehmer,
    /// min(i + 1, j + 1): the trace is n (n + 1) / 2, the inverse is that of `Laplace` but for a 1 in the last corner.
    MinIj,
    /// min(i, j) - 1, and i + 1 where i = j: the trace is n (n + 1) / 2, the determinant 1.
    Moler,
    /// 2 where i = j, -1 beside it, else 0: the trace is 2 n, the determinant n + 1.
    Laplace,
    /// |i - j|: the trace is 0, one eigenvalue is above zero and all others are below.
    Fiedler,
    /// 1 / (i - j + 1/2): the trace is 2 n, most singular values are close to π.
    Parter,
    /// -1 to the number of ones that i and j have in common in binary: its square is n times the identity if n is a power of two.
    Hadamard,
}

impl Formula {
    /// The formula called `name`.
    pub(super) fn find(name: &str) -> Option<Self> {
        let mut all = NAMES.iter();
        all.find(|(other, _)| *other == name)
            .map(|(_, formula)| *formula)
    }

    /// All names, for a user who gave none of them.
    pub(super) fn names() -> String {
        NAMES.map(|(name, _)| name).join(", ")
    }
}

/// A formula with its seed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Made {
    Random(Random),
    Fixed(Formula),
}

impl Made {
    pub(super) fn new(formula: Formula, seed: u64) -> Self {
        match formula {
            Formula::Random(law) => Self::Random(Random::new(law, seed)),
            other => Self::Fixed(other),
        }
    }

    /// Writes what `row` has from column `col` on.
    pub(super) fn fill<T: Real>(self, row: usize, col: usize, out: &mut [T]) {
        let formula = match self {
            Self::Random(random) => return random.fill(row, col, out),
            Self::Fixed(formula) => formula,
        };
        let i = row as f64;
        let of = |this: bool, that: f64| if this { that } else { 0.0 };
        match formula {
            Formula::Random(_) => unreachable!("`new` made them random"),
            Formula::Identity => each(col, out, |j| of(i == j, 1.0)),
            Formula::Ones => out.fill(T::one()),
            Formula::Hilbert => each(col, out, |j| 1.0 / (i + j + 1.0)),
            Formula::Lehmer => each(col, out, |j| (i.min(j) + 1.0) / (i.max(j) + 1.0)),
            Formula::MinIj => each(col, out, |j| i.min(j) + 1.0),
            Formula::Moler => each(col, out, |j| i.min(j) - 1.0 + of(i == j, 2.0)),
            Formula::Laplace => each(col, out, |j| {
                of((i - j).abs() < 2.0, -1.0) + of(i == j, 3.0)
            }),
            Formula::Fiedler => each(col, out, |j| (i - j).abs()),
            Formula::Parter => each(col, out, |j| 1.0 / (i - j + 0.5)),
            Formula::Hadamard => {
                for (j, out) in (col..).zip(out) {
                    let odd = (row & j).count_ones() % 2 == 1;
                    *out = if odd { -T::one() } else { T::one() };
                }
            }
        }
    }
}

/// Each element by a formula of its column.
struct Each<'a, F, T>(usize, &'a mut [T], F);

impl<F: Fn(f64) -> f64, T: Real> Work for Each<'_, F, T> {
    #[inline(always)]
    fn run(self) {
        let Self(col, out, formula) = self;
        let first = col as f64;
        for (k, out) in out.iter_mut().enumerate() {
            *out = T::nearest(formula(first + k as f64));
        }
    }
}

fn each<T: Real>(col: usize, out: &mut [T], formula: impl Fn(f64) -> f64) {
    wide(Each(col, out, formula));
}

/// Rows and columns of a formula, which has none of its own.
pub(super) fn shape(name: &str, said: (Option<usize>, Option<usize>)) -> Result<(usize, usize)> {
    let (Some(rows), Some(cols)) = said else {
        let problem = format!(
            "`{name}` is a formula and has no size of its own: say how many rows and columns (--n, or one by one)"
        );
        return Err(Error::Usage(problem));
    };
    if [rows, cols].iter().all(|size| (1..=MOST).contains(size)) {
        return Ok((rows, cols));
    }
    let problem = format!("`{name}` cannot be {rows} × {cols}: rows and columns are 1 to 2⁵⁰");
    Err(Error::Usage(problem))
}

#[cfg(test)]
mod tests {
    use ndarray::{Array2, Axis};

    use super::*;

    fn matrix(name: &str, n: usize) -> Array2<f64> {
        let made = Made::new(Formula::find(name).unwrap(), 7);
        let mut all = Array2::zeros((n, n));
        for (i, mut row) in all.axis_iter_mut(Axis(0)).enumerate() {
            made.fill(i, 0, row.as_slice_mut().unwrap());
        }
        all
    }

    fn trace(name: &str, n: usize) -> f64 {
        matrix(name, n).diag().sum()
    }

    #[test]
    fn formulas_have_the_traces_that_are_known_of_them() {
        let n = 50;
        let gauss = (n * (n + 1) / 2) as f64;
        for (name, known) in [
            ("identity", n as f64),
            ("ones", n as f64),
            ("lehmer", n as f64),
            ("minij", gauss),
            ("moler", gauss),
            ("laplace", 2.0 * n as f64),
            ("fiedler", 0.0),
            ("parter", 2.0 * n as f64),
        ] {
            assert_eq!(trace(name, n), known, "{name}");
        }
        let odd: f64 = (0..n).map(|i| 1.0 / (2 * i + 1) as f64).sum();
        assert!((trace("hilbert", n) - odd).abs() < 1e-14);
        assert_eq!(trace("hadamard", 64), 0.0);
    }

    #[test]
    fn inverses_that_are_known_are_inverses() {
        let n = 64;
        let mut laplace = matrix("laplace", n);
        laplace[[n - 1, n - 1]] = 1.0;
        let identity = matrix("identity", n);
        assert_eq!(matrix("minij", n).dot(&laplace), identity);
        let hadamard = matrix("hadamard", n);
        assert_eq!(hadamard.dot(&hadamard), identity * n as f64);
        // Moler's is LᵀL of the triangle with -1 beside a diagonal of ones, so that its determinant is 1.
        let triangle = Array2::from_shape_fn((n, n), |(i, j)| match i.cmp(&j) {
            std::cmp::Ordering::Less => -1.0,
            std::cmp::Ordering::Equal => 1.0,
            std::cmp::Ordering::Greater => 0.0,
        });
        assert_eq!(triangle.t().dot(&triangle), matrix("moler", n));
    }

    #[test]
    fn an_element_does_not_depend_on_how_the_matrix_is_cut() {
        for (name, formula) in NAMES {
            let all = matrix(name, 200);
            let made = Made::new(formula, 7);
            for (row, col, width) in [
                (0, 0, 1),
                (3, 1, 5),
                (199, 63, 2),
                (100, 65, 135),
                (7, 199, 1),
            ] {
                let mut part = vec![0.0f64; width];
                made.fill(row, col, &mut part);
                let whole = all.row(row).to_vec();
                assert_eq!(part, whole[col..col + width], "{name}");
                let mut single = vec![0.0f32; width];
                made.fill(row, col, &mut single);
                let rounded: Vec<f32> = part.iter().map(|&value| value as f32).collect();
                assert_eq!(single, rounded, "{name}");
            }
        }
    }

    #[test]
    fn a_formula_needs_a_size_that_can_be() {
        assert_eq!(shape("ones", (Some(2), Some(3))).unwrap(), (2, 3));
        for (said, says) in [
            ((None, None), "say how many rows and columns"),
            ((Some(3), None), "say how many rows and columns"),
            ((Some(0), Some(3)), "cannot be 0 × 3"),
            ((Some(3), Some(MOST + 1)), "rows and columns are 1 to 2⁵⁰"),
        ] {
            let error = shape("ones", said).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
            assert_eq!(error.exit_code(), 2);
        }
    }
}
