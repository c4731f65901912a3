//! Runs that are interrupted and go on: they end as if they had not been.

use std::fs;
use std::path::Path;

use crate::job::{LIMIT, csv, folder, good, job, toml};
use crate::launch::{phalanx, run};

/// Jobs by name.
pub const JOBS: [(&str, fn()); 9] = [
    (
        "a resumed run ends in the bits of the uninterrupted one, with every optimizer and exchange",
        optimizers,
    ),
    (
        "a resumed run ends in the same bits with every model and option",
        models,
    ),
    (
        "a resumed run keeps to the methods that were measured when it began",
        measured,
    ),
    (
        "a reproducible run is resumed on another number of ranks with the same bits",
        other_ranks,
    ),
    (
        "metrics and ranks of a resumed run have no gap and no row twice",
        metrics,
    ),
    (
        "an asynchronous run goes on with its parameters and its count of steps",
        asynchronous,
    ),
    (
        "a run that is resumed may be longer, and one that has ended is left alone",
        longer,
    ),
    ("a job that is started again goes on where it was", again),
    (
        "other programs read a checkpoint as it is documented",
        foreign,
    ),
];

/// What the run in `out` ended with.
pub fn checksum(folder: &Path, out: &str) -> String {
    let result = toml(folder.join(out).join("result.toml"));
    result["checksum"].as_str().unwrap().to_string()
}

/// As `compare_runs`. Each run would measure anew which methods are the fastest, and bits differ between methods.
fn compare(folder: &Path, sizes: (usize, usize), step: u64, words: &str) {
    compare_runs(folder, sizes, step, &format!("{words} --no-tune"));
}

/// Trains at once, again with checkpoints from `step` on, which must have no influence, and then once more from the one of `step`,
/// on another number of ranks if that differs. All must end alike.
pub fn compare_runs(folder: &Path, (size, other): (usize, usize), step: u64, words: &str) {
    let name = words.replace([' ', '/', ','], "_");
    let (whole, parts) = (
        format!("run-{name}-{size}"),
        format!("run-{name}-{size}-{step}"),
    );
    job(size, folder, &format!("train {words} --out {whole}"));
    let every = format!("--checkpoint-every {step} --keep 99");
    job(
        size,
        folder,
        &format!("train {words} --out {parts} {every}"),
    );
    let expected = checksum(folder, &whole);
    assert_eq!(
        checksum(folder, &parts),
        expected,
        "{words}: checkpoints change nothing"
    );
    let printed = job(other, folder, &format!("train --resume {parts}:{step}"));
    let going = format!("going on after step {step} of {parts}");
    assert!(printed.contains(&going), "{printed}");
    assert_eq!(
        checksum(folder, &parts),
        expected,
        "{words}: from step {step}\n{printed}"
    );
}

/// A set of few samples, where models are large.
fn few(folder: &Path) {
    job(
        1,
        folder,
        "data make digits few.h5 --samples 120 --first 5000",
    );
}

