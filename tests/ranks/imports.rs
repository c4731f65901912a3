//! Importing text with real ranks: the same bytes on any number of them, and a bad line ends the job on all.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::job::job;
use super::refused::{How, refused};

/// Jobs by name.
pub const JOBS: [(&str, fn()); 2] = [
    (
        "an import of text gives the same bytes on any number of ranks",
        same_bytes,
    ),
    ("a bad line on one rank ends an import on all", bad_lines),
];

/// Some thousand lines, with those of `odd` in their places.
fn text(odd: &[(usize, &str)]) -> String {
    let line = |i: usize| {
        let odd = odd.iter().find(|(at, _)| *at == i);
        odd.map_or(
            format!("{} {}:1 {}:0.5\n", i % 2, i % 97 + 1, i % 31 + 100),
            |(_, line)| format!("{line}\n"),
        )
    };
    (1..=5000).map(line).collect()
}

/// The files of a set.
pub fn shards(set: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(set).unwrap().map(|entry| entry.unwrap());
    let shard = |entry: fs::DirEntry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        (name, fs::read(entry.path()).unwrap())
    };
    entries.map(shard).collect()
}

fn same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("t.svm"), text(&[(700, ""), (4000, "oh")])).unwrap();
    let mut sets = Vec::new();
    for ranks in [1, 2, 4] {
        let words = format!("data import libsvm t.svm {ranks} --shard-size 10KiB --skip-bad");
        let output = job(ranks, path, &words);
        for fact in ["4998 in 8 shards", "130, of which 128", "t.svm, line 4000"] {
            assert_eq!(output.matches(fact).count(), 1, "{ranks} ranks: {output}");
        }
        sets.push(shards(&path.join(ranks.to_string())));
    }
    assert!(sets[0] == sets[1] && sets[0] == sets[2], "the bytes differ");
}

fn bad_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    // In the second piece and the seventh, which are for ranks 1 and 0 of three: rank 1 meets its own first.
    fs::write(path.join("t.svm"), text(&[(900, "1 2:x"), (4100, "1 2:y")])).unwrap();
    let cases: [(&str, i32, &[&str]); 3] = [
        (
            "data import libsvm t.svm set --shard-size 10KiB",
            1,
            &["rank 1: t.svm, line 900: `2:x` has no value", "hint: "],
        ),
        (
            "data import libsvm t.svm set --shard-size 10KiB --features 200 --base 1",
            1,
            &["rank 1: t.svm, line 900: `2:x` has no value"],
        ),
        (
            "data import libsvm t.svm none.svm set",
            1,
            &["cannot read none.svm"],
        ),
    ];
    refused(path, How::Ranks(3), &cases);
}
