//! Event files, as TensorBoard's own reader finds them.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::job::{LIMIT, csv, folder, job, number, toml};
use crate::launch::{children, phalanx, signal, skip, start, wait};

/// Jobs by name.
pub const JOBS: [(&str, fn()); 3] = [
    (
        "TensorBoard reads every point once after a run was killed and resumed",
        tensorboard,
    ),
    (
        "TensorBoard reads the staleness of asynchronous ranks, and each rank's own file",
        staleness,
    ),
    (
        "a run on fewer ranks has no points of those that are gone",
        fewer,
    ),
];

/// What TensorBoard's own reader finds below a run folder; nothing if it is not there, which is told.
fn read(run: &Path) -> Option<Value> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = root.join("target/tensorboard/bin/python3");
    if !root.join("target/tensorboard/version").exists() {
        let why =
            "TensorBoard is not in target/tensorboard: `sh .ci/tensorboard` gets it from PyPI";
        println!("NOT CHECKED: {why}");
        skip(why);
        return None;
    }
    let mut command = Command::new(python);
    command.arg(root.join("tests/fixtures/events.py")).arg(run);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// Steps and values of a scalar.
fn points(found: &Value, rank: usize, tag: &str) -> Vec<(u64, f64)> {
    let all = found[format!("rank-{rank:05}")]["scalars"][tag].as_array();
    let all = all.unwrap_or_else(|| panic!("no scalar {tag} of rank {rank}: {found}"));
    let point = |point: &Value| (point[0].as_u64().unwrap(), point[1].as_f64().unwrap());
    all.iter().map(point).collect()
}

/// Steps and values of a column of `metrics.csv`.
fn column(run: &Path, name: &str) -> Vec<(u64, f64)> {
    let rows = csv(run.join("metrics.csv"));
    let there = rows.iter().filter(|row| !row[name].is_empty());
    there
        .map(|row| (number(row, "step") as u64, number(row, name)))
        .collect()
}

/// Every column of `metrics.csv` is a scalar of rank 0, point for point.
fn compare(found: &Value, run: &Path, ranks: usize) {
    let columns = [
        ("loss", "train/loss"),
        ("accuracy", "train/accuracy"),
        ("lr", "train/lr"),
        ("batch", "train/batch"),
        ("epoch", "train/epoch"),
        ("samples_per_s", "train/samples_per_s"),
        ("test_loss", "test/loss"),
        ("test_accuracy", "test/accuracy"),
    ];
    for (column_name, tag) in columns {
        let (expected, got) = (column(run, column_name), points(found, 0, tag));
        assert!(!expected.is_empty(), "{column_name}");
        let steps = |points: &[(u64, f64)]| points.iter().map(|p| p.0).collect::<Vec<_>>();
        assert_eq!(steps(&expected), steps(&got), "{tag}");
        for (expected, got) in expected.iter().zip(&got) {
            // They are 32-bit floats there.
            let close = (expected.1 - got.1).abs() <= 1e-6 * expected.1.abs().max(1e-3);
            assert!(close, "{tag}: {expected:?} {got:?}");
        }
    }
    let steps: Vec<u64> = column(run, "lr").iter().map(|point| point.0).collect();
    for rank in 0..ranks {
        for tag in ["compute", "exchange", "wait", "load", "evaluate"] {
            let got = points(found, rank, &format!("time/{tag}"));
            let there: Vec<u64> = got.iter().map(|point| point.0).collect();
            assert_eq!(there, steps, "time/{tag} of rank {rank}");
            assert!(
                got.iter().all(|(_, share)| (0.0..=1.05).contains(share)),
                "{got:?}"
            );
        }
    }
}

