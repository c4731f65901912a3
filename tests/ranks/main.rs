//! Checks that need real MPI ranks: the contracts on 1, 2, 3, 4 and 8 ranks, then whole jobs of the program.
//!
//! Run plainly it launches itself under mpirun. Words on the command line choose the checks whose names hold them.
//! Without mpirun the checks are skipped with a message, and under CI that is a failure.
#![allow(clippy::unwrap_used)]

mod agreement;
mod augmented;
mod bad_data;
mod bad_input;
mod bad_sets;
mod between;
mod clicks;
#[path = "../contracts/mod.rs"]
mod contracts;
mod devices;
mod doctor;
mod growth;
mod held_out;
mod hosts;
mod imports;
mod job;
mod jobs;
mod killed;
mod launch;
mod matrices;
mod mpich;
mod mpis;
mod products;
mod published;
mod refused;
mod resumed;
mod resumed_not;
mod sparse;
mod stalled;
mod stopped;

use std::process::ExitCode;

use phalanx::comm::{Comm, MpiComm};

const AS_RANK: &str = "--as-rank";
const SIZES: [usize; 5] = [1, 2, 3, 4, 8];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == AS_RANK) {
        return run_as_rank(&words);
    }
    let chosen = |name: &str| {
        let mut filters = words
            .iter()
            .filter(|word| !word.starts_with('-'))
            .peekable();
        filters.peek().is_none() || filters.any(|filter| name.contains(filter.as_str()))
    };
    if !launch::has_mpirun() {
        println!("there is no mpirun here: install Open MPI (`make setup`) to run these checks");
        println!(
            "0 passed, 0 failed, {} skipped",
            contracts::CHECKS.len() * SIZES.len()
        );
        return if std::env::var_os("CI").is_some() {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        };
    }
    let (mut passed, mut failed, mut skipped) = (0, Vec::new(), 0);
    let mut count = |name: String, outcome: Result<(), String>| match outcome {
        Ok(()) => {
            println!("{name} ... ok");
            passed += 1;
        }
        Err(why) => {
            println!("{name} ... FAILED\n{why}");
            failed.push(name);
        }
    };
    for size in SIZES {
        let names = contracts::CHECKS
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| chosen(name));
        let names: Vec<&str> = names.collect();
        let output = if names.is_empty() {
            String::new()
        } else {
            launch::myself(size, &names)
        };
        for name in names {
            let done = output.lines().any(|line| line == format!("done: {name}"));
            let outcome = if done { Ok(()) } else { Err(output.clone()) };
            count(format!("{name}, {size} ranks"), outcome);
        }
    }
    let jobs = jobs::JOBS
        .iter()
        .chain(&agreement::JOBS)
        .chain(&growth::JOBS)
        .chain(&held_out::JOBS)
        .chain(&clicks::JOBS)
        .chain(&sparse::JOBS)
        .chain(&augmented::JOBS)
        .chain(&products::JOBS)
        .chain(&published::JOBS)
        .chain(&devices::JOBS)
        .chain(&doctor::JOBS)
        .chain(&killed::JOBS)
        .chain(&resumed::JOBS)
        .chain(&resumed_not::JOBS)
        .chain(&stopped::JOBS)
        .chain(&between::JOBS)
        .chain(&mpich::JOBS)
        .chain(&stalled::JOBS)
        .chain(&bad_sets::JOBS)
        .chain(&imports::JOBS)
        .chain(&matrices::JOBS)
        .chain(&bad_input::JOBS)
        .chain(&bad_data::JOBS);
    for (name, job) in jobs.filter(|(name, _)| chosen(name)) {
        let outcome = std::panic::catch_unwind(job);
        match launch::skipped() {
            Some(why) => {
                println!("{name} ... skipped: {why}");
                skipped += 1;
            }
            None => count(
                (*name).into(),
                outcome.map_err(|_| "its panic is above".into()),
            ),
        }
    }
    let skipped = if skipped > 0 {
        format!(", {skipped} skipped")
    } else {
        String::new()
    };
    println!("{passed} passed, {} failed{skipped}", failed.len());
    failed.iter().for_each(|name| println!("  failed: {name}"));
    if failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// One rank: runs the checks named on the command line.
fn run_as_rank(words: &[String]) -> ExitCode {
    let comm = MpiComm::start().expect("MPI starts");
    for (name, check) in contracts::CHECKS {
        if words.iter().any(|word| word == name) {
            check(&comm);
            comm.barrier();
            if comm.rank() == 0 {
                println!("done: {name}");
            }
        }
    }
    ExitCode::SUCCESS
}
