//! Whole jobs of sparse training: on one host and between hosts, with good data and bad.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::between::two_hosts;
use crate::hosts::Hosts;
use crate::job::{LIMIT, csv, good, job, number, toml};
use crate::launch::{phalanx, run, skip};
use crate::mpis::Mpi;
use crate::refused::{How, broke_off, refused};

/// Jobs by name.
pub const JOBS: [(&str, fn()); 9] = [
    (
        "sparse training comes close to the best, by every exchange",
        every_exchange,
    ),
    (
        "sparse runs give the same bits on 1, 2 and 4 ranks",
        same_bits,
    ),
    (
        "sparse rows are held out by the seed, on any number of ranks",
        held_out,
    ),
    (
        "predictions, evaluations and weights of a sparse run agree",
        predictions,
    ),
    (
        "a sparse run keeps the bound on staleness, and names a rank that hangs",
        bounded_and_stalled,
    ),
    ("sparse training between two hosts", || {
        two_hosts(|hosts| between(&Mpi::Open, hosts))
    }),
    ("bad rows and orders of sparse training are refused", bad),
    ("a9a reaches the published figures", a9a),
    ("the census reaches the published figures", census),
];

/// A folder with clicks: `train` and `test`.
pub fn clicks() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let make = "data make clicks --bits 14";
    job(1, folder.path(), &format!("{make} train --rows 40000"));
    let test = format!("{make} test --rows 10000 --first 40000");
    job(1, folder.path(), &test);
    folder
}

pub fn figure(run: &Path, set: &str, name: &str) -> f64 {
    toml(run.join("result.toml"))[set][name].as_float().unwrap()
}

fn every_exchange() {
    let folder = clicks();
    for (ranks, words) in [
        (1, "--exchange one-sided"),
        (3, "--exchange one-sided --optimizer ftrl --lr 0.1 --l1 0.5"),
        (2, "--exchange owners --global-batch 100"),
        (
            3,
            "--exchange owners --global-batch 100 --optimizer ftrl --lr 0.1",
        ),
        (2, "--exchange all-reduce --global-batch 100"),
    ] {
        let words = format!("train sparse train --test test --epochs 2 {words} --out run --force");
        let output = job(ranks, folder.path(), &words);
        assert!(
            output.contains("above the best possible log loss"),
            "{output}"
        );
        let run = folder.path().join("run");
        // Without any feature it is 0.56, and the model that made the labels has 0.455.
        let loss = figure(&run, "test", "log_loss");
        assert!(loss < 0.52, "{words}: log loss {loss}");
        assert!(figure(&run, "test", "auc") > 0.70, "{words}");
        let shares = csv(run.join("ranks.csv"));
        assert_eq!(shares.len(), ranks);
        let rows: f64 = shares.iter().map(|row| number(row, "samples")).sum();
        assert_eq!(rows, 80_000.0, "every row once an epoch");
        let sent = toml(run.join("result.toml"))["bytes_per_step"]
            .as_float()
            .unwrap();
        assert_eq!(
            sent > 0.0,
            ranks > 1 && !words.contains("one-sided"),
            "{words}"
        );
    }
}

fn same_bits() {
    let folder = clicks();
    let mut checksums = Vec::new();
    for (ranks, exchange) in [
        (1, "owners"),
        (2, "owners"),
        (4, "owners"),
        (2, "all-reduce"),
    ] {
        let words = format!(
            "train sparse train --steps 200 --global-batch 128 --l2 0.001 --reproducible --exchange {exchange} --out run --force"
        );
        job(ranks, folder.path(), &words);
        let checksum = toml(folder.path().join("run/result.toml"))["checksum"].clone();
        checksums.push(checksum);
    }
    assert!(
        checksums.iter().all(|sum| *sum == checksums[0]),
        "{checksums:?}"
    );
}

/// Rows that are stored by label: a part of them is no good unless it is chosen from all.
fn held_out() {
    let folder = tempfile::tempdir().unwrap();
    let text = "0 1:1 3:1\n".repeat(1200) + &"1 2:1 3:1\n".repeat(800);
    fs::write(folder.path().join("a.txt"), text).unwrap();
    job(1, folder.path(), "data import libsvm a.txt set");
    let words = "train sparse set --validation 0.2 --epochs 2 --global-batch 64 --reproducible --exchange owners";
    let mut found = Vec::new();
    for (ranks, seed) in [(1, 5), (2, 5), (1, 6)] {
        let words = format!("{words} --shuffle rows --seed {seed} --out run --force");
        let printed = job(ranks, folder.path(), &words);
        assert!(printed.contains("1600 rows, 2.0 features each, 400 more held out"));
        let result = toml(folder.path().join("run/result.toml"));
        let positives = result["validation"]["share_of_positives"]
            .as_float()
            .unwrap();
        assert!((positives - 0.4).abs() < 0.1, "{positives}");
        found.push((result["checksum"].clone(), result["validation"].clone()));
    }
    assert_eq!(found[0], found[1], "the same rows on any number of ranks");
    assert_ne!(found[0], found[2], "others by another seed");
    let words = format!("{words} --shuffle none --out last");
    let printed = job(1, folder.path(), &words);
    assert!(printed.contains("the last 400 held out"), "{printed}");
}

