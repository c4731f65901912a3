//! The plots of runs.

use super::super::plot::{Bar, Bars, Heat, Lines, Plot, Series};
use super::run::Run;
use super::sheet::Sheet;

/// Parts of a rank's time: the column of `ranks.csv`, the class and the name.
pub(super) const PARTS: [(&str, &str, &str); 6] = [
    ("compute_s", "compute", "compute"),
    ("exchange_s", "exchange", "exchange"),
    ("wait_s", "wait", "wait"),
    ("load_s", "load", "load"),
    ("evaluate_s", "evaluate", "evaluate"),
    ("checkpoint_s", "checkpoint", "checkpoint"),
];

/// A short name for each run: the folder's own where that tells them apart.
pub(super) fn labels(runs: &[Run]) -> Vec<String> {
    let last = |run: &Run| {
        let name = run.name.trim_end_matches('/');
        name.rsplit('/').next().unwrap_or(name).to_owned()
    };
    let short: Vec<String> = runs.iter().map(last).collect();
    let mut distinct = short.clone();
    distinct.sort();
    distinct.dedup();
    match distinct.len() == short.len() {
        true => short,
        false => runs.iter().map(|run| run.name.clone()).collect(),
    }
}

/// Curves of all runs, one over the other.
pub(super) fn curves(runs: &[Run]) -> Vec<Plot> {
    let watched = |kind: &str, run: &Run| format!("{}_{kind}", run.watched());
    let several = runs.len() > 1;
    let plots = [
        both(runs, ("loss", "Loss", "step"), |run| watched("loss", run)),
        both(runs, ("accuracy", "Accuracy", "step"), |run| {
            watched("accuracy", run)
        }),
        several
            .then(|| {
                let names = ("loss-by-time", "Loss by time", "seconds");
                both(runs, names, |run| watched("loss", run))
            })
            .flatten(),
        one(
            runs,
            ("speed", "Speed"),
            ("samples_per_s", "samples/s"),
            true,
        ),
        one(runs, ("learning-rate", "Learning rate"), ("lr", ""), true),
        varies(runs, "batch")
            .then(|| one(runs, ("batch", "Batch"), ("batch", "samples"), true))
            .flatten(),
        one(
            runs,
            ("noise", "Gradient noise scale"),
            ("noise_scale", "samples"),
            false,
        ),
    ];
    plots.into_iter().flatten().collect()
}

/// Whether a column has more than one value in some run.
fn varies(runs: &[Run], column: &str) -> bool {
    let varies = |run: &Run| {
        let mut cells = run.metrics.column(column).into_iter().flatten();
        let first = cells.next();
        cells.any(|cell| Some(cell) != first)
    };
    runs.iter().any(varies)
}

/// What training gave and what the watched set did, against `x`.
fn both(
    runs: &[Run],
    (name, title, x): (&str, &str, &str),
    watched: impl Fn(&Run) -> String,
) -> Option<Plot> {
    let mut series = Vec::new();
    let kind = if title.starts_with("Loss") {
        "loss"
    } else {
        "accuracy"
    };
    for (i, (run, label)) in runs.iter().zip(labels(runs)).enumerate() {
        let (mine, set) = match runs.len() {
            1 => ("training".into(), run.watched().into()),
            _ => (
                format!("{label} training"),
                format!("{label} {}", run.watched()),
            ),
        };
        let tested = run.metrics.pairs(x, &watched(run));
        series.push(Series {
            name: mine,
            points: run.metrics.pairs(x, kind),
            colour: i,
            dashed: runs.len() > 1 && !tested.is_empty(),
        });
        series.push(Series {
            name: set,
            points: tested,
            colour: if runs.len() == 1 { 1 } else { i },
            dashed: false,
        });
    }
    Lines {
        name: name.into(),
        title: title.into(),
        x: x.into(),
        unit: String::new(),
        series,
        from_zero: false,
    }
    .draw()
}

/// One column of each run by step.
fn one(
    runs: &[Run],
    (name, title): (&str, &str),
    (column, unit): (&str, &str),
    from_zero: bool,
) -> Option<Plot> {
    let each = runs.iter().zip(labels(runs)).enumerate();
    let series = each.map(|(i, (run, label))| Series {
        name: if runs.len() == 1 {
            title.to_lowercase()
        } else {
            label
        },
        points: run.metrics.pairs("step", column),
        colour: i,
        dashed: false,
    });
    Lines {
        name: name.into(),
        title: title.into(),
        x: "step".into(),
        unit: unit.into(),
        series: series.collect(),
        from_zero,
    }
    .draw()
}

/// Where each rank's time went.
pub(super) fn shares(run: &Run, suffix: &str) -> Option<Plot> {
    let columns: Vec<Vec<Option<f64>>> = (PARTS.iter())
        .map(|(column, _, _)| run.ranks.numbers(column))
        .collect();
    let seconds = run.number(&["seconds"]);
    let bars = (0..run.ranks.rows.len()).map(|rank| {
        let part = |column: &Vec<Option<f64>>| column.get(rank).copied().flatten().unwrap_or(0.0);
        let mut parts: Vec<f64> = columns.iter().map(part).collect();
        let rest = seconds.unwrap_or(0.0) - parts.iter().sum::<f64>();
        parts.push(rest.max(0.0));
        let name = format!("rank {rank}");
        Bar { name, parts }
    });
    let keys = PARTS
        .iter()
        .map(|(_, class, name)| (class.to_string(), name.to_string()));
    Bars {
        name: format!("ranks{suffix}"),
        title: "Where each rank's time went".into(),
        keys: keys.chain([("rest".into(), "rest".into())]).collect(),
        unit: "seconds".into(),
        bars: bars.collect(),
    }
    .draw()
}

