//! Faults while a run writes checkpoints: after each, the run must go on and end in the bits of one that nothing happened to.
//!
//! Run plainly it tries some moments of each kind; with `--all` every write, fsync and rename of checkpoints in turn, half
//! written ones too, and a hundred random moments of four ranks. Words choose kinds. A table tells moments, resumed, bits equal.
//! Without mpirun or a C compiler the faults are skipped with a message, and under CI that is a failure.
#![allow(clippy::unwrap_used)]

mod elsewhere;
#[path = "../ranks/job.rs"]
#[allow(dead_code)]
mod job;
mod killed;
#[path = "../ranks/launch.rs"]
#[allow(dead_code)]
mod launch;
mod refused;
mod run;
mod shim;

use std::process::ExitCode;
use std::time::Instant;

use run::{Amount, Outcome};

/// A kind of fault: its name, and what tries it.
type Kind = (&'static str, fn(Amount) -> Outcome);

const KINDS: [Kind; 12] = [
    (
        "killed at a write, fsync, rename, 1 rank",
        killed::events_of_one,
    ),
    ("killed in the middle of a write", killed::half_written),
    (
        "killed at a write, fsync, rename, 4 ranks",
        killed::events_of_four,
    ),
    (
        "killed at a write, …, sparse, 4 ranks",
        killed::events_of_sparse,
    ),
    ("killed at random moments, 4 ranks", killed::at_random),
    ("disk full", refused::disk_full),
    ("writes that fail, read-only", refused::failing),
    ("folder removed", refused::removed),
    ("slow file system", refused::slow),
    ("clock jumps", elsewhere::clock),
    ("a rank stopped", elsewhere::stopped),
    ("memory limit hit", elsewhere::memory),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let Some(why) = missing() {
        println!("faults ... skipped: {why}");
        return ExitCode::from(u8::from(std::env::var_os("CI").is_some()));
    }
    let amount = match words.iter().any(|word| word == "--all") {
        true => Amount::All,
        false => Amount::Some,
    };
    let filters: Vec<&String> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let chosen = |(name, _): &&Kind| {
        filters.is_empty() || filters.iter().any(|filter| name.contains(filter.as_str()))
    };
    println!("fault                                       moments  resumed  bits equal  seconds");
    let (mut passed, mut failed) = (0, 0);
    for (name, attempt) in KINDS.iter().filter(chosen) {
        let begun = Instant::now();
        // A run that fails before anything happened to it ends its kind, and no other.
        let outcome = std::panic::catch_unwind(|| attempt(amount));
        let outcome = outcome.unwrap_or_else(|_| Outcome {
            wrong: vec!["its panic is above".into()],
            ..Outcome::default()
        });
        let Outcome {
            moments,
            resumed,
            equal,
            ref wrong,
        } = outcome;
        let seconds = begun.elapsed().as_secs_f64();
        println!("{name:<42} {moments:>8} {resumed:>8} {equal:>11} {seconds:>8.0}");
        for words in wrong.iter().take(5) {
            println!("  {words}");
        }
        match moments > 0 && moments == equal && moments == resumed && wrong.is_empty() {
            true => passed += 1,
            false => failed += 1,
        }
    }
    println!("{passed} passed, {failed} failed");
    ExitCode::from(u8::from(failed > 0))
}

/// Why nothing can be tried here.
fn missing() -> Option<&'static str> {
    if !launch::has_mpirun() {
        return Some("there is no mpirun: `make setup`");
    }
    match shim::build() {
        true => None,
        false => Some("there is no C compiler that makes a library to preload"),
    }
}
