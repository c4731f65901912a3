//! Runs on emulated GPUs that go on from a checkpoint.

use std::fs;

use super::{emulated, folder};
use crate::job::{good, toml};

/// A network whose layers keep what no gradient moves.
const NORMAL: &str = r#"name = "normal"
layer = [
  { kind = "conv2d", outputs = 3, kernel = 5, stride = 3 },
  { kind = "batch_norm" },
  { kind = "relu" },
  { kind = "flatten" },
  { kind = "linear" },
]
"#;

/// At once, with checkpoints, and once more from one of these; streams are as late as they may be.
pub fn resumed() {
    let folder = folder();
    let path = folder.path();
    fs::write(path.join("normal.toml"), NORMAL).unwrap();
    let cases = [
        (
            1,
            "--model-file alexnet.toml train.h5 --batch 16 --optimizer momentum",
        ),
        (2, "softmax train.h5 --batch 8 --optimizer adam"),
        (
            2,
            "--model-file normal.toml train.h5 --batch 8 --optimizer lars --test test.h5 --keep-best",
        ),
    ];
    for (i, (size, words)) in cases.into_iter().enumerate() {
        let words = format!("train {words} --steps 7 --lr 0.01 --device cuda");
        let out = format!("case-{i}");
        let setting = [("EMULATOR_DEVICES", "2"), ("EMULATOR_DEFER", "1")];
        let every = "--checkpoint-every 4 --keep 9";
        let jobs = [
            format!("{words} --out whole-{out}"),
            format!("{words} --out {out} {every}"),
            format!("train --resume {out}:4"),
        ];
        let mut ends = Vec::new();
        for words in jobs {
            let Some(ended) = emulated(size, path, &setting, &words) else {
                return;
            };
            let printed = good(ended);
            assert!(printed.contains("EMULATED"), "{printed}");
            let run = if ends.is_empty() {
                format!("whole-{out}")
            } else {
                out.clone()
            };
            ends.push(toml(path.join(run).join("result.toml"))["checksum"].clone());
        }
        assert!(ends.iter().all(|end| *end == ends[0]), "{size}: {ends:?}");
    }
}
