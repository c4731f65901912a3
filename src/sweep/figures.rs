//! What a run has to tell: numbers by name.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::{Error, Result};

/// What a run has to tell: numbers of `result.toml` in its folder or of what it `printed`, by their paths with points between;
/// `seconds_per_step`; and of each column of `ranks.csv` and of all `resources.csv` the sum, the mean, the least and the most.
pub fn figures(
    printed: Option<&serde_json::Value>,
    folder: &Path,
) -> Result<BTreeMap<String, f64>> {
    let mut found = BTreeMap::new();
    if let Some(printed) = printed {
        flatten("", &as_toml(printed), &mut found);
    }
    let read = |name: &str| {
        let path = folder.join(name);
        match path.exists() {
            true => fs::read_to_string(&path)
                .map(Some)
                .map_err(Error::io("read", &path)),
            false => Ok(None),
        }
    };
    let damaged = |name: &str, error: &dyn std::fmt::Display| {
        let hint = "remove the run's folder to have it run again";
        Error::file(folder.join(name), error.to_string(), hint)
    };
    if let Some(text) = read("result.toml")? {
        let table: toml::Table = text
            .parse()
            .map_err(|error| damaged("result.toml", &error))?;
        flatten("", &toml::Value::Table(table), &mut found);
    }
    if let (Some(seconds), Some(steps)) = (found.get("seconds"), found.get("steps")) {
        let each = seconds / steps.max(1.0);
        found.insert("seconds_per_step".into(), each);
    }
    if let Some(text) = read("ranks.csv")? {
        columns(&text)
            .into_iter()
            .for_each(|(name, values)| sum_up(&format!("ranks.{name}"), &values, &mut found));
    }
    let mut all: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for rank in 0.. {
        let name = format!("rank-{rank:05}/resources.csv");
        let Some(text) = read(&name)? else {
            break;
        };
        for (name, values) in columns(&text) {
            all.entry(name).or_default().extend(values);
        }
    }
    for (name, values) in all {
        sum_up(&format!("resources.{name}"), &values, &mut found);
    }
    Ok(found)
}

fn sum_up(name: &str, values: &[f64], to: &mut BTreeMap<String, f64>) {
    let sum: f64 = values.iter().sum();
    let least = values.iter().copied().fold(f64::MAX, f64::min);
    let most = values.iter().copied().fold(f64::MIN, f64::max);
    let figures = [
        ("sum", sum),
        ("mean", sum / values.len() as f64),
        ("min", least),
        ("max", most),
    ];
    to.extend(figures.map(|(what, figure)| (format!("{name}.{what}"), figure)));
}

/// JSON as TOML has it, as far as numbers go: words stand for all else.
fn as_toml(value: &serde_json::Value) -> toml::Value {
    use serde_json::Value;
    match value {
        Value::Number(number) => toml::Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        Value::Array(values) => toml::Value::Array(values.iter().map(as_toml).collect()),
        Value::Object(fields) => {
            let fields = fields.iter();
            toml::Value::Table(
                fields
                    .map(|(name, value)| (name.clone(), as_toml(value)))
                    .collect(),
            )
        }
        other => toml::Value::String(other.to_string()),
    }
}

fn flatten(before: &str, value: &toml::Value, to: &mut BTreeMap<String, f64>) {
    let path = |name: &str| match before {
        "" => name.to_owned(),
        _ => format!("{before}.{name}"),
    };
    match value {
        toml::Value::Integer(number) => {
            to.insert(before.to_owned(), *number as f64);
        }
        toml::Value::Float(number) => {
            to.insert(before.to_owned(), *number);
        }
        toml::Value::Table(fields) => {
            for (name, value) in fields {
                flatten(&path(name), value, to);
            }
        }
        toml::Value::Array(values) => {
            for (i, value) in values.iter().enumerate() {
                flatten(&path(&i.to_string()), value, to);
            }
        }
        _ => {}
    }
}

/// The numbers of two columns of a CSV file, row by row where both are there; none where there is no such file.
pub(super) fn pairs(path: &Path, (x, y): (&str, &str)) -> Result<Vec<(f64, f64)>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(path).map_err(Error::io("read", path))?;
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let heads = reader.headers().cloned().unwrap_or_default();
    let place = |name: &str| heads.iter().position(|head| head == name);
    let (Some(x), Some(y)) = (place(x), place(y)) else {
        return Ok(Vec::new());
    };
    let pair = |row: csv::StringRecord| {
        let cell = |at: usize| row.get(at)?.parse().ok();
        Some((cell(x)?, cell(y)?))
    };
    Ok(reader.records().flatten().filter_map(pair).collect())
}

/// The columns of a CSV text that have numbers, without empty cells.
fn columns(text: &str) -> BTreeMap<String, Vec<f64>> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let heads = reader.headers().cloned().unwrap_or_default();
    let mut found: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for row in reader.records().flatten() {
        for (head, cell) in heads.iter().zip(&row) {
            if let Ok(number) = cell.parse() {
                found.entry(head.to_owned()).or_default().push(number);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_wherever_a_run_writes_them() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put(
            "result.toml",
            "seconds = 2.5\nsteps = 10\ndevice = \"cpu\"\nloss = nan\n[test]\nauc = 0.9\n",
        );
        put("ranks.csv", "rank,steps,host\n0,10,a\n1,12,a\n");
        put(
            "rank-00000/resources.csv",
            "seconds,cpu_percent,gpu_percent\n1,90,\n2,100,\n",
        );
        put("rank-00001/resources.csv", "seconds,cpu_percent\n1,50\n");
        let found = figures(None, folder.path()).unwrap();
        assert_eq!(found["seconds"], 2.5);
        assert_eq!(found["seconds_per_step"], 0.25);
        assert_eq!(found["test.auc"], 0.9);
        // A model that diverged has a loss to tell all the same.
        assert!(found["loss"].is_nan());
        let steps = pairs(&folder.path().join("ranks.csv"), ("rank", "steps")).unwrap();
        assert_eq!(steps, [(0.0, 10.0), (1.0, 12.0)]);
        let hosts = pairs(&folder.path().join("ranks.csv"), ("rank", "host")).unwrap();
        assert_eq!(hosts, []);
        assert_eq!(found["ranks.steps.sum"], 22.0);
        assert_eq!(found["resources.cpu_percent.mean"], 80.0);
        assert_eq!(found["resources.cpu_percent.max"], 100.0);
        assert!(!found.contains_key("device") && !found.contains_key("resources.gpu_percent.mean"));
        put("result.toml", "seconds = = 2");
        let error = figures(None, folder.path()).unwrap_err().to_string();
        assert!(error.contains("result.toml"), "{error}");
        // What commands print that have no folder.
        let printed =
            serde_json::json!({"trace": 1.5, "by": [{"rank": 0, "tiles": 3}], "bound": null});
        let found = figures(Some(&printed), &folder.path().join("none")).unwrap();
        assert_eq!([found["trace"], found["by.0.tiles"]], [1.5, 3.0]);
    }
}
