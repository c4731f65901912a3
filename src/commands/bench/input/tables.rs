//! What a study found, for people and for programs.

use std::collections::BTreeMap;

use serde::Serialize;

use super::analysis::{ByParameter, Joint, Speedup};
use super::design::{Kind, Row};
use crate::commands::bench::median;
use crate::study::{Estimate, Fitted};

/// Rows as CSV.
pub(super) fn csv<T: Serialize>(rows: &[T]) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in rows {
        writer.serialize(row).expect("rows of plain values");
    }
    let bytes = writer.into_inner().expect("writing to memory");
    String::from_utf8(bytes).expect("text was written")
}

/// Medians of all rows of a kind, by cache and by how often batches were read.
pub(super) fn speeds(rows: &[Row]) -> String {
    let mut groups: BTreeMap<(u8, &str, bool, bool), Vec<&Row>> = BTreeMap::new();
    for row in rows {
        let key = (row.kind as u8, row.cache, row.cold, row.repetition > 1);
        groups.entry(key).or_default().push(row);
    }
    let mut text = format!(
        "images/s over all settings\n  {:<7} {:<7} {:<5} {:<6} {:>6} {:>10} {:>10} {:>10} {:>8} {:>8}",
        "kind", "cache", "files", "read", "rows", "least", "median", "most", "MB/s", "disk MB"
    );
    for ((_, cache, cold, again), rows) in groups {
        let of = |value: fn(&Row) -> f64| rows.iter().map(move |row| value(row));
        let speed = |row: &Row| row.images_per_s;
        text += &format!(
            "\n  {:<7} {:<7} {:<5} {:<6} {:>6} {:>10.0} {:>10.0} {:>10.0} {:>8.0} {:>8.1}",
            rows[0].kind.name(),
            cache,
            if cold { "cold" } else { "warm" },
            if again { "again" } else { "first" },
            rows.len(),
            of(speed).fold(f64::MAX, f64::min),
            median(of(speed)),
            of(speed).fold(0.0, f64::max),
            median(of(|row| row.mb_per_s)),
            of(|row| row.disk_mb).sum::<f64>(),
        );
    }
    text
}

/// What is to be said of measurements that should have been cold, and were not.
pub(super) fn cold(rows: &[Row]) -> Option<String> {
    let first = |row: &&Row| row.cold && row.repetition == 1 && row.kind != Kind::Copy;
    let cold: Vec<&Row> = rows.iter().filter(first).collect();
    let disk: f64 = cold.iter().map(|row| row.disk_mb).sum();
    (!cold.is_empty() && disk == 0.0).then(|| {
        "cold: nothing came from a disk, because the files lie in memory or the system does not tell; cold is as warm here".into()
    })
}

pub(super) fn speedups(all: &[Speedup]) -> String {
    let mut text = format!(
        "speed-up, where nothing else differs (95 % interval)\n  {:<44} {:>10} {:>10} {:>8}",
        "", "s before", "s after", "factor"
    );
    for Speedup {
        what,
        seconds: (before, after),
        factor,
        interval: (low, high),
    } in all
    {
        text += &format!(
            "\n  {what:<44} {before:>10.3} {after:>10.3} {factor:>8.2} ({low:.2} to {high:.2})"
        );
    }
    text + PUBLISHED
}

/// What a course's reports found, on machines and photos of their own.
const PUBLISHED: &str = "\n  published: caching 5,241 s → 740 s (7.08); three shapes of clusters 137.9, 98.5 and 79.8 s (1.40, 1.73)";

/// The curves of each parameter, the best first.
pub(super) fn parameters(all: &[ByParameter]) -> String {
    let mut text = String::from(
        "regression by one parameter: speed relative to the mean of all rows that differ in nothing else; r of images/s over all rows",
    );
    for one in all {
        let r = |r: Option<f64>| r.map_or("-".into(), |r| format!("{r:.2}"));
        text += &format!(
            "\n  {} by {}: n {}, r {} (where nothing else differs {})",
            one.kind.name(),
            one.factor.name(),
            one.x.len(),
            r(one.plain),
            r(one.described.correlation)
        );
        for curve in &one.described.curves {
            let fitted = &curve.fitted;
            text += &format!(
                "\n    {:<12} {:<14} R² {:>6.3}  AIC {:>9.1} (+{:.1})  {}",
                curve.shape.name(),
                curve.shape.formula(),
                fitted.r_squared(),
                fitted.aic(),
                one.described.behind(curve),
                ["a", "b"]
                    .iter()
                    .zip(fitted.estimates.iter().flatten())
                    .map(|(name, estimate)| format!("{name} = {}", words(estimate)))
                    .collect::<Vec<_>>()
                    .join(", ")
            );
        }
    }
    text
}

/// The regressions over all parameters.
pub(super) fn joint(all: &[Joint]) -> String {
    let mut text = String::from("regression by all parameters together (95 % intervals)");
    for one in all {
        let of = match one.logarithmic {
            true => "ln(images/s)",
            false => "images/s",
        };
        let Fitted {
            residuals, freedom, ..
        } = &one.fitted;
        text += &format!(
            "\n  {of} of {}: n {}, freedom {freedom}, R² {:.3}, deviation {}, AIC of images/s {:.1}",
            one.of,
            residuals.len(),
            one.fitted.r_squared(),
            number(one.fitted.deviation()),
            one.aic
        );
        for (name, estimate) in one.names.iter().zip(&one.fitted.estimates) {
            let value = match estimate {
                Some(estimate) => format!("{}  p {}", words(estimate), chance(estimate.p)),
                None => "said by the others already".into(),
            };
            text += &format!("\n    {name:<24} {value}");
        }
    }
    text
}

