//! What a study found: its table, and all of it on a page.

use std::collections::{BTreeMap, BTreeSet};

use super::study::nearest;
use super::{Column, Failure, Launcher, Plan, Row, Run, Study, Table, same};
use crate::Result;
use crate::observe::plot::{Plot, escape};
use crate::observe::{Section, gallery, grid, shell};
use crate::study::Middle;

/// What the records of all runs say.
pub struct Outcome<'a> {
    pub(super) study: &'a Study,
    pub(super) launcher: &'a Launcher,
    /// Every run with its figures, if it has ended well.
    pub(super) runs: Vec<(&'a Run, State)>,
    /// The table.
    pub table: Table,
}

/// What became of a run.
pub(super) enum State {
    Open,
    Done(BTreeMap<String, f64>),
    Failed(Failure),
}

impl<'a> Outcome<'a> {
    /// Reads what there is of a study.
    pub fn read(study: &'a Study, plan: &'a Plan, launcher: &'a Launcher) -> Result<Self> {
        let state = |run: &Run| {
            Ok(match launcher.record(run)? {
                None => State::Open,
                Some(record) => match record.failed {
                    Some(failure) => State::Failed(failure),
                    None => State::Done(record.figures),
                },
            })
        };
        let runs = plan.runs.iter().map(|run| Ok((run, state(run)?)));
        let runs: Vec<(&Run, State)> = runs.collect::<Result<_>>()?;
        let table = table(study, &runs);
        Ok(Self {
            study,
            launcher,
            runs,
            table,
        })
    }

    /// Runs that have not ended.
    pub fn open(&self) -> usize {
        let open = self
            .runs
            .iter()
            .filter(|(_, state)| matches!(state, State::Open));
        open.count()
    }

    /// Runs that failed, and how.
    pub fn failures(&self) -> Vec<(&Run, &Failure)> {
        let failed = self.runs.iter().filter_map(|(run, state)| match state {
            State::Failed(failure) => Some((*run, failure)),
            _ => None,
        });
        failed.collect()
    }

    /// Columns whose figure no run has that ended, with what might have been meant.
    pub fn unknown(&self) -> Vec<String> {
        let done: Vec<&BTreeMap<String, f64>> = self.done().collect();
        if done.is_empty() {
            return Vec::new();
        }
        let lacks = |column: &&Column| !done.iter().any(|run| run.contains_key(&column.figure));
        let names: BTreeSet<&str> = done
            .iter()
            .flat_map(|run| run.keys().map(String::as_str))
            .collect();
        let told = |column: &Column| {
            let like = nearest(&column.figure, names.iter().copied());
            let like = like.map(|name| format!(": did you mean `{name}`?"));
            format!(
                "no run has the figure `{}` of the column `{}`{}",
                column.figure,
                column.name,
                like.unwrap_or_else(|| "; runs.csv has all that there are".into())
            )
        };
        self.study.columns.iter().filter(lacks).map(told).collect()
    }

    pub(super) fn done(&self) -> impl Iterator<Item = &BTreeMap<String, f64>> {
        self.runs.iter().filter_map(|(_, state)| match state {
            State::Done(figures) => Some(figures),
            _ => None,
        })
    }

    /// Heads and rows of all runs with all their figures.
    pub fn all_runs(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let names: BTreeSet<&String> = self.done().flat_map(BTreeMap::keys).collect();
        let axes = &self.table.axes;
        let mut heads = vec!["run".to_owned()];
        heads.extend(axes.iter().cloned());
        heads.extend(["seed", "state"].map(Into::into));
        // A figure that is called as an axis is another thing.
        let head = |name: &&String| match axes.contains(name) {
            true => format!("result.{name}"),
            false => name.to_string(),
        };
        heads.extend(names.iter().map(head));
        let row = |(run, state): &(&Run, State)| {
            let value = |axis: &String| {
                let found = run.at.iter().find(|(name, _)| name == axis);
                found.map_or(String::new(), |(_, value)| value.clone())
            };
            let mut cells = vec![run.name.clone()];
            cells.extend(axes.iter().map(value));
            let word = match state {
                State::Open => "open",
                State::Done(_) => "done",
                State::Failed(_) => "failed",
            };
            cells.extend([run.seed.to_string(), word.into()]);
            cells.extend(names.iter().map(|name| match state {
                State::Done(figures) => figures.get(*name).map_or(String::new(), f64::to_string),
                _ => String::new(),
            }));
            cells
        };
        (heads, self.runs.iter().map(row).collect())
    }

