//! What runs show and write while they go on: resources, signs of life, progress.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::emulator::emulator;
use crate::job::{LIMIT, csv, folder, good, job, number, toml};
use crate::launch::{Ended, children, none_left, phalanx, run, signal, start, wait};

/// Jobs by name.
pub const JOBS: [(&str, fn()); 5] = [
    (
        "every rank writes its resources once a second, with phase and step, and a resumed run goes on with them",
        resources,
    ),
    (
        "resources and events that cannot be written are one warning and change nothing",
        refused,
    ),
    (
        "what a GPU does is in the resources of its rank where NVML is there",
        gpu,
    ),
    (
        "top tells a running, a stopped, a killed and a finished run apart",
        top,
    ),
    (
        "with --json every line on stdout is an object, and with --quiet only the result is told",
        spoken,
    ),
];

/// Long enough to be looked at, and to be stopped in the middle.
const SLOW: &str = "train lenet train.h5 --test test.h5 --batch 50 --epochs 100000 --no-tune";

fn rows(run: &Path, rank: usize) -> Vec<BTreeMap<String, String>> {
    csv(run.join(format!("rank-{rank:05}/resources.csv")))
}

fn resources() {
    let folder = folder();
    let run = folder.path().join("run");
    let stop = |words: &str| {
        let mut command = phalanx(2, folder.path());
        command.args(words.split_whitespace());
        let ended = run_to(command);
        assert_eq!(ended.code, Some(4), "{}", ended.output);
        assert!(!ended.output.contains("not recorded"), "{}", ended.output);
    };
    stop(&format!(
        "{SLOW} --time-limit 4s --resources dstat --out run"
    ));
    let first = [rows(&run, 0), rows(&run, 1)];
    for (rank, rows) in first.iter().enumerate() {
        assert!((3..=8).contains(&rows.len()), "{} rows", rows.len());
        let step = |row: &BTreeMap<String, String>| number(row, "step");
        assert!(rows.windows(2).all(|two| step(&two[0]) <= step(&two[1])));
        let phases = [
            "load",
            "compute",
            "exchange",
            "wait",
            "evaluate",
            "write",
            "checkpoint",
            "settle",
        ];
        for row in rows {
            assert_eq!(number(row, "rank"), rank as f64);
            assert!(phases.contains(&row["phase"].as_str()), "{row:?}");
            assert!(number(row, "resident_mb") > 10.0 && number(row, "host_memory_mb") > 10.0);
            assert!(row["gpu_percent"].is_empty());
        }
        assert!(!rows[0]["proportional_mb"].is_empty(), "{:?}", rows[0]);
        let busy = rows
            .iter()
            .map(|row| number(row, "cpu_percent"))
            .fold(0.0, f64::max);
        assert!(busy > 20.0, "a rank that trains is busy: {busy} %");
    }
    let dstat = run.join("rank-00000/dstat.csv");
    let lines = fs::read_to_string(&dstat).unwrap().lines().count();
    assert_eq!(lines, 6 + first[0].len(), "dstat.csv");
    assert!(
        !run.join("rank-00001/dstat.csv").exists(),
        "one for each host"
    );
    stop("train --resume run --time-limit 3s");
    for (rank, first) in first.iter().enumerate() {
        let second = rows(&run, rank);
        assert!(second.len() > first.len(), "{} rows", second.len());
        let seconds: Vec<f64> = second.iter().map(|row| number(row, "seconds")).collect();
        assert!(
            seconds.windows(2).all(|two| two[0] <= two[1]),
            "{seconds:?}"
        );
        let gaps = seconds.windows(2).map(|two| two[1] - two[0]);
        let widest = gaps.fold(0.0, f64::max);
        assert!(widest < 4.0, "the clock goes on: {seconds:?}");
    }
}

fn run_to(command: Command) -> Ended {
    run(command, LIMIT)
}

