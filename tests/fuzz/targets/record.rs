//! Recorded runs, which `phalanx replay` takes again: the header, the result, and the updates of a rank.

use phalanx::commands::replay::{self, Settings};
use phalanx::data::Shape;
use phalanx::data::synthetic::{Amount, Kind, make};

use super::{Place, Target, join, parts};

pub const TARGET: Target = Target {
    name: "record",
    seeds,
    run,
};

const HEADER: &str = r#"{"phalanx": "0.1.0", "arguments": ["train", "softmax", "recorded.h5", "--exchange", "one-sided", "--batch", "2",
"--steps", "3", "--record"], "folder": ".", "ranks": 1, "parameters": 39, "methods": []}"#;

fn seeds(_: &Place) -> Vec<Vec<u8>> {
    let mut updates = Vec::new();
    for step in 0..3u32 {
        updates.extend(u64::from(step).to_le_bytes());
        updates.extend(1u64.to_le_bytes());
        // Read and added when the one stripe had had so many.
        updates.extend([step, step].map(u32::to_le_bytes).concat());
    }
    let result = b"checksum = \"0123456789abcdef\"\n";
    vec![join(&[HEADER.as_bytes(), result, &updates])]
}

fn run(place: &Place, input: &[u8]) {
    let data = place.path("recorded.h5");
    if !data.exists() {
        let amount = Amount {
            samples: 6,
            seed: 1,
            first: 0,
            shards: 1,
            force: true,
        };
        let shape = Shape { c: 1, h: 3, w: 4 };
        make(Kind::Images { shape, classes: 3 }, amount, &data).expect("a small set");
    }
    let [header, result, updates] = parts(input);
    place.put("recorded/updates/run.json", header);
    place.put("recorded/result.toml", result);
    place.put("recorded/updates/rank-0000.updates", updates);
    let _ = replay::run(&Settings {
        run: place.path("recorded"),
        out: None,
    });
}
