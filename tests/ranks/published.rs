//! Published figures, what scripts read, and what the README shows.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::job::{LIMIT, folder, job, toml};
use crate::launch::{run, skip};

/// Jobs by name.
pub const JOBS: [(&str, fn()); 5] = [
    ("MNIST reaches the published figures", mnist),
    (
        "a convolutional network trains from its name or a file",
        lenet,
    ),
    (
        "evaluating a run with batch norm gives what training ended with",
        batch_norm,
    ),
    ("a bench prints the keys that scripts read", bench),
    ("the README's commands run", readme),
];

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

    // 99.0 to 99.1 % for three seeds.
    job(
        4,
        folder.path(),
        "train lenet train.h5 --test test.h5 --normalize --optimizer nesterov --weight-decay 0.0005 --batch 64 \
            --lr 0.03 --lr-per 64 --warmup-epochs 1 --schedule cosine --epochs 4 --out lenet",
    );
    let accuracy = result("lenet")["test_accuracy"].as_float().unwrap();
    assert!(accuracy > 0.987, "accuracy {accuracy}");
}

fn bench() {
    let folder = folder();
    for exchange in ["node-shared", "all-reduce", "one-sided"] {
        let line = job(
            2,
            folder.path(),
            &format!(
                "bench train --data train.h5 --seconds 0.2 --exchange {exchange} --json \
                    --costs trace,progress,resources,tensorboard,checkpoint"
            ),
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
        let costs = values["costs"].as_array().unwrap();
        let of: Vec<&str> = costs
            .iter()
            .filter_map(|cost| cost["of"].as_str())
            .collect();
        let all = "trace progress resources tensorboard checkpoint";
        assert_eq!(of.join(" "), all, "{line}");
        for cost in costs {
            let number = |name: &str| cost[name].as_f64().unwrap();
            assert!(number("low") <= number("ratio") && number("ratio") <= number("high"));
            // Turns with it and without it are of the same steps: neither is many times the other.
            assert!((0.1..10.0).contains(&number("ratio")), "{line}");
        }
        // Samples are taken 20 times a second instead of once, and of checkpoints, of which a run has one each 30 s, there is one in
        // a turn of 0.05 s at least.
        let often = |at: usize| costs[at]["often"].as_f64().unwrap();
        assert_eq!([0, 1, 2, 3].map(often), [1.0, 1.0, 20.0, 1.0]);
        assert!(often(4) > 20.0, "{line}");
        let left = fs::read_dir(folder.path()).unwrap();
        let names: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        let is_bench = |name: &std::ffi::OsString| name.to_string_lossy().contains("bench");
        assert!(!names.iter().any(is_bench), "{names:?}");
    }
}

/// A convolutional network does clearly better on digits than a linear model can, on one rank and on two.
fn lenet() {
    let folder = folder();
    for size in [1, 2] {
        let words = "train lenet train.h5 --test test.h5 --lr 0.1 --global-batch 20 --epochs 4";
        job(size, folder.path(), &format!("{words} --out {size}"));
        let result = toml(folder.path().join(size.to_string()).join("result.toml"));
        let accuracy = result["test_accuracy"].as_float().unwrap();
        assert!(accuracy > 0.9, "{size} ranks: accuracy {accuracy}");
    }
    let file = "name = \"small\"\n[[layer]]\nkind = \"conv2d\"\noutputs = 4\nkernel = 5\nstride = 2\n\
        [[layer]]\nkind = \"relu\"\n[[layer]]\nkind = \"dropout\"\nrate = 0.2\n[[layer]]\nkind = \"linear\"\n";
    fs::write(folder.path().join("small.toml"), file).unwrap();
    job(
        2,
        folder.path(),
        "train --model-file small.toml train.h5 --test test.h5 --epochs 2",
    );
    let line = job(2, folder.path(), "eval runs/small-001 test.h5 --json");
    let result: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert!(
        result["model"] == "small" && result["accuracy"].as_f64().unwrap() > 0.5,
        "{line}"
    );
}

/// Running estimates are made equal, kept with the best parameters, saved and loaded.
fn batch_norm() {
    let folder = folder();
    let file = "name = \"normal\"\n[[layer]]\nkind = \"conv2d\"\noutputs = 4\nkernel = 5\nstride = 2\n\
        [[layer]]\nkind = \"batch_norm\"\n[[layer]]\nkind = \"relu\"\n[[layer]]\nkind = \"linear\"\n";
    fs::write(folder.path().join("normal.toml"), file).unwrap();
    let ways = [
        ("sync", "--epochs 2"),
        ("async", "--epochs 2 --exchange one-sided"),
        ("best", "--epochs 3 --eval-every 3 --lr 0.5 --keep-best"),
    ];
    for (out, words) in ways {
        let words = format!("{words} --out {out}");
        job(
            2,
            folder.path(),
            &format!("train --model-file normal.toml train.h5 --test test.h5 --batch 20 {words}"),
        );
        let line = job(1, folder.path(), &format!("eval {out} test.h5 --json"));
        let again: serde_json::Value = serde_json::from_str(&line).unwrap();
        let result = toml(folder.path().join(out).join("result.toml"));
        let value = |name: &str| result[name].as_float().unwrap();
        let (loss, accuracy) = (value("test_loss"), value("test_accuracy"));
        assert!(accuracy > 0.5, "{out}: accuracy {accuracy}");
        assert_eq!(again["accuracy"].as_f64().unwrap(), accuracy, "{out}");
        let difference = (again["loss"].as_f64().unwrap() - loss).abs();
        assert!(difference < 1e-6, "{out}: loss {loss}, then {line}");
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
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    std::os::unix::fs::symlink(root.join("studies"), path.join("studies")).unwrap();
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
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