fn predictions() {
    let folder = tempfile::tempdir().unwrap();
    let text = |rows: std::ops::Range<usize>| -> String {
        let row = |i: usize| {
            let colour = ["red", "green", "blue"][i % 3];
            let yes = if colour == "red" {
                i % 10 < 8
            } else {
                i % 10 < 2
            };
            format!("{colour},{},{}\n", i % 7, if yes { "yes" } else { "no" })
        };
        format!("colour,day,click\n{}", rows.map(row).collect::<String>())
    };
    fs::write(folder.path().join("train.csv"), text(0..3000)).unwrap();
    fs::write(folder.path().join("test.csv"), text(3000..4000)).unwrap();
    job(
        1,
        folder.path(),
        "data import csv train.csv train --bits 16",
    );
    job(
        1,
        folder.path(),
        "data import csv test.csv test --like train",
    );
    job(
        2,
        folder.path(),
        "train sparse train --test test --epochs 5 --shuffle rows --out run",
    );
    for ranks in [1, 3] {
        let words = format!("predict run test --out {ranks}.txt");
        let output = job(ranks, folder.path(), &words);
        assert!(output.contains("against labels"), "{output}");
    }
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    assert_eq!(read("1.txt"), read("3.txt"));
    let chances: Vec<f64> = read("1.txt")
        .lines()
        .map(|line| line.parse().unwrap())
        .collect();
    assert_eq!(chances.len(), 1000);
    // Rows 0, 3, 6 … are red; of these 80 % are clicked, of the others 20 %.
    let mean = |first: usize| {
        let some: Vec<f64> = chances.iter().copied().skip(first).step_by(3).collect();
        some.iter().sum::<f64>() / some.len() as f64
    };
    assert!((mean(0) - 0.8).abs() < 0.05, "{}", mean(0));
    assert!((mean(1) - 0.2).abs() < 0.05, "{}", mean(1));
    let told = job(2, folder.path(), "eval run test --json");
    let line = told.lines().find(|line| line.starts_with('{')).unwrap();
    let told: serde_json::Value = serde_json::from_str(line).unwrap();
    let loss = told["figures"]["log_loss"].as_f64().unwrap();
    let trained = figure(&folder.path().join("run"), "test", "log_loss");
    assert!((loss - trained).abs() < 1e-6, "{loss} and {trained}");
    let shown = job(1, folder.path(), "inspect run --top 3");
    let largest = shown.split("largest weights").nth(1).unwrap();
    let first = largest.lines().nth(1).unwrap();
    assert!(first.contains("colour=red"), "{shown}");
}

fn bounded_and_stalled() {
    let folder = clicks();
    let words = "train sparse train --staleness 3 --inject slow:1:5 --batch 100 --out bounded";
    job(3, folder.path(), words);
    let ranks = csv(folder.path().join("bounded/ranks.csv"));
    assert!(
        ranks.iter().all(|row| number(row, "staleness_most") <= 3.0),
        "{ranks:?}"
    );
    for exchange in ["one-sided --staleness 0", "owners"] {
        let mut command = phalanx(3, folder.path());
        let words = format!(
            "train sparse train --exchange {exchange} --inject stall:1:5 --stall-timeout 2 --out hangs --force"
        );
        command.args(words.split_whitespace());
        let ended = run(command, Duration::from_secs(20));
        assert_eq!(ended.code, Some(3), "{}", ended.output);
        let board = fs::read_to_string(folder.path().join("hangs/stalled.json")).unwrap();
        let board: serde_json::Value = serde_json::from_str(&board).unwrap();
        assert_eq!(
            board["culprits"],
            serde_json::json!([1]),
            "{exchange}: {board}"
        );
    }
}

/// The same bits in step as one rank, and out of step all rows learnt from.
pub fn between(mpi: &Mpi, hosts: &Hosts) {
    let folder = clicks();
    let words =
        "train sparse train --test test --global-batch 128 --reproducible --exchange owners";
    job(1, folder.path(), &format!("{words} --out alone"));
    let there = |words: &str| {
        let mut command: Command = hosts.phalanx(mpi, folder.path());
        command.args(words.split_whitespace());
        good(run(command, LIMIT));
    };
    there(&format!("{words} --out owners"));
    let checksum =
        |run: &str| toml(folder.path().join(run).join("result.toml"))["checksum"].clone();
    assert_eq!(checksum("owners"), checksum("alone"));
    let before: u64 = hosts.received().iter().sum();
    there("train sparse train --test test --batch 100 --staleness 4 --out free");
    assert!(hosts.received().iter().sum::<u64>() > before + 1_000_000);
    let ranks = csv(folder.path().join("free/ranks.csv"));
    let rows: f64 = ranks.iter().map(|row| number(row, "samples")).sum();
    assert_eq!((ranks.len(), rows), (hosts.size(), 40_000.0));
    assert!(
        ranks.iter().all(|row| number(row, "staleness_most") <= 4.0),
        "{ranks:?}"
    );
    let loss = figure(&folder.path().join("free"), "test", "log_loss");
    assert!(loss < 0.53, "log loss {loss}");
}

