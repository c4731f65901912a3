//! The file that a study is.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use super::same;
use crate::{Error, Result};

/// A study, as its file has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// Its question, in a line.
    pub title: String,
    /// The table that it repeats, and what else there is to know.
    #[serde(default)]
    pub about: String,
    /// The words of every run: command, model and data.
    pub command: String,
    /// Commands of phalanx that are run once before, for the data.
    #[serde(default)]
    pub prepare: Vec<String>,
    /// Runs of each configuration, with as many seeds.
    #[serde(default = "one")]
    pub repeats: usize,
    /// Whether ranks may be more than cores: for studies of how ranks go together, not of how fast they are.
    #[serde(default)]
    pub oversubscribe: bool,
    /// Options that all runs have, by their long names.
    #[serde(default)]
    pub settings: toml::Table,
    /// Options that differ, each with its values: all with all. `ranks` is one of them.
    #[serde(default)]
    pub grid: toml::Table,
    /// Configurations one by one, in addition or in place of a grid; of one that has lists, every value with all others.
    #[serde(default)]
    pub runs: Vec<toml::Table>,
    /// What is told of each configuration.
    pub columns: Vec<Column>,
    /// What others have published of some of them.
    #[serde(default)]
    pub published: Vec<Published>,
    /// What `--full` replaces: settings, values of the grid, commands that prepare.
    #[serde(default)]
    pub full: Full,
    /// What is drawn.
    #[serde(default)]
    pub plots: Vec<Drawn>,
    /// What is drawn of each rank.
    #[serde(default)]
    pub shares: Vec<Share>,
    /// What is drawn over time.
    #[serde(default)]
    pub curves: Vec<Curve>,
}

/// A column of the table.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// Its head.
    pub name: String,
    /// The figure of a run that it shows, as `runs.csv` has them.
    pub figure: String,
    /// What the figure is multiplied by.
    #[serde(default = "unit")]
    pub times: f64,
    /// Values of the grid: the figure is divided by that of the configuration which has these, and is as this one otherwise.
    pub against: Option<toml::Table>,
}

/// Published figures of a configuration.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The values of the grid that it belongs to; those that are not named may be any.
    pub at: toml::Table,
    /// Figures, by the names of columns.
    pub figures: BTreeMap<String, f64>,
}

/// The full size of a study.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Full {
    /// In place of all those.
    pub prepare: Option<Vec<String>>,
    /// One by one.
    #[serde(default)]
    pub settings: toml::Table,
    /// Axis by axis.
    #[serde(default)]
    pub grid: toml::Table,
    /// In place of all those.
    pub runs: Option<Vec<toml::Table>>,
    /// In addition.
    #[serde(default)]
    pub published: Vec<Published>,
}

/// A plot of the study: columns over an axis.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drawn {
    /// The axis of the grid that goes to the right.
    pub over: String,
    /// The column that goes up.
    pub column: String,
    /// Another one, with a scale of its own on the right.
    pub second: Option<String>,
}

/// A plot of what each rank did: a bar for each configuration, made of its ranks.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// The column of `ranks.csv`.
    pub figure: String,
    /// What it is called.
    pub name: String,
}

/// A plot of how runs went: a line for each configuration, of its first run that ended well.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// The column of `metrics.csv` that goes up.
    pub figure: String,
    /// What it is called.
    pub name: String,
    /// The column that goes to the right.
    #[serde(default = "epoch")]
    pub over: String,
    /// The values of the grid that configurations have to be drawn; those that are not named may be any.
    #[serde(default)]
    pub at: toml::Table,
}

const HINT: &str = "studies/README.md says what a study has";

/// Reads a file that somebody wrote; what is wrong with it is told with its line, and what was likely meant.
pub fn read_toml<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T> {
    let text = crate::files::read_text(path)?;
    toml::from_str(&text).map_err(|error| {
        let problem = error.to_string();
        Error::file(
            path,
            format!("{}{}", problem.trim_end(), meant(&problem)),
            HINT,
        )
    })
}

/// What was likely meant by a key that is not known, from what the reader of TOML says of it.
fn meant(problem: &str) -> String {
    let Some(at) = problem.find("unknown field `") else {
        return String::new();
    };
    let mut names = problem[at..].split('`').skip(1).step_by(2);
    let unknown = names.next().unwrap_or_default();
    match nearest(unknown, names) {
        Some(name) => format!("\ndid you mean `{name}`?"),
        None => String::new(),
    }
}

