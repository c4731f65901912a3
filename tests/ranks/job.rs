//! What whole jobs have in common: a folder with sets, commands that must end well, reading what a run wrote.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::launch::{Ended, phalanx, run};

/// Longest that one job may take.
pub const LIMIT: Duration = Duration::from_secs(120);

/// A folder with `train.h5` and `test.h5`.
pub fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let set = |name: &str, samples: &str, first: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
        command.args([
            "data",
            "make",
            "digits",
            name,
            "--samples",
            samples,
            "--first",
            first,
        ]);
        command.current_dir(folder.path());
        good(run(command, LIMIT));
    };
    set("train.h5", "3000", "0");
    set("test.h5", "1000", "3000");
    folder
}

/// What a job printed, which must have ended well.
pub fn good(ended: Ended) -> String {
    assert_eq!(ended.code, Some(0), "{}", ended.output);
    ended.output
}

/// `mpirun -n SIZE phalanx WORDS`, which must end well.
pub fn job(size: usize, folder: &Path, words: &str) -> String {
    let mut command = phalanx(size, folder);
    command.args(words.split_whitespace());
    good(run(command, LIMIT))
}

/// A CSV file as rows of values by column.
pub fn csv(path: PathBuf) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_path(path).unwrap();
    reader.deserialize().map(|row| row.unwrap()).collect()
}

pub fn number(row: &BTreeMap<String, String>, column: &str) -> f64 {
    row[column]
        .parse()
        .unwrap_or_else(|_| panic!("{column} is `{}`", row[column]))
}

pub fn toml(path: PathBuf) -> toml::Table {
    fs::read_to_string(path).unwrap().parse().unwrap()
}

/// Waits until a job has written some rows of metrics into its run folder.
pub fn begins(run: &Path) {
    let (metrics, begun) = (run.join("metrics.csv"), Instant::now());
    while fs::read_to_string(&metrics).map_or(0, |text| text.lines().count()) < 5 {
        assert!(begun.elapsed() < Duration::from_secs(30), "training begins");
        std::thread::sleep(Duration::from_millis(20));
    }
}
