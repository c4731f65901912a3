//! Studies and searches, run.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::job::{LIMIT, csv, folder, good, number, toml};
use crate::launch::{Ended, run, signal};

/// Jobs by name.
pub const JOBS: [(&str, fn()); 4] = [
    (
        "a study that was killed goes on and ends with the same table",
        killed,
    ),
    (
        "runs of a study that fail are kept and told, and tried again",
        failing,
    ),
    ("a search finds a configuration, and its run goes on", found),
    (
        "strategies by name choose the exchange and say so",
        strategies,
    ),
];

/// The program by itself, as somebody starts a study.
fn alone(folder: &Path, words: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    command.args(words.split_whitespace()).current_dir(folder);
    command
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command
}

fn ended(folder: &Path, words: &str) -> Ended {
    run(alone(folder, words), LIMIT)
}

const STUDY: &str = r#"
title = "Batch and ranks"
prepare = ["data make digits train.h5 --samples 2000", "data make digits test.h5 --samples 500 --first 2000"]
command = "train softmax train.h5 --test test.h5"
repeats = 2
oversubscribe = true
[settings]
epochs = 2
exchange = "node-shared"
[grid]
ranks = [1, 2]
batch = [20, 50]
[[columns]]
name = "updates"
figure = "steps"
[[columns]]
name = "accuracy %"
figure = "test_accuracy"
times = 100
[[columns]]
name = "against one rank"
figure = "steps"
against = { ranks = 1 }
[[plots]]
over = "batch"
column = "accuracy %"
second = "updates"
[[shares]]
name = "updates of ranks"
figure = "steps"
[[curves]]
name = "loss"
figure = "loss"
at = { ranks = 2 }
[[published]]
at = { batch = 20 }
figures = { updates = 42 }
"#;

fn killed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fs::write(path.join("one.toml"), STUDY).unwrap();
    let told = good(ended(path, "sweep one.toml --out whole"));
    assert!(told.contains("updates, published"), "{told}");
    // Killed with all that it started, when some runs are done and some are not.
    let mut command = alone(path, "sweep one.toml --out cut");
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // Only records of runs that ended: notes of what was begun come and go.
    let is_record = |entry: &std::io::Result<fs::DirEntry>| {
        let path = entry.as_ref().unwrap().path();
        path.extension().is_some_and(|ending| ending == "json")
    };
    let records = || {
        let entries = fs::read_dir(path.join("cut/records"));
        entries.map_or(0, |entries| entries.filter(is_record).count())
    };
    let begun = Instant::now();
    while records() < 2 {
        assert!(begun.elapsed() < Duration::from_secs(60), "runs are made");
        std::thread::sleep(Duration::from_millis(5));
    }
    signal("KILL", child.id());
    child.wait().unwrap();
    let before = records();
    assert!((2..8).contains(&before), "{before} runs were done");
    let told = good(ended(path, "sweep one.toml --out cut"));
    let again = format!("{before} of 8 runs have been made before");
    assert!(told.contains(&again), "{told}");
    let table = |out: &str| fs::read_to_string(path.join(out).join("table.csv")).unwrap();
    assert_eq!(table("cut"), table("whole"));
    let rows = csv(path.join("whole/table.csv"));
    assert_eq!(rows.len(), 4);
    for row in &rows {
        // Two ranks take two batches a step.
        let updates = 2.0 * 2000.0 / (number(row, "ranks") * number(row, "batch"));
        assert_eq!(number(row, "updates"), updates, "{row:?}");
        assert_eq!(number(row, "against one rank"), 1.0 / number(row, "ranks"));
        assert!(number(row, "accuracy %") > 50.0, "{row:?}");
        assert_eq!(row["runs"], "2");
    }
    assert_eq!(csv(path.join("whole/runs.csv")).len(), 8);
    let page = fs::read_to_string(path.join("whole/report.html")).unwrap();
    assert!(page.contains("Batch and ranks"));
    for plot in ["1-accuracy", "ranks-updates-of-ranks", "curve-loss"] {
        assert!(page.contains(&format!("data-plot=\"{plot}\"")), "{plot}");
        let file = path.join(format!("whole/plots/{plot}.svg"));
        assert!(fs::read_to_string(file).unwrap().starts_with("<svg"));
    }
    // Nothing is left to do, and a change of the study runs what is new alone.
    let wider = STUDY.replace("batch = [20, 50]", "batch = [20, 50, 100]");
    fs::write(path.join("one.toml"), wider).unwrap();
    let told = good(ended(path, "sweep one.toml --out whole"));
    assert!(
        told.contains("8 of 12 runs have been made before"),
        "{told}"
    );
}

