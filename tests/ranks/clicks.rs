//! Click logs that ranks make together.

use std::fs;
use std::path::{Path, PathBuf};

use crate::job::{LIMIT, job};
use crate::launch::{phalanx, run};

/// Jobs by name.
pub const JOBS: [(&str, fn()); 2] = [
    ("click logs of several ranks are those of one", same_bytes),
    ("click logs that are in the way stay", refused),
];

fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let entries = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries
        .map(|path| (path.file_name().unwrap().into(), fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

fn same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    // Three shards, so that of two ranks one has more to do, and of four one has nothing.
    let words = "--rows 530000 --bits 18 --seed 3";
    let sets = [1, 2, 4].map(|size| {
        let name = format!("of-{size}");
        let printed = job(
            size,
            folder.path(),
            &format!("data make clicks {name} {words}"),
        );
        let line = format!("{name}: 530000 rows of 262144 features, best log loss 0.4");
        assert_eq!(printed.matches(&line).count(), 1, "{printed}");
        files(&folder.path().join(name))
    });
    assert_eq!(sets[0].len(), 3);
    assert!(sets[1] == sets[0] && sets[2] == sets[0]);
}

fn refused() {
    let folder = tempfile::tempdir().unwrap();
    job(1, folder.path(), "data make clicks set --rows 100");
    let before = files(&folder.path().join("set"));
    let mut command = phalanx(2, folder.path());
    command.args(["data", "make", "clicks", "set", "--rows", "200"]);
    let ended = run(command, LIMIT);
    assert_eq!(ended.code, Some(1), "{}", ended.output);
    assert!(
        ended.output.contains("set exists already"),
        "{}",
        ended.output
    );
    assert!(files(&folder.path().join("set")) == before);
    job(2, folder.path(), "data make clicks set --rows 200 --force");
    assert!(files(&folder.path().join("set")) != before);
}