/// The steps of a run's checkpoints.
pub fn steps(run: &Path) -> Vec<u64> {
    let entries = fs::read_dir(run.join("checkpoints")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut steps: Vec<u64> = names.map(|name| name[5..].parse().unwrap()).collect();
    steps.sort_unstable();
    steps
}

fn optimizers() {
    let folder = folder();
    let base = "softmax train.h5 --global-batch 250 --steps 17 --lr 0.05";
    let cases = [
        (1, "--optimizer sgd"),
        (
            3,
            "--exchange node-shared --optimizer momentum --clip-norm 0.5",
        ),
        (
            3,
            "--exchange all-reduce --optimizer nesterov --weight-decay 0.01",
        ),
        (2, "--exchange node-shared --optimizer adam"),
        (2, "--exchange all-reduce --overlap --optimizer adamw"),
        (3, "--exchange node-shared --optimizer lars --trust 0.1"),
        (
            2,
            "--exchange auto --optimizer adam --schedule cosine --warmup-steps 5",
        ),
    ];
    for (size, words) in cases {
        compare(folder.path(), (size, size), 9, &format!("{base} {words}"));
    }
}

fn models() {
    let folder = folder();
    few(folder.path());
    let small = "--steps 9 --global-batch 60 --optimizer momentum --lr 0.01";
    let cases = [
        (
            2,
            "mlp train.h5 --test few.h5 --keep-best --early-stop 3 --eval-every 2",
        ),
        (2, "lenet train.h5 --threads 2 --augment tilt,crop"),
        (
            2,
            "flowers few.h5 --test few.h5 --eval-every 4 --normalize --validation 0.3",
        ),
        (3, "softmax train.h5 --noise-scale"),
    ];
    for (size, words) in cases {
        compare(folder.path(), (size, size), 6, &format!("{words} {small}"));
    }
    let net = "name = \"dropping\"\n[[layer]]\nkind = \"dropout\"\nrate = 0.3\n[[layer]]\nkind = \"linear\"\n";
    fs::write(folder.path().join("net.toml"), net).unwrap();
    let words = "--model-file net.toml train.h5 --global-batch 200 --steps 11 --lr 0.1";
    compare(folder.path(), (2, 2), 6, words);
    // The batch grows where an epoch begins, and the checkpoint is written right before: 3000 samples in steps of 100 are 30.
    let words =
        "softmax train.h5 --global-batch 100 --epochs 4 --grow-batch noise --batch-limit 400";
    compare(folder.path(), (2, 2), 30, words);
    compare(folder.path(), (3, 3), 33, words);
}

fn measured() {
    let folder = folder();
    let path = folder.path();
    let words = "train lenet train.h5 --global-batch 60 --steps 12 --optimizer momentum --lr 0.01";
    job(
        2,
        path,
        &format!("{words} --out run --checkpoint-every 4 --keep 99"),
    );
    let chosen = || toml(path.join("run/settings.toml"))["resolved"]["methods"].clone();
    let (expected, methods) = (checksum(path, "run"), chosen());
    // One that falls due while another is written is written later.
    let mut all = steps(&path.join("run"));
    assert_eq!(all.pop(), Some(12));
    assert_eq!(all.first(), Some(&4));
    for step in all.into_iter().rev() {
        job(2, path, &format!("train --resume run:{step}"));
        assert_eq!(chosen(), methods);
        assert_eq!(checksum(path, "run"), expected, "from step {step}");
    }
}

fn other_ranks() {
    let folder = folder();
    few(folder.path());
    let base = "--reproducible --global-batch 80 --steps 9 --optimizer adam --lr 0.01";
    for (sizes, model) in [
        ((2, 4), "softmax train.h5 --exchange node-shared"),
        ((4, 1), "mlp train.h5 --exchange all-reduce"),
        (
            (1, 2),
            "flowers train.h5 --test few.h5 --eval-every 5 --keep-best",
        ),
    ] {
        compare(folder.path(), sizes, 6, &format!("{model} {base}"));
    }
}

fn metrics() {
    let folder = folder();
    let path = folder.path();
    let words = "train softmax train.h5 --test test.h5 --epochs 2 --batch 100 --eval-every 7 --log-every 2 --checkpoint-every 5 --keep 9";
    job(2, path, &format!("{words} --out whole"));
    job(2, path, &format!("{words} --out parts"));
    let all = steps(&path.join("parts"));
    for step in [all[all.len() / 2], all[0], all[0]] {
        job(2, path, &format!("train --resume parts:{step}"));
        let (whole, parts) = (
            csv(path.join("whole/metrics.csv")),
            csv(path.join("parts/metrics.csv")),
        );
        assert_eq!(whole.len(), parts.len());
        for (a, b) in whole.iter().zip(&parts) {
            for column in [
                "step",
                "epoch",
                "samples",
                "loss",
                "accuracy",
                "lr",
                "test_loss",
            ] {
                assert_eq!(a[column], b[column], "{column} after {step}");
            }
        }
        let seconds: Vec<f64> = parts
            .iter()
            .map(|row| row["seconds"].parse().unwrap())
            .collect();
        assert!(seconds.is_sorted(), "{seconds:?}");
        let (whole, parts) = (
            csv(path.join("whole/ranks.csv")),
            csv(path.join("parts/ranks.csv")),
        );
        for (a, b) in whole.iter().zip(&parts) {
            for column in ["steps", "samples", "skipped", "test_accuracy", "checksum"] {
                assert_eq!(a[column], b[column], "{column}");
            }
        }
        let result = toml(path.join("parts/result.toml"));
        assert_eq!(result["samples"].as_integer(), Some(6000));
        let failed = result.get("checkpoints_failed");
        assert_eq!(failed.map_or(Some(0), |n| n.as_integer()), Some(0));
    }
}

/// Slow enough that several checkpoints are written before a run is over, also where disks are slow.
const SLOW: &str = "--inject slow:0:400 --inject slow:1:400 --inject slow:2:400";

fn asynchronous() {
    let folder = folder();
    for (name, exchange) in [
        (
            "one-sided",
            "--exchange one-sided --optimizer momentum --lr 0.01",
        ),
        (
            "rank0",
            "--exchange one-sided --placement rank0 --staleness 2",
        ),
        ("local", "--sync-every 4 --optimizer adam --lr 0.01"),
        ("elastic", "--sync-every 4 --elastic"),
        ("backup", "--aggregate 2-of-3 --optimizer adam --lr 0.01"),
    ] {
        let words = format!(
            "train softmax train.h5 --test test.h5 --steps 96 --global-batch 75 {exchange} --checkpoint-every 12 --keep 99 --out {name} {SLOW}"
        );
        job(3, folder.path(), &words);
        let run = folder.path().join(name);
        let all = steps(&run);
        assert!(all.len() > 1, "{name}: {all:?}");
        let middle = all[all.len() / 2 - 1];
        let printed = job(3, folder.path(), &format!("train --resume {name}:{middle}"));
        let result = toml(run.join("result.toml"));
        let taken = result["steps"].as_integer().unwrap();
        assert!(
            (90..=110).contains(&taken),
            "{name}: {taken} steps\n{printed}"
        );
        assert!(result["test_loss"].as_float().unwrap() < 2.0, "{printed}");
    }
    let refused = run(
        {
            let mut command = phalanx(2, folder.path());
            command
                .args(["train", "--resume", "local"])
                .args(["--steps", "200"]);
            command
        },
        LIMIT,
    );
    assert!(refused.output.contains("ranks: 3") && refused.output.contains("ranks: 2"));
}

fn longer() {
    let folder = folder();
    let path = folder.path();
    let base = "softmax train.h5 --batch 50 --lr 0.2";
    job(2, path, &format!("train {base} --epochs 2 --out whole"));
    job(
        2,
        path,
        &format!("train {base} --epochs 1 --checkpoint-every epoch --out run"),
    );
    let printed = job(2, path, "train --resume run");
    assert!(
        printed.contains("run has ended after 30 steps"),
        "{printed}"
    );
    // `--quiet` may stand anywhere: before the command it was taken for that.
    let printed = job(2, path, "--quiet train --resume run --epochs 2");
    assert!(!printed.contains("settings"), "{printed}");
    assert_eq!(checksum(path, "run"), checksum(path, "whole"));
    let printed = job(2, path, "train --resume run --steps 70");
    assert!(printed.contains("going on after step 60"), "{printed}");
    assert_eq!(
        toml(path.join("run/result.toml"))["steps"].as_integer(),
        Some(70)
    );
}

fn again() {
    let folder = folder();
    let path = folder.path();
    let words = "train softmax train.h5 --batch 50 --steps 40 --lr 0.2 --checkpoint-every 10 --out run --continue";
    // What a batch system may have put there.
    fs::create_dir(path.join("run")).unwrap();
    fs::write(path.join("run/job.log"), "began").unwrap();
    let printed = job(2, path, words);
    assert!(!printed.contains("going on"), "{printed}");
    let first = checksum(path, "run");
    let printed = job(2, path, words);
    assert!(
        printed.contains("run has ended after 40 steps"),
        "{printed}"
    );
    // As if it had been killed before its end.
    fs::remove_file(path.join("run/result.toml")).unwrap();
    fs::remove_dir_all(path.join("run/checkpoints/step-000000040")).unwrap();
    let newest = *steps(&path.join("run")).last().unwrap();
    let printed = job(2, path, words);
    assert!(
        printed.contains(&format!("going on after step {newest}")),
        "{printed}"
    );
    assert_eq!(checksum(path, "run"), first);
    assert!(path.join("run/job.log").exists());
    // Without any checkpoint it begins anew, whatever else is left of it.
    fs::remove_file(path.join("run/result.toml")).unwrap();
    fs::remove_dir_all(path.join("run/checkpoints")).unwrap();
    let printed = job(2, path, words);
    assert!(!printed.contains("going on"), "{printed}");
    assert_eq!(checksum(path, "run"), first);
}

fn foreign() {
    let folder = folder();
    let words = "train softmax train.h5 --steps 6 --optimizer adam --exchange all-reduce --out run --checkpoint-every 6";
    job(2, folder.path(), words);
    let part = "run/checkpoints/step-000000006/part-00001.h5";
    let mut command = std::process::Command::new("h5dump");
    command.args(["-A", part]).current_dir(folder.path());
    let printed = good(run(command, LIMIT));
    // 7850 parameters: the second half of them is rank 1's.
    for words in [
        "DATASET \"parameters\"",
        "DATASET \"memory.1\"",
        "( 3925 )",
        "H5T_IEEE_F32LE",
        "7850",
        "\"note\"",
    ] {
        assert!(printed.contains(words), "{words} in\n{printed}");
    }
}
