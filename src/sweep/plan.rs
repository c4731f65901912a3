//! What a study runs: one command line after the other, in an order that is drawn.

use std::path::Path;

use super::Study;
use crate::rng::Stream;
use crate::{Error, Result, cli};

/// A run of a study.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// The configuration: names of options and their values, in the order of the file.
    pub at: Vec<(String, String)>,
    /// Ranks that it is started on, and the nodes that they are spread over.
    pub ranks: usize,
    /// See `ranks`.
    pub nodes: usize,
    /// Its seed.
    pub seed: u64,
    /// The words behind the program's name, without those of the folder.
    pub words: Vec<String>,
    /// What its files are called.
    pub name: String,
}

impl Run {
    /// The run of a command with these settings and those of a configuration; its command line is understood, and its files are called by
    /// the configuration.
    pub fn new(
        (command, settings): (&str, &toml::Table),
        at: &[(String, toml::Value)],
        seed: u64,
        data: &Path,
    ) -> Result<Self> {
        let (mut ranks, mut nodes) = (1, 1);
        let mut words = split(command, data);
        let shared = settings.iter();
        let shared = shared.filter(|(name, _)| !at.iter().any(|(own, _)| own == *name));
        let own = at.iter().map(|(name, value)| (name, value));
        let all: Vec<(&String, &toml::Value)> = shared.chain(own).collect();
        for &(name, value) in &all {
            match name.as_str() {
                "ranks" => ranks = count(name, value)?,
                "nodes" => nodes = count(name, value)?,
                name => option(name, value, data, &mut words)?,
            }
        }
        let is_train = words.first().is_some_and(|word| word == "train");
        if is_train && !all.iter().any(|(name, _)| *name == "seed") {
            words.extend(["--seed".into(), seed.to_string()]);
        }
        let shown = at.iter().map(|(name, value)| (name.clone(), text(value)));
        let at: Vec<(String, String)> = shown.collect();
        let name = name(&at, seed);
        let run = Self {
            at,
            ranks,
            nodes,
            seed,
            words,
            name,
        };
        let all = [&run.words[..], &run.more("run")].concat();
        match cli::command(&all) {
            Ok(_) if nodes <= ranks => Ok(run),
            Ok(_) => Err(Error::Usage(format!(
                "{}: {nodes} nodes for {ranks} ranks",
                run.words_at()
            ))),
            Err(error) => Err(Error::Usage(format!("{}: {error}", run.words_at()))),
        }
    }

    /// The same run, told by another configuration, by which its files are called too.
    pub fn called(mut self, at: Vec<(String, String)>) -> Self {
        self.name = name(&at, self.seed);
        self.at = at;
        self
    }

    /// The words behind its own that say where it goes.
    pub(super) fn more(&self, folder: &str) -> Vec<String> {
        match self.trains() {
            true => ["--out", folder, "--continue"].map(Into::into).to_vec(),
            false => vec!["--json".into()],
        }
    }

    /// Whether it trains, and so has a folder.
    pub fn trains(&self) -> bool {
        self.words.first().is_some_and(|word| word == "train")
    }

    /// The configuration in words.
    pub fn words_at(&self) -> String {
        let pairs = self
            .at
            .iter()
            .map(|(name, value)| format!("{name} {value}"));
        pairs.collect::<Vec<_>>().join(", ")
    }
}

/// All runs of a study.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is done once before: words behind the program's name.
    pub prepare: Vec<Vec<String>>,
    /// Configuration after configuration, each with all seeds.
    pub runs: Vec<Run>,
}

/// What stands in words for the folder with the user's data.
const DATA: &str = "{data}";

impl Plan {
    /// Plans a study, with the user's data in a folder; every command line is understood before any is run.
    pub fn new(study: &Study, data: &Path) -> Result<Self> {
        let mut all: Vec<Vec<(String, toml::Value)>> = Vec::new();
        if !study.grid.is_empty() {
            all.extend(grid(&study.grid));
        }
        all.extend(study.runs.iter().flat_map(grid));
        let mut runs = Vec::new();
        for at in &all {
            for seed in 1..=study.repeats as u64 {
                runs.push(Run::new((&study.command, &study.settings), at, seed, data)?);
            }
        }
        apart(&runs)?;
        Ok(Self {
            prepare: words(&study.prepare, data)?,
            runs,
        })
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
        all = all
            .into_iter()
            .flat_map(|before: Vec<(String, toml::Value)>| {
                let with = move |value: &toml::Value| {
                    let mut at = before.clone();
                    at.push((axis.clone(), value.clone()));
                    at
                };
                super::study::values(values).iter().map(with)
            })
            .collect();
    }
    all
}

/// Refuses runs whose files would be called alike.
pub fn apart(runs: &[Run]) -> Result<()> {
    let mut names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    names.sort_unstable();
    match names.windows(2).find(|two| two[0] == two[1]) {
        None => Ok(()),
        Some(twice) => {
            let name = twice[0];
            let problem = format!(
                "two configurations would be called {name}: give each value once, and none that differ in signs alone"
            );
            Err(Error::Usage(problem))
        }
    }
}

/// The words of commands of the program, with the user's data in a folder, if they are understood.
pub fn words(lines: &[String], data: &Path) -> Result<Vec<Vec<String>>> {
    let words = |line: &String| {
        let words = split(line, data);
        cli::command(&words).map_err(|error| Error::Usage(format!("prepare: {line}: {error}")))?;
        Ok(words)
    };
    lines.iter().map(words).collect()
}

/// The words of a line.
pub(crate) fn split(line: &str, data: &Path) -> Vec<String> {
    let words = line.split_whitespace();
    words.map(|word| filled(word, data)).collect()
}

fn filled(word: &str, data: &Path) -> String {
    word.replace(DATA, &data.display().to_string())
}

fn count(name: &str, value: &toml::Value) -> Result<usize> {
    let number = value.as_integer().filter(|&number| number > 0);
    let problem = || Error::Usage(format!("{name} = {value}: expected a whole number above 0"));
    number.map(|number| number as usize).ok_or_else(problem)
}

/// Adds an option: a flag for `true`, nothing for `false`, once for each of a list.
pub(crate) fn option(
    name: &str,
    value: &toml::Value,
    data: &Path,
    words: &mut Vec<String>,
) -> Result<()> {
    let flag = format!("--{name}");
    match value {
        toml::Value::Boolean(true) => words.push(flag),
        toml::Value::Boolean(false) => {}
        toml::Value::Array(values) => {
            for value in values {
                words.extend([flag.clone(), filled(&text(value), data)]);
            }
        }
        toml::Value::Table(_) => {
            return Err(Error::Usage(format!(
                "{name} is a table: an option has a value"
            )));
        }
        value => words.extend([flag, filled(&text(value), data)]),
    }
    Ok(())
}

/// Whether two values are the same: numbers by what they are, however they are written.
pub(crate) fn same(a: &str, b: &str) -> bool {
    match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}

/// A value as it is typed.
pub(super) fn text(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A name for files that tells the configuration.
fn name(at: &[(String, String)], seed: u64) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let clean = |text: &str| -> String {
        let letters = text.chars().map(|c| if plain(c) { c } else { '-' });
        letters.collect()
    };
    let parts = at
        .iter()
        .map(|(name, value)| format!("{}-{}", clean(name), clean(value)));
    let mut parts: Vec<String> = parts.collect();
    parts.push(format!("seed-{seed}"));
    parts.join("_")
}
