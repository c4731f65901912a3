//! How much faster one way to read is than another.

use super::analysis::{KINDS, group, speed};
use super::design::{Factor, Kind, Row};
use crate::study::{Measured, fit, mean};

/// How much faster one way is than another, where nothing else differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Speedup {
    /// What is compared.
    pub what: String,
    /// Seconds that the same work took in all settings, the one way and the other.
    pub seconds: (f64, f64),
    /// How many times as fast a setting is: the geometric mean over so many.
    pub factor: f64,
    /// See `factor`.
    pub settings: usize,
    /// The interval of 95 % for that of all settings of the kind, by how these differ; of a single one by its repeats.
    pub interval: Option<(f64, f64)>,
}

/// What caching, more ranks, packing and warm files bring; cold files count for kinds that came from a disk.
pub fn speedups(rows: &[Row], from_disk: impl Fn(Kind) -> bool) -> Vec<Speedup> {
    let all: Vec<&Row> = rows.iter().collect();
    let mut found = Vec::new();
    let mut compare =
        |what: String, factor: Factor, of: &dyn Fn(&Row) -> bool, levels: (f64, f64)| {
            let chosen: Vec<&Row> = all.iter().copied().filter(|row| of(row)).collect();
            found.extend(speedup(what, &chosen, factor, levels));
        };
    let ranks: Vec<usize> = rows.iter().map(|row| row.ranks).collect();
    let (least, most) = (ranks.iter().min(), ranks.iter().max());
    for kind in KINDS {
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
            let decodes = |row: &Row| row.kind == kind && !row.keeps();
            compare(what, Factor::Ranks, &decodes, levels);
        }
        let first = |row: &Row| row.kind == kind && row.share_read_before() == 0.0;
        let what = format!("{name}: first time, cold → warm");
        if from_disk(kind) {
            compare(what, Factor::Cold, &first, (1.0, 0.0));
        }
    }
    for kind in [Kind::Jpeg, Kind::Pixels] {
        let what = format!("files → {}", kind.name());
        let levels = (f64::from(Kind::Files as u8), f64::from(kind as u8));
        compare(what, Factor::Kind, &|row| !row.keeps(), levels);
    }
    found
}

/// From one level of a factor to another, over all settings that have both; a run's repetitions count together.
fn speedup(what: String, rows: &[&Row], factor: Factor, (from, to): (f64, f64)) -> Option<Speedup> {
    let cells = group(rows, |row| row.cell(&[factor, Factor::Repetition]));
    let (mut ratios, mut seconds) = (Vec::new(), (0.0, 0.0));
    let (mut logs, mut after) = (Vec::new(), Vec::new());
    for cell in cells.values() {
        let at = |level: f64| -> Vec<f64> {
            let rows: Vec<&Row> = cell
                .iter()
                .copied()
                .filter(|row| row.level(factor) == level)
                .collect();
            let runs = group(&rows, |row| vec![row.run as u64]);
            runs.values().map(|rows| speed(rows)).collect()
        };
        let speeds = [at(from), at(to)];
        if speeds.iter().any(Vec::is_empty) {
            continue;
        }
        let log = |i: usize| speeds[i].iter().map(|speed| speed.ln());
        let usual = |i| mean(&log(i).collect::<Vec<f64>>());
        ratios.push(usual(1) - usual(0));
        for i in [0, 1] {
            logs.extend(log(i));
            after.extend(speeds[i].iter().map(|_| i as f64));
        }
        // Settings of several ranks read more images: the work is that of the first.
        let first = cell.iter().find(|row| row.level(factor) == from)?;
        let images = cell.iter().filter(|row| row.run == first.run);
        let images: usize = images.map(|row| row.images).sum();
        let time =
            |i: usize| images as f64 * mean(&speeds[i].iter().map(|s| 1.0 / s).collect::<Vec<_>>());
        seconds = (seconds.0 + time(0), seconds.1 + time(1));
    }
    let settings = ratios.len();
    let interval = match settings {
        0 => return None,
        1 => interval(&[vec![1.0; logs.len()], after], &logs),
        _ => interval(&[vec![1.0; settings]], &ratios),
    };
    Some(Speedup {
        what,
        seconds,
        factor: mean(&ratios).exp(),
        settings,
        interval,
    })
}

/// The interval of what logarithms have of the last column, as factors.
fn interval(columns: &[Vec<f64>], logs: &[f64]) -> Option<(f64, f64)> {
    let runs: Vec<usize> = (0..logs.len()).collect();
    let measured = Measured {
        y: logs,
        runs: &runs,
        spent: 0,
    };
    let (low, high) = fit(columns, measured)?.estimates.last()?.as_ref()?.interval;
    Some((low.exp(), high.exp()))
}
