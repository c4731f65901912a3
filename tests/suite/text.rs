//! `phalanx data import` of text as a user types it, and on real files where they are at hand.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use phalanx::data::rows::RowSet;

/// Runs the program: its exit code, and all that it said.
fn phalanx(folder: &Path, words: &str) -> (i32, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_phalanx"))
        .args(words.split_whitespace())
        .current_dir(folder)
        .output()
        .unwrap();
    let all = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&all).into_owned();
    (output.status.code().unwrap(), text)
}

#[track_caller]
fn good(folder: &Path, words: &str, facts: &[&str]) {
    let (code, output) = phalanx(folder, words);
    assert_eq!(code, 0, "{words}:\n{output}");
    for fact in facts {
        assert!(output.contains(fact), "{words}: no `{fact}` in\n{output}");
    }
}

/// Files and folders in a folder.
fn entries(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    let mut names: Vec<_> = names.collect();
    names.sort();
    names
}

/// A real file beside the project, if it is there.
fn real(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../shared/data")
        .join(name);
    if !path.exists() {
        eprintln!("skipped: {name} is not beside the project");
    }
    path.exists().then_some(path)
}

#[test]
fn an_import_says_what_it_made_and_describe_tells_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("a.vw"), "1 |u x y:2\n-1 |u x\n").unwrap();
    fs::write(path.join("b.vw"), "0 |u z").unwrap();
    let facts = [
        "rows        3 in 2 shards",
        "features    1024, of which 3 are used",
        "nonzeros    4, 1.33 a row",
        "label 1     1 rows, 33.33 %",
        "about 0 of 3 different features share their number",
    ];
    good(
        path,
        "data import vw a.vw b.vw set --bits 10 --names",
        &facts,
    );
    let facts = [
        "rows         3",
        "features     1024, of which 3 are used",
        "values       1 to 2",
        "names        3",
        "files        2, mapped",
        "text: a.vw, b.vw",
        r#"{"format":"vw","features":1024,"hashing":1}"#,
    ];
    good(path, "data describe set", &facts);
    let checksum = |set: &str| {
        let (_, output) = phalanx(path, &format!("data describe {set}"));
        output.split("xxh3:").nth(1).unwrap().trim().to_owned()
    };
    let joined = [
        fs::read(path.join("a.vw")).unwrap(),
        fs::read(path.join("b.vw")).unwrap(),
    ];
    fs::write(path.join("c.vw"), joined.concat()).unwrap();
    good(
        path,
        "data import vw c.vw whole --features 1024",
        &["3 in 1 shard"],
    );
    assert_eq!(checksum("set"), checksum("whole"), "shards do not matter");
    good(path, "data import vw c.vw other --bits 11", &[]);
    assert_ne!(checksum("set"), checksum("other"));
}

#[test]
fn a_bad_line_ends_an_import_or_is_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("t.svm"), "1 1:1\n0 2:1\n3 1:1\n1 2:nan\n").unwrap();
    let (code, output) = phalanx(path, "data import libsvm t.svm set");
    assert_eq!(code, 1);
    let says = "error: t.svm, line 3: label `3`, expected 0 or 1, or -1 or 1\n  hint: ";
    assert!(output.contains(says), "{output}");
    assert_eq!(entries(path), ["t.svm"], "nothing is left behind");
    let facts = [
        "2 bad lines were left out; the first: t.svm, line 3: label",
        "bad lines  2 left out",
    ];
    good(path, "data import libsvm t.svm set --skip-bad", &facts);
    assert_eq!(RowSet::open(&path.join("set")).unwrap().len(), 2);
    let (code, output) = phalanx(path, "data import libsvm t.svm set --skip-bad");
    assert!(
        code == 1 && output.contains("set exists already"),
        "{output}"
    );
    good(path, "data import libsvm t.svm set --skip-bad --force", &[]);
    assert_eq!(entries(path), ["set", "t.svm"]);
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("t.csv"), "a,b\n1,0\n").unwrap();
    let cases = [
        ("vw t.csv", 2, "INPUT"),
        ("vw none.vw set", 1, "cannot read none.vw"),
        ("vw . set", 1, ".: is no file"),
        ("vw t.csv set --bits 33", 2, "33 is not in 1..=32"),
        (
            "vw t.csv set --bits 3 --features 8",
            2,
            "cannot be used with",
        ),
        (
            "vw t.csv set --features 4294967297",
            2,
            "at most 4294967296",
        ),
        ("vw t.csv set --shard-size 0", 2, "at least 1"),
        (
            "libsvm t.csv set --base 2",
            2,
            "[possible values: auto, 0, 1]",
        ),
        (
            "csv t.csv set --like other --label a",
            2,
            "cannot be used with",
        ),
        ("csv t.csv set --like other", 1, "cannot read other"),
        (
            "csv t.csv set --label c",
            2,
            "no column `c`: there are a, b",
        ),
        ("csv t.csv set --drop b", 2, "column `b` has the labels"),
        (
            "csv t.csv set --numeric-columns b",
            2,
            "column `b` cannot be one of numbers",
        ),
        ("csv t.csv set --separator ab", 2, "one character"),
        ("csv t.csv set --label a --positive", 2, "--positive"),
        (
            "criteo t.csv set",
            1,
            "t.csv, line 1: 1 columns, expected 40",
        ),
    ];
    for (words, code, fact) in cases {
        let (found, output) = phalanx(path, &format!("data import {words}"));
        assert!(
            found == code && output.contains(fact),
            "{words}: {found}\n{output}"
        );
        assert_eq!(entries(path), ["t.csv"], "{words}");
    }
    good(
        path,
        "data import --help",
        &["libsvm", "criteo", "csv", "vw", "idx", "cifar10"],
    );
    good(
        path,
        "data import csv --help",
        &["--positive", "4194304", "must end on their line"],
    );
}

