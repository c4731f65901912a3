//! The gates of the GPU kernels, on a machine without a GPU.
//!
//! - what real compilers say of them: `compiled`
//! - each kernel against the CPU's reference, on the emulator: `checks`, in several orders of threads, streams deferred or not
//! - the same under AddressSanitizer and ThreadSanitizer
//! - errors that are planted, each of which must be noticed: `planted`
//!
//! Run plainly it starts itself for each of them. Words on the command line choose the gates whose names hold them. A gate that
//! cannot run says so, and under CI that is a failure.
#![allow(clippy::unwrap_used)]

mod checks;
mod compiled;
mod emulator;
mod planted;
mod program;
mod refused;

use std::process::ExitCode;

use checks::Place;

/// What a gate found: all well, what is wrong, or why it could not run.
pub enum Outcome {
    /// All well.
    Passed,
    /// What is wrong.
    Failed(String),
    /// Why it could not run.
    NotRun(String),
}

/// A name, and what to do.
pub type Gate = (String, Box<dyn FnOnce() -> Outcome + Send>);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.first().map(String::as_str) {
        Some(emulator::AS_WORKER) => return work(&words[1..]),
        Some(compiled::AS_COMPILER) => return compiled::compile(&words[1..]),
        _ => {}
    }
    let filters: Vec<&String> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let chosen = |gate: &Gate| {
        filters.is_empty()
            || filters
                .iter()
                .any(|filter| gate.0.contains(filter.as_str()))
    };
    let gates: Vec<Gate> = emulator::gates()
        .into_iter()
        .chain(planted::gates())
        .chain(refused::gates())
        .chain(program::gates())
        .chain(compiled::gates())
        .filter(chosen)
        .collect();
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for (name, outcome) in emulator::two_at_a_time(gates) {
        match outcome {
            Outcome::Passed => {
                println!("{name} ... ok");
                passed += 1;
            }
            Outcome::Failed(why) => {
                println!("{name} ... FAILED\n{why}");
                failed += 1;
            }
            Outcome::NotRun(why) => {
                println!("{name} ... COULD NOT RUN: {why}");
                skipped += 1;
            }
        }
    }
    println!("kernels: {passed} gates passed, {failed} failed, {skipped} could not run");
    let strict = std::env::var_os("CI").is_some();
    match failed > 0 || strict && skipped > 0 {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    }
}

/// Runs the checks whose names hold a word, all without; `few` among them asks for few shapes. Errors that are planted run only by
/// their whole names.
fn work(words: &[String]) -> ExitCode {
    let few = words.iter().any(|word| word == "few");
    let mut names = words.iter().filter(|word| *word != "few").peekable();
    let all = names.peek().is_none();
    let names: Vec<&String> = names.collect();
    let place = match Place::open(few) {
        Ok(place) => place,
        Err(error) => {
            println!("{}", error.report());
            return ExitCode::FAILURE;
        }
    };
    let planted = planted::CHECKS
        .iter()
        .filter(|(name, _)| names.iter().any(|word| word == name));
    for (name, check) in checks::all().chain(planted) {
        if all || names.iter().any(|word| name.contains(word.as_str())) {
            println!("check: {name}");
            check(&place);
        }
    }
    let Place { device, stream, .. } = place;
    drop(stream);
    assert_eq!(device.allocated(), (0, 0), "nothing is left allocated");
    println!("all checks are done");
    ExitCode::SUCCESS
}
