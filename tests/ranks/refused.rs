//! Running the program on bad input: what it says, how it ends, and that it leaves everything as it was.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use phalanx::data::synthetic::{Amount, Kind, make};

use super::launch;

/// Longest that a job may take from its start, and so from its failure, to its end.
const LIMIT: Duration = Duration::from_secs(5);

/// Arguments behind `phalanx`, the exit code, and what the message must hold.
pub type Case<'a> = (&'a str, i32, &'a [&'a str]);

/// How a case is started.
#[derive(Clone, Copy)]
pub enum How {
    /// By itself.
    Plain,
    /// Under mpirun with so many ranks.
    Ranks(usize),
}

/// Runs each case in `folder`: one message, the exit code, and not a byte of the folder changed.
pub fn refused(folder: &Path, how: How, cases: &[Case]) {
    for case in cases {
        let made = failed(folder, how, *case, true);
        assert!(made.is_empty(), "`{}` left {made:?}", case.0);
    }
}

/// Runs a case that fails while it trains into `run`: the logs of the run and of its ranks stay, but nothing that looks like a
/// result.
pub fn broke_off(folder: &Path, how: How, case: Case, once: bool) {
    let made = failed(folder, how, case, once);
    let of_rank = |path: &PathBuf| path.starts_with("run") && path.iter().count() == 3;
    let (ranks, run): (Vec<PathBuf>, Vec<PathBuf>) = made.into_iter().partition(of_rank);
    let log = ["run/metrics.csv", "run/settings.toml"].map(PathBuf::from);
    assert_eq!(run, log, "`{}`", case.0);
    for path in ranks {
        let name = path.file_name().unwrap().to_string_lossy();
        let known = ["events.out.tfevents.", "resources.csv", "now.json"];
        let is_log = known.iter().any(|word| name.starts_with(word));
        let rank = path.parent().unwrap().to_string_lossy();
        assert!(
            is_log && rank.starts_with("run/rank-"),
            "`{}` left {path:?}",
            case.0
        );
    }
    fs::remove_dir_all(folder.join("run")).unwrap();
}

/// Runs a case that must fail and leave every old file as it is; gives the new files.
pub fn failed(folder: &Path, how: How, (args, code, says): Case, once: bool) -> Vec<PathBuf> {
    let before = files(folder);
    let mut command = match how {
        How::Plain => Command::new(env!("CARGO_BIN_EXE_phalanx")),
        How::Ranks(ranks) => launch::phalanx(ranks, folder),
    };
    command.current_dir(folder).args(args.split_whitespace());
    let ended = launch::run(command, LIMIT);
    let output = &ended.output;
    assert_eq!(ended.code, Some(code), "`{args}`: {output}");
    assert!(ended.time < LIMIT, "`{args}` took {:?}", ended.time);
    for words in says {
        assert!(output.contains(words), "`{args}`: no `{words}` in {output}");
    }
    let times = output.matches("error: ").count();
    assert!(times == 1 || times > 0 && !once, "`{args}`: {output}");
    assert!(!output.contains("panicked"), "`{args}`: {output}");
    let mut after = files(folder);
    for (path, content) in before {
        let same = after.remove(&path) == Some(content);
        assert!(same, "`{args}` changed {}", path.display());
    }
    after.into_keys().collect()
}

/// Every file and link below `folder`, with what it holds.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    fn walk(folder: &Path, top: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_symlink() {
                let target = fs::read_link(&path).unwrap().into_os_string();
                found.insert(path, target.into_encoded_bytes());
            } else if path.is_dir() {
                walk(&path, top, found);
            } else {
                // A file that its owner may not read can still be told by its length.
                let length = |_| fs::metadata(&path).unwrap().len().to_le_bytes().to_vec();
                let content = fs::read(&path).unwrap_or_else(length);
                found.insert(path.strip_prefix(top).unwrap().to_path_buf(), content);
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(folder, folder, &mut found);
    found
}

/// Drawn digits of 8 × 8 pixels: a set that nothing is wrong with.
pub fn digits(path: &Path, samples: usize, shards: usize) {
    let amount = Amount {
        samples,
        seed: 1,
        first: 0,
        shards,
        force: false,
    };
    make(Kind::Digits { side: 8 }, amount, path).unwrap();
}
