//! What a study runs: one command line after the other, in an order that is drawn.

use std::path::{Path, PathBuf};

use super::Study;
use crate::rng::Stream;
use crate::{Error, Result, cli};

/// A run of a study.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The configuration: names of options and their values, in the order of the file.
    pub at: Vec<(String, String)>,
    /// Ranks that it is started on.
    pub ranks: usize,
    /// Its seed.
    pub seed: u64,
    /// The words behind the program's name, without those of the folder.
    pub words: Vec<String>,
    /// Its folder in that of the study.
    pub folder: PathBuf,
}

/// All runs of a study.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Configuration after configuration, each with all seeds.
    pub runs: Vec<Run>,
}

impl Plan {
    /// Plans a study; every command line is understood before any is run.
    pub fn new(study: &Study) -> Result<Self> {
        let mut all: Vec<Vec<(String, toml::Value)>> = Vec::new();
        if !study.grid.is_empty() {
            all.extend(grid(&study.grid));
        }
        all.extend(study.runs.iter().map(|run| {
            let pairs = run.iter();
            pairs.map(|(name, value)| (name.clone(), value.clone())).collect()
        }));
        let mut runs = Vec::new();
        for at in &all {
            for seed in 1..=study.repeats as u64 {
                runs.push(planned(study, at, seed)?);
            }
        }
        let mut folders: Vec<&PathBuf> = runs.iter().map(|run| &run.folder).collect();
        folders.sort();
        if let Some(twice) = folders.windows(2).find(|two| two[0] == two[1]) {
            let name = twice[0].display();
            return Err(Error::Usage(format!("the study has {name} twice")));
        }
        Ok(Self { runs })
    }

    /// The order in which runs are started: drawn, so that what changes in an hour on a machine does not look like a trend.
    pub fn order(&self, seed: u64) -> Vec<usize> {
        let mut stream = Stream::new(&[seed, 0x6f72_6465]);
        let mut order: Vec<usize> = (0..self.runs.len()).collect();
        for i in (1..order.len()).rev() {
            order.swap(i, stream.below(i as u64 + 1) as usize);
        }
        order
    }
}

/// Every value of every axis with all others; the last axis goes fastest.
fn grid(axes: &toml::Table) -> Vec<Vec<(String, toml::Value)>> {
    let mut all = vec![Vec::new()];
    for (axis, values) in axes {
        let values = values.as_array().expect("checked when it was read");
        all = all
            .into_iter()
            .flat_map(|before: Vec<(String, toml::Value)>| {
                let with = move |value: &toml::Value| {
                    let mut at = before.clone();
                    at.push((axis.clone(), value.clone()));
                    at
                };
                values.iter().map(with)
            })
            .collect();
    }
    all
}

fn planned(study: &Study, at: &[(String, toml::Value)], seed: u64) -> Result<Run> {
    let mut ranks = 1;
    let mut words: Vec<String> = study.command.split_whitespace().map(Into::into).collect();
    let shared = study.settings.iter();
    let shared = shared.filter(|(name, _)| !at.iter().any(|(own, _)| own == *name));
    let own = at.iter().map(|(name, value)| (name, value));
    for (name, value) in shared.chain(own) {
        match name.as_str() {
            "ranks" => {
                let number = value.as_integer().filter(|&number| number > 0);
                let problem = || Error::Usage(format!("ranks = {value}: expected a whole number above 0"));
                ranks = number.ok_or_else(problem)? as usize;
            }
            name => option(name, value, &mut words)?,
        }
    }
    let is_train = words.first().is_some_and(|word| word == "train");
    if is_train {
        words.extend(["--seed".into(), seed.to_string()]);
    }
    let shown = at.iter().map(|(name, value)| (name.clone(), text(value)));
    let at: Vec<(String, String)> = shown.collect();
    cli::command(&words).map_err(|error| {
        let names: Vec<String> = at.iter().map(|(n, v)| format!("{n} = {v}")).collect();
        Error::Usage(format!("{}: {error}", names.join(", ")))
    })?;
    let folder = folder(&at, seed);
    Ok(Run {
        at,
        ranks,
        seed,
        words,
        folder,
    })
}

/// Adds an option: a flag for `true`, nothing for `false`, once for each of a list.
fn option(name: &str, value: &toml::Value, words: &mut Vec<String>) -> Result<()> {
    let flag = format!("--{name}");
    match value {
        toml::Value::Boolean(true) => words.push(flag),
        toml::Value::Boolean(false) => {}
        toml::Value::Array(values) => {
            for value in values {
                words.extend([flag.clone(), text(value)]);
            }
        }
        toml::Value::Table(_) => {
            return Err(Error::Usage(format!("{name} is a table: an option has a value")));
        }
        value => words.extend([flag, text(value)]),
    }
    Ok(())
}

/// A value as it is typed.
fn text(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A name for a folder that tells the configuration.
fn folder(at: &[(String, String)], seed: u64) -> PathBuf {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let clean = |text: &str| -> String {
        let letters = text.chars().map(|c| if plain(c) { c } else { '-' });
        letters.collect()
    };
    let parts = at.iter().map(|(name, value)| format!("{}-{}", clean(name), clean(value)));
    let mut parts: Vec<String> = parts.collect();
    parts.push(format!("seed-{seed}"));
    Path::new("runs").join(parts.join("_"))
}
