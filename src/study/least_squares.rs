//! Linear regression: coefficients with what is known of their errors.

use super::{centred, student};

/// A column that is the sum of others but for this share of its length tells nothing of its own.
const OWN: f64 = 1e-9;

/// A coefficient.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Its value.
    pub value: f64,
    /// Its standard error.
    pub error: f64,
    /// The interval that holds the true one in 95 of 100 studies.
    pub interval: (f64, f64),
    /// How probable a value as far from zero would be were the true one zero.
    pub p: f64,
}

impl Estimate {
    /// From value and error, with so many degrees of freedom.
    fn new(value: f64, error: f64, freedom: usize) -> Self {
        let reach = student::quantile(0.975, freedom) * error;
        Self {
            value,
            error,
            interval: (value - reach, value + reach),
            p: student::beyond((value / error).abs(), freedom),
        }
    }
}

/// What came of a regression.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// Of each column its coefficient; none where the columns before it say the same.
    pub estimates: Vec<Option<Estimate>>,
    /// What the model says of each measurement.
    pub values: Vec<f64>,
    /// What is left of each measurement.
    pub residuals: Vec<f64>,
    /// Measurements less coefficients.
    pub freedom: usize,
    /// The sum of the squares of what is left, and of what there was around the mean.
    pub squares: (f64, f64),
}

impl Fitted {
    /// The share of the variance that the model explains.
    pub fn r_squared(&self) -> f64 {
        1.0 - self.squares.0 / self.squares.1
    }

    /// The standard deviation of what is left.
    pub fn deviation(&self) -> f64 {
        (self.squares.0 / self.freedom as f64).sqrt()
    }

    /// Akaike's criterion for errors that are normal: of models for the same measurements, the one with less is better. The
    /// variance counts as a parameter.
    pub fn aic(&self) -> f64 {
        let n = self.residuals.len() as f64;
        let parameters = self.estimates.iter().flatten().count() + 1;
        n * (self.squares.0.max(f64::MIN_POSITIVE) / n).ln() + 2.0 * parameters as f64
    }
}

/// The combination of `columns` that is closest to `y`; none where there are no more measurements than coefficients. `spent` are
/// degrees of freedom that went into `y` before.
///
/// Columns become orthogonal one by one, each twice over so that rounding leaves nothing.
pub fn fit(columns: &[Vec<f64>], y: &[f64], spent: usize) -> Option<Fitted> {
    let (mut basis, mut weights): (Vec<Vec<f64>>, Vec<Vec<f64>>) = Default::default();
    let mut used = Vec::new();
    for (number, column) in columns.iter().enumerate() {
        let (mut rest, mut weight) = (column.clone(), vec![0.0; basis.len()]);
        for _ in 0..2 {
            for (unit, weight) in basis.iter().zip(&mut weight) {
                let part = dot(unit, &rest);
                *weight += part;
                add(&mut rest, unit, -part);
            }
        }
        let length = norm(&rest);
        if length > OWN * norm(column) {
            rest.iter_mut().for_each(|value| *value /= length);
            basis.push(rest);
            weight.push(length);
            weights.push(weight);
            used.push(number);
        }
    }
    let freedom = y.len().checked_sub(used.len() + spent);
    let freedom = freedom.filter(|&free| free > 0)?;
    let mut residuals = y.to_vec();
    let parts: Vec<f64> = (basis.iter())
        .map(|unit| {
            let part = dot(unit, &residuals);
            add(&mut residuals, unit, -part);
            part
        })
        .collect();
    let left = dot(&residuals, &residuals);
    let deviation = (left / freedom as f64).sqrt();
    let inverse = inverse(&weights);
    let mut estimates = vec![None; columns.len()];
    for (row, number) in inverse.iter().zip(used) {
        let (value, error) = (dot(row, &parts), deviation * norm(row));
        estimates[number] = Some(Estimate::new(value, error, freedom));
    }
    let around = centred(y);
    Some(Fitted {
        estimates,
        values: y.iter().zip(&residuals).map(|(y, left)| y - left).collect(),
        residuals,
        freedom,
        squares: (left, dot(&around, &around)),
    })
}

/// The inverse of an upper triangle, given by columns and made by rows.
fn inverse(columns: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let k = columns.len();
    let mut rows = vec![vec![0.0; k]; k];
    for j in 0..k {
        rows[j][j] = 1.0 / columns[j][j];
        for i in (0..j).rev() {
            let sum: f64 = (i..j).map(|l| rows[i][l] * columns[j][l]).sum();
            rows[i][j] = -sum / columns[j][j];
        }
    }
    rows
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

fn add(to: &mut [f64], what: &[f64], times: f64) {
    to.iter_mut()
        .zip(what)
        .for_each(|(to, what)| *to += times * what);
}
