//! Models read from TOML, with the lines they were read from.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::{Spanned, Table, Value};

use super::spec::{LayerSpec, Spec};
use crate::{Error, Result};

const HINT: &str = "see `phalanx help model show` for the layers and their fields";

/// The file that a model was read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) path: PathBuf,
    /// The line that each layer begins on, from 1.
    pub(super) lines: Vec<usize>,
}

/// What is wrong, and on which line.
struct Problem {
    line: usize,
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: Spanned<String>,
    layer: Vec<Spanned<Fields>>,
}

/// Fields of a layer. They are made into a layer one table at a time: read in one go, what is wrong in any layer would
/// be reported on the line of the first.
type Fields = BTreeMap<Spanned<String>, Value>;

impl Spec {
    /// Reads a TOML file; what is wrong in it is named with its line.
    pub fn read(path: &Path) -> Result<Self> {
        let text = crate::files::read_text(path)?;
        let (mut spec, lines) = parse(&text).map_err(|problem| Error::Line {
            path: path.to_path_buf(),
            line: problem.line,
            problem: problem.text,
            hint: HINT,
        })?;
        let path = path.to_path_buf();
        spec.origin = Some(Origin { path, lines });
        Ok(spec)
    }

    /// As `read`, from text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (spec, _) =
            parse(text).map_err(|Problem { line, text }| format!("line {line}: {text}"))?;
        Ok(spec)
    }
}

fn parse(text: &str) -> Result<(Spec, Vec<usize>), Problem> {
    let line = |span: Range<usize>| 1 + text[..span.start].matches('\n').count();
    let problem = |span: Range<usize>, text: String| Problem {
        line: line(span),
        text,
    };
    let written: Written = toml::from_str(text).map_err(|error| {
        problem(
            error.span().unwrap_or_default(),
            error.message().trim().to_owned(),
        )
    })?;
    let (span, name) = (written.name.span(), written.name.into_inner());
    // The name becomes part of a folder's.
    let fine = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || !name.chars().all(fine) {
        let expected = format!("name `{name}`: expected letters, digits, - and _");
        return Err(problem(span, expected));
    }
    if written.layer.is_empty() {
        return Err(problem(span, "a model needs at least one layer".into()));
    }
    let (mut layers, mut lines) = (Vec::new(), Vec::new());
    for (i, fields) in written.layer.into_iter().enumerate() {
        lines.push(line(fields.span()));
        let made = layer(fields).map_err(|(kind, span, what)| {
            let kind = kind.map_or(String::new(), |kind| format!(" ({kind})"));
            problem(span, format!("layer {i}{kind}: {what}"))
        })?;
        layers.push(made);
    }
    let spec = Spec {
        name,
        layers,
        origin: None,
    };
    Ok((spec, lines))
}

/// The layer of these fields; or its kind, the place and the words of what is wrong.
fn layer(fields: Spanned<Fields>) -> Result<LayerSpec, (Option<String>, Range<usize>, String)> {
    let (whole, fields) = (fields.span(), fields.into_inner());
    let pairs = fields.iter().map(|(key, value)| (key.get_ref(), value));
    let table: Table = pairs
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let kind = table
        .get("kind")
        .and_then(|kind| kind.as_str().map(str::to_owned));
    match table.try_into::<LayerSpec>() {
        Ok(layer) => {
            // Kinds without fields take any, as far as serde is concerned.
            let known = Table::try_from(&layer).expect("a table of plain values");
            match fields
                .keys()
                .find(|key| !known.contains_key(key.get_ref().as_str()))
            {
                None => Ok(layer),
                Some(key) => Err((
                    kind,
                    key.span(),
                    format!("unknown field `{}`", key.get_ref()),
                )),
            }
        }
        Err(error) => {
            let what = error.message().trim().to_owned();
            // What is expected comes after what was found.
            let found = what.split(", expected").next().unwrap_or(&what);
            let guilty = fields.iter().find(|(key, value)| {
                let quoted = value.as_str().map(|value| format!("`{value}`"));
                let words = [
                    Some(format!("`{}`", key.get_ref())),
                    quoted,
                    Some(value.to_string()),
                ];
                words
                    .into_iter()
                    .flatten()
                    .any(|word| found.contains(&word))
            });
            let span = guilty.map_or(whole, |(key, _)| key.span());
            Err((kind, span, what))
        }
    }
}