/// The name that is most like `wrong`, if one is like it at all.
pub(super) fn nearest<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let alike = |name: &str| strsim::jaro_winkler(wrong, name);
    let best = names.max_by(|a, b| alike(a).total_cmp(&alike(b)))?;
    (alike(best) > 0.75).then_some(best)
}

fn one() -> usize {
    1
}

fn unit() -> f64 {
    1.0
}

fn epoch() -> String {
    "epoch".into()
}

impl Study {
    /// Reads a study; what is wrong with it is told with its line.
    pub fn read(path: &Path, full: bool) -> Result<Self> {
        let mut study: Self = read_toml(path)?;
        if full {
            study.enlarge();
        }
        study
            .checked()
            .map_err(|problem| Error::file(path, problem, HINT))
    }

    fn enlarge(&mut self) {
        let Full {
            prepare,
            settings,
            grid,
            runs,
            published,
        } = std::mem::take(&mut self.full);
        if let Some(prepare) = prepare {
            self.prepare = prepare;
        }
        self.settings.extend(settings);
        self.grid.extend(grid);
        self.runs = runs.unwrap_or(std::mem::take(&mut self.runs));
        self.published.extend(published);
    }

    /// The study, if it can be run as far as its file tells.
    fn checked(self) -> Result<Self, String> {
        if self.grid.is_empty() && self.runs.is_empty() {
            return Err("has neither a [grid] nor [[runs]]: there is nothing to compare".into());
        }
        for (axis, values) in &self.grid {
            match values.as_array() {
                None => return Err(format!("[grid] {axis} is not a list of values")),
                Some(values) if values.is_empty() => {
                    return Err(format!("[grid] {axis} has no values: the space is empty"));
                }
                _ => {}
            }
        }
        let mut lists = self.runs.iter().flatten();
        if let Some((axis, _)) =
            lists.find(|(_, value)| value.as_array().is_some_and(Vec::is_empty))
        {
            return Err(format!("[[runs]] {axis} has no values: the space is empty"));
        }
        if self.repeats == 0 {
            return Err("repeats is 0: each configuration is run once at least".into());
        }
        let columns: Vec<&str> = self.columns.iter().map(|c| c.name.as_str()).collect();
        if columns.is_empty() {
            return Err("has no [[columns]]: there is nothing to tell".into());
        }
        let drawn = self.plots.iter().flat_map(|plot| {
            let second = plot.second.as_ref();
            std::iter::once(&plot.column).chain(second)
        });
        let all = || self.published.iter().chain(&self.full.published);
        let published = all().flat_map(|one| one.figures.keys());
        for name in drawn.chain(published) {
            if !columns.contains(&name.as_str()) {
                let names = columns.join(", ");
                return Err(format!("`{name}` is not a column (there are: {names})"));
            }
        }
        let against = self
            .columns
            .iter()
            .filter_map(|column| column.against.as_ref());
        let curves = self.curves.iter().map(|curve| &curve.at);
        let places = against
            .clone()
            .chain(all().map(|one| &one.at))
            .chain(curves);
        let over = self.plots.iter().map(|plot| &plot.over);
        for axis in places.flat_map(toml::Table::keys).chain(over) {
            if self.values(axis).next().is_none() {
                return Err(format!("`{axis}` is not in [grid] nor in [[runs]]"));
            }
        }
        for (axis, value) in against.flatten() {
            let wanted = super::plan::text(value);
            if !self
                .values(axis)
                .any(|value| same(&super::plan::text(value), &wanted))
            {
                return Err(format!(
                    "no configuration has {axis} = {value} to be compared with"
                ));
            }
        }
        Ok(self)
    }

    /// The values that an axis has.
    fn values(&self, axis: &str) -> impl Iterator<Item = &toml::Value> {
        let grid = self.grid.get(axis).and_then(toml::Value::as_array);
        let runs = self.runs.iter().filter_map(move |run| run.get(axis));
        grid.into_iter().flatten().chain(runs.flat_map(values))
    }
}

/// A list's values, or the value itself.
pub(super) fn values(value: &toml::Value) -> &[toml::Value] {
    match value {
        toml::Value::Array(values) => values,
        value => std::slice::from_ref(value),
    }
}