fn refused() {
    let folder = folder();
    let words = "train softmax train.h5 --test test.h5 --steps 40 --no-tune";
    job(2, folder.path(), &format!("{words} --out good"));
    // Files where folders are to be.
    fs::create_dir_all(folder.path().join("bad")).unwrap();
    for rank in ["rank-00000", "rank-00001"] {
        fs::write(folder.path().join("bad").join(rank), "in the way").unwrap();
    }
    let printed = job(2, folder.path(), &format!("{words} --continue --out bad"));
    for what in [
        "resources are not recorded",
        "no more events for TensorBoard",
    ] {
        assert_eq!(
            printed.matches(what).count(),
            2,
            "{what}, once a rank:\n{printed}"
        );
    }
    let checksum =
        |run: &str| toml(folder.path().join(run).join("result.toml"))["checksum"].clone();
    assert_eq!(checksum("good"), checksum("bad"));
    // Nothing is written where nothing is wanted.
    let off = "--resources off --tensorboard off";
    job(2, folder.path(), &format!("{words} {off} --out off"));
    assert!(!folder.path().join("off/rank-00000").exists());
    assert_eq!(checksum("good"), checksum("off"));
}

fn gpu() {
    let Some(emulator) = emulator() else {
        return;
    };
    let folder = folder();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/nvml.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-shared", "-fPIC", "-o", "libnvidia-ml.so.1", source]);
    compiler.current_dir(folder.path());
    assert!(compiler.status().unwrap().success());
    let with = format!("{}:{}", folder.path().display(), emulator.display());
    let without = emulator.display().to_string();
    for (name, path, expected) in [
        ("with", with, ["42.0", "512.0"]),
        ("without", without, ["", ""]),
    ] {
        let mut command = phalanx(2, folder.path());
        let words =
            format!("train softmax train.h5 --device cuda --steps 3 --batch 10 --out {name}");
        command.args(words.split_whitespace());
        command.env("LD_LIBRARY_PATH", path);
        command.env("XDG_CACHE_HOME", emulator.join("kept/jobs"));
        good(run_to(command));
        for rank in 0..2 {
            let rows = rows(&folder.path().join(name), rank);
            let last = rows.last().unwrap();
            assert_eq!(
                [&last["gpu_percent"], &last["gpu_memory_mb"]],
                expected,
                "{name}"
            );
        }
    }
}

/// What `phalanx top --once` says of a run, and its exit code.
fn glance(folder: &Path, run: &str) -> (String, Option<i32>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    command.args(["top", "--once", run]).current_dir(folder);
    let ended = run_to(command);
    (ended.output, ended.code)
}

