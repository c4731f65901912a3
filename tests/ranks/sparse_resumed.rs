//! Sparse runs that are interrupted and go on.

use std::fs;
use std::path::Path;

use crate::job::{csv, job, number, toml};
use crate::launch::signal;
use crate::refused::{How, failed};
use crate::resumed::{checksum, compare_runs, steps};
use crate::sparse::{clicks, figure};
use crate::stopped::{only_step, strike_run};

/// Jobs by name.
pub const JOBS: [(&str, fn()); 5] = [
    (
        "a resumed sparse run ends in the bits of the uninterrupted one, with every optimizer",
        optimizers,
    ),
    (
        "a reproducible sparse run is resumed on another number of ranks with the same bits",
        other_ranks,
    ),
    (
        "a one-sided sparse run goes on with what it remembers, on any number of ranks",
        one_sided,
    ),
    (
        "a sparse run that is asked to stop goes on where it was",
        stopped,
    ),
    (
        "checkpoints of sparse runs that do not fit or are damaged are refused",
        refused,
    ),
];

/// Makes two ranks so many times as slow: several checkpoints are written before a run is over, also where disks are slow.
fn slow(factor: u64) -> String {
    format!("--inject slow:0:{factor} --inject slow:1:{factor}")
}

fn optimizers() {
    let folder = clicks();
    let base =
        "sparse train --test test --global-batch 200 --steps 60 --eval-every 25 --log-every 7";
    let cases = [
        (1, "--exchange owners"),
        (2, "--exchange owners --l2 0.01"),
        (3, "--exchange owners --optimizer ftrl --lr 0.1 --l1 0.5"),
        (
            2,
            "--exchange owners --optimizer sgd --l1 0.001 --shuffle rows",
        ),
        (2, "--exchange all-reduce --schedule cosine"),
        (3, "--exchange all-reduce --optimizer sgd"),
    ];
    for (size, words) in cases {
        compare_runs(folder.path(), (size, size), 33, &format!("{base} {words}"));
    }
    // The last of them: its metrics have neither a gap nor a row twice.
    let runs = fs::read_dir(folder.path()).unwrap();
    let runs = runs.map(|entry| entry.unwrap().path());
    let resumed = runs.filter(|path| path.to_string_lossy().ends_with("-33"));
    for run in resumed {
        let whole = run.to_string_lossy().trim_end_matches("-33").to_string();
        let rows = |run: &Path| -> Vec<(String, String, String)> {
            let rows = csv(run.join("metrics.csv"));
            let told =
                |name: &str, row: &std::collections::BTreeMap<String, String>| row[name].clone();
            rows.iter()
                .map(|row| (told("step", row), told("loss", row), told("test_loss", row)))
                .collect()
        };
        assert_eq!(rows(&run), rows(Path::new(&whole)), "{whole}");
    }
}

fn other_ranks() {
    let folder = clicks();
    for (exchange, size, other) in [("owners", 1, 4), ("owners", 4, 2), ("all-reduce", 2, 1)] {
        let words = format!(
            "sparse train --global-batch 128 --steps 60 --l2 0.001 --reproducible --exchange {exchange}"
        );
        compare_runs(folder.path(), (size, other), 40, &words);
    }
}

fn one_sided() {
    let folder = clicks();
    let path = folder.path();
    for (words, other) in [
        ("--l2 0.0001", 3),
        ("--optimizer ftrl --lr 0.1", 1),
        ("--staleness 2", 2),
    ] {
        let words = format!("train sparse train --test test --epochs 3 {words} --out run --force");
        let slow = slow(100);
        job(
            2,
            path,
            &format!("{words} --checkpoint-every 100 --keep 9 {slow}"),
        );
        let loss = figure(&path.join("run"), "test", "log_loss");
        let all = steps(&path.join("run"));
        assert!(all.len() > 1, "{words}: {all:?}");
        let middle = all[all.len() / 2 - 1];
        let words = format!("train --resume run:{middle} --inject slow:0:1");
        let printed = job(other, path, &words);
        let going = format!("going on after step {middle} of run");
        assert!(printed.contains(&going), "{printed}");
        let again = figure(&path.join("run"), "test", "log_loss");
        assert!((loss - again).abs() < 0.01, "{words}: {loss} and {again}");
        let ranks = csv(path.join("run/ranks.csv"));
        let rows: f64 = ranks.iter().map(|row| number(row, "samples")).sum();
        // A few steps that the other rank had taken already are taken twice.
        assert!(
            (120_000.0..126_000.0).contains(&rows),
            "{words}: {rows} rows"
        );
    }
}

