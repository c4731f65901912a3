//! Ranks that hang: the job ends and says which, and ends for nothing else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::job::{csv, folder, job, number};
use crate::launch::{Ended, children, phalanx, run, signal, start, wait};

/// Jobs by name.
pub const JOBS: [(&str, fn()); 5] = [
    ("a stopped rank ends the job, which names it", stopped_rank),
    (
        "a rank that hangs in a step ends the job, which names it",
        hanging_rank,
    ),
    ("a slow rank that moves is left alone", slow_rank),
    ("a job that was suspended goes on", suspended_job),
    ("without a stall timeout nothing ends", no_timeout),
];

/// How a job whose rank hangs must end behind its timeout.
const SPARE: Duration = Duration::from_secs(5);

/// A job of three ranks that is in the middle of training, and those ranks' processes.
fn training(folder: &TempDir, name: &str, words: &str) -> (Child, Vec<u32>, PathBuf) {
    let mut command = phalanx(3, folder.path());
    let all = format!("train softmax train.h5 --epochs 1000000 --out {name} {words}");
    command.args(all.split_whitespace());
    let child = start(command);
    let metrics = folder.path().join(name).join("metrics.csv");
    let begun = Instant::now();
    while rows(&metrics) < 5 {
        assert!(begun.elapsed() < Duration::from_secs(30), "training begins");
        std::thread::sleep(Duration::from_millis(20));
    }
    let ranks = children(child.id());
    assert_eq!(ranks.len(), 3, "mpirun has three ranks");
    (child, ranks, metrics)
}

fn rows(metrics: &Path) -> usize {
    fs::read_to_string(metrics).map_or(0, |text| text.lines().count())
}

/// Checks how a job ended whose `rank` hung; gives that rank's row on the board.
fn told(ended: &Ended, folder: &Path, rank: usize) -> Value {
    let output = &ended.output;
    assert_eq!(ended.code, Some(3), "{output}");
    assert_eq!(output.matches("the job hangs").count(), 1, "{output}");
    let text = fs::read_to_string(folder.join("stalled.json")).unwrap();
    let board: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(board["culprits"], serde_json::json!([rank]), "{text}");
    let ranks = board["ranks"].as_array().unwrap();
    let numbers: Vec<u64> = ranks
        .iter()
        .map(|row| row["rank"].as_u64().unwrap())
        .collect();
    assert_eq!(numbers, [0, 1, 2]);
    assert!(
        ranks.iter().all(|row| row["phase"].is_string()
            && row["step"].is_u64()
            && row["pid"].is_u64()
            && row["host"].is_string()),
        "{text}"
    );
    let row = ranks[rank].clone();
    let words = [
        format!(
            "rank {rank} ({}, pid {})",
            row["host"].as_str().unwrap(),
            row["pid"]
        ),
        format!(
            "in phase {} of step {}",
            row["phase"].as_str().unwrap(),
            row["step"]
        ),
        "stalled.json".into(),
        "--stall-timeout".into(),
    ];
    for word in words {
        assert!(output.contains(&word), "{word} in\n{output}");
    }
    row
}

/// Whether a process is there and is more than an entry in the table.
fn lives(process: u32) -> bool {
    Path::new(&format!("/proc/{process}/exe")).exists()
}

fn stopped_rank() {
    let folder = folder();
    // The first rank too: another one must tell then.
    for (exchange, rank) in [("node-shared", 1), ("all-reduce", 0), ("one-sided", 2)] {
        let words = format!("--stall-timeout 3 --exchange {exchange}");
        let (child, ranks, _) = training(&folder, exchange, &words);
        signal("STOP", ranks[rank]);
        let stopped = Instant::now();
        let ended = wait(child, Duration::from_secs(30));
        assert!(
            stopped.elapsed() < Duration::from_secs(3) + SPARE,
            "{exchange}: gone after {:?}",
            stopped.elapsed()
        );
        let row = told(&ended, &folder.path().join(exchange), rank);
        assert_eq!(row["pid"].as_u64(), Some(ranks[rank].into()));
        assert!(row["silent_s"].as_f64().unwrap() >= 2.0, "{row}");
        assert!(ended.output.contains("stopped or frozen"));
        while ranks.iter().any(|&rank| lives(rank)) {
            assert!(
                stopped.elapsed() < Duration::from_secs(3) + SPARE,
                "{exchange}: no rank is left"
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn hanging_rank() {
    let folder = folder();
    let mut command = phalanx(3, folder.path());
    let words =
        "train softmax train.h5 --epochs 1000 --stall-timeout 2 --inject stall:1:20 --out run";
    command.args(words.split_whitespace());
    let ended = run(command, Duration::from_secs(30));
    let run = folder.path().join("run");
    let row = told(&ended, &run, 1);
    assert_eq!(
        (&row["phase"], &row["step"]),
        (&"compute".into(), &20.into())
    );
    assert!(ended.output.contains("its process runs"));
    assert!(
        row["silent_s"].as_f64().unwrap() < 1.5,
        "its heart beats: {row}"
    );
    let settings = fs::read_to_string(run.join("settings.toml")).unwrap();
    assert!(
        settings.contains("inject = [\"stall:1:20\"]") && settings.contains("stall_timeout = 2.0"),
        "{settings}"
    );
    // The board of an older run goes with it.
    job(
        1,
        folder.path(),
        "train softmax train.h5 --steps 1 --out run --force",
    );
    assert!(!run.join("stalled.json").exists());
}

fn slow_rank() {
    let folder = folder();
    let printed = job(
        3,
        folder.path(),
        "train lenet train.h5 --test test.h5 --batch 100 --steps 200 --eval-every 100 --no-tune --stall-timeout 2 --inject slow:1:5 --out run",
    );
    assert!(printed.contains("slow:1:5"), "{printed}");
    let ranks = csv(folder.path().join("run/ranks.csv"));
    let compute: Vec<f64> = ranks.iter().map(|rank| number(rank, "compute_s")).collect();
    assert!(
        compute[1] > 2.0,
        "longer than the timeout in all: {compute:?}"
    );
    assert!(compute[1] > 2.0 * compute[0].max(compute[2]), "{compute:?}");
    assert!(!folder.path().join("run/stalled.json").exists());
}

fn suspended_job() {
    let folder = folder();
    let (child, ranks, metrics) = training(&folder, "run", "--stall-timeout 1");
    ranks.iter().for_each(|&rank| signal("STOP", rank));
    std::thread::sleep(Duration::from_secs(3));
    let before = rows(&metrics);
    ranks.iter().for_each(|&rank| signal("CONT", rank));
    let ended = wait(child, Duration::from_secs(3));
    assert_eq!(ended.code, None, "it went on: {}", ended.output);
    assert!(rows(&metrics) > before, "and got somewhere");
}

fn no_timeout() {
    let folder = folder();
    let mut command = phalanx(2, folder.path());
    let words = "train softmax train.h5 --epochs 1000 --stall-timeout 0 --inject stall:1:5 --log-every 1 --out run";
    command.args(words.split_whitespace());
    let ended = run(command, Duration::from_secs(4));
    assert_eq!(ended.code, None, "{}", ended.output);
    assert!(!ended.output.contains("hangs"), "{}", ended.output);
    let run = folder.path().join("run");
    assert_eq!(rows(&run.join("metrics.csv")), 5, "a head and four steps");
    assert!(!run.join("stalled.json").exists());
}
