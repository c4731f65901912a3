//! The job scripts of `slurm/`, each as its head says.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cluster::{Check, Cluster};
use crate::emulator::emulator;
use crate::interrupted::{WORDS, left_alone};
use crate::job::{csv, toml};
use crate::submitted::Submitted;

/// Jobs by name.
pub const JOBS: [Check; 7] = [
    (
        "slurm: train_cpu.sbatch gives the same bits by mpirun and by srun, and ends at once when it is done",
        train_cpu,
    ),
    (
        "slurm: train_gpu.sbatch has one rank on each GPU",
        train_gpu,
    ),
    (
        "slurm: sweep.sbatch trains each batch size with each seed",
        sweep,
    ),
    (
        "slurm: matmul.sbatch multiplies, and the product is right",
        matmul,
    ),
    (
        "slurm: scaling.sbatch measures on one node and on two",
        scaling,
    ),
    (
        "slurm: a study is run as a job array, and its table is made behind it",
        study,
    ),
    (
        "slurm: trials of a search run side by side in one allocation, and the best one goes on",
        search,
    ),
];

const LIMIT: Duration = Duration::from_secs(120);

/// The one checksum of the parameters of all ranks of a run, which are so many.
pub fn checksum(run: &Path, ranks: usize) -> String {
    let rows = csv(run.join("ranks.csv"));
    assert_eq!(rows.len(), ranks, "{}", run.display());
    let first = rows[0]["checksum"].clone();
    assert!(rows.iter().all(|row| row["checksum"] == first), "{rows:?}");
    first
}

fn train_cpu(cluster: &Cluster) {
    let alone = left_alone(cluster);
    let run = cluster.home().join("by-srun");
    let variables = [("LAUNCHER", "srun"), ("RUN", "by-srun")];
    let job = Submitted::train(cluster, &variables, WORDS);
    job.ends("COMPLETED", LIMIT);
    assert_eq!(checksum(&run, 4), alone.checksum);
    let settings = toml(run.join("settings.toml"));
    assert_eq!(settings["hosts"].as_integer(), Some(2));
    // Submitted once more there is nothing left to do.
    let before = fs::metadata(run.join("model.h5"))
        .unwrap()
        .modified()
        .unwrap();
    let job = Submitted::train(cluster, &variables, WORDS);
    job.ends("COMPLETED", LIMIT);
    assert_eq!(job.says("nothing is left to do"), 1, "{}", job.output());
    let after = fs::metadata(run.join("model.h5"))
        .unwrap()
        .modified()
        .unwrap();
    assert_eq!(before, after);
}

fn train_gpu(cluster: &Cluster) {
    let Some(built) = emulator() else { return };
    // Where the user can read it.
    let copy = cluster.home().join("emulator");
    copy_files(&built, &copy);
    let place = copy.display().to_string();
    let variables = [
        ("MODEL", "softmax"),
        ("RUN", "gpus"),
        ("LD_LIBRARY_PATH", &place),
        ("EMULATOR_DEVICES", "2"),
    ];
    let size = "--nodes=1 --gpus-per-node=2 --ntasks-per-node=2";
    let words = format!("{size} slurm/train_gpu.sbatch --steps 4 --global-batch 8");
    let job = Submitted::new(cluster, &variables, &words);
    job.ends("COMPLETED", LIMIT);
    let said = job.output();
    for device in ["1 rank on cuda:0", "1 rank on cuda:1", "EMULATED"] {
        assert!(said.contains(device), "{said}");
    }
    checksum(&cluster.home().join("gpus"), 2);
}

/// Copies the files of a folder.
fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
}

fn sweep(cluster: &Cluster) {
    let variables = [("SEEDS", "1 2"), ("BATCHES", "20 40"), ("RUN", "sweep")];
    // One more than there are.
    let words = "--array=0-4%3 --ntasks-per-node=2 slurm/sweep.sbatch --steps 20";
    let job = Submitted::new(cluster, &variables, words);
    job.over(LIMIT);
    assert_eq!(job.states(), ["COMPLETED", "FAILED"], "{}", job.output());
    assert_eq!(job.says("there is no run 4 of 4: sbatch --array=0-3"), 1);
    let mut sums = Vec::new();
    for (batch, seed) in [(20, 1), (20, 2), (40, 1), (40, 2)] {
        let run = cluster
            .home()
            .join(format!("sweep/batch-{batch}-seed-{seed}"));
        let settings = fs::read_to_string(run.join("settings.toml")).unwrap();
        for line in [format!("step_batch = {batch}"), format!("seed = {seed}")] {
            assert!(settings.contains(&line), "{line} in\n{settings}");
        }
        assert!(toml(run.join("result.toml")).contains_key("test_accuracy"));
        sums.push(checksum(&run, 2));
    }
    sums.sort();
    sums.dedup();
    assert_eq!(sums.len(), 4, "all four differ");
}

