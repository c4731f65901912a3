//! Whole jobs of the program, as a user starts them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::launch::{Ended, phalanx, run, skip, start, wait};

/// Jobs by name.
pub const JOBS: [(&str, fn()); 10] = [
    (
        "a synchronous run leaves a whole run folder",
        synchronous_run,
    ),
    (
        "an asynchronous run shows each rank's share",
        asynchronous_run,
    ),
    (
        "ranks and batches of one size give one result",
        ranks_and_batches,
    ),
    (
        "a run repeated from its settings gives the same bits",
        repeated_run,
    ),
    ("training until a loss says between which steps", until_loss),
    ("MNIST reaches the published figures", mnist),
    (
        "a killed rank ends the job and leaves whole files",
        killed_rank,
    ),
    ("runs without a name get the next free one", default_names),
    ("a bench prints the keys that scripts read", bench),
    ("the README's commands run", readme),
];

const LIMIT: Duration = Duration::from_secs(120);

/// A folder with `train.h5` and `test.h5`.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let set = |name: &str, samples: &str, first: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
        command.args([
            "data",
            "make",
            "digits",
            name,
            "--samples",
            samples,
            "--first",
            first,
        ]);
        command.current_dir(folder.path());
        good(run_command(command));
    };
    set("train.h5", "3000", "0");
    set("test.h5", "1000", "3000");
    folder
}

fn run_command(command: Command) -> Ended {
    run(command, LIMIT)
}

/// What a job printed, which must have ended well.
fn good(ended: Ended) -> String {
    assert_eq!(ended.code, Some(0), "{}", ended.output);
    ended.output
}

/// `mpirun -n SIZE phalanx WORDS`, which must end well.
fn job(size: usize, folder: &Path, words: &str) -> String {
    let mut command = phalanx(size, folder);
    command.args(words.split_whitespace());
    good(run_command(command))
}

/// A CSV file as rows of values by column.
fn csv(path: PathBuf) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_path(path).unwrap();
    reader.deserialize().map(|row| row.unwrap()).collect()
}

fn number(row: &BTreeMap<String, String>, column: &str) -> f64 {
    row[column]
        .parse()
        .unwrap_or_else(|_| panic!("{column} is `{}`", row[column]))
}

fn toml(path: PathBuf) -> toml::Table {
    fs::read_to_string(path).unwrap().parse().unwrap()
}

fn synchronous_run() {
    let folder = folder();
    let printed = job(
        3,
        folder.path(),
        "train softmax train.h5 --test test.h5 --epochs 4 --lr 0.3 --out run --eval-every 10",
    );
    assert!(
        printed.starts_with("settings") && printed.contains("\nresult"),
        "{printed}"
    );
    let run = folder.path().join("run");
    let metrics = fs::read_to_string(run.join("metrics.csv")).unwrap();
    assert!(
        metrics.starts_with("step,epoch,samples,seconds,loss,accuracy,lr,samples_per_s"),
        "{metrics}"
    );
    let rows = csv(run.join("metrics.csv"));
    let tested: Vec<_> = rows
        .iter()
        .filter(|row| !row["test_loss"].is_empty())
        .collect();
    assert_eq!(
        tested
            .iter()
            .map(|row| number(row, "step"))
            .collect::<Vec<_>>(),
        [10.0, 20.0, 30.0, 40.0]
    );
    let first = rows.first().unwrap();
    assert!(
        number(first, "loss") > 1.5 && number(tested[3], "test_loss") < 1.2,
        "{metrics}"
    );
    assert_eq!(number(rows.last().unwrap(), "samples"), 12_000.0);

    let ranks = csv(run.join("ranks.csv"));
    assert_eq!(ranks.len(), 3);
    for rank in &ranks {
        assert_eq!(number(rank, "steps"), 40.0);
        assert_eq!(
            rank["checksum"], ranks[0]["checksum"],
            "every rank ends with the same bits"
        );
        assert!((number(rank, "share") - 1.0 / 3.0).abs() < 1e-9);
        assert!(number(rank, "test_accuracy") > 0.6);
        let times = ["compute_s", "exchange_s", "wait_s", "load_s"].map(|part| number(rank, part));
        assert!(times.iter().all(|&time| time >= 0.0) && times[0] > 0.0);
    }
    assert_eq!(
        ranks
            .iter()
            .map(|rank| number(rank, "samples"))
            .sum::<f64>(),
        12_000.0
    );

    let settings = toml(run.join("settings.toml"));
    assert_eq!(settings["ranks"].as_integer(), Some(3));
    assert_eq!(settings["resolved"]["step_batch"].as_integer(), Some(300));
    let accuracy = toml(run.join("result.toml"))["test_accuracy"]
        .as_float()
        .unwrap();
    // The stored model gives what the run said, on any number of ranks.
    for size in [1, 2] {
        let line = job(size, folder.path(), "eval run test.h5 --json");
        let result: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert!(
            (result["accuracy"].as_f64().unwrap() - accuracy).abs() < 1e-9,
            "{line}"
        );
    }
}