/// Who waited for whom.
pub(super) fn waiting(run: &Run, suffix: &str) -> Option<Plot> {
    let size = run.ranks.rows.len();
    let mut values = vec![vec![0.0; size]; size];
    let (from, to) = (run.waits.numbers("rank"), run.waits.numbers("waited_for"));
    for ((rank, whom), seconds) in from.iter().zip(&to).zip(run.waits.numbers("seconds")) {
        let (Some(rank), Some(whom), Some(seconds)) = (rank, whom, seconds) else {
            continue;
        };
        let row = values.get_mut(*rank as usize);
        if let Some(cell) = row.and_then(|row| row.get_mut(*whom as usize)) {
            *cell += seconds;
        }
    }
    Heat {
        name: format!("waiting{suffix}"),
        title: "Who waited for whom".into(),
        rows: "rank".into(),
        columns: "waited for rank".into(),
        unit: "seconds".into(),
        values,
    }
    .draw()
}

/// How stale updates were.
pub(super) fn staleness(run: &Run, suffix: &str) -> Option<Plot> {
    let stale = run.result.as_ref()?.get("staleness")?;
    let counts = stale.get("counts")?.as_array()?.iter();
    let bars = counts.enumerate().map(|(i, count)| Bar {
        name: i.to_string(),
        parts: vec![count.as_integer().unwrap_or(0) as f64],
    });
    Bars {
        name: format!("staleness{suffix}"),
        title: "Staleness: steps that the slowest rank was behind".into(),
        keys: vec![("s0".into(), "updates".into())],
        unit: "updates".into(),
        bars: bars.collect(),
    }
    .draw()
}

/// What ranks and hosts used, where that was sampled: the columns of `resources.csv`, summed up, the title and the unit.
const USED: [(&str, &[&str], &str, &str); 6] = [
    (
        "cpu",
        &["cpu_percent"],
        "Cores used by each rank",
        "% of a core",
    ),
    ("memory", &["proportional_mb"], "Memory of each rank", "MB"),
    (
        "network",
        &["host_received_kb_per_s", "host_sent_kb_per_s"],
        "Network of each rank's host",
        "kB/s",
    ),
    (
        "disk",
        &["read_kb_per_s", "written_kb_per_s"],
        "Disk of each rank",
        "kB/s",
    ),
    ("gpu", &["gpu_percent"], "GPU of each rank", "%"),
    (
        "gpu-memory",
        &["gpu_memory_mb"],
        "GPU memory of each rank",
        "MB",
    ),
];

/// Plots of resources.
pub(super) fn resources(run: &Run, suffix: &str) -> Vec<Plot> {
    let plot = |(name, columns, title, unit): &(&str, &[&str], &str, &str)| {
        let series = run.resources.iter().map(|(rank, sheet)| Series {
            name: format!("rank {rank}"),
            points: total(sheet, columns),
            colour: *rank,
            dashed: *rank >= 8,
        });
        Lines {
            name: format!("{name}{suffix}"),
            title: (*title).into(),
            x: "seconds".into(),
            unit: (*unit).into(),
            series: series.take(16).collect(),
            from_zero: true,
        }
        .draw()
    };
    USED.iter().filter_map(plot).collect()
}

/// The sum of columns by seconds, where a row has a number in any.
fn total(sheet: &Sheet, columns: &[&str]) -> Vec<(f64, f64)> {
    let all: Vec<Vec<Option<f64>>> = columns.iter().map(|name| sheet.numbers(name)).collect();
    let rows = sheet.numbers("seconds").into_iter().enumerate();
    let sum = |(row, second): (usize, Option<f64>)| {
        let known: Vec<f64> = all.iter().filter_map(|column| *column.get(row)?).collect();
        (!known.is_empty()).then(|| second.map(|x| (x, known.iter().sum())))?
    };
    rows.filter_map(sum).collect()
}

/// All plots of one run beside the curves.
pub(super) fn of_run(run: &Run, suffix: &str) -> Vec<Plot> {
    let first = [
        shares(run, suffix),
        waiting(run, suffix),
        staleness(run, suffix),
    ];
    let mut plots: Vec<Plot> = first.into_iter().flatten().collect();
    plots.extend(resources(run, suffix));
    let timeline = run.trace.as_ref();
    plots.extend(timeline.and_then(|trace| trace.draw(&format!("timeline{suffix}"))));
    plots
}

/// Every plot of `runs`, each with a name of its own.
pub fn plots(runs: &[Run]) -> Vec<Plot> {
    let mut all = curves(runs);
    for (i, run) in runs.iter().enumerate() {
        let suffix = match runs.len() {
            1 => String::new(),
            _ => format!("-{}", i + 1),
        };
        all.extend(of_run(run, &suffix));
    }
    all
}