fn study(cluster: &Cluster) {
    let text = r#"
title = "Batch and ranks"
prepare = ["data make digits own.h5 --samples 1000"]
command = "train softmax own.h5 --exchange all-reduce --epochs 1"
repeats = 2
[grid]
ranks = [1, 2]
batch = [20, 50]
[[columns]]
name = "updates"
figure = "steps"
"#;
    fs::write(cluster.home().join("one.toml"), text).unwrap();
    let sweep = "target/release/phalanx sweep one.toml --out study --slurm --at-once 3";
    let told = cluster.as_user(&[], sweep);
    let behind = |words: &str| {
        let rest = &told[told.find(words).unwrap() + words.len()..];
        rest.split([',', ' ']).next().unwrap().to_owned()
    };
    let (array, tables) = (behind("job array "), behind("by job "));
    Submitted::found(cluster, &array).ends("COMPLETED", LIMIT);
    Submitted::found(cluster, &tables).ends("COMPLETED", LIMIT);
    let rows = csv(cluster.home().join("study/table.csv"));
    let figures = |row: &std::collections::BTreeMap<String, String>| {
        ["ranks", "batch", "updates", "runs", "failed"]
            .map(|name| row[name].parse::<u32>().unwrap())
    };
    let rows: Vec<_> = rows.iter().map(figures).collect();
    assert_eq!(
        rows,
        [
            [1, 20, 50, 2, 0],
            [1, 50, 20, 2, 0],
            [2, 20, 25, 2, 0],
            [2, 50, 10, 2, 0]
        ]
    );
    let again = cluster.as_user(&[], sweep);
    assert!(again.contains("all runs have been made"), "{again}");
}

fn search(cluster: &Cluster) {
    let text = r#"
title = "Batch and ranks"
prepare = ["data make digits searched.h5 --samples 1000"]
command = "train softmax searched.h5 --exchange all-reduce"
[settings]
steps = 20
[space]
ranks = [1, 2]
nodes = [1]
batch = [20, 50]
[measure]
figure = "samples"
speed = true
[winner]
steps = 40
"#;
    let script = "#!/bin/sh
target/release/phalanx tune search.toml --gain 0 --parallel 2 --mpirun 'srun --mpi=pmix --exact' 2>&1
";
    for (name, text) in [("search.toml", text), ("search.sbatch", script)] {
        fs::write(cluster.home().join(name), text).unwrap();
    }
    let size = "--nodes=2 --ntasks-per-node=2";
    let job = Submitted::new(cluster, &[], &format!("{size} search.sbatch"));
    job.ends("COMPLETED", LIMIT);
    assert!(
        job.says("all configurations were tried") > 0,
        "{}",
        job.output()
    );
    let trials = csv(cluster.home().join("search/trials.csv"));
    let mut samples: Vec<f64> = (trials.iter())
        .map(|trial| trial["samples"].parse().unwrap())
        .collect();
    samples.sort_by(f64::total_cmp);
    assert_eq!(samples, [400.0, 800.0, 1000.0, 2000.0]);
    // Trials of two and of one rank have had a world each, and the best of them went on.
    let best = cluster
        .home()
        .join("search/runs/ranks-2_nodes-1_batch-50_seed-1");
    let result = toml(best.join("result.toml"));
    assert_eq!(result["steps"].as_integer(), Some(40));
    checksum(&best, 2);
}

fn matmul(cluster: &Cluster) {
    let variables = [("N", "300"), ("OUT", "product")];
    let size = "--nodes=2 --ntasks-per-node=2";
    let job = Submitted::new(cluster, &variables, &format!("{size} slurm/matmul.sbatch"));
    job.ends("COMPLETED", LIMIT);
    assert!(job.says("check") > 0, "{}", job.output());
    assert!(cluster.home().join("product/matrix.h5").exists());
}

fn scaling(cluster: &Cluster) {
    let variables = [
        ("MODEL", "softmax"),
        ("SECONDS_EACH", "0.2"),
        ("SIZES", "4KiB"),
        ("EXCHANGE_SECONDS", "0.02"),
        ("LAUNCHER", "srun"),
        ("RUN", "scaling"),
    ];
    let size = "--nodes=2 --ntasks-per-node=1";
    let words = format!("{size} slurm/scaling.sbatch");
    let job = Submitted::new(cluster, &variables, &words);
    // Measurements take as long as the machine is busy with other things.
    job.ends("COMPLETED", 2 * LIMIT);
    let table = |name: &str, ranks: usize| -> PathBuf {
        cluster.home().join(format!("scaling/{name}-{ranks}.txt"))
    };
    for name in ["train", "exchange"] {
        for ranks in [1, 2] {
            let text = fs::read_to_string(table(name, ranks)).unwrap();
            assert!(job.output().contains(&text), "{text}");
        }
    }
}
