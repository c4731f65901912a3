//! Runs that hold a part of the training set out.

use crate::job::{csv, folder, job, number, toml};

/// Jobs by name.
pub const JOBS: [(&str, fn()); 2] = [
    (
        "a held-out part is never trained on, on any number of ranks",
        never_trained_on,
    ),
    (
        "a run watches its held-out part and tests at the end",
        watched,
    ),
];

/// The parts as files, and the parts held out in place, give the same parameters.
fn never_trained_on() {
    let folder = folder();
    let split = "data split train.h5 rest.h5 held.h5 --fraction 0.2 --seed 7";
    job(1, folder.path(), split);
    let words = "--global-batch 30 --epochs 2 --seed 7";
    for (size, exchange) in [(1, "all-reduce"), (3, "all-reduce"), (3, "node-shared")] {
        let words = format!("{words} --exchange {exchange}");
        let in_place = format!("train softmax train.h5 --validation 0.2 {words} --out in-place");
        let in_files = format!("train softmax rest.h5 --test held.h5 {words} --out in-files");
        job(size, folder.path(), &format!("{in_place} --force"));
        job(size, folder.path(), &format!("{in_files} --force"));
        let result = |run: &str| toml(folder.path().join(run).join("result.toml"));
        let (place, files) = (result("in-place"), result("in-files"));
        assert_eq!(place["checksum"], files["checksum"]);
        assert_eq!(place["validation_loss"], files["test_loss"]);
        assert_eq!(place["samples"].as_integer(), Some(4800));
        assert!(place.get("test_loss").is_none());
    }
}

fn watched() {
    let folder = folder();
    for exchange in ["node-shared", "one-sided"] {
        let words = "--lr 20 --batch 20 --eval-every 10 --early-stop 4 --keep-best";
        let words = format!(
            "train softmax train.h5 --validation 0.1 --test test.h5 {words} --exchange {exchange} --out {exchange}"
        );
        let printed = job(2, folder.path(), &words);
        assert!(printed.contains("2700 samples of 1×28×28, 300 more held out"));
        assert!(printed.contains("validation accuracy") && printed.contains("test accuracy"));
        let run = folder.path().join(exchange);
        let rows = csv(run.join("metrics.csv"));
        assert!(!rows[0].contains_key("test_loss"), "{rows:?}");
        let losses = rows.iter().filter(|row| !row["validation_loss"].is_empty());
        let losses: Vec<f64> = losses.map(|row| number(row, "validation_loss")).collect();
        let lowest = losses.iter().copied().fold(9e9, f64::min);
        let result = toml(run.join("result.toml"));
        let loss = |name: &str| result[name].as_float().unwrap();
        assert!(loss("validation_loss") < lowest + 1e-5, "{losses:?}");
        let line = job(1, folder.path(), &format!("eval {exchange} test.h5 --json"));
        let stored: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert!(
            (stored["loss"].as_f64().unwrap() - loss("test_loss")).abs() < 1e-5,
            "the test result is that of the parameters kept: {line}"
        );
        let settings = toml(run.join("settings.toml"));
        let resolved = settings["resolved"].as_table().unwrap();
        assert_eq!(resolved["watched"].as_str(), Some("validation"));
        assert_eq!(resolved["validation_samples"].as_integer(), Some(300));
        let ranks = csv(run.join("ranks.csv"));
        assert!(ranks.iter().all(|rank| rank["test_accuracy"].is_empty()));
        assert!(number(&ranks[1], "validation_accuracy") > 0.3);
    }
}
