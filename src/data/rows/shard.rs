//! One file of a set of rows.

use std::path::{Path, PathBuf};

use super::mapped::{Mapped, map};
use super::odd::Odd;
use super::set::About;
use super::{Block, FORMAT, MOST_FEATURES, Row, VERSION};
use crate::h5::{Element, File};
use crate::{Error, Result};

const HINT: &str = "see data/README.md for the format";

/// A shard open for reading.
pub(super) struct Shard {
    pub(super) path: PathBuf,
    /// Number of its first row in the whole set.
    pub(super) first: usize,
    indptr: Mapped<u64>,
    indices: Mapped<u32>,
    values: Values,
    labels: Mapped<u8>,
}

/// The values of features.
enum Values {
    /// All are 1.
    Ones,
    /// All are stored.
    All(Mapped<f32>),
    /// Most are 1.
    Few(Odd),
}

impl Shard {
    /// Opens a file; shapes, labels and the borders of rows are checked, features and values when they are used.
    pub(super) fn open(path: &Path, first: usize) -> Result<(About, Self)> {
        let file = File::open(path)?;
        check_format(path, &file)?;
        let bytes = map(path)?;
        let integers = |name: &str| {
            let table = file.table(name)?;
            let whole = matches!(table.element(), Element::U8 | Element::Integer);
            if !whole || table.shape().len() != 1 {
                let problem = format!("`{name}` must be integers in one dimension");
                return Err(Error::file(path, problem, HINT));
            }
            Ok(table)
        };
        let (indptr, indices) = (integers("indptr")?, integers("indices")?);
        let labels = integers("labels")?;
        let values = match (file.has("values"), file.has("odd_at")) {
            (true, _) => Values::All(Mapped::open(path, &bytes, &file.table("values")?)?),
            (false, false) => Values::Ones,
            (false, true) => {
                let (at, values) = (integers("odd_at")?, file.table("odd_values")?);
                let odd_values: Vec<f32> = values.read(0..values.shape()[0])?;
                let indptr: Vec<u64> = indptr.read(0..indptr.len())?;
                let ends = indptr.last() == Some(&(indices.len() as u64));
                let at = at.read(0..at.len())?;
                let odd = Odd::new(&at, &odd_values, &indptr).filter(|_| ends);
                let problem = "`odd_at` and `odd_values` must be as many, rising, and below the last of `indptr`";
                Values::Few(odd.ok_or_else(|| Error::file(path, problem, HINT))?)
            }
        };
        let features = match file.numbers("features").as_deref() {
            Some(&[features]) if (1.0..=MOST_FEATURES as f64).contains(&features) => {
                features as usize
            }
            _ => {
                let problem = format!("needs an attribute `features` of 1 to {MOST_FEATURES}");
                return Err(Error::file(path, problem, HINT));
            }
        };
        let labels = match labels.holds::<u8>() {
            true => Mapped::open(path, &bytes, &labels)?,
            false => signed(path, labels.read(0..labels.shape()[0])?)?,
        };
        let shard = Self {
            path: path.to_path_buf(),
            first,
            indptr: Mapped::open(path, &bytes, &indptr)?,
            indices: Mapped::open(path, &bytes, &indices)?,
            values,
            labels,
        };
        shard.check()?;
        let about = About {
            features,
            provenance: file.text("provenance").unwrap_or_default(),
            encoding: file.text("encoding").unwrap_or_default(),
            best_loss: file.numbers("best_loss").and_then(|n| n.first().copied()),
        };
        Ok((about, shard))
    }

    /// Writes `rows` to `path`, which is no set's name yet.
    pub(super) fn write(path: &Path, about: &About, rows: &Block) -> Result<()> {
        let file = File::create(path)?;
        file.filled("indptr", &rows.indptr())?;
        file.filled("indices", &rows.indices)?;
        match rows.odd() {
            Some(odd) if odd.is_empty() => {}
            Some(odd) => {
                let values: Vec<f32> = odd.iter().map(|&at| rows.values[at as usize]).collect();
                file.filled("odd_at", &odd)?;
                file.filled("odd_values", &values)?;
            }
            None => file.filled("values", &rows.values)?,
        }
        file.filled("labels", &rows.labels)?;
        if !rows.names.is_empty() {
            let (numbers, names): (Vec<u32>, Vec<&str>) = rows
                .names
                .iter()
                .map(|(&i, name)| (i, name.as_str()))
                .unzip();
            file.filled("name_indices", &numbers)?;
            file.filled("names", names.join("\n").as_bytes())?;
        }
        file.set_text("format", FORMAT)?;
        file.set_numbers("version", &[VERSION])?;
        file.set_numbers("features", &[about.features as u64])?;
        file.set_text("provenance", &about.provenance)?;
        file.set_text("encoding", &about.encoding)?;
        if let Some(loss) = about.best_loss {
            file.set_numbers("best_loss", &[loss])?;
        }
        file.close()
    }

