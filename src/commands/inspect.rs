//! `phalanx inspect`: the largest weights of a sparse model, by name where the import kept names.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::data::rows::RowSet;
use crate::observe::{say, table};
use crate::sparse::Model;
use crate::train::{MODEL, RunFolder};
use crate::{Error, Result};

/// What to show.
pub struct Settings {
    /// The run folder.
    pub run: PathBuf,
    /// How many weights of each sign.
    pub top: usize,
    /// The set that has the names; without, the one that was trained on.
    pub data: Option<PathBuf>,
    /// Whether to print JSON.
    pub json: bool,
}

/// Reads the run and prints.
pub fn run(settings: &Settings) -> Result<()> {
    let folder = RunFolder::open(&settings.run)?;
    let model = Model::load(&folder.file(MODEL))?;
    let (names, source) = names(settings, &folder, &model)?;
    let mut order: Vec<usize> = (0..model.weights.len()).collect();
    order.sort_by(|&a, &b| model.weights[b].total_cmp(&model.weights[a]));
    let positive = order.iter().filter(|&&i| model.weights[i] > 0.0);
    let negative = order.iter().rev().filter(|&&i| model.weights[i] < 0.0);
    let [up, down]: [Vec<usize>; 2] = [
        positive.take(settings.top).copied().collect(),
        negative.take(settings.top).copied().collect(),
    ];
    let name = |i: usize| names.get(&model.indices[i]).cloned();
    if settings.json {
        let one = |&i: &usize| serde_json::json!({"feature": model.indices[i], "name": name(i), "weight": model.weights[i]});
        let line = serde_json::json!({
            "run": settings.run, "features": model.features, "nonzero": model.weights.len(), "bias": model.bias,
            "positive": up.iter().map(one).collect::<Vec<_>>(), "negative": down.iter().map(one).collect::<Vec<_>>(),
        });
        say(&line.to_string());
        return Ok(());
    }
    let squares = model.weights.iter().map(|&w| f64::from(w) * f64::from(w));
    let rows = [
        ("features", model.features.to_string()),
        ("not zero", model.weights.len().to_string()),
        ("bias", format!("{:.4}", model.bias)),
        ("norm", format!("{:.4}", squares.sum::<f64>().sqrt())),
        ("names", source),
    ];
    say(&table(&settings.run.display().to_string(), &rows));
    for (title, chosen) in [("largest weights", &up), ("smallest weights", &down)] {
        let row = |&i: &usize| {
            let number = model.indices[i].to_string();
            let words = name(i).map_or(String::new(), |name| format!("  {name}"));
            (number, format!("{:>10.4}{words}", model.weights[i]))
        };
        say(&table(title, &chosen.iter().map(row).collect::<Vec<_>>()));
    }
    Ok(())
}

/// What features are called, and where that is from.
fn names(
    settings: &Settings,
    folder: &RunFolder,
    model: &Model,
) -> Result<(HashMap<u32, String>, String)> {
    let path = match &settings.data {
        Some(path) => path.clone(),
        None => trained_on(folder)?,
    };
    let set = match (RowSet::open(&path), &settings.data) {
        (Ok(set), _) => set,
        (Err(error), Some(_)) => return Err(error),
        (Err(_), None) => {
            let words = format!(
                "none: {} is not there any more; give --data",
                path.display()
            );
            return Ok((HashMap::new(), words));
        }
    };
    model.fits(&set)?;
    let names = set.names()?;
    let words = match names.len() {
        0 => format!("none kept in {}; import with --names", path.display()),
        count => format!("{count} kept in {}", path.display()),
    };
    Ok((names, words))
}

/// The set that `settings.toml` names.
fn trained_on(folder: &RunFolder) -> Result<PathBuf> {
    let path = folder.file("settings.toml");
    let text = crate::files::read_text(&path)?;
    let hint = "give the set with --data";
    let table: toml::Table = text
        .parse()
        .map_err(|error: toml::de::Error| Error::file(&path, error.message().to_owned(), hint))?;
    let data = table
        .get("resolved")
        .and_then(|resolved| resolved.get("data"));
    let data = data.and_then(|data| data.as_str());
    data.map(PathBuf::from)
        .ok_or_else(|| Error::file(&path, "does not say what was trained on", hint))
}