/// A coefficient with its interval.
fn words(estimate: &Estimate) -> String {
    let (low, high) = estimate.interval;
    format!(
        "{} ({} to {})",
        number(estimate.value),
        number(low),
        number(high)
    )
}

/// How likely an estimate as far from zero is by accident; no more digits than the arithmetic has.
pub(super) fn chance(p: f64) -> String {
    match p {
        p if p < 1e-16 => "below 1e-16".into(),
        p if p < 1e-3 => format!("{p:.1e}"),
        p => format!("{p:.3}"),
    }
}

/// Four digits, whatever the size.
fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size if !(1e-3..1e6).contains(&size) => format!("{value:.3e}"),
        size => format!(
            "{value:.*}",
            (3 - size.log10().floor() as i32).max(0) as usize
        ),
    }
}

/// A coefficient, in a row of `regressions.csv`.
#[derive(Serialize)]
pub(super) struct Coefficient {
    kinds: String,
    by: String,
    model: &'static str,
    coefficient: String,
    value: Option<f64>,
    error: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    p: Option<f64>,
    correlation: Option<f64>,
    r_squared: f64,
    aic: f64,
    rows: usize,
    freedom: usize,
}

/// All coefficients of all regressions.
pub(super) fn coefficients(parameters: &[ByParameter], joint: &[Joint]) -> Vec<Coefficient> {
    let row = |kinds: &str,
               by: &str,
               model,
               (name, estimate): (&str, &Option<Estimate>),
               fitted: &Fitted| {
        let of = |value: fn(&Estimate) -> f64| estimate.as_ref().map(value);
        Coefficient {
            kinds: kinds.into(),
            by: by.into(),
            model,
            coefficient: name.into(),
            value: of(|e| e.value),
            error: of(|e| e.error),
            low: of(|e| e.interval.0),
            high: of(|e| e.interval.1),
            p: of(|e| e.p),
            correlation: None,
            r_squared: fitted.r_squared(),
            aic: fitted.aic(),
            rows: fitted.residuals.len(),
            freedom: fitted.freedom,
        }
    };
    let mut rows = Vec::new();
    for one in parameters {
        for curve in &one.described.curves {
            for part in ["a", "b"].into_iter().zip(&curve.fitted.estimates) {
                let (kind, by, shape) = (one.kind.name(), one.factor.name(), curve.shape.name());
                rows.push(Coefficient {
                    correlation: one.described.correlation,
                    ..row(kind, by, shape, part, &curve.fitted)
                });
            }
        }
    }
    for one in joint {
        let model = one.model();
        for (name, estimate) in one.names.iter().zip(&one.fitted.estimates) {
            rows.push(Coefficient {
                aic: one.aic,
                ..row(&one.of, "all", model, (name, estimate), &one.fitted)
            });
        }
    }
    rows
}

/// A measurement and what a regression says of it, in a row of `residuals.csv`.
#[derive(Serialize)]
pub(super) struct Residual {
    kinds: String,
    by: String,
    model: &'static str,
    x: Option<f64>,
    measured: f64,
    fitted: f64,
    residual: f64,
}

/// What is left of all measurements, of each parameter by the best curve.
pub(super) fn residuals(parameters: &[ByParameter], joint: &[Joint]) -> Vec<Residual> {
    let mut rows = Vec::new();
    for one in parameters {
        let curve = &one.described.curves[0];
        let left = curve.fitted.residuals.iter();
        for ((&x, &measured), &residual) in one.x.iter().zip(&one.y).zip(left) {
            rows.push(Residual {
                kinds: one.kind.name().into(),
                by: one.factor.name().into(),
                model: curve.shape.name(),
                x: Some(x),
                measured,
                fitted: curve.at(x),
                residual,
            });
        }
    }
    for one in joint {
        for (&fitted, &residual) in one.fitted.values.iter().zip(&one.fitted.residuals) {
            rows.push(Residual {
                kinds: one.of.clone(),
                by: "all".into(),
                model: one.model(),
                x: None,
                measured: fitted + residual,
                fitted,
                residual,
            });
        }
    }
    rows
}

/// A row of `speedups.csv`.
#[derive(Serialize)]
pub(super) struct Compared<'a> {
    what: &'a str,
    seconds_before: f64,
    seconds_after: f64,
    factor: f64,
    low: f64,
    high: f64,
}

pub(super) fn factors(all: &[Speedup]) -> Vec<Compared<'_>> {
    let row = |one| {
        let Speedup {
            what,
            seconds: (seconds_before, seconds_after),
            factor,
            interval: (low, high),
        }: &Speedup = one;
        Compared {
            what,
            seconds_before: *seconds_before,
            seconds_after: *seconds_after,
            factor: *factor,
            low: *low,
            high: *high,
        }
    };
    all.iter().map(row).collect()
}