fn tensorboard() {
    let folder = folder();
    let out = folder.path().join("run");
    let mut command = phalanx(2, folder.path());
    let words = "train lenet train.h5 --test test.h5 --batch 50 --steps 400 --checkpoint-every 7 --eval-every 20 --log-every 5 --no-tune --out run";
    command.args(words.split_whitespace());
    let child = start(command);
    // Killed behind a checkpoint, in the middle of something, with all its ranks at once.
    let begun = Instant::now();
    while !out.join("metrics.csv").exists() || column(&out, "lr").len() < 12 {
        assert!(begun.elapsed() < LIMIT, "it does not come to step 60");
        thread::sleep(Duration::from_millis(20));
    }
    for rank in children(child.id()) {
        signal("KILL", rank);
    }
    wait(child, LIMIT);
    let killed_at = column(&out, "lr").last().unwrap().0;
    assert!(killed_at < 400, "it was killed on its way");
    let printed = job(2, folder.path(), "train --resume run");
    assert!(printed.contains("going on after step"), "{printed}");
    let Some(found) = read(&out) else {
        return;
    };
    compare(&found, &out, 2);
    let first = &found["rank-00000"];
    // Weights and gradients of every tensor, at the first evaluation at the least.
    let histograms = first["histograms"].as_object().unwrap();
    for tag in ["weights/0.conv2d.weight", "gradients/0.conv2d.weight"] {
        let points = histograms[tag].as_array().unwrap();
        assert_eq!(
            points[0][1], 150.0,
            "{tag}: values of the first layer: {points:?}"
        );
        let steps: Vec<u64> = points
            .iter()
            .map(|point| point[0].as_u64().unwrap())
            .collect();
        assert!(steps.windows(2).all(|two| two[0] < two[1]), "{steps:?}");
        assert!(
            steps.iter().all(|step| step.is_multiple_of(20)),
            "{steps:?}"
        );
    }
    let graph = first["graph"].as_array().unwrap();
    assert!(graph.len() > 8 && graph[0] == "input", "{graph:?}");
    let text = first["text"]["settings"].as_str().unwrap();
    assert!(text.contains("step_batch = 100"), "{text}");
    let hparams = &first["hparams"];
    assert_eq!(hparams["values"]["step_batch"], 100.0, "{hparams}");
    assert_eq!(hparams["values"]["model"], "lenet", "{hparams}");
    assert_eq!(hparams["_hparams_/session_end_info"], "session_end_info");
    let result = toml(out.join("result.toml"));
    for metric in hparams["metrics"].as_array().unwrap() {
        let tag = metric.as_str().unwrap();
        let Some(name) = tag.strip_prefix("result/") else {
            continue;
        };
        let points = points(&found, 0, tag);
        assert_eq!(points.len(), 1, "{tag}");
        let expected = result[name].as_float().unwrap();
        assert!(
            (points[0].1 - expected).abs() < 1e-5 * expected.abs(),
            "{tag}"
        );
    }
    assert!(found["rank-00001"]["scalars"].get("train/loss").is_none());
}

fn staleness() {
    let folder = folder();
    let out = folder.path().join("run");
    let words = "train softmax train.h5 --test test.h5 --exchange one-sided --batch 20 --epochs 400 --log-every 400 --out run";
    job(3, folder.path(), words);
    let Some(found) = read(&out) else {
        return;
    };
    let steps: Vec<u64> = column(&out, "lr").iter().map(|point| point.0).collect();
    let losses: Vec<u64> = points(&found, 0, "train/loss")
        .iter()
        .map(|point| point.0)
        .collect();
    assert_eq!(losses, steps);
    for rank in 0..3 {
        let stale = points(&found, rank, "staleness/behind");
        let times = points(&found, rank, "time/compute");
        assert_eq!(stale.len(), times.len(), "rank {rank}");
        assert!(stale.windows(2).all(|two| two[0].0 < two[1].0), "{stale:?}");
        assert!(stale.iter().all(|(_, mean)| *mean >= 0.0), "{stale:?}");
    }
}

fn fewer() {
    let folder = folder();
    let out = folder.path().join("run");
    let words = "train softmax train.h5 --test test.h5 --reproducible --global-batch 240 --steps 40 --log-every 4 --eval-every 8 --checkpoint-every 20 --out run";
    job(4, folder.path(), words);
    job(2, folder.path(), "train --resume run:20");
    let Some(found) = read(&out) else {
        return;
    };
    compare(&found, &out, 2);
    for rank in [2, 3] {
        let steps: Vec<u64> = points(&found, rank, "time/wait")
            .iter()
            .map(|p| p.0)
            .collect();
        assert_eq!(steps, [4, 8, 12, 16, 20], "rank {rank}");
    }
}