fn bad() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    fs::write(at.join("a.txt"), "1 1:1 2:1\n0 3:1\n".repeat(200)).unwrap();
    job(1, at, "data import libsvm a.txt good");
    job(
        1,
        at,
        "data import libsvm a.txt wide --features 10 --base 1",
    );
    // An index beyond the features, and a value that is no number, as another program could have written them.
    job(1, at, "data import libsvm a.txt high --features 4 --base 1");
    let lower = |set: &str, features: u64| {
        let file = hdf5::File::open_rw(at.join(set).join("shard-00000.h5")).unwrap();
        file.attr("features")
            .unwrap()
            .write_raw(&[features])
            .unwrap();
    };
    lower("high", 2);
    fs::write(at.join("b.txt"), "1 1:0.5 2:1\n0 3:2\n".repeat(200)).unwrap();
    job(1, at, "data import libsvm b.txt odd");
    let file = hdf5::File::open_rw(at.join("odd/shard-00000.h5")).unwrap();
    let values = file.dataset("values").unwrap();
    let mut numbers: Vec<f32> = values.read_raw().unwrap();
    numbers[301] = f32::NAN;
    values.write_raw(&numbers).unwrap();
    drop((values, file));
    let job = |words: &str| format!("train sparse {words} --out run");
    for (words, says) in [
        ("none", "cannot read none"),
        ("a.txt", "is not an HDF5 file"),
        ("good --test wide", "features of wide: expected 3, got 10"),
        (
            "good --staleness 2 --exchange owners",
            "--staleness needs --exchange one-sided",
        ),
        ("good --reproducible", "--reproducible needs ranks in step"),
        ("good --beta 1", "--beta needs --optimizer ftrl"),
        (
            "good --optimizer ftrl --schedule cosine",
            "leave --schedule",
        ),
        ("good --inject slow:7:2", "there is no rank 7"),
    ] {
        let code = if says.starts_with("--") || says.contains("leave") || says.contains("rank 7") {
            2
        } else {
            1
        };
        refused(at, How::Ranks(2), &[(&job(words), code, &[says])]);
    }
    for exchange in ["one-sided", "owners", "all-reduce"] {
        let words = job(&format!("high --exchange {exchange}"));
        broke_off(
            at,
            How::Ranks(2),
            (&words, 1, &["has feature 2, expected below 2"]),
            false,
        );
        assert!(!at.join("run").exists());
        let words = job(&format!("odd --exchange {exchange}"));
        broke_off(
            at,
            How::Ranks(2),
            (&words, 1, &["has a value of NaN"]),
            false,
        );
        assert!(!at.join("run").exists());
    }
}

/// The folder of a published set, if it is beside the project.
fn published(name: &str) -> Option<std::path::PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../shared/data")
        .join(name);
    if !folder.is_dir() {
        skip(format!("{name} is not beside the project"));
        return None;
    }
    Some(folder)
}

fn a9a() {
    let Some(source) = published("a9a") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let source = source.display();
    job(
        1,
        folder.path(),
        &format!("data import libsvm {source}/a9a.gz train"),
    );
    job(
        1,
        folder.path(),
        &format!("data import libsvm {source}/a9a.t.gz test --like train"),
    );
    for ranks in [1, 2, 3, 4] {
        for exchange in ["one-sided", "owners --batch 64"] {
            let words = format!(
                "train sparse train --test test --epochs 10 --lr 0.05 --schedule cosine --exchange {exchange} --out run --force"
            );
            job(ranks, folder.path(), &words);
            let run = folder.path().join("run");
            let [accuracy, auc] = ["accuracy", "auc"].map(|name| figure(&run, "test", name));
            assert!(
                accuracy >= 0.849 && auc >= 0.90,
                "{ranks} {exchange}: {accuracy}, {auc}"
            );
        }
    }
}

fn census() {
    let Some(source) = published("census-kdd") else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let source = source.display();
    let import = "data import csv --no-header";
    let train = format!("{import} --positive 50000+. {source}/census_income_train.csv.gz train");
    job(2, folder.path(), &train);
    let test = format!("{import} --like train {source}/census_income_test.csv.gz test");
    job(2, folder.path(), &test);
    let words =
        "train sparse train --test test --epochs 3 --schedule cosine --shuffle rows --out run";
    job(2, folder.path(), words);
    let run = folder.path().join("run");
    let [auc, loss] = ["auc", "log_loss"].map(|name| figure(&run, "test", name));
    assert!(auc >= 0.944 && loss <= 0.124, "AUC {auc}, log loss {loss}");
}
