//! The file that a search is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Axis, Space, Value};
use crate::sweep::{Run, option, read_toml};
use crate::{Error, Result, cli};

/// A search, as its file has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// What is looked for, in a line.
    pub title: String,
    /// What else there is to know.
    #[serde(default)]
    pub about: String,
    /// The words of every trial: command, model and data.
    pub command: String,
    /// Commands of phalanx that are run once before, for the data.
    #[serde(default)]
    pub prepare: Vec<String>,
    /// Whether ranks may be more than cores.
    #[serde(default)]
    pub oversubscribe: bool,
    /// Options that all trials have: a short run, such as `steps = 200`.
    #[serde(default)]
    pub settings: toml::Table,
    /// What may be chosen: options with their values, `ranks`, `nodes`, and `instance` for a kind of machine.
    pub space: toml::Table,
    /// What a trial is judged by.
    pub measure: Measure,
    /// A file of kinds of machines with their prices that several searches share; its place is beside this one.
    pub prices: Option<PathBuf>,
    /// Kinds of machines, by the names that `instance` has in the space: those of `prices`, and others in addition or in their place.
    #[serde(default)]
    pub instances: BTreeMap<String, Instance>,
    /// Options of the run that goes on from the best trial's checkpoint, such as `steps = 5000`.
    pub winner: Option<toml::Table>,
}

/// What a trial is judged by.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// The figure of a run that is its time, or its speed.
    pub figure: String,
    /// Whether more of it is better: then it is a speed, and the time is one over it.
    #[serde(default)]
    pub speed: bool,
    /// Whether the least cost is looked for, time by price, in place of the least time.
    #[serde(default)]
    pub cost: bool,
    /// The longest time, in the figure's own unit, or the least speed, that a configuration may have.
    pub limit: Option<f64>,
}

impl Measure {
    /// The time that a figure means.
    pub fn time(&self, figure: f64) -> f64 {
        if self.speed { 1.0 / figure } else { figure }
    }
}

/// A kind of machine.
#[derive(Clone, Debug, Deserialize)]
pub struct Instance {
    /// What an hour of a node costs.
    pub price: f64,
    /// What it is chosen with: ranks, nodes, or options.
    #[serde(flatten)]
    pub with: toml::Table,
}

/// The axis that names a kind of machine.
const INSTANCE: &str = "instance";

impl Task {
    /// Reads a task.
    pub fn read(path: &Path) -> Result<Self> {
        let mut task: Self = read_toml(path)?;
        if let Some(prices) = &task.prices {
            let beside = path.parent().unwrap_or(Path::new(""));
            let mut all: BTreeMap<String, Instance> = read_toml(&beside.join(prices))?;
            all.append(&mut task.instances);
            task.instances = all;
        }
        task.checked().map_err(|problem| {
            Error::file(path, problem, "studies/README.md says what a search has")
        })
    }

    fn checked(self) -> Result<Self, String> {
        if self.space.is_empty() {
            return Err("[space] is empty: there is nothing to choose".into());
        }
        for (axis, values) in &self.space {
            match values.as_array() {
                None => return Err(format!("[space] {axis} is not a list of values")),
                Some(values) if values.is_empty() => {
                    return Err(format!("[space] {axis} has no values: the space is empty"));
                }
                _ => {}
            }
        }
        let chosen = self.space.get(INSTANCE).and_then(toml::Value::as_array);
        for name in chosen.into_iter().flatten() {
            let known = name
                .as_str()
                .is_some_and(|name| self.instances.contains_key(name));
            if !known {
                let all: Vec<&str> = self.instances.keys().map(String::as_str).collect();
                return Err(format!(
                    "[space] instance {name} has no [instances.{name}] (there are: {})",
                    all.join(", ")
                ));
            }
        }
        if self.measure.cost && chosen.is_none() {
            return Err("measure.cost needs `instance` in [space], with prices".into());
        }
        if let Some((name, _)) = self
            .instances
            .iter()
            .find(|(_, one)| one.price.is_nan() || one.price <= 0.0)
        {
            return Err(format!("[instances.{name}] has no price above 0"));
        }
        if self
            .measure
            .limit
            .is_some_and(|limit| limit.is_nan() || limit <= 0.0)
        {
            return Err("measure.limit is not above 0".into());
        }
        Ok(self)
    }

    /// All configurations.
    pub fn space(&self) -> Space {
        let axes = self.space.iter().map(|(name, values)| Axis {
            name: name.clone(),
            values: (values.as_array().into_iter().flatten())
                .map(value)
                .collect(),
        });
        Space {
            axes: axes.collect(),
        }
    }

    /// What an hour of each configuration costs, where that counts.
    pub fn prices(&self, space: &Space) -> Option<Vec<f64>> {
        let price = |index: usize| {
            let at = self.at(space, index);
            let nodes = at.iter().rev().find(|(name, _)| name == "nodes");
            let nodes = nodes.map(|(_, nodes)| nodes);
            let nodes = nodes.or_else(|| self.settings.get("nodes"));
            let nodes = nodes.and_then(toml::Value::as_integer).unwrap_or(1);
            let instance = self.instance(space, index);
            instance.map_or(1.0, |instance| instance.price * nodes as f64)
        };
        self.measure
            .cost
            .then(|| (0..space.len()).map(price).collect())
    }

    fn instance(&self, space: &Space, index: usize) -> Option<&Instance> {
        let at = space.axes.iter().position(|axis| axis.name == INSTANCE)?;
        self.instances.get(&space.values(index)[at].to_string())
    }

    /// The options of configuration `index`: those of its kind of machine, and those that are chosen.
    fn at(&self, space: &Space, index: usize) -> Vec<(String, toml::Value)> {
        let with = self
            .instance(space, index)
            .into_iter()
            .flat_map(|one| &one.with);
        let mut at: Vec<(String, toml::Value)> = with
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        for ((name, values), chosen) in self.space.iter().zip(space.indices(index)) {
            if name != INSTANCE {
                at.retain(|(other, _)| other != name);
                at.push((name.clone(), values[chosen].clone()));
            }
        }
        at
    }

    /// The words that have a trial go on from its checkpoint, if the best one is to; options that cannot be are refused.
    pub fn goes_on(&self, data: &Path) -> Result<Option<Vec<String>>> {
        let Some(winner) = &self.winner else {
            return Ok(None);
        };
        let mut words = Vec::new();
        for (name, value) in winner {
            option(name, value, data, &mut words)?;
        }
        let mut whole = crate::sweep::split(&self.command, data);
        whole.extend(words.iter().cloned());
        cli::command(&whole).map_err(|error| Error::Usage(format!("[winner]: {error}")))?;
        Ok(Some(words))
    }

    /// The trial of configuration `index`.
    pub fn trial(&self, space: &Space, index: usize, data: &Path) -> Result<Run> {
        let mut settings = self.settings.clone();
        // The winner goes on from the end of its trial.
        if self.winner.is_some() && !settings.contains_key("checkpoint-every") {
            settings.insert("checkpoint-every".into(), "10m".into());
        }
        let run = Run::new((&self.command, &settings), &self.at(space, index), 1, data)?;
        let shown = space.axes.iter().zip(space.values(index));
        let shown = shown.map(|(axis, value)| (axis.name.clone(), value.to_string()));
        Ok(run.called(shown.collect()))
    }
}

fn value(value: &toml::Value) -> Value {
    match value {
        toml::Value::Integer(number) => Value::Number(*number as f64),
        toml::Value::Float(number) => Value::Number(*number),
        toml::Value::String(word) => Value::Word(word.clone()),
        other => Value::Word(other.to_string()),
    }
}