    /// All of it on a page.
    pub fn page(&self, plots: &[Plot]) -> String {
        let (heads, rows) = self.table.words();
        let (all_heads, all_rows) = self.all_runs();
        let failures: String = (self.failures().iter())
            .map(|(run, failure)| {
                format!(
                    "<h3>{}</h3><pre class=\"scroll\" tabindex=\"0\">{}\n{}</pre>",
                    escape(&run.name),
                    escape(&failure.status),
                    escape(&failure.said)
                )
            })
            .collect();
        let failures = match failures.is_empty() {
            true => "<p>None.</p>".to_owned(),
            false => failures,
        };
        let note = "<p class=\"note\">Medians of the runs of a configuration; in brackets the interval that holds the true median in 19 of 20 such studies, as far as so few runs tell (resampled).</p>";
        let details = format!(
            "<details><summary>Every run with every figure</summary>{}</details>",
            grid("Every run with every figure", &all_heads, all_rows.iter())
        );
        let sections = [
            ("table", "Table", grid("Table", &heads, rows.iter()) + note),
            (
                "plots",
                "Plots",
                gallery(plots, "The study asks for none, or no run has ended."),
            ),
            ("failures", "Failures", failures),
            ("runs", "Runs", details),
        ];
        let sections = sections.map(Section::titled);
        let below = format!("<p class=\"sub\">{}</p>", escape(self.study.about.trim()));
        let source = "Every figure is from the runs' folders and records.";
        shell(
            "phalanx sweep",
            &self.study.title,
            &below,
            &sections,
            source,
        )
    }
}

/// A configuration with what became of its runs.
type Group<'a> = (&'a Vec<(String, String)>, Vec<&'a State>);

fn table(study: &Study, runs: &[(&Run, State)]) -> Table {
    let mut axes: Vec<String> = Vec::new();
    for (name, _) in runs.iter().flat_map(|(run, _)| &run.at) {
        if !axes.contains(name) {
            axes.push(name.clone());
        }
    }
    let mut groups: Vec<Group> = Vec::new();
    for (run, state) in runs {
        match groups.iter_mut().find(|(at, _)| **at == run.at) {
            Some((_, states)) => states.push(state),
            None => groups.push((&run.at, vec![state])),
        }
    }
    let value = |at: &[(String, String)], axis: &str| {
        let found = at.iter().find(|(name, _)| name == axis);
        found.map_or("default".into(), |(_, value)| value.clone())
    };
    let values = |states: &[&State], column: &Column| -> Vec<f64> {
        let figure = |state: &&State| match state {
            State::Done(figures) => figures
                .get(&column.figure)
                .map(|figure| figure * column.times),
            _ => None,
        };
        states.iter().filter_map(figure).collect()
    };
    let row = |(at, states): &Group| {
        let cell = |column: &Column| {
            let mut own = values(states, column);
            if let Some(against) = &column.against {
                let base = groups.iter().find(|(other, _)| {
                    axes.iter().all(|axis| {
                        let asked = against.get(axis).map(super::plan::text);
                        same(
                            &value(other, axis),
                            &asked.unwrap_or_else(|| value(at, axis)),
                        )
                    })
                });
                let base = base.and_then(|(_, states)| Middle::of(&values(states, column)));
                let by = base.map(|cell| cell.median).filter(|by| *by != 0.0)?;
                own.iter_mut().for_each(|figure| *figure /= by);
            }
            Middle::of(&own)
        };
        let published = |column: &Column| {
            let fits = |at_published: &toml::Table| {
                let mut pairs = at_published.iter();
                pairs.all(|(axis, wanted)| same(&value(at, axis), &super::plan::text(wanted)))
            };
            let found = study.published.iter().filter(|one| fits(&one.at));
            found
                .filter_map(|one| one.figures.get(&column.name))
                .next()
                .copied()
        };
        let failed = states
            .iter()
            .filter(|state| matches!(state, State::Failed(_)));
        let done = states
            .iter()
            .filter(|state| matches!(state, State::Done(_)));
        Row {
            at: axes.iter().map(|axis| value(at, axis)).collect(),
            cells: study.columns.iter().map(cell).collect(),
            published: study.columns.iter().map(published).collect(),
            runs: (done.count(), failed.count()),
        }
    };
    Table {
        columns: study
            .columns
            .iter()
            .map(|column| column.name.clone())
            .collect(),
        rows: groups.iter().map(row).collect(),
        axes: axes.clone(),
    }
}
