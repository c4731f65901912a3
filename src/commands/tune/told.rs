//! What a search tells: its trials, what the model expected of them, and what it has learnt.

use std::path::Path;

use crate::observe::plot::{Lines, Plot, Series, escape, write_all};
use crate::observe::{Section, gallery, grid, say, shell, table};
use crate::sweep::{csv, short};
use crate::tune::{Search, Space, Task};
use crate::{Result, files};

/// A time that is expected, with a low and a high end.
pub(super) type Ends = (f64, f64, f64);

/// A trial that was made.
pub(super) struct Told {
    pub(super) index: usize,
    pub(super) words: String,
    /// What it was measured by, and the time that this means; nothing of one that failed.
    pub(super) figure: Option<f64>,
    pub(super) time: Option<f64>,
    /// The time that was expected of it, with a low and a high end.
    pub(super) expected: Option<Ends>,
    /// The share that was expected to be gained.
    pub(super) gain: Option<f64>,
    /// What it took to try it.
    pub(super) seconds: f64,
    /// Whether it is the best so far.
    pub(super) best: bool,
}

impl Told {
    /// In a line.
    pub(super) fn line(&self, task: &Task) -> String {
        let name = &task.measure.figure;
        let found = match self.figure {
            Some(figure) => format!("{name} {}", short(figure)),
            None => "failed".into(),
        };
        let best = if self.best { ", the best so far" } else { "" };
        match self.expected(task) {
            Some((middle, low, high)) => format!(
                "{}: {found} (expected {}, {} to {}){best}",
                self.words,
                short(middle),
                short(low),
                short(high)
            ),
            None => format!("{}: {found}{best}", self.words),
        }
    }

    /// The figure that was expected, with its low and its high end.
    fn expected(&self, task: &Task) -> Option<Ends> {
        let (middle, low, high) = self.expected?;
        Some(figures(task, (middle, low, high)))
    }
}

/// Times as figures.
fn figures(task: &Task, (middle, low, high): Ends) -> Ends {
    let figure = |time| task.measure.time(time);
    match task.measure.speed {
        true => (figure(middle), figure(high), figure(low)),
        false => (middle, low, high),
    }
}

/// Writes the trials, what was learnt of all configurations, plots and a page into `out`, and tells the trials.
pub(super) fn tell(
    out: &Path,
    (task, space): (&Task, &Space),
    search: &Search,
    trials: &[Told],
    why: &str,
) -> Result<()> {
    let (heads, rows) = trial_rows(task, space, trials);
    files::write_text(&out.join("trials.csv"), &csv(&heads, &rows))?;
    let (all_heads, all_rows) = learnt(task, space, search, trials);
    files::write_text(&out.join("expected.csv"), &csv(&all_heads, &all_rows))?;
    let plots: Vec<Plot> = [progress(task, trials), expectations(task, search, trials)]
        .into_iter()
        .flatten()
        .collect();
    write_all(&plots, &out.join("plots"))?;
    let best = search.best();
    let found = best.and_then(|best| trials.iter().find(|one| one.index == best.index));
    let mut told = vec![
        ("space", format!("{} configurations", space.len())),
        (
            "trials",
            format!(
                "{}, {:.1} s",
                trials.len(),
                trials.iter().map(|one| one.seconds).sum::<f64>()
            ),
        ),
        ("stopped", why.to_owned()),
    ];
    if let Some(found) = found {
        told.push(("best", found.words.clone()));
        told.push((
            "its figure",
            format!(
                "{} {}",
                task.measure.figure,
                found.figure.map_or("-".into(), short)
            ),
        ));
    }
    told.push(("written to", out.display().to_string()));
    let summary: String = (told.iter())
        .map(|(name, value)| {
            format!(
                "<p><strong>{}</strong>: {}</p>",
                escape(name),
                escape(value)
            )
        })
        .collect();
    let sections = [
        ("summary", "Summary", summary),
        (
            "trials",
            "Trials",
            grid("Trials", &heads, rounded(&rows).iter()),
        ),
        (
            "plots",
            "Plots",
            gallery(&plots, "No trial has ended well."),
        ),
        (
            "expected",
            "Expected",
            grid("All configurations", &all_heads, rounded(&all_rows).iter()),
        ),
    ];
    let sections = sections.map(Section::titled);
    let below = format!("<p class=\"sub\">{}</p>", escape(task.about.trim()));
    let source = "Every figure is from the trials' folders and records.";
    let page = shell("phalanx tune", &task.title, &below, &sections, source);
    files::write_text(&out.join("report.html"), &page)?;
    say(&table(&task.title, &told));
    Ok(())
}

/// The same with as many digits as people read.
fn rounded(rows: &[Vec<String>]) -> Vec<Vec<String>> {
    let cell = |cell: &String| match cell.parse::<f64>() {
        Ok(number) => short(number),
        Err(_) => cell.clone(),
    };
    let row = |row: &Vec<String>| row.iter().map(cell).collect();
    rows.iter().map(row).collect()
}

fn number(number: Option<f64>) -> String {
    number.map_or(String::new(), |number| number.to_string())
}

