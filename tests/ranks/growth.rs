//! Runs whose batch grows.

use std::collections::BTreeMap;

use crate::job::{csv, folder, job, number, toml};

/// Jobs by name.
pub const JOBS: [(&str, fn()); 2] = [
    (
        "a batch grows where the rate would fall, then the rate falls",
        by_schedule,
    ),
    ("a batch follows the gradient noise that is shown", by_noise),
];

type Row = BTreeMap<String, String>;

/// The rows of evaluations: one an epoch.
fn epochs(rows: &[Row]) -> Vec<&Row> {
    let tested = rows.iter().filter(|row| !row["test_loss"].is_empty());
    tested.collect()
}

fn by_schedule() {
    let folder = folder();
    let words = "train softmax train.h5 --test test.h5 --global-batch 50 --epochs 5 --lr 0.2 --schedule step \
        --decay-every 1 --decay-factor 0.5 --grow-batch schedule";
    for (size, exchange) in [(1, "node-shared"), (3, "node-shared"), (2, "one-sided")] {
        let out = format!("{exchange}-{size}");
        let words = format!("{words} --exchange {exchange} --out {out}");
        let printed = job(size, folder.path(), &words);
        let run = folder.path().join(&out);
        let rows = csv(run.join("metrics.csv"));
        let result = toml(run.join("result.toml"));
        assert_eq!(result["samples"].as_integer(), Some(15_000), "{printed}");
        if exchange == "one-sided" {
            assert_eq!(result["batch"].as_integer(), Some(200), "25, 50, 100, 200");
            continue;
        }
        let rows = epochs(&rows);
        let column = |name| rows.iter().map(|row| number(row, name)).collect::<Vec<_>>();
        // The limit is a tenth of the set: 300.
        assert_eq!(column("batch"), [50.0, 100.0, 200.0, 200.0, 200.0]);
        assert_eq!(column("lr"), [0.2, 0.2, 0.2, 0.1, 0.05]);
        assert_eq!(column("epoch"), [1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(column("step"), [60.0, 90.0, 105.0, 120.0, 135.0]);
        assert!(rows.iter().all(|row| row["noise_scale"].is_empty()));
        assert!(printed.contains("5 epochs, 135 steps") && printed.contains("growing to 200"));
    }
}

fn by_noise() {
    let folder = folder();
    let words = "train softmax train.h5 --test test.h5 --global-batch 50 --epochs 6";
    let runs = ["--grow-batch noise", "--grow-batch noise", "--noise-scale"];
    let results = [0, 1, 2].map(|i| {
        let words = format!("{words} {} --out {i}", runs[i]);
        let printed = job(3, folder.path(), &words);
        assert!(printed.contains("gradient noise"), "{printed}");
        let rows = csv(folder.path().join(i.to_string()).join("metrics.csv"));
        let rows = epochs(&rows);
        assert!(number(rows[1], "noise_scale") > 1.0);
        let batches: Vec<f64> = rows.iter().map(|row| number(row, "batch")).collect();
        let fixed = batches.iter().all(|&batch| batch == 50.0);
        assert_eq!(fixed, i == 2, "{batches:?}");
        assert!(batches.is_sorted() && batches[5] <= 300.0, "{batches:?}");
        toml(folder.path().join(i.to_string()).join("result.toml"))
    });
    assert_eq!(results[0]["checksum"], results[1]["checksum"]);
    assert!(results[0]["noise_scale"].as_float().unwrap() > 50.0);
    let steps = |i: usize| results[i]["steps"].as_integer().unwrap();
    assert!(steps(0) < steps(2) && steps(2) == 360);
}