fn asynchronous_run() {
    let folder = folder();
    for placement in ["sharded", "rank0"] {
        let words = format!(
            "train softmax train.h5 --test test.h5 --epochs 20 --batch 50 --exchange one-sided --placement {placement} --out {placement}"
        );
        job(3, folder.path(), &words);
        let ranks = csv(folder.path().join(placement).join("ranks.csv"));
        let steps: f64 = ranks.iter().map(|rank| number(rank, "steps")).sum();
        assert_eq!(steps, 20.0 * 60.0, "every step is taken once, by one rank");
        let shares: f64 = ranks.iter().map(|rank| number(rank, "share")).sum();
        assert!((shares - 1.0).abs() < 1e-9);
        assert!(
            ranks
                .iter()
                .all(|rank| rank["checksum"] == ranks[0]["checksum"])
        );
    }
    job(
        3,
        folder.path(),
        "train softmax train.h5 --test test.h5 --epochs 20 --global-batch 50 --out sync",
    );
    let accuracy = |name: &str| {
        toml(folder.path().join(name).join("result.toml"))["test_accuracy"]
            .as_float()
            .unwrap()
    };
    for placement in ["sharded", "rank0"] {
        let difference = (accuracy(placement) - accuracy("sync")).abs();
        assert!(
            difference < 0.02,
            "{placement} differs by {difference} from synchronous training"
        );
    }
}

fn ranks_and_batches() {
    let folder = folder();
    let runs = [
        (1, "--batch 120", "one"),
        (3, "--batch 40", "three"),
        (4, "--global-batch 120", "four"),
    ];
    let params = runs.map(|(size, batch, out)| {
        job(
            size,
            folder.path(),
            &format!("train softmax train.h5 --epochs 3 --lr 0.2 {batch} --out {out}"),
        );
        phalanx::nn::load(&folder.path().join(out).join("model.h5"))
            .unwrap()
            .1
    });
    for other in &params[1..] {
        let worst = params[0]
            .iter()
            .zip(other)
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f32::max);
        assert!(worst < 1e-5, "parameters differ by {worst}");
    }
}

