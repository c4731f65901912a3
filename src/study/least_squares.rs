//! Linear regression: coefficients with what is known of their errors.

use std::collections::BTreeMap;

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

/// What a regression is for.
#[derive(Clone, Copy, Debug)]
pub struct Measured<'a> {
    /// The measurements.
    pub y: &'a [f64],
    /// The run of each: what disturbs a run disturbs all measurements of it, so that more of them tell little more.
    pub runs: &'a [usize],
    /// Degrees of freedom that went into them before, by which whole runs differ.
    pub spent: usize,
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
    /// Runs that were measured, and those of them that are free: errors and intervals are by these, and so is `aic`.
    pub runs: (usize, usize),
    /// Measurements less coefficients and what was spent before.
    freedom: usize,
    /// The sum of the squares of what is left, and of what there was around the mean.
    pub squares: (f64, f64),
}

impl Fitted {
    /// The share of the variance that the model explains.
    pub fn r_squared(&self) -> f64 {
        let share = 1.0 - self.squares.0 / self.squares.1;
        // A constant explains nothing but rounding.
        if share.abs() < OWN { 0.0 } else { share }
    }

    /// The standard deviation of what is left.
    pub fn deviation(&self) -> f64 {
        (self.squares.0 / self.freedom as f64).sqrt()
    }

    /// Akaike's criterion for errors that are normal: of models for the same measurements, the one with less is better. The
    /// variance counts as a parameter, and all measurements of a run as one.
    pub fn aic(&self) -> f64 {
        let parameters = self.estimates.iter().flatten().count() + 1;
        let variance = self.squares.0.max(f64::MIN_POSITIVE) / self.residuals.len() as f64;
        self.runs.0 as f64 * variance.ln() + 2.0 * parameters as f64
    }
}

/// The combination of `columns` that is closest to what was `measured`; none where that has no more measurements than
/// coefficients, no more runs than coefficients that runs differ by, or a run that something is known of by it alone.
///
/// Errors are by what the coefficients would be without each of the runs (a jackknife, CV3), for so many runs as are free: they
/// hold whatever measurements of one run have in common, wherever the noise is larger in some runs than in others, and for few runs.
pub fn fit(columns: &[Vec<f64>], measured: Measured) -> Option<Fitted> {
    let Measured { y, runs, spent } = measured;
    let Triangle {
        basis,
        weights,
        used,
    } = Triangle::of(columns, 0.0);
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
    let runs = places(runs);
    // What only differs within runs leaves all of them free.
    let of_run = |unit: &Vec<f64>| -> Vec<f64> {
        let sum = |places: &Vec<usize>| places.iter().map(|&i| unit[i]).sum();
        runs.iter().map(sum).collect()
    };
    let between: Vec<Vec<f64>> = basis.iter().map(of_run).collect();
    let free = (runs.len()).checked_sub(Triangle::of(&between, 1.0).used.len() + spent);
    let free = free.filter(|&free| free > 0)?;
    let moves: Option<Vec<Vec<f64>>> = (runs.iter())
        .map(|places| move_without(&basis, &residuals, places))
        .collect();
    let moves = moves?;
    let share = 1.0 - 1.0 / runs.len() as f64;
    let mut estimates = vec![None; columns.len()];
    for (row, number) in inverse(&weights).iter().zip(used) {
        let squares: f64 = moves.iter().map(|moved| dot(row, moved).powi(2)).sum();
        let (value, error) = (dot(row, &parts), (share * squares).sqrt());
        estimates[number] = Some(Estimate::new(value, error, free));
    }
    let around = centred(y);
    Some(Fitted {
        estimates,
        values: y.iter().zip(&residuals).map(|(y, left)| y - left).collect(),
        squares: (dot(&residuals, &residuals), dot(&around, &around)),
        residuals,
        runs: (runs.len(), free),
        freedom,
    })
}

/// Where the measurements of each run are.
fn places(runs: &[usize]) -> Vec<Vec<usize>> {
    let mut places: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (i, run) in runs.iter().enumerate() {
        places.entry(*run).or_default().push(i);
    }
    places.into_values().collect()
}

/// By how much less of each unit there would be without the measurements at `places`; none where nothing else tells of one.
///
/// With what the units have there as rows of u, and what is left there as e: uᵀ (1 - u uᵀ)⁻¹ e.
fn move_without(basis: &[Vec<f64>], residuals: &[f64], places: &[usize]) -> Option<Vec<f64>> {
    let rows: Vec<Vec<f64>> = (places.iter())
        .map(|&i| basis.iter().map(|unit| unit[i]).collect())
        .collect();
    let mut e: Vec<f64> = places.iter().map(|&i| residuals[i]).collect();
    let n = rows.len();
    // Elimination without looking for pivots: what is left of a positive matrix is positive.
    let mut m: Vec<Vec<f64>> = (0..n)
        .map(|i| {
            (0..n)
                .map(|j| f64::from(u8::from(i == j)) - dot(&rows[i], &rows[j]))
                .collect()
        })
        .collect();
    for i in 0..n {
        if m[i][i] < OWN {
            return None;
        }
        let (above, below) = m.split_at_mut(i + 1);
        for (j, row) in (i + 1..).zip(below) {
            let times = row[i] / above[i][i];
            add(row, &above[i], -times);
            e[j] -= times * e[i];
        }
    }
    for i in (0..n).rev() {
        let known = dot(&m[i][i + 1..], &e[i + 1..]);
        e[i] = (e[i] - known) / m[i][i];
    }
    let mut moved = vec![0.0; basis.len()];
    rows.iter()
        .zip(&e)
        .for_each(|(row, &e)| add(&mut moved, row, e));
    Some(moved)
}

/// Columns as combinations of others of length one that are orthogonal: one by one, each twice over so that rounding leaves nothing.
struct Triangle {
    basis: Vec<Vec<f64>>,
    /// Of each column that is used, how much it has of those before it and of its own.
    weights: Vec<Vec<f64>>,
    /// Columns that say what those before them do not.
    used: Vec<usize>,
}

impl Triangle {
    /// Of `columns`, of which those that are far shorter than `least` are nothing but rounding.
    fn of(columns: &[Vec<f64>], least: f64) -> Self {
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
            if length > OWN * norm(column).max(least) {
                rest.iter_mut().for_each(|value| *value /= length);
                basis.push(rest);
                weight.push(length);
                weights.push(weight);
                used.push(number);
            }
        }
        Self {
            basis,
            weights,
            used,
        }
    }
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