fn failing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    // A data set that is not there fails every run that wants it.
    let study = r#"
title = "One of two fails"
prepare = ["data make digits train.h5 --samples 500"]
command = "train softmax train.h5 --epochs 1"
[grid]
test = ["train.h5", "missing.h5"]
[[columns]]
name = "updates"
figure = "steps"
[[columns]]
name = "nobody has it"
figure = "test_acuracy"
"#;
    fs::write(path.join("one.toml"), study).unwrap();
    for again in ["", " --retry"] {
        let ended = ended(path, &format!("sweep one.toml{again}"));
        assert_eq!(ended.code, Some(1), "{}", ended.output);
        for words in [
            "1 of 2 runs failed",
            "missing.h5",
            "did you mean `test_accuracy`?",
            "0, 1 failed",
        ] {
            assert!(ended.output.contains(words), "{words}: {}", ended.output);
        }
    }
    let search = r#"
title = "All fail"
command = "train softmax missing.h5 --epochs 1"
[space]
batch = [10, 20, 30, 40]
[measure]
figure = "seconds"
"#;
    fs::write(path.join("all.toml"), search).unwrap();
    let ended = ended(path, "tune all.toml");
    assert_eq!(ended.code, Some(1), "{}", ended.output);
    assert!(
        ended.output.contains("no trial has ended well"),
        "{}",
        ended.output
    );
}

fn found() {
    let folder = folder();
    let path = folder.path();
    // Judged by the samples that were seen, which no clock decides: the largest batch, where they cost least.
    let search = r#"
title = "The fastest batch"
prices = "prices.toml"
prepare = ["data make digits train.h5 --samples 3000"]
command = "train softmax train.h5"
[settings]
steps = 30
[space]
batch = [1, 2, 4, 8, 400]
instance = ["plain", "dear"]
[instances.plain]
price = 1
[measure]
figure = "samples"
speed = true
cost = true
[winner]
steps = 60
"#;
    // The file's own word on a kind of machine counts.
    let prices =
        "[plain]\nprice = 9\n[dear]\nprice = 3\nmomentum = 0.5\noptimizer = \"momentum\"\n";
    fs::write(path.join("one.toml"), search).unwrap();
    fs::write(path.join("prices.toml"), prices).unwrap();
    let told = good(ended(path, "tune one.toml --gain 0 --parallel 2"));
    assert!(
        told.contains("best        batch 400, instance plain"),
        "{told}"
    );
    assert!(told.contains("all configurations were tried"), "{told}");
    let trials = csv(path.join("one/trials.csv"));
    assert_eq!(trials.len(), 10);
    let run = path.join("one/runs/batch-400_instance-plain_seed-1");
    assert_eq!(
        toml(run.join("result.toml"))["steps"].as_integer(),
        Some(60)
    );
    let page = fs::read_to_string(path.join("one/report.html")).unwrap();
    assert!(page.contains("data-plot=\"trials\"") && page.contains("data-plot=\"expected\""));
    // Given again, everything is known.
    let begun = Instant::now();
    let told = good(ended(path, "tune one.toml --gain 0 --parallel 2"));
    assert!(
        told.contains("best        batch 400, instance plain"),
        "{told}"
    );
    assert!(begun.elapsed() < Duration::from_secs(20));
}

fn strategies() {
    let folder = folder();
    let train = |size: usize, strategy: &str| {
        let mut command = crate::launch::phalanx(size, folder.path());
        let words = format!(
            "train softmax train.h5 --steps 12 --batch 60 --out {strategy} --force --strategy {strategy}"
        );
        command.args(words.split_whitespace());
        run(command, LIMIT)
    };
    let batch = |strategy: &str| {
        toml(folder.path().join(strategy).join("result.toml"))["batch"].as_integer()
    };
    for (size, strategy, words, samples) in [
        (1, "one-device", "nothing is exchanged", 60),
        (2, "mirrored", "shared memory", 60),
        (3, "multi-worker", "agree every step", 60),
        (2, "parameter-server", "rank 0 holds the parameters", 60),
    ] {
        let told = good(train(size, strategy));
        assert!(
            told.contains(&format!("{strategy}: ")) && told.contains(words),
            "{told}"
        );
        assert_eq!(batch(strategy), Some(samples), "{strategy}");
    }
    let refused = train(2, "one-device");
    assert_eq!(refused.code, Some(2), "{}", refused.output);
    assert!(
        refused
            .output
            .contains("is for one rank, and 2 were started"),
        "{}",
        refused.output
    );
}