    pub(super) fn len(&self) -> usize {
        self.labels.len()
    }

    pub(super) fn nonzeros(&self) -> usize {
        self.indices.len()
    }

    pub(super) fn has_values(&self) -> bool {
        !matches!(self.values, Values::Ones)
    }

    pub(super) fn is_mapped(&self) -> bool {
        let values = match &self.values {
            Values::All(values) => values.is_mapped(),
            Values::Ones | Values::Few(_) => true,
        };
        self.indices.is_mapped() && values
    }

    #[inline]
    pub(super) fn row(&self, i: usize) -> Row<'_> {
        let range = self.indptr[i] as usize..self.indptr[i + 1] as usize;
        Row {
            indices: &self.indices[range.clone()],
            values: match &self.values {
                Values::Ones => None,
                Values::All(values) => Some(&values[range]),
                Values::Few(odd) => odd.of(i),
            },
            label: self.labels[i] == 1,
        }
    }

    /// What features are called, of those that the import gave a name.
    pub(super) fn names(&self) -> Result<Vec<(u32, String)>> {
        let file = File::open(&self.path)?;
        if !file.has("names") {
            return Ok(Vec::new());
        }
        let (numbers, names) = (file.table("name_indices")?, file.table("names")?);
        let numbers: Vec<u32> = numbers.read(0..numbers.shape()[0])?;
        let names: Vec<u8> = names.read(0..names.shape()[0])?;
        let names = String::from_utf8_lossy(&names);
        let lines = names.split('\n').map(str::to_owned);
        Ok(numbers.into_iter().zip(lines).collect())
    }

    /// Refuses what is no CSR.
    fn check(&self) -> Result<()> {
        let bad = |problem: String| Err(Error::file(&self.path, problem, HINT));
        let (rows, nonzeros) = (self.labels.len(), self.indices.len() as u64);
        if self.indptr.len() != rows + 1 {
            let got = self.indptr.len();
            return bad(format!(
                "has {rows} labels but {got} numbers in `indptr`, expected one more"
            ));
        }
        if self.indptr[0] != 0 || self.indptr[rows] != nonzeros || !self.indptr.is_sorted() {
            return bad(format!(
                "`indptr` must rise from 0 to {nonzeros}, the number of `indices`"
            ));
        }
        if let Values::All(values) = &self.values
            && values.len() as u64 != nonzeros
        {
            let got = values.len();
            return bad(format!("has {nonzeros} indices but {got} values"));
        }
        match self.labels.iter().position(|&label| label > 1) {
            None => Ok(()),
            Some(at) => {
                let label = self.labels[at];
                bad(format!("row {at} has label {label}, expected 0 or 1"))
            }
        }
    }
}

/// Refuses another format, or a newer version of this one.
fn check_format(path: &Path, file: &File) -> Result<()> {
    if file.has("images") && !file.has("indptr") {
        let hint = "rows are made by `phalanx data import libsvm|criteo|csv|vw` or `phalanx data make clicks`";
        return Err(Error::file(path, "holds images, not sparse rows", hint));
    }
    let version = file.numbers("version").and_then(|v| v.first().copied());
    match version {
        Some(version) if version > f64::from(VERSION) => {
            let problem =
                format!("has format version {version}, this program reads up to {VERSION}");
            Err(Error::file(path, problem, "update phalanx"))
        }
        _ => Ok(()),
    }
}

/// Labels 0 and 1, or -1 and 1, as 0 and 1.
fn signed(path: &Path, labels: Vec<i64>) -> Result<Mapped<u8>> {
    match labels.iter().position(|label| !(-1..=1).contains(label)) {
        None => Ok(Mapped::Read(
            labels.iter().map(|&label| u8::from(label == 1)).collect(),
        )),
        Some(at) => {
            let problem = format!(
                "row {at} has label {}, expected 0 or 1, or -1 or 1",
                labels[at]
            );
            Err(Error::file(path, problem, HINT))
        }
    }
}