fn top() {
    let folder = folder();
    let path = folder.path();
    let (said, code) = glance(path, "nowhere");
    assert!(
        said.contains("there is no such run folder") && code == Some(1),
        "{said}"
    );
    fs::create_dir(path.join("other")).unwrap();
    let (said, code) = glance(path, "other");
    assert!(said.contains("is not a run") && code == Some(1), "{said}");
    let begin = |words: &str| {
        let mut command = phalanx(2, path);
        command.args(words.split_whitespace());
        start(command)
    };
    let child = begin(&format!("{SLOW} --out run"));
    let seen: PathBuf = path.join("run/rank-00001/now.json");
    let since = Instant::now();
    while !seen.exists() {
        assert!(since.elapsed() < LIMIT, "no sign of life");
        thread::sleep(Duration::from_millis(50));
    }
    thread::sleep(Duration::from_millis(1500));
    let (said, code) = glance(path, "run");
    assert!(said.contains("run: running") && code == Some(0), "{said}");
    assert!(said.contains("2 ranks on 1 host, step "), "{said}");
    let table: Vec<Vec<&str>> = said
        .lines()
        .map(|l| l.split_whitespace().collect())
        .collect();
    for rank in ["0", "1"] {
        let row = table.iter().find(|row| row.first() == Some(&rank));
        let row = row.unwrap_or_else(|| panic!("rank {rank} in\n{said}"));
        assert!(
            row[4].parse::<u64>().unwrap() > 0 && row[5].parse::<f64>().unwrap() > 0.0,
            "{said}"
        );
    }
    // Frozen processes are there, and say nothing.
    let ranks = children(child.id());
    ranks.iter().for_each(|rank| signal("STOP", *rank));
    thread::sleep(Duration::from_secs(6));
    let (said, code) = glance(path, "run");
    assert!(
        said.contains("processes are still there") && code == Some(1),
        "{said}"
    );
    ranks.iter().for_each(|rank| signal("KILL", *rank));
    wait(child, LIMIT);
    none_left(&ranks);
    let (said, code) = glance(path, "run");
    assert!(
        said.contains("killed: ") && said.contains("--resume") && code == Some(1),
        "{said}"
    );
    let mut stopped = phalanx(2, path);
    stopped.args(format!("{SLOW} --time-limit 2s --out stopped").split_whitespace());
    assert_eq!(run_to(stopped).code, Some(4));
    let (said, code) = glance(path, "stopped");
    assert!(
        said.contains("stopped before its end") && code == Some(0),
        "{said}"
    );
    job(2, path, "train softmax train.h5 --steps 5 --out done");
    let (said, code) = glance(path, "done");
    assert!(said.contains("done: finished") && code == Some(0), "{said}");
    job(
        1,
        path,
        "train softmax train.h5 --steps 5 --resources off --out off",
    );
    let (said, _) = glance(path, "off");
    assert!(said.contains("off: finished"), "{said}");
}

fn spoken() {
    let folder = folder();
    let base = "train softmax train.h5 --test test.h5 --steps 40 --eval-every 10";
    let ended = |words: String| {
        let mut command = phalanx(2, folder.path());
        command.args(words.split_whitespace());
        let output = command.output().unwrap();
        assert!(output.status.success());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr))
    };
    let (lines, _) = ended(format!("{base} --json --out a"));
    let objects: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no object: {line}")))
        .collect();
    let events: Vec<&str> = objects
        .iter()
        .map(|o| o["event"].as_str().unwrap())
        .collect();
    assert_eq!(
        (events[0], *events.last().unwrap()),
        ("start", "end"),
        "{lines}"
    );
    assert_eq!(
        (&objects[0]["run"], &objects[0]["steps"]),
        (&"a".into(), &40.into())
    );
    let rows = csv(folder.path().join("a/metrics.csv"));
    let told = &objects[1..objects.len() - 1];
    assert_eq!(rows.len(), told.len(), "{lines}");
    for (row, object) in rows.iter().zip(told) {
        assert_eq!(object["event"], "row");
        let there = row.iter().filter(|(_, cell)| !cell.is_empty());
        for (name, cell) in there.clone() {
            assert_eq!(object[name].as_f64(), Some(cell.parse().unwrap()), "{name}");
        }
        assert_eq!(object.as_object().unwrap().len(), 1 + there.count());
    }
    let result = toml(folder.path().join("a/result.toml"));
    let last = objects.last().unwrap();
    assert_eq!(last["test_loss"].as_f64(), result["test_loss"].as_float());
    let (words, noise) = ended(format!("{base} --quiet --out b"));
    assert!(words.starts_with("result\n"), "{words}");
    assert_eq!(noise, "");
    let (words, _) = ended(format!("{base} --out c"));
    assert!(
        words.starts_with("settings\n") && words.contains("test accuracy"),
        "{words}"
    );
    let mut both = phalanx(1, folder.path());
    both.args(format!("{base} --json --quiet --out d").split_whitespace());
    assert_eq!(run_to(both).code, Some(2));
    good(run_to({
        let mut make = Command::new(env!("CARGO_BIN_EXE_phalanx"));
        make.args([
            "data",
            "make",
            "digits",
            "q.h5",
            "--samples",
            "100",
            "--quiet",
        ]);
        make.current_dir(folder.path());
        make
    }));
}