fn stopped() {
    let folder = clicks();
    let path = folder.path();
    let words = "sparse train --exchange owners --global-batch 300";
    let ended = strike_run(path, words, "run", |_, ranks| signal("TERM", ranks[1]));
    assert_eq!(ended.code, Some(4), "{}", ended.output);
    assert!(
        ended.output.contains("by SIGTERM on rank 1"),
        "{}",
        ended.output
    );
    let step = only_step(&path.join("run"));
    let length = format!("--steps {}", step + 20);
    job(3, path, &format!("train --resume run {length}"));
    job(3, path, &format!("train {words} {length} --out whole"));
    assert_eq!(
        checksum(path, "run"),
        checksum(path, "whole"),
        "after step {step}"
    );
    let ended = strike_run(path, "sparse train", "free", |_, ranks| {
        signal("USR1", ranks[2])
    });
    assert_eq!(ended.code, Some(4), "{}", ended.output);
    let step = only_step(&path.join("free"));
    job(
        2,
        path,
        &format!("train sparse --resume free --steps {}", step + 50),
    );
    let steps = toml(path.join("free/result.toml"))["steps"]
        .as_integer()
        .unwrap();
    assert!(steps as u64 >= step, "{steps} steps, {step} before");
}

fn refused() {
    let folder = clicks();
    let path = folder.path();
    let words =
        "train sparse train --exchange owners --global-batch 200 --steps 40 --checkpoint-every 20";
    job(2, path, &format!("{words} --out run"));
    assert_eq!(steps(&path.join("run")), [20, 40]);
    let case = |words: &str, says: &str| {
        let words = format!("train --resume run:20 {words}");
        failed(path, How::Ranks(2), (&words, 1, &[says]), true);
    };
    case("--optimizer ftrl", "--optimizer: ");
    case("--l2 0.5", "--optimizer: ");
    case("--global-batch 100", "rows of a step: 200");
    case("--seed 9", "--seed: 1");
    case("--exchange all-reduce", "exchange: Owners");
    case("--test test", "test set: none");
    failed(
        path,
        How::Ranks(3),
        ("train --resume run:20", 1, &["ranks: 2", "ranks: 3"]),
        true,
    );
    job(
        1,
        path,
        "data make clicks other --rows 40000 --bits 14 --seed 7",
    );
    fs::rename(path.join("train"), path.join("kept")).unwrap();
    fs::rename(path.join("other"), path.join("train")).unwrap();
    case("", "training set: 40000 rows of 16384 features");
    fs::remove_dir_all(path.join("train")).unwrap();
    fs::rename(path.join("kept"), path.join("train")).unwrap();
    // The newest is damaged: the one before it is taken, and ends in the same bits.
    let expected = checksum(path, "run");
    let part = path.join("run/checkpoints/step-000000040/part-00001.h5");
    let mut bytes = fs::read(&part).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&part, bytes).unwrap();
    fs::remove_file(path.join("run/result.toml")).unwrap();
    let printed = job(2, path, "train --resume run");
    assert!(printed.contains("is damaged"), "{printed}");
    assert!(printed.contains("going on after step 20"), "{printed}");
    assert_eq!(checksum(path, "run"), expected);
    fs::remove_file(path.join("run/checkpoints/step-000000020/part-00000.h5")).unwrap();
    case("", "part-00000.h5");
}
