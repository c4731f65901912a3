//! What the rows say: each parameter by itself, and all together.

use std::collections::BTreeMap;

use super::design::{Factor, Kind, Row};
use crate::study::{Described, Fitted, Measured, correlation, describe, fit, mean};

/// The kinds that are told of; copies are what they are held against.
pub(super) const KINDS: [Kind; 3] = [Kind::Files, Kind::Jpeg, Kind::Pixels];

/// What a parameter does to the speed of one way to read.
#[derive(Clone, Debug)]
pub struct ByParameter {
    /// The kind, and whether decoded samples are kept.
    pub way: &'static str,
    /// The parameter.
    pub factor: Factor,
    /// The correlation with images/s over all rows, whatever else differs between them.
    pub plain: Option<f64>,
    /// Its values, and for each run the speed relative to the geometric mean of all runs that differ in nothing else; by repetition
    /// for each reading that relative to its run.
    pub x: Vec<f64>,
    /// See `x`.
    pub y: Vec<f64>,
    /// The curves for them.
    pub described: Described,
}

/// Each parameter that was varied, of each kind; apart where decoded samples are kept, as those come from memory sooner or later.
pub fn by_parameter(rows: &[Row]) -> Vec<ByParameter> {
    let ways = [
        ("files", Kind::Files, false),
        ("files, kept", Kind::Files, true),
        ("jpeg", Kind::Jpeg, false),
        ("jpeg, kept", Kind::Jpeg, true),
        ("pixels", Kind::Pixels, false),
    ];
    let each = ways.into_iter().flat_map(|(way, kind, keeps)| {
        let is_one = |row: &&Row| (row.kind, row.keeps()) == (kind, keeps);
        let rows: Vec<&Row> = rows.iter().filter(is_one).collect();
        let one = move |factor| of_parameter(way, factor, &rows);
        Factor::NUMBERS.into_iter().filter_map(one)
    });
    each.collect()
}

fn of_parameter(way: &'static str, factor: Factor, rows: &[&Row]) -> Option<ByParameter> {
    let all: Vec<f64> = rows.iter().map(|row| row.level(factor)).collect();
    if all.iter().all(|level| *level == all[0]) {
        return None;
    }
    let cells = group(rows, |row| match factor {
        Factor::Repetition => vec![row.run as u64],
        factor => row.cell(&[factor, Factor::Repetition]),
    });
    let (mut x, mut y, mut runs) = (Vec::new(), Vec::new(), Vec::new());
    for cell in cells.values() {
        let points = group(cell, |row| vec![row.run as u64, row.level(factor) as u64]);
        let logs: Vec<f64> = points.values().map(|rows| speed(rows).ln()).collect();
        let usual = mean(&logs);
        x.extend(points.values().map(|rows| rows[0].level(factor)));
        y.extend(logs.iter().map(|log| (log - usual).exp()));
        runs.extend(points.values().map(|rows| rows[0].run));
    }
    let speeds: Vec<f64> = rows.iter().map(|row| row.images_per_s).collect();
    // Each cell's mean but one was taken from the same runs, of all together the constant is; that of a run is gone with it.
    let spent = match factor {
        Factor::Repetition => 0,
        _ => cells.len() - 1,
    };
    let (y, runs) = (&y, &runs);
    let described = describe(&x, Measured { y, runs, spent })?;
    Some(ByParameter {
        way,
        factor,
        plain: correlation(&all, &speeds),
        x,
        y: y.clone(),
        described,
    })
}

/// Images a second of several rows together.
pub(super) fn speed(rows: &[&Row]) -> f64 {
    let images: usize = rows.iter().map(|row| row.images).sum();
    images as f64 / rows.iter().map(|row| row.seconds).sum::<f64>()
}

