//! What each column of a table is for, and how that is decided.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Fields, understood};
use crate::data::text::features::Numeric;
use crate::data::text::numbers::{long_real, shown};
use crate::data::text::pieces::head;
use crate::data::text::plain;
use crate::{Error, Result};

/// Lines that are looked at to tell numbers from categories.
const SAMPLE: usize = 1000;
/// A column of numbers with more different ones than this is no column of categories.
const FEW: usize = 10;

/// How to read a table.
#[derive(Clone, Debug)]
pub struct Options {
    /// Features to hash into.
    pub features: usize,
    /// What becomes of numbers.
    pub numeric: Numeric,
    /// Columns of numbers, by name or number; without, a look at the first lines decides.
    pub numeric_columns: Option<Vec<String>>,
    /// The column of labels, by name or number; without, the last.
    pub label: Option<String>,
    /// The label that means 1.
    pub positive: Option<String>,
    /// Columns to leave out, by name or number.
    pub drop: Vec<String>,
}

/// What a column is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It holds the label.
    Label,
    /// Each different text in it is a feature.
    Category,
    /// It holds numbers.
    Number,
    /// It is left out.
    Dropped,
}

/// How the lines of a table became rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scheme {
    /// What became of numbers.
    pub numeric: Numeric,
    /// The label that means 1, if one was given.
    pub positive: Option<String>,
    /// Name and role of each column.
    pub columns: Vec<(String, Role)>,
}

impl Scheme {
    /// The names of the columns of one role.
    pub fn named(&self, role: Role) -> Vec<&str> {
        let columns = self.columns.iter().filter(|column| column.1 == role);
        columns.map(|column| column.0.as_str()).collect()
    }

    /// Decides what columns are for, from the options and the first lines of a file.
    pub(in crate::data::text) fn decide(
        path: &Path,
        layout: (bool, u8),
        options: &Options,
        skip_bad: bool,
    ) -> Result<Self> {
        let (names, samples) = look(path, layout)?;
        let mut columns: Vec<_> = names
            .into_iter()
            .map(|name| (name, Role::Category))
            .collect();
        let label = match &options.label {
            Some(label) => find(&columns, label)?,
            None => columns.len() - 1,
        };
        for dropped in &options.drop {
            let at = find(&columns, dropped)?;
            columns[at].1 = Role::Dropped;
        }
        if columns[label].1 == Role::Dropped {
            let name = &columns[label].0;
            let problem = format!("column `{name}` has the labels: it cannot be left out");
            return Err(Error::Usage(problem));
        }
        columns[label].1 = Role::Label;
        match &options.numeric_columns {
            Some(names) => choose(&mut columns, names)?,
            None => columns
                .iter_mut()
                .zip(&samples)
                .filter(|(column, sample)| column.1 == Role::Category && sample.numeric())
                .for_each(|(column, _)| column.1 = Role::Number),
        }
        let scheme = Self {
            numeric: options.numeric,
            positive: options.positive.clone(),
            columns,
        };
        scheme.check_labels(path, &samples[label], skip_bad)?;
        Ok(scheme)
    }

    /// Refuses labels that nobody can understand before anything is read, and says which there are.
    fn check_labels(&self, path: &Path, sample: &Sample, skip_bad: bool) -> Result<()> {
        let labels = &sample.labels;
        let mut known = labels.iter().map(|text| understood(text).is_some());
        let good = match skip_bad {
            true => known.any(|known| known),
            false => known.all(|known| known),
        };
        if self.positive.is_some() || good || labels.is_empty() {
            return Ok(());
        }
        let list: Vec<_> = labels.iter().map(|text| shown(text)).collect();
        let column = self.named(Role::Label).join("");
        let problem = format!(
            "has labels {} in column `{column}`, expected two such as 0 and 1, yes and no",
            list.join(", ")
        );
        let hint = "--positive VALUE names the label that means 1, --label COLUMN another column";
        Err(Error::file(path, problem, hint))
    }
}

/// The names of the columns, and what the first lines show of them.
fn look(path: &Path, (header, separator): (bool, u8)) -> Result<(Vec<String>, Vec<Sample>)> {
    let bad = |problem: String| {
        let hint =
            "--separator tells what is between columns, --no-header that line 1 is a row already";
        Error::file(path, problem, hint)
    };
    let mut fields = Fields::new(separator);
    let lines = head(path, SAMPLE + 1)?;
    let first = plain(&lines[0], true);
    if first.is_empty() {
        return Err(bad("has nothing in line 1".into()));
    }
    let count = fields.cut(first).map_err(bad)?;
    let name = |i| match fields.get(first, i) {
        name if header && !name.is_empty() => String::from_utf8_lossy(name).into_owned(),
        _ => (i + 1).to_string(),
    };
    let names: Vec<String> = (0..count).map(name).collect();
    let mut seen = HashSet::new();
    if let Some(name) = names.iter().find(|name| !seen.insert(name.as_str())) {
        return Err(bad(format!("has two columns called `{name}`")));
    }
    let mut samples: Vec<_> = names.iter().map(|_| Sample::default()).collect();
    for (i, line) in lines.iter().enumerate().skip(header.into()) {
        let line = plain(line, i == 0);
        if line.is_empty() || fields.cut(line) != Ok(count) {
            continue;
        }
        for (i, sample) in samples.iter_mut().enumerate() {
            sample.see(fields.get(line, i));
        }
    }
    Ok((names, samples))
}

/// Makes columns those of numbers that the user named.
fn choose(columns: &mut [(String, Role)], names: &[String]) -> Result<()> {
    for name in names {
        let at = find(columns, name)?;
        if !matches!(columns[at].1, Role::Category | Role::Number) {
            return Err(Error::Usage(format!(
                "column `{name}` cannot be one of numbers: it has the labels or is left out"
            )));
        }
        columns[at].1 = Role::Number;
    }
    Ok(())
}

/// What the first lines show of a column.
#[derive(Default)]
struct Sample {
    text: bool,
    different: HashSet<Vec<u8>>,
    labels: BTreeSet<Vec<u8>>,
}

impl Sample {
    fn see(&mut self, field: &[u8]) {
        if self.labels.len() < FEW && !self.labels.contains(field) {
            self.labels.insert(field.to_vec());
        }
        if field.is_empty() {
            return;
        }
        self.text |= long_real(field).is_none();
        if self.different.len() <= FEW && !self.different.contains(field) {
            self.different.insert(field.to_vec());
        }
    }

    /// Whether it is one of numbers, and not of categories that are written as numbers.
    fn numeric(&self) -> bool {
        !self.text && self.different.len() > FEW
    }
}

/// The place of a column that the user named or numbered.
fn find(columns: &[(String, Role)], wanted: &str) -> Result<usize> {
    if let Some(at) = columns.iter().position(|(name, _)| name == wanted) {
        return Ok(at);
    }
    match wanted.parse::<usize>() {
        Ok(number) if (1..=columns.len()).contains(&number) => Ok(number - 1),
        _ => {
            let names: Vec<_> = columns.iter().map(|(name, _)| name.as_str()).collect();
            Err(Error::Usage(format!(
                "there is no column `{wanted}`: there are {}",
                names.join(", ")
            )))
        }
    }
}