fn repeated_run() {
    let folder = folder();
    job(
        2,
        folder.path(),
        "train softmax train.h5 --epochs 2 --seed 7 --out first",
    );
    let settings = toml(folder.path().join("first/settings.toml"));
    let words: Vec<&str> = settings["command"]
        .as_array()
        .unwrap()
        .iter()
        .map(|word| word.as_str().unwrap())
        .collect();
    let words = words[1..].join(" ").replace("--out first", "--out second");
    job(
        settings["ranks"].as_integer().unwrap() as usize,
        folder.path(),
        &words,
    );
    let bits = |run: &str| {
        toml(folder.path().join(run).join("result.toml"))["checksum"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(bits("first"), bits("second"));
    job(
        2,
        folder.path(),
        "train softmax train.h5 --epochs 2 --seed 8 --out third",
    );
    assert_ne!(bits("first"), bits("third"), "another seed is another run");
}

fn until_loss() {
    let folder = folder();
    let printed = job(
        2,
        folder.path(),
        "train softmax train.h5 --test test.h5 --lr 0.3 --until-loss 1.0 --eval-every 7 --out run",
    );
    let result = toml(folder.path().join("run/result.toml"));
    let step = result["target_step"].as_integer().unwrap();
    assert_eq!(step % 7, 0);
    assert!(printed.contains(&format!(
        "crossed between step {} and step {step} (evaluated every 7 steps)",
        step - 7
    )));
    let losses: Vec<f64> = csv(folder.path().join("run/metrics.csv"))
        .iter()
        .filter(|row| !row["test_loss"].is_empty())
        .map(|row| number(row, "test_loss"))
        .collect();
    let (last, before) = losses.split_last().unwrap();
    assert!(
        *last <= 1.0 && before.iter().all(|&loss| loss > 1.0),
        "{losses:?}"
    );
    let printed = job(
        2,
        folder.path(),
        "train softmax train.h5 --test test.h5 --until-loss 0.001 --steps 20 --out never",
    );
    assert!(
        printed.contains("test loss 0.001 was not reached"),
        "{printed}"
    );
    job(
        3,
        folder.path(),
        "train softmax train.h5 --test test.h5 --exchange one-sided --until-loss 1.0 --out async",
    );
    assert!(
        toml(folder.path().join("async/result.toml"))["test_loss"]
            .as_float()
            .unwrap()
            < 1.05
    );
}

/// The published figures: loss 0.35 at about step 7,100 with 90.6 % (learning rate 0.01, batch 100, one rank).
fn mnist() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/mnist");
    if !source.exists() {
        return skip("the MNIST files are not beside the project");
    }
    let folder = tempfile::tempdir().unwrap();
    for (part, name) in [("train", "train.h5"), ("t10k", "test.h5")] {
        let file = |kind| {
            source
                .join(format!("{part}-{kind}-ubyte.gz"))
                .display()
                .to_string()
        };
        let words = format!(
            "data import idx {} {} {name}",
            file("images-idx3"),
            file("labels-idx1")
        );
        job(1, folder.path(), &words);
    }
    let set = phalanx::data::Dataset::open(&folder.path().join("train.h5")).unwrap();
    let mut counts = [0; 10];
    set.labels()
        .iter()
        .for_each(|&label| counts[label as usize] += 1);
    assert_eq!(
        counts,
        [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    );

    let training = "train softmax train.h5 --test test.h5";
    job(
        1,
        folder.path(),
        &format!("{training} --lr 0.01 --until-loss 0.35 --out published"),
    );
    let result = |run: &str| toml(folder.path().join(run).join("result.toml"));
    let published = result("published");
    let (step, accuracy) = (
        published["target_step"].as_integer().unwrap(),
        published["test_accuracy"].as_float().unwrap(),
    );
    assert!((6_900..=7_300).contains(&step), "crossed at step {step}");
    assert!((0.904..0.908).contains(&accuracy), "accuracy {accuracy}");

    job(
        3,
        folder.path(),
        &format!("{training} --lr 0.3 --epochs 15 --out sync"),
    );
    let accuracy = result("sync")["test_accuracy"].as_float().unwrap();
    assert!(accuracy > 0.92, "accuracy {accuracy}");
    job(
        3,
        folder.path(),
        &format!("{training} --lr 0.1 --epochs 15 --exchange one-sided --out async"),
    );
    let other = result("async")["test_accuracy"].as_float().unwrap();
    assert!(
        (accuracy - other).abs() < 0.005,
        "synchronous {accuracy}, asynchronous {other}"
    );
}

fn killed_rank() {
    let folder = folder();
    for exchange in ["all-reduce", "one-sided"] {
        let mut command = phalanx(3, folder.path());
        let words = format!(
            "train softmax train.h5 --test test.h5 --epochs 1000000 --exchange {exchange} --out {exchange}"
        );
        command.args(words.split_whitespace());
        let child = start(command);
        let metrics = folder.path().join(exchange).join("metrics.csv");
        let begun = Instant::now();
        while fs::read_to_string(&metrics).map_or(0, |text| text.lines().count()) < 5 {
            assert!(begun.elapsed() < Duration::from_secs(30), "training begins");
            std::thread::sleep(Duration::from_millis(20));
        }
        let ranks = children(child.id());
        assert_eq!(ranks.len(), 3, "mpirun has three ranks");
        let status = Command::new("kill")
            .args(["-9", &ranks[1].to_string()])
            .status()
            .unwrap();
        assert!(status.success());
        let ended = wait(child, Duration::from_secs(20));
        assert!(
            ended.time < Duration::from_secs(5),
            "{exchange}: gone after {:?}",
            ended.time
        );
        assert!(
            ended.code.is_some_and(|code| code != 0),
            "{exchange}: exit code {:?}",
            ended.code
        );
        assert!(
            ranks
                .iter()
                .all(|rank| !Path::new(&format!("/proc/{rank}/exe")).exists()),
            "no rank is left"
        );
        let text = fs::read_to_string(&metrics).unwrap();
        let columns = |line: &str| line.matches(',').count();
        assert!(
            text.ends_with('\n') && text.lines().all(|line| columns(line) == 9),
            "whole rows only"
        );
        let names: Vec<String> = fs::read_dir(folder.path().join(exchange))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert!(
            names
                .iter()
                .all(|name| ["settings.toml", "metrics.csv"].contains(&name.as_str())),
            "{names:?}"
        );
    }
}

/// The processes that `parent` started.
fn children(parent: u32) -> Vec<u32> {
    let mut found: Vec<u32> = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let after_name = stat.rsplit(") ").next().unwrap_or_default();
            after_name.split(' ').nth(1) == Some(&parent.to_string())
        })
        .collect();
    found.sort_unstable();
    found
}