fn trial_rows(task: &Task, space: &Space, trials: &[Told]) -> (Vec<String>, Vec<Vec<String>>) {
    let mut heads = vec!["trial".to_owned()];
    heads.extend(space.axes.iter().map(|axis| axis.name.clone()));
    let name = &task.measure.figure;
    heads.extend([
        name.clone(),
        format!("{name} expected"),
        format!("{name} low"),
        format!("{name} high"),
    ]);
    heads.extend(["expected gain", "seconds", "best so far"].map(Into::into));
    let row = |(i, told): (usize, &Told)| {
        let mut cells = vec![(i + 1).to_string()];
        cells.extend(
            space
                .values(told.index)
                .iter()
                .map(|value| value.to_string()),
        );
        let expected = told.expected(task);
        cells.push(
            told.figure
                .map_or("failed".into(), |figure| figure.to_string()),
        );
        cells.extend([
            number(expected.map(|ends| ends.0)),
            number(expected.map(|ends| ends.1)),
            number(expected.map(|ends| ends.2)),
            number(told.gain),
            format!("{:.2}", told.seconds),
            if told.best { "yes" } else { "" }.into(),
        ]);
        cells
    };
    (heads, trials.iter().enumerate().map(row).collect())
}

/// All configurations with what the model expects of them in the end.
fn learnt(
    task: &Task,
    space: &Space,
    search: &Search,
    trials: &[Told],
) -> (Vec<String>, Vec<Vec<String>>) {
    let mut heads: Vec<String> = space.axes.iter().map(|axis| axis.name.clone()).collect();
    let name = &task.measure.figure;
    heads.extend([
        format!("{name} expected"),
        format!("{name} low"),
        format!("{name} high"),
        name.clone(),
    ]);
    let expected = search.expected();
    let row = |index: usize| {
        let mut cells: Vec<String> = space
            .values(index)
            .iter()
            .map(|value| value.to_string())
            .collect();
        let ends = expected.as_ref().map(|all| figures(task, all[index]));
        let tried = trials.iter().find(|told| told.index == index);
        cells.extend([
            number(ends.map(|ends| ends.0)),
            number(ends.map(|ends| ends.1)),
            number(ends.map(|ends| ends.2)),
            number(tried.and_then(|told| told.figure)),
        ]);
        cells
    };
    (heads, (0..space.len()).map(row).collect())
}

fn series(name: &str, colour: usize, dashed: bool, points: Vec<(f64, f64)>) -> Series {
    Series {
        name: name.into(),
        points,
        colour,
        dashed,
    }
}

/// Trial after trial: what was found, what had been expected, and the best so far.
fn progress(task: &Task, trials: &[Told]) -> Option<Plot> {
    let at = |i: usize| (i + 1) as f64;
    let each = || trials.iter().enumerate();
    let found = each().filter_map(|(i, told)| Some((at(i), told.figure?)));
    let end = |of: fn(Ends) -> f64| {
        let points = each().filter_map(|(i, told)| Some((at(i), of(told.expected(task)?))));
        points.collect::<Vec<_>>()
    };
    let mut best: Option<f64> = None;
    let so_far = each().filter_map(|(i, told)| {
        if told.best {
            best = told.figure;
        }
        Some((at(i), best?))
    });
    let so_far: Vec<(f64, f64)> = so_far.collect();
    let lines = Lines {
        name: "trials".into(),
        title: "Trials, and what was expected of them".into(),
        x: "trial".into(),
        unit: task.measure.figure.clone(),
        series: vec![
            series("best so far", 0, false, so_far),
            series("expected, low end", 7, true, end(|ends| ends.1)),
            series("expected, high end", 7, true, end(|ends| ends.2)),
        ],
        from_zero: false,
    };
    lines.draw_over(vec![series("found", 1, false, found.collect())])
}

/// All configurations from the best expected to the worst, with the doubt, and those that were tried.
fn expectations(task: &Task, search: &Search, trials: &[Told]) -> Option<Plot> {
    let expected = search.expected()?;
    let mut order: Vec<usize> = (0..expected.len()).collect();
    order.sort_by(|&a, &b| expected[a].0.total_cmp(&expected[b].0));
    let place = |index: usize| order.iter().position(|&other| other == index);
    let end = |of: fn(Ends) -> f64| {
        let points = order.iter().enumerate();
        let points = points.map(|(i, &index)| ((i + 1) as f64, of(figures(task, expected[index]))));
        points.collect::<Vec<_>>()
    };
    let tried = trials
        .iter()
        .filter_map(|told| Some((place(told.index)? as f64 + 1.0, told.figure?)));
    let lines = Lines {
        name: "expected".into(),
        title: "What was learnt of all configurations, the best first".into(),
        x: "configuration".into(),
        unit: task.measure.figure.clone(),
        series: vec![
            series("expected", 0, false, end(|ends| ends.0)),
            series("low end", 7, true, end(|ends| ends.1)),
            series("high end", 7, true, end(|ends| ends.2)),
        ],
        from_zero: false,
    };
    lines.draw_over(vec![series("tried", 1, false, tried.collect())])
}
