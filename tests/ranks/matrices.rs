//! Traces with real ranks: the same bits on any number of them, and one message where something does not fit.

use std::path::Path;

use super::job::job;
use super::refused::{How, refused};

/// Jobs by name.
pub const JOBS: [(&str, fn()); 4] = [
    (
        "a trace of a reproducible power has the same bits on any number of ranks",
        same_powers,
    ),
    (
        "a trace has the same bits on any number of ranks",
        same_bits,
    ),
    (
        "direct and by products of blocks, traces agree within their bounds",
        two_ways,
    ),
    ("a trace that cannot be is refused on all ranks", bad_traces),
];

/// What `phalanx trace WORDS --json` says of itself.
fn trace(ranks: usize, folder: &Path, words: &str) -> serde_json::Value {
    let output = job(ranks, folder, &format!("trace {words} --json"));
    let line = output.lines().find(|line| line.starts_with('{')).unwrap();
    serde_json::from_str(line).unwrap()
}

fn same_bits() {
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        "--a random:normal --n 1500",
        "--a random:normal --n 1500 --power 2",
        "--a random:normal --rows 700 --cols 1111 --b hilbert --type f32",
        "--a lehmer --n 900 --b random:normal --via product --memory 1MiB",
    ];
    for words in cases {
        let of = |ranks: usize| {
            let found = trace(ranks, folder.path(), words);
            assert_eq!(found["ranks"].as_array().unwrap().len(), ranks);
            ["trace", "trace_low", "error_bound", "numbers", "tiles"]
                .map(|name| found[name].to_string())
        };
        let one = of(1);
        for ranks in [2, 3, 4, 8] {
            assert_eq!(of(ranks), one, "{words} on {ranks} ranks");
        }
    }
}

/// Powers that take products have the same trace too; the bound on its error differs in its last bits.
fn same_powers() {
    let folder = tempfile::tempdir().unwrap();
    let words = "--a random:normal --n 1100 --power 3 --reproducible";
    let of = |ranks: usize| {
        let found = trace(ranks, folder.path(), words);
        ["trace", "trace_low"].map(|name| found[name].to_string())
    };
    let one = of(1);
    for ranks in [2, 3, 4, 8] {
        assert_eq!(of(ranks), one, "{ranks} ranks");
    }
}

fn two_ways() {
    let folder = tempfile::tempdir().unwrap();
    let words = "--a random:normal --rows 600 --cols 801 --b lehmer";
    let number = |found: &serde_json::Value, name: &str| found[name].as_f64().unwrap();
    let direct = trace(2, folder.path(), words);
    let product = trace(2, folder.path(), &format!("{words} --via product"));
    let apart = (number(&direct, "trace") - number(&product, "trace")).abs();
    assert!(apart <= number(&direct, "error_bound") + number(&product, "error_bound"));
    assert!(apart <= 1e-10 * number(&direct, "trace").abs());
    let table = job(2, folder.path(), "trace --a lehmer --n 1000");
    for fact in ["trace of A", "lehmer, 1000×1000", "1000.0", "rank 1"] {
        assert!(table.contains(fact), "no `{fact}` in {table}");
    }
}

fn bad_traces() {
    let folder = tempfile::tempdir().unwrap();
    let cases: [(&str, i32, &[&str]); 5] = [
        (
            "trace --a ones --rows 3 --cols 4",
            1,
            &["expected a square, got 3×4", "hint: "],
        ),
        ("trace --a ones", 2, &["--n"]),
        (
            "trace --a ones --n 5000 --power 2 --memory 1KiB",
            2,
            &["too small for this trace", "KiB or more"],
        ),
        (
            "trace --a ones --n 900 --power 3 --memory 1MiB",
            2,
            &["--memory 1048576 is too little", "the least that would do"],
        ),
        (
            "trace --a ones --n 50 --power 2 --b ones",
            2,
            &["cannot be used with"],
        ),
    ];
    refused(folder.path(), How::Ranks(3), &cases);
}
