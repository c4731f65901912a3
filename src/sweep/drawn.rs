//! The plots of a study: columns over an axis, what each rank did, and how runs went.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::figures::pairs;
use super::outcome::State;
use super::study::{Curve, Share};
use super::{Drawn, Outcome, Row, Run, same};
use crate::Result;
use crate::observe::plot::{Bar, Bars, Lines, Plot, Series};
use crate::study::median;

impl Outcome<'_> {
    /// What the study wants to be drawn; what no run has anything of is told.
    pub fn plots(&self) -> Result<Vec<Plot>> {
        let drawn = self.study.plots.iter().enumerate();
        let mut plots: Vec<Plot> = drawn.filter_map(|(i, drawn)| self.draw(i, drawn)).collect();
        let ended = self.done().next().is_some();
        for share in &self.study.shares {
            let plot = self.share(share)?;
            if plot.is_none() && ended {
                log::warn!("no run's ranks.csv has a column `{}`", share.figure);
            }
            plots.extend(plot);
        }
        for curve in &self.study.curves {
            let plot = self.curve(curve)?;
            if plot.is_none() && ended {
                let (figure, over) = (&curve.figure, &curve.over);
                log::warn!("no run's metrics.csv has numbers of `{figure}` over `{over}`");
            }
            plots.extend(plot);
        }
        Ok(plots)
    }

    /// Configurations with the folders of their runs that ended well.
    fn folders(&self) -> Vec<(String, &Run, Vec<PathBuf>)> {
        let mut all: Vec<(String, &Run, Vec<PathBuf>)> = Vec::new();
        for (run, state) in &self.runs {
            if let State::Done(_) = state {
                let folder = self.launcher.run(run);
                match all.iter_mut().find(|(_, other, _)| other.at == run.at) {
                    Some((.., folders)) => folders.push(folder),
                    None => {
                        let at = run.at.iter().filter(|(axis, _)| self.varies(axis));
                        let words: Vec<String> =
                            at.map(|(axis, v)| format!("{axis} {v}")).collect();
                        all.push((words.join(", "), run, vec![folder]));
                    }
                }
            }
        }
        all
    }

    /// What each rank did, in the middle of the runs of a configuration.
    fn share(&self, share: &Share) -> Result<Option<Plot>> {
        let mut bars = Vec::new();
        for (name, _, folders) in self.folders() {
            let mut ranks: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
            for folder in &folders {
                for (rank, value) in pairs(&folder.join("ranks.csv"), ("rank", &share.figure))? {
                    ranks.entry(rank as usize).or_default().push(value);
                }
            }
            let parts: Vec<f64> = ranks.into_values().filter_map(median).collect();
            if !parts.is_empty() {
                bars.push(Bar { name, parts });
            }
        }
        let most = bars.iter().map(|bar| bar.parts.len()).max().unwrap_or(0);
        let bars = Bars {
            name: format!("ranks-{}", plain(&share.name)),
            title: format!("{} of each rank", share.name),
            keys: (0..most)
                .map(|rank| (format!("s{}", rank % 8), format!("rank {rank}")))
                .collect(),
            unit: share.name.clone(),
            bars,
        };
        Ok(bars.draw())
    }

    /// How runs went.
    fn curve(&self, curve: &Curve) -> Result<Option<Plot>> {
        let mut series = Vec::new();
        for (name, run, folders) in self.folders() {
            let drawn = curve.at.iter().all(|(axis, wanted)| {
                let own = run.at.iter().find(|(name, _)| name == axis);
                own.is_some_and(|(_, value)| same(value, &super::plan::text(wanted)))
            });
            if drawn {
                let columns = (curve.over.as_str(), curve.figure.as_str());
                let points = pairs(&folders[0].join("metrics.csv"), columns)?;
                if !points.is_empty() {
                    series.push(Series {
                        name,
                        points,
                        colour: series.len(),
                        dashed: false,
                    });
                }
            }
        }
        let lines = Lines {
            name: format!("curve-{}", plain(&curve.name)),
            title: format!("{} over {}", curve.name, curve.over),
            x: curve.over.clone(),
            unit: curve.name.clone(),
            series,
            from_zero: false,
        };
        Ok(lines.draw())
    }

    fn draw(&self, number: usize, drawn: &Drawn) -> Option<Plot> {
        let table = &self.table;
        let over = table.axes.iter().position(|axis| *axis == drawn.over)?;
        let column = table
            .columns
            .iter()
            .position(|name| *name == drawn.column)?;
        let name = format!("{}-{}", number + 1, plain(&drawn.column));
        let numbers = table.rows.iter().map(|row| row.at[over].parse::<f64>());
        let words = numbers.clone().any(|number| number.is_err());
        let title = match &drawn.second {
            Some(second) if !words => format!("{} and {second} over {}", drawn.column, drawn.over),
            _ => format!("{} over {}", drawn.column, drawn.over),
        };
        if words {
            let bar = |row: &Row| {
                let median = row.cells[column].as_ref()?.median;
                median.is_finite().then(|| Bar {
                    name: row.at.join(" "),
                    parts: vec![median],
                })
            };
            let bars = Bars {
                name,
                title,
                keys: vec![("s0".into(), drawn.column.clone())],
                unit: drawn.column.clone(),
                bars: table.rows.iter().filter_map(bar).collect(),
            };
            return bars.draw();
        }
        let lines = Lines {
            name,
            title,
            x: drawn.over.clone(),
            unit: drawn.column.clone(),
            series: self.series(over, column, 0),
            from_zero: true,
        };
        let second = drawn.second.as_ref();
        let beside = second.and_then(|name| table.columns.iter().position(|n| n == name));
        match beside {
            None => lines.draw(),
            Some(beside) => {
                let first = lines.series.len();
                lines.draw_beside(&table.columns[beside], self.series(over, beside, first))
            }
        }
    }

    /// A line for each choice of the other axes, and dashed what others have published.
    fn series(&self, over: usize, column: usize, first: usize) -> Vec<Series> {
        let table = &self.table;
        let mut lines: Vec<(String, Vec<&Row>)> = Vec::new();
        for row in &table.rows {
            let others = row.at.iter().zip(&table.axes).enumerate();
            let others = others.filter(|(i, (_, axis))| *i != over && self.varies(axis));
            let words: Vec<String> = others.map(|(_, (v, axis))| format!("{axis} {v}")).collect();
            let words = words.join(", ");
            match lines.iter_mut().find(|(name, _)| *name == words) {
                Some((_, rows)) => rows.push(row),
                None => lines.push((words, vec![row])),
            }
        }
        let head = &table.columns[column];
        let named = |words: &str, more: &str| match words {
            "" => format!("{head}{more}"),
            words => format!("{head}{more}, {words}"),
        };
        let x = |row: &Row| row.at[over].parse::<f64>().ok();
        let mut all = Vec::new();
        for (i, (words, rows)) in lines.iter().enumerate() {
            let ours = rows
                .iter()
                .filter_map(|row| Some((x(row)?, row.cells[column].as_ref()?.median)));
            let theirs = rows
                .iter()
                .filter_map(|row| Some((x(row)?, row.published[column]?)));
            let both = [
                ("", ours.collect::<Vec<_>>(), false),
                (", published", theirs.collect(), true),
            ];
            for (more, mut points, dashed) in both {
                points.sort_by(|a, b| a.0.total_cmp(&b.0));
                if !points.is_empty() {
                    all.push(Series {
                        name: named(words, more),
                        points,
                        colour: first + i,
                        dashed,
                    });
                }
            }
        }
        all
    }

    /// Whether an axis has more than one value.
    fn varies(&self, axis: &str) -> bool {
        let at = self.table.axes.iter().position(|name| name == axis);
        let values: BTreeSet<&String> = (self.table.rows.iter())
            .filter_map(|row| row.at.get(at?))
            .collect();
        values.len() > 1
    }
}

/// Letters that any file's name may have.
fn plain(text: &str) -> String {
    let letters = text.to_lowercase();
    let letters = letters
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { ' ' });
    let letters: String = letters.collect();
    letters.split_whitespace().collect::<Vec<_>>().join("-")
}
