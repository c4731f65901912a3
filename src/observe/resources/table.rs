//! A file of rows that a run goes on with after an interruption.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::{Error, Result};

/// Rows are appended, each in one write: a killed run leaves whole ones, but perhaps for the last.
pub(super) struct Table {
    file: File,
    path: PathBuf,
    line: Vec<u8>,
}

impl Table {
    /// A new file that begins with `head`.
    pub(super) fn create(path: &Path, head: &[u8]) -> Result<Self> {
        let begin = || {
            let mut file = File::create(path)?;
            file.write_all(head)?;
            Ok(file)
        };
        let file = begin().map_err(Error::io("write", path))?;
        Ok(Self::of(file, path))
    }

    /// Goes on with the one at `path` behind its rows that are `past`, of which the first `skipped` lines are no rows; a new one if
    /// there is none, or one that does not end its first lines.
    pub(super) fn go_on(
        path: &Path,
        head: &[u8],
        skipped: usize,
        past: impl Fn(&str) -> bool,
    ) -> Result<Self> {
        let text = match fs::read(path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(Error::io("read", path)(error)),
        };
        let lines = text.split_inclusive('\n').enumerate();
        let kept =
            lines.take_while(|(i, line)| line.ends_with('\n') && (*i < skipped || past(line)));
        let (count, end) = kept.fold((0, 0), |(count, end), (_, line)| {
            (count + 1, end + line.len())
        });
        if count < skipped {
            return Self::create(path, head);
        }
        let open = || {
            let file = OpenOptions::new().append(true).open(path)?;
            file.set_len(end as u64)?;
            Ok(file)
        };
        let file = open().map_err(Error::io("write", path))?;
        Ok(Self::of(file, path))
    }

    fn of(file: File, path: &Path) -> Self {
        Self {
            file,
            path: path.to_path_buf(),
            line: Vec::new(),
        }
    }

    /// Adds the row that `fill` writes.
    pub(super) fn add(&mut self, fill: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> Result<()> {
        self.line.clear();
        let (line, file) = (&mut self.line, &mut self.file);
        fill(line)
            .and_then(|()| file.write_all(line))
            .map_err(Error::io("write", &self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_goes_on_behind_the_rows_that_it_had() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.csv");
        let row = |n: u64| move |line: &mut Vec<u8>| writeln!(line, "{n}");
        let past = |line: &str| line.trim().parse::<u64>().is_ok_and(|n| n <= 2);
        let mut table = Table::go_on(&path, b"n\n", 1, past).unwrap();
        for n in 1..=4 {
            table.add(row(n)).unwrap();
        }
        // Killed in the middle of a row.
        fs::write(&path, "n\n1\n2\n3\n4").unwrap();
        let mut table = Table::go_on(&path, b"n\n", 1, past).unwrap();
        table.add(row(3)).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "n\n1\n2\n3\n");
        // Killed in the middle of the first line.
        fs::write(&path, "n").unwrap();
        Table::go_on(&path, b"n\n", 1, past).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "n\n");
    }
}
