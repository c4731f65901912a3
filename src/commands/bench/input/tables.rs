//! What a study found, for people and for programs.

use std::collections::BTreeMap;

use serde::Serialize;

use super::analysis::{ByParameter, Joint, KINDS};
use super::design::{Kind, Row};
use super::speedups::Speedup;
use crate::commands::bench::median;
use crate::study::{Curve, Described, Estimate, Fitted, Shape};

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

/// The share of cold files that must come from a disk for them to count as cold: the rest may have been read ahead.
const COLD: f64 = 0.5;

/// How much of the cold files of a kind came from a disk, as a share of what was to come; none where none were cold.
fn from_disk(rows: &[Row], kind: Kind) -> Option<f64> {
    let first = |row: &&Row| row.cold && row.repetition == 1 && row.kind == kind;
    let cold: Vec<&Row> = rows.iter().filter(first).collect();
    let sum = |value: fn(&Row) -> f64| cold.iter().map(|row| value(row)).sum::<f64>();
    (!cold.is_empty()).then(|| sum(|row| row.disk_mb) / sum(|row| row.files_mb))
}

/// Whether cold files of a kind were cold.
pub(super) fn came_from_disk(rows: &[Row], kind: Kind) -> bool {
    from_disk(rows, kind).is_some_and(|share| share >= COLD)
}

/// That some runs were not made, if so.
pub(super) fn ended_early(rows: &[Row], left: usize) -> Option<String> {
    let made = rows.last().map_or(0, |row| row.run + 1);
    let all = made + left;
    (left > 0).then(|| format!("ended after {made} of {all} runs: everything here is of these"))
}

/// Measurements that are shorter than this are of clocks and barriers too.
const SHORT: f64 = 1e-3;

/// What is to be said of measurements that should have been cold and were not, and of such as are too short.
pub(super) fn warnings(rows: &[Row]) -> Vec<String> {
    let mut told = Vec::new();
    for kind in KINDS {
        let name = kind.name();
        if let Some(share) = from_disk(rows, kind).filter(|share| *share < COLD) {
            told.push(format!(
                "cold {name}: {:.0} % came from a disk, because files lie in memory or the system does not tell; cold is as warm there",
                100.0 * share
            ));
        }
        let short = |row: &&Row| row.kind == kind && row.seconds < SHORT;
        let (all, short) = (
            rows.iter().filter(|row| row.kind == kind).count(),
            rows.iter().filter(short).count(),
        );
        if 2 * short > all {
            told.push(format!(
                "{name}: {short} of {all} measurements took less than a millisecond, and barriers and clocks are a part of that; larger --batches tell more"
            ));
        }
    }
    told
}

pub(super) fn speedups(all: &[Speedup]) -> Option<String> {
    let mut text = format!(
        "speed-up, where nothing else differs: of the seconds of all settings together, and of a setting (geometric mean; 95 % interval by how settings differ)\n  {:<44} {:>10} {:>10} {:>8} {:>9} {:>9}",
        "", "s before", "s after", "together", "settings", "a setting"
    );
    for Speedup {
        what,
        seconds: (before, after),
        factor,
        settings,
        interval,
    } in all
    {
        let interval = match (interval, settings) {
            (Some((low, high)), 1) => format!("({low:.2} to {high:.2}, by its repeats)"),
            (Some((low, high)), _) => format!("({low:.2} to {high:.2})"),
            (None, _) => "(one pair of runs has no interval)".into(),
        };
        text += &format!(
            "\n  {what:<44} {before:>10.3} {after:>10.3} {:>8.2} {settings:>9} {factor:>9.2} {interval}",
            before / after
        );
    }
    (!all.is_empty()).then(|| text + PUBLISHED)
}

/// What a course's reports found, on machines and photos of their own.
const PUBLISHED: &str = "\n  published: caching 5,241 s → 740 s (7.08); three shapes of clusters 137.9, 98.5 and 79.8 s (1.40, 1.73)";

