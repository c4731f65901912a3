//! A CSV file as text, column by column.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use crate::{Error, Result};

/// Rows of text under names. Nothing is rounded: what is shown of it is what the file says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sheet {
    /// Names of columns.
    pub columns: Vec<String>,
    /// Cells, as many in each row as there are columns.
    pub rows: Vec<Vec<String>>,
}

impl Sheet {
    /// Reads a file; one that is not there is empty. A row without its end, as a killed run leaves it, is left out.
    pub fn read(path: &Path) -> Result<Self> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(Error::io("read", path)(error)),
        };
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(file);
        let wrong = |error: csv::Error| Error::file(path, error, "it is damaged, or no run's");
        let text = |record: &csv::StringRecord| record.iter().map(str::to_owned).collect();
        let columns: Vec<String> = text(reader.headers().map_err(wrong)?);
        let mut rows = Vec::new();
        for record in reader.records() {
            let record = record.map_err(wrong)?;
            if record.len() == columns.len() {
                rows.push(text(&record));
            }
        }
        Ok(Self { columns, rows })
    }

    /// A column's cells.
    pub fn column(&self, name: &str) -> Option<impl Iterator<Item = &str>> {
        let at = self.columns.iter().position(|column| column == name)?;
        Some(self.rows.iter().map(move |row| row[at].as_str()))
    }

    /// A column's numbers, as many as there are rows.
    pub fn numbers(&self, name: &str) -> Vec<Option<f64>> {
        let cells = self.column(name).into_iter().flatten();
        cells.map(|cell| cell.parse().ok()).collect()
    }

    /// Pairs of numbers of two columns, where a row has both.
    pub fn pairs(&self, x: &str, y: &str) -> Vec<(f64, f64)> {
        let both = self.numbers(x).into_iter().zip(self.numbers(y));
        both.filter_map(|(x, y)| Some((x?, y?))).collect()
    }
}
