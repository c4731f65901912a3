//! What a run folder tells, whichever version wrote it and however far the run came.

use std::fs;
use std::path::{Path, PathBuf};

use super::super::Finding;
use super::sheet::Sheet;
use super::trace::{self, Overview};
use crate::{Error, Result, files};

/// All that a report shows of a run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The folder as it was given, which is the run's name.
    pub name: String,
    /// `settings.toml`.
    pub settings: toml::Table,
    /// `result.toml`; none if the run has not ended.
    pub result: Option<toml::Table>,
    /// `metrics.csv`, `ranks.csv` and `waits.csv`; empty if there is none.
    pub metrics: Sheet,
    /// See `metrics`.
    pub ranks: Sheet,
    /// See `metrics`.
    pub waits: Sheet,
    /// Each rank's `resources.csv`, where there is one.
    pub resources: Vec<(usize, Sheet)>,
    /// A part of `trace.json`, if there is one.
    pub trace: Option<Overview>,
}

impl Run {
    /// Reads a run folder; one without `settings.toml` is none.
    pub fn read(path: &Path) -> Result<Self> {
        let file = |name: &str| path.join(name);
        let settings = table(&file("settings.toml"))?.ok_or_else(|| {
            let hint = "give the folder that `phalanx train` wrote with --out, or below runs/";
            Error::file(path, "is no run folder: it has no settings.toml", hint)
        })?;
        Ok(Self {
            name: path.display().to_string(),
            settings,
            result: table(&file("result.toml"))?,
            metrics: Sheet::read(&file("metrics.csv"))?,
            ranks: Sheet::read(&file("ranks.csv"))?,
            waits: Sheet::read(&file("waits.csv"))?,
            resources: resources(path)?,
            trace: trace::overview(&file("trace.json"))?,
        })
    }

    /// What limited it; nothing if it has not ended or is older than verdicts.
    pub fn verdict(&self) -> Vec<Finding> {
        let found = self
            .result
            .as_ref()
            .and_then(|result| result.get("verdict"));
        let found = found.and_then(|found| found.clone().try_into().ok());
        found.unwrap_or_default()
    }

    /// A number of the result, by the names on the way to it.
    pub fn number(&self, names: &[&str]) -> Option<f64> {
        let mut at = self.result.as_ref()?.get(names[0])?;
        for name in &names[1..] {
            at = at.get(name)?;
        }
        number(at)
    }

    /// A setting as it was resolved, as text.
    pub fn setting(&self, name: &str) -> Option<String> {
        let resolved = self.settings.get("resolved").and_then(|all| all.get(name));
        resolved.or_else(|| self.settings.get(name)).map(words)
    }

    /// The set that was looked at: `test` or `validation`.
    pub fn watched(&self) -> &'static str {
        let has = |name: &str| self.metrics.columns.iter().any(|column| column == name);
        if has("validation_loss") {
            "validation"
        } else {
            "test"
        }
    }
}

/// A number, whole or not.
fn number(value: &toml::Value) -> Option<f64> {
    let whole = value.as_integer().map(|number| number as f64);
    value.as_float().or(whole)
}

/// A value as the user would write it.
pub(super) fn words(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Array(all) => all.iter().map(words).collect::<Vec<_>>().join(" "),
        toml::Value::Table(table) => {
            let pairs = table
                .iter()
                .map(|(name, value)| format!("{name} {}", words(value)));
            pairs.collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

/// A file of settings or results; nothing if it is not there.
fn table(path: &Path) -> Result<Option<toml::Table>> {
    if !path.exists() {
        return Ok(None);
    }
    let text = files::read_text(path)?;
    let table = text.parse();
    let hint = "it is damaged, or no run's";
    table
        .map(Some)
        .map_err(|error: toml::de::Error| Error::file(path, error.message(), hint))
}

/// Each rank's resources, in the order of ranks.
fn resources(run: &Path) -> Result<Vec<(usize, Sheet)>> {
    let mut found: Vec<(usize, PathBuf)> = fs::read_dir(run)
        .map_err(Error::io("read", run))?
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let rank = path
                .file_name()?
                .to_str()?
                .strip_prefix("rank-")?
                .parse()
                .ok()?;
            Some((rank, path.join("resources.csv")))
        })
        .collect();
    found.sort();
    let mut sheets = Vec::new();
    for (rank, path) in found {
        let sheet = Sheet::read(&path)?;
        if !sheet.rows.is_empty() {
            sheets.push((rank, sheet));
        }
    }
    Ok(sheets)
}
