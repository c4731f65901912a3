//! Jobs whose ranks go their own way, and jobs whose result does not depend on how many ranks there are.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::job::{LIMIT, csv, folder, good, job, number, toml};
use crate::launch::run;

/// Jobs by name.
pub const JOBS: [(&str, fn()); 6] = [
    (
        "a recorded run is repeated bit for bit, five times in a row",
        replay,
    ),
    (
        "a record that was changed is not taken for the run",
        changed_record,
    ),
    (
        "shards give one result on 1, 2, 4 and 8 ranks",
        reproducible,
    ),
    (
        "no update is staler than the bound beside a slow rank",
        bounded,
    ),
    ("steps with backup leave a slow rank behind", backup),
    ("every exchange is measured against the limit", bench),
];

fn alone(folder: &std::path::Path, words: &str) -> crate::launch::Ended {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    command.current_dir(folder).args(words.split_whitespace());
    run(command, LIMIT)
}

/// What a run wrote as its result.
fn result(folder: &std::path::Path, name: &str) -> toml::Table {
    toml(folder.join(name).join("result.toml"))
}

fn replay() {
    let folder = folder();
    let ways = [
        "softmax train.h5 --batch 20 --epochs 5",
        "softmax train.h5 --batch 20 --epochs 5 --optimizer adam --lr 0.001",
        "softmax train.h5 --batch 20 --epochs 5 --staleness 1 --inject slow:1:3",
        "softmax train.h5 --batch 20 --epochs 5 --lr-by-staleness --optimizer momentum --lr 0.02",
        "lenet train.h5 --batch 50 --epochs 1 --staleness 0",
    ];
    for (i, way) in ways.iter().enumerate() {
        let words = format!("train {way} --exchange one-sided --record --out run-{i}");
        job(3, folder.path(), &words);
        let printed = good(alone(folder.path(), &format!("replay run-{i}")));
        let checksum = result(folder.path(), &format!("run-{i}"))["checksum"].clone();
        let checksum = checksum.as_str().unwrap();
        assert_eq!(printed.matches(checksum).count(), 2, "{way}: {printed}");
    }
}

fn changed_record() {
    let folder = folder();
    let words = "train softmax train.h5 --epochs 2 --exchange one-sided --record --out run";
    job(2, folder.path(), words);
    let record = folder.path().join("run/updates/rank-0001.updates");
    let whole = fs::read(&record).unwrap();
    assert!(whole.len() > 100, "rank 1 has made updates");
    let says = |expected: &str| {
        let ended = alone(folder.path(), "replay run");
        assert_eq!(ended.code, Some(1), "{}", ended.output);
        assert!(ended.output.contains(expected), "{}", ended.output);
    };
    // Another step: other samples.
    let mut other = whole.clone();
    other[0] ^= 1;
    fs::write(&record, &other).unwrap();
    says("checksum of the parameters");
    fs::write(&record, &whole[..whole.len() - 3]).unwrap();
    says("not a whole number of updates");
    // An update that the others have seen is missing.
    fs::write(&record, []).unwrap();
    says("does not fit together");
    fs::write(&record, &whole).unwrap();
    good(alone(folder.path(), "replay run"));
    fs::remove_file(folder.path().join("run/updates/run.json")).unwrap();
    says("--record");
}

fn reproducible() {
    let folder = folder();
    for model in ["softmax", "lenet"] {
        let checksums = [1, 2, 4, 8].map(|ranks| {
            let name = format!("{model}-{ranks}");
            let words = format!(
                "train {model} train.h5 --test test.h5 --steps 200 --global-batch 64 --optimizer momentum --lr 0.02 --reproducible --out {name}"
            );
            job(ranks, folder.path(), &words);
            let result = result(folder.path(), &name);
            (result["checksum"].clone(), result["test_loss"].clone())
        });
        assert!(
            checksums.iter().all(|other| *other == checksums[0]),
            "{model}: {checksums:?}"
        );
    }
}

fn bounded() {
    let folder = folder();
    let words =
        "train softmax train.h5 --epochs 20 --batch 50 --exchange one-sided --inject slow:1:5";
    job(
        3,
        folder.path(),
        &format!("{words} --staleness 3 --out bounded"),
    );
    job(
        3,
        folder.path(),
        &format!("{words} --staleness inf --out free"),
    );
    let most = |run: &str| {
        let staleness = result(folder.path(), run)["staleness"].clone();
        let total: i64 = staleness["counts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|n| n.as_integer().unwrap())
            .sum();
        assert!(total <= 1200 && total > 0, "{total}");
        staleness["most"].as_integer().unwrap()
    };
    assert_eq!(most("bounded"), 3);
    assert!(most("free") > 3, "nobody waits");
    let ranks = csv(folder.path().join("bounded/ranks.csv"));
    assert!(ranks.iter().all(|row| number(row, "staleness_most") <= 3.0));
    let waits: Vec<f64> = ranks.iter().map(|row| number(row, "wait_s")).collect();
    assert!(waits[0] > waits[1] && waits[2] > waits[1], "{waits:?}");
    let gini = |run| result(folder.path(), run)["gini"].as_float().unwrap();
    assert!(gini("bounded") < gini("free"), "a bound evens shares out");
}

fn backup() {
    let folder = folder();
    let words = "train softmax train.h5 --test test.h5 --epochs 10 --batch 20 --aggregate 2-of-3 --inject slow:2:300 --out run";
    let printed = job(3, folder.path(), words);
    assert!(printed.contains("came too late"), "{printed}");
    let ranks = csv(folder.path().join("run/ranks.csv"));
    let dropped: Vec<f64> = ranks.iter().map(|row| number(row, "dropped")).collect();
    assert!(
        dropped[2] > 300.0 && dropped[2] > dropped[0] + dropped[1],
        "{dropped:?}"
    );
    let steps = ranks.iter().map(|row| number(row, "steps"));
    assert!(steps.into_iter().all(|steps| steps == 500.0));
    let accuracy = result(folder.path(), "run")["test_accuracy"]
        .as_float()
        .unwrap();
    assert!(accuracy > 0.75, "{accuracy}");
}

fn bench() {
    let folder = folder();
    let words = "bench exchange --sizes 4KiB,1MiB --ranks 1,2 --seconds 0.01 --json --csv rows.csv";
    let printed = job(2, folder.path(), words);
    let rows: Vec<Value> = printed
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    // One rank has nothing to reduce.
    assert_eq!(rows.len(), 2 * 7 + 2 * 8, "{printed}");
    assert!(
        rows.iter()
            .all(|row| row["seconds"].as_f64().unwrap() > 0.0)
    );
    let written = csv(folder.path().join("rows.csv"));
    assert_eq!(written.len(), rows.len());
    let seconds = number(&written[5], "seconds");
    assert_eq!(Some(seconds), rows[5]["seconds"].as_f64());
    let words = "bench exchange --sizes 4KiB,1MiB --seconds 0.01 --predict 61100000";
    let printed = job(2, folder.path(), words);
    assert!(printed.contains("predicted, not measured"), "{printed}");
    assert!(
        printed
            .lines()
            .any(|line| line.trim_start().starts_with("1024 "))
    );
}