/// The curves of each parameter, the best first.
pub(super) fn parameters(all: &[ByParameter]) -> Option<String> {
    let mut text = String::from(
        "regression by one parameter: speed of a run relative to the geometric mean of all runs that differ in nothing else (by repetition: of a reading, relative to its run); r of images/s over all measurements; 95 % intervals",
    );
    for one in all {
        let r = |r: Option<f64>| r.map_or("-".into(), |r| format!("{r:.2}"));
        let Described {
            curves,
            correlation,
            levels,
        } = &one.described;
        text += &format!(
            "\n  {} by {}: n {}, r {} (where nothing else differs {})",
            one.way,
            one.factor.name(),
            one.x.len(),
            r(one.plain),
            r(*correlation)
        );
        for curve in curves {
            text += &format!("\n    {}", of_curve(curve, one.described.behind(curve)));
        }
        let has_limit = curves.iter().any(|curve| curve.shape == Shape::Saturating);
        text += match (levels, has_limit) {
            (2, _) => "\n    two values do not tell a line from other curves",
            (_, false) => "\n    saturating: no limit within a thousand times of what was measured",
            _ => "",
        };
    }
    (!all.is_empty()).then_some(text)
}

/// A curve in words, and how far its criterion is behind the best.
fn of_curve(curve: &Curve, behind: f64) -> String {
    let fitted = &curve.fitted;
    let estimates = fitted.estimates.iter().flatten();
    let each = ["a", "b"].iter().zip(estimates);
    // A constant is one by what the speeds are relative to: there is nothing to be unsure of.
    let coefficients = each.map(|(name, estimate)| match curve.shape {
        Shape::Constant => format!("{name} = {}", number(estimate.value)),
        _ => format!("{name} = {}", words(estimate)),
    });
    format!(
        "{:<12} {:<14} R² {:>6.3}  AIC {:>9.1} (+{behind:.1})  {}",
        curve.shape.name(),
        curve.shape.formula(),
        fitted.r_squared(),
        fitted.aic(),
        coefficients.collect::<Vec<_>>().join(", ")
    )
}

/// The regressions over all parameters.
pub(super) fn joint(all: &[Joint]) -> Option<String> {
    let mut text = String::from(
        "regression by all parameters together (95 % intervals; measurements of one run count as one where it comes to errors and AIC)",
    );
    for one in all {
        let of = match one.logarithmic {
            true => "ln(images/s)",
            false => "images/s",
        };
        let fitted = &one.fitted;
        let (runs, free) = fitted.runs;
        text += &format!(
            "\n  {of} of {}: n {} of {runs} runs ({free} free), R² {:.3}, deviation {}, AIC of images/s {:.1}",
            one.of,
            fitted.residuals.len(),
            fitted.r_squared(),
            number(fitted.deviation()),
            one.aic
        );
        for (name, estimate) in one.names.iter().zip(&fitted.estimates) {
            let value = match estimate {
                Some(estimate) => format!("{}  p {}", words(estimate), chance(estimate.p)),
                None => "said by the others already".into(),
            };
            text += &format!("\n    {name:<24} {value}");
        }
    }
    (!all.is_empty()).then_some(text)
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
    correlation_of_all: Option<f64>,
    r_squared: f64,
    aic: f64,
    rows: usize,
    runs: usize,
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
            correlation_of_all: None,
            r_squared: fitted.r_squared(),
            aic: fitted.aic(),
            rows: fitted.residuals.len(),
            runs: fitted.runs.0,
            freedom: fitted.runs.1,
        }
    };
    let mut rows = Vec::new();
    for one in parameters {
        for curve in &one.described.curves {
            for part in ["a", "b"].into_iter().zip(&curve.fitted.estimates) {
                let (way, by, shape) = (one.way, one.factor.name(), curve.shape.name());
                rows.push(Coefficient {
                    correlation: one.described.correlation,
                    correlation_of_all: one.plain,
                    ..row(way, by, shape, part, &curve.fitted)
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
                kinds: one.way.into(),
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
    settings: usize,
    factor: f64,
    low: Option<f64>,
    high: Option<f64>,
}

pub(super) fn factors(all: &[Speedup]) -> Vec<Compared<'_>> {
    let row = |one| {
        let Speedup {
            what,
            seconds: (seconds_before, seconds_after),
            settings,
            factor,
            interval,
        }: &Speedup = one;
        Compared {
            what,
            seconds_before: *seconds_before,
            seconds_after: *seconds_after,
            settings: *settings,
            factor: *factor,
            low: interval.map(|(low, _)| low),
            high: interval.map(|(_, high)| high),
        }
    };
    all.iter().map(row).collect()
}