#[test]
fn a_set_of_rows_is_no_set_of_images() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("a.vw"), "1 |u x\n").unwrap();
    good(path, "data import vw a.vw set", &[]);
    for words in ["train softmax set", "data split set a b"] {
        let (code, output) = phalanx(path, words);
        assert!(
            code == 1 && output.contains("`images`"),
            "{words}: {output}"
        );
    }
}

#[test]
fn adult_income_has_the_published_size() {
    let (Some(train), Some(test)) = (real("a9a/a9a.gz"), real("a9a/a9a.t.gz")) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let words = format!("data import libsvm {} train", train.display());
    good(
        path,
        &words,
        &["32561 in 1 shard", "123, of which 123 are used"],
    );
    let words = format!("data import libsvm {} test --like train", test.display());
    good(
        path,
        &words,
        &["16281 in 1 shard", "123, of which 122 are used"],
    );
    let [train, test] = ["train", "test"].map(|set| RowSet::open(&path.join(set)).unwrap());
    train.fits(&test).unwrap();
    assert!(!train.has_values() && train.is_mapped());
    // The first line is `-1 3:1 11:1 14:1 19:1 39:1 42:1 55:1 64:1 67:1 73:1 75:1 76:1 80:1 83:1`.
    let expected = [2, 10, 13, 18, 38, 41, 54, 63, 66, 72, 74, 75, 79, 82];
    assert_eq!(train.row(0).indices, expected);
}

#[test]
fn mushrooms_have_twenty_two_features_each() {
    let Some(train) = real("agaricus/agaricus.txt.train.gz") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let words = format!("data import libsvm {} set", train.display());
    let facts = [
        "6513 in 1 shard",
        "126, of which",
        "143286, 22.00 a row",
        "3140 rows",
    ];
    good(folder.path(), &words, &facts);
}

#[test]
fn the_census_is_read_from_a_table_without_header() {
    let names = ["train", "test"].map(|part| format!("census-kdd/census_income_{part}.csv.gz"));
    let [Some(train), Some(test)] = names.map(|name| real(&name)) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let words = "--no-header --positive 50000+. --shard-size 16MiB --bits 18";
    let words = format!("data import csv {} train {words}", train.display());
    let numeric = "numeric     1, 3, 4, 6, 17, 18, 19, 25, 40\n";
    good(
        path,
        &words,
        &["199523 in 7 shards", "12382 rows, 6.21 %", numeric],
    );
    let words = format!(
        "data import csv {} test --no-header --like train",
        test.display()
    );
    good(path, &words, &["99762 in 4 shards", "6.20 %", numeric]);
    let [train, test] = ["train", "test"].map(|set| RowSet::open(&path.join(set)).unwrap());
    train.fits(&test).unwrap();
    assert!(
        train
            .names()
            .unwrap()
            .values()
            .any(|name| name == "5=High school graduate")
    );
}