fn default_names() {
    let folder = folder();
    for number in 1..=2 {
        let printed = job(2, folder.path(), "train softmax train.h5 --steps 3");
        assert!(
            printed.contains(&format!("runs/softmax-{number:03}")),
            "{printed}"
        );
    }
    let first = fs::read(folder.path().join("runs/softmax-001/metrics.csv")).unwrap();
    job(
        2,
        folder.path(),
        "train softmax train.h5 --steps 5 --out runs/softmax-001 --force",
    );
    assert_ne!(
        fs::read(folder.path().join("runs/softmax-001/metrics.csv")).unwrap(),
        first
    );
}

fn bench() {
    let folder = folder();
    for exchange in ["all-reduce", "one-sided"] {
        let line = job(
            2,
            folder.path(),
            &format!("bench train --data train.h5 --seconds 0.2 --exchange {exchange} --json"),
        );
        let values: serde_json::Value = serde_json::from_str(&line).unwrap();
        for key in [
            "peer",
            "workload",
            "procs",
            "threads",
            "batch",
            "examples_per_s",
            "s_per_batch",
            "rss_mb",
        ] {
            assert!(!values[key].is_null(), "{key} in {line}");
        }
        assert!(values["examples_per_s"].as_f64().unwrap() > 1000.0);
        assert_eq!(values["procs"], 2);
    }
}

/// Runs every `phalanx` line of the README's shell blocks, in order, in one folder.
fn readme() {
    let folder = folder();
    let path = folder.path();
    // Small stand-ins where the README's lines expect the result of `make mnist`.
    fs::create_dir_all(path.join("data/mnist")).unwrap();
    for set in ["train.h5", "test.h5"] {
        fs::rename(path.join(set), path.join("data/mnist").join(set)).unwrap();
    }
    let binary = Path::new(env!("CARGO_BIN_EXE_phalanx"));
    fs::create_dir_all(path.join("target/release")).unwrap();
    fs::hard_link(binary, path.join("target/release/phalanx"))
        .or_else(|_| fs::copy(binary, path.join("target/release/phalanx")).map(|_| ()))
        .unwrap();
    let readme =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let blocks: Vec<&str> = readme
        .split("```sh\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    let lines = blocks.iter().flat_map(|block| block.lines());
    let lines: Vec<&str> = lines
        .filter(|line| line.contains("phalanx ") && !line.starts_with('#'))
        .collect();
    assert!(lines.len() >= 8, "the README shows the commands: {lines:?}");
    for line in lines {
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).current_dir(path);
        shell.env(
            "PATH",
            format!(
                "{}:{}",
                path.join("target/release").display(),
                std::env::var("PATH").unwrap()
            ),
        );
        shell
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        let ended = run(shell, LIMIT);
        assert_eq!(ended.code, Some(0), "{line}\n{}", ended.output);
    }
}
