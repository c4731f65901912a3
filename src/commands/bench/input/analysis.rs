//! What the rows say: each parameter by itself, all together, and how much faster one way is than another.

use std::collections::BTreeMap;

use super::design::{Factor, Kind, Row};
use crate::study::{self, Described, Fitted, correlation, describe, fit, mean};

/// What a parameter does to the speed of one kind.
#[derive(Clone, Debug)]
pub struct ByParameter {
    /// The kind.
    pub kind: Kind,
    /// The parameter.
    pub factor: Factor,
    /// The correlation with images/s over all rows, whatever else differs between them.
    pub plain: Option<f64>,
    /// Its values, and for each the speed relative to the mean of all rows that differ in nothing else.
    pub x: Vec<f64>,
    /// See `x`.
    pub y: Vec<f64>,
    /// The curves for them.
    pub described: Described,
}

/// Each parameter of each kind that was varied.
pub fn by_parameter(rows: &[Row]) -> Vec<ByParameter> {
    let kinds = [Kind::Files, Kind::Jpeg, Kind::Pixels];
    let each = kinds.into_iter().flat_map(|kind| {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.kind == kind).collect();
        let one = move |factor| of_parameter(kind, factor, &rows);
        Factor::NUMBERS.into_iter().filter_map(one)
    });
    each.collect()
}

fn of_parameter(kind: Kind, factor: Factor, rows: &[&Row]) -> Option<ByParameter> {
    let level = |row: &&Row| row.level(factor);
    let all: Vec<f64> = rows.iter().map(level).collect();
    if all.iter().all(|x| *x == all[0]) {
        return None;
    }
    let cells = group(rows, |row| row.cell(&[factor]));
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for cell in cells.values() {
        let logs: Vec<f64> = cell.iter().map(|row| row.images_per_s.ln()).collect();
        let usual = mean(&logs);
        x.extend(cell.iter().map(|row| row.level(factor)));
        y.extend(logs.iter().map(|log| (log - usual).exp()));
    }
    let speeds: Vec<f64> = rows.iter().map(|row| row.images_per_s).collect();
    // Each cell's mean but one was taken from the same rows; of all together the constant is.
    let described = describe(&x, &y, cells.len() - 1)?;
    Some(ByParameter {
        kind,
        factor,
        plain: correlation(&all, &speeds),
        x,
        y,
        described,
    })
}

fn group<'a>(rows: &[&'a Row], key: impl Fn(&Row) -> Vec<u64>) -> BTreeMap<Vec<u64>, Vec<&'a Row>> {
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
    let kinds = [Kind::Files, Kind::Jpeg, Kind::Pixels];
    let there: Vec<Kind> = (kinds.into_iter())
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
    push("read again from a cache".into(), &|row| {
        yes(row.cache != "none" && row.repetition > 1)
    });
    push("cold".into(), &|row| yes(row.cold));
    push("cold, read again".into(), &|row| {
        yes(row.cold && row.repetition > 1)
    });
    for kind in &kinds[1..] {
        push(format!("kind {}", kind.name()), &|row| {
            yes(row.kind == *kind)
        });
    }
    let (names, columns): (Vec<String>, Vec<Vec<f64>>) = columns.into_iter().unzip();
    let speeds: Vec<f64> = rows.iter().map(|row| scale(row.images_per_s)).collect();
    let fitted = fit(&columns, &speeds, 0)?;
    // A density of ln y is one of y divided by y: so both are about the same measurements.
    let jacobian: f64 = match logarithmic {
        true => 2.0 * speeds.iter().sum::<f64>(),
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

/// How much faster one way is than another, where nothing else differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Speedup {
    /// What is compared.
    pub what: String,
    /// Seconds that the same work took, the one way and the other.
    pub seconds: (f64, f64),
    /// How many times as fast, and the interval that holds the true factor in 95 of 100 studies.
    pub factor: f64,
    /// See `factor`.
    pub interval: (f64, f64),
}

/// What caching, more ranks, packing and warm files bring.
pub fn speedups(rows: &[Row]) -> Vec<Speedup> {
    let all: Vec<&Row> = rows.iter().collect();
    let mut found = Vec::new();
    let mut compare =
        |what: String, factor: Factor, of: &dyn Fn(&Row) -> bool, levels: (f64, f64)| {
            let chosen: Vec<&Row> = all.iter().copied().filter(|row| of(row)).collect();
            found.extend(speedup(what, &chosen, factor, levels));
        };
    let ranks: Vec<usize> = rows.iter().map(|row| row.ranks).collect();
    let (least, most) = (ranks.iter().min(), ranks.iter().max());
    for kind in [Kind::Files, Kind::Jpeg, Kind::Pixels] {
        let name = kind.name();
        for (level, cache) in [(1.0, "memory"), (2.0, "node")] {
            let whole = |row: &Row| row.kind == kind;
            let what = format!("{name}: all repetitions, cache none → {cache}");
            compare(what, Factor::Cache, &whole, (0.0, level));
            let again = |row: &Row| row.kind == kind && row.repetition > 1;
            let what = format!("{name}: read again, cache none → {cache}");
            compare(what, Factor::Cache, &again, (0.0, level));
        }
        if let (Some(&least), Some(&most)) = (least, most)
            && least < most
        {
            let what = format!("{name}: {least} → {most} ranks");
            let levels = (least as f64, most as f64);
            compare(what, Factor::Ranks, &|row| row.kind == kind, levels);
        }
        let first = |row: &Row| row.kind == kind && row.repetition == 1;
        let what = format!("{name}: first time, cold → warm");
        compare(what, Factor::Cold, &first, (1.0, 0.0));
    }
    for kind in [Kind::Jpeg, Kind::Pixels] {
        let what = format!("files → {}", kind.name());
        let levels = (f64::from(Kind::Files as u8), f64::from(kind as u8));
        compare(what, Factor::Kind, &|row| row.cache == "none", levels);
    }
    found
}

/// From one level of a factor to another, over all cells that have both.
fn speedup(what: String, rows: &[&Row], factor: Factor, (from, to): (f64, f64)) -> Option<Speedup> {
    let cells = group(rows, |row| row.cell(&[factor]));
    let (mut ratios, mut seconds) = (Vec::new(), (0.0, 0.0));
    for cell in cells.values() {
        let at = |level: f64| -> Vec<&&Row> {
            cell.iter()
                .filter(|row| row.level(factor) == level)
                .collect()
        };
        let (before, after) = (at(from), at(to));
        if before.is_empty() || after.is_empty() {
            continue;
        }
        let log = |rows: &[&&Row]| {
            let logs: Vec<f64> = rows.iter().map(|row| row.images_per_s.ln()).collect();
            mean(&logs)
        };
        // The same work: as many images for each.
        let time = |rows: &[&&Row]| {
            let each: Vec<f64> = rows.iter().map(|row| 1.0 / row.images_per_s).collect();
            mean(&each) * before[0].images as f64
        };
        ratios.push(log(&after) - log(&before));
        seconds = (seconds.0 + time(&before), seconds.1 + time(&after));
    }
    let interval = match study::fit(&[vec![1.0; ratios.len()]], &ratios, 0) {
        Some(fitted) => fitted.estimates[0]?.interval,
        None => (f64::NAN, f64::NAN),
    };
    (!ratios.is_empty()).then(|| Speedup {
        what,
        seconds,
        factor: mean(&ratios).exp(),
        interval: (interval.0.exp(), interval.1.exp()),
    })
}
