//! Runs whose images are changed at random.

use phalanx::h5::File;

use crate::bad_sets::{labels, zeros};
use crate::job::{folder, job, toml};
use crate::refused::{How, refused};

/// Jobs by name.
pub const JOBS: [(&str, fn()); 2] = [
    (
        "changed images are the same on any number of ranks, and those of evaluation stay",
        augmented,
    ),
    (
        "changes that make no sense for a shape are refused",
        nonsense,
    ),
];

fn augmented() {
    let folder = folder();
    let words =
        "--test test.h5 --augment rotate,tilt=10,crop=0.5,colour --global-batch 30 --epochs 2";
    let train = |size: usize, words: &str, out: &str| {
        let words = format!("train softmax train.h5 {words} --exchange all-reduce --out {out}");
        let printed = job(size, folder.path(), &words);
        let result = toml(folder.path().join(out).join("result.toml"));
        (printed, result["test_loss"].as_float().unwrap())
    };
    let (printed, alone) = train(1, words, "alone");
    assert!(printed.contains("changed by rotate,tilt=10,crop=0.5,colour=0.2"));
    let (_, three) = train(3, words, "three");
    assert!((alone - three).abs() < 1e-4, "{alone} and {three}");
    let (_, plain) = train(
        1,
        &words.replace("--augment rotate,tilt=10,crop=0.5,colour", ""),
        "plain",
    );
    assert!(
        alone > plain + 0.05,
        "digits on their side are harder: {alone} and {plain}"
    );
    // `eval` knows of no changes: training evaluated the test set as it is.
    let line = job(1, folder.path(), "eval alone test.h5 --json");
    let stored: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert!(
        (stored["loss"].as_f64().unwrap() - alone).abs() < 1e-5,
        "{line}"
    );
    let written = toml(folder.path().join("alone/settings.toml"));
    let augment = written["resolved"]["augment"].as_str();
    assert_eq!(augment, Some("rotate,tilt=10,crop=0.5,colour=0.2"));
}

fn nonsense() {
    let folder = tempfile::tempdir().unwrap();
    for (name, shape) in [("wide.h5", [6, 3, 4, 5]), ("rows.h5", [6, 1, 1, 20])] {
        let file = File::create(&folder.path().join(name)).unwrap();
        zeros(&file, &shape);
        labels(&file, &[0, 1, 0, 1, 0, 1]);
        file.close().unwrap();
    }
    let train = |words: &str| format!("train softmax {words} --out run");
    let turned = train("wide.h5 --augment flip,rotate");
    let cropped = train("rows.h5 --augment crop");
    refused(
        folder.path(),
        How::Ranks(3),
        &[
            (
                &turned,
                1,
                &[
                    "--augment flip,rotate",
                    "as many rows as columns, got 3×4×5",
                    "tilt",
                ],
            ),
            (
                &cropped,
                1,
                &["--augment crop=0.3", "at least 2×2 pixels, got 1×1×20"],
            ),
        ],
    );
}