/// Rows by what `key` says of them.
pub(super) fn group<'a>(
    rows: &[&'a Row],
    key: impl Fn(&Row) -> Vec<u64>,
) -> BTreeMap<Vec<u64>, Vec<&'a Row>> {
    let mut cells: BTreeMap<Vec<u64>, Vec<&Row>> = BTreeMap::new();
    for row in rows {
        cells.entry(key(row)).or_default().push(row);
    }
    cells
}

/// One regression over all parameters.
#[derive(Clone, Debug)]
pub struct Joint {
    /// Of which kinds, in words.
    pub of: String,
    /// Whether it is of the logarithms of speed and numbers.
    pub logarithmic: bool,
    /// What the columns are.
    pub names: Vec<String>,
    /// What came of it.
    pub fitted: Fitted,
    /// Akaike's criterion for images/s, also of the logarithmic one.
    pub aic: f64,
}

impl Joint {
    /// What it is called in tables.
    pub fn model(&self) -> &'static str {
        match self.logarithmic {
            true => "all, logarithmic",
            false => "all, linear",
        }
    }
}

/// Regressions over all parameters, of each kind and of all kinds, by values and by logarithms.
pub fn joint(rows: &[Row]) -> Vec<Joint> {
    let there: Vec<Kind> = (KINDS.into_iter())
        .filter(|kind| rows.iter().any(|row| row.kind == *kind))
        .collect();
    let mut groups: Vec<Vec<Kind>> = there.iter().map(|kind| vec![*kind]).collect();
    if there.len() > 1 {
        groups.push(there);
    }
    let of = |kinds: Vec<Kind>| {
        let rows: Vec<&Row> = rows
            .iter()
            .filter(|row| kinds.contains(&row.kind))
            .collect();
        [false, true]
            .into_iter()
            .filter_map(move |log| one_joint(&kinds, &rows, log))
    };
    groups.into_iter().flat_map(of).collect()
}

fn one_joint(kinds: &[Kind], rows: &[&Row], logarithmic: bool) -> Option<Joint> {
    let scale = |value: f64| if logarithmic { value.ln() } else { value };
    let mut columns = vec![("constant".to_owned(), vec![1.0; rows.len()])];
    let mut push = |name: String, value: &dyn Fn(&Row) -> f64| {
        let column: Vec<f64> = rows.iter().map(|row| value(row)).collect();
        if column.iter().any(|value| *value != column[0]) {
            columns.push((name, column));
        }
    };
    for factor in Factor::NUMBERS {
        let name = match logarithmic {
            true => format!("ln {}", factor.name()),
            false => factor.name().into(),
        };
        push(name, &|row| scale(row.level(factor)));
    }
    let yes = |is: bool| f64::from(u8::from(is));
    for cache in ["memory", "node"] {
        push(format!("cache {cache}"), &|row| yes(row.cache == cache));
    }
    push("share from a cache".into(), &|row| {
        yes(row.keeps()) * row.share_read_before()
    });
    push("share from cold files".into(), &|row| {
        yes(row.cold) * (1.0 - row.share_read_before())
    });
    for kind in &kinds[1..] {
        push(format!("kind {}", kind.name()), &|row| {
            yes(row.kind == *kind)
        });
    }
    let (names, columns): (Vec<String>, Vec<Vec<f64>>) = columns.into_iter().unzip();
    let speeds: Vec<f64> = rows.iter().map(|row| scale(row.images_per_s)).collect();
    let runs: Vec<usize> = rows.iter().map(|row| row.run).collect();
    let measured = Measured {
        y: &speeds,
        runs: &runs,
        spent: 0,
    };
    let fitted = fit(&columns, measured)?;
    // A density of ln y is one of y divided by y: so both are about the same measurements.
    let jacobian = match logarithmic {
        true => 2.0 * mean(&speeds) * fitted.runs.0 as f64,
        false => 0.0,
    };
    Some(Joint {
        of: kinds
            .iter()
            .map(|kind| kind.name())
            .collect::<Vec<_>>()
            .join(", "),
        logarithmic,
        names,
        aic: fitted.aic() + jacobian,
        fitted,
    })
}
