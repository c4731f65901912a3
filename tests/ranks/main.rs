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
mod emulator;
mod explained;
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
mod observed;
mod photos;
mod photos_measured;
mod photos_seen;
mod products;
mod published;
mod refused;
mod resumed;
mod resumed_not;
mod sparse;
mod sparse_resumed;
mod stalled;
mod stopped;
mod studies;
mod tally;
mod tensorboard;

use std::process::ExitCode;
use std::time::Duration;

use phalanx::comm::{Comm, MpiComm};
use tally::Tally;

const AS_RANK: &str = "--as-rank";
const SIZES: [usize; 5] = [1, 2, 3, 4, 8];
/// Longest that a group of checks may take.
const PATIENCE: Duration = Duration::from_secs(300);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == AS_RANK) {
        return run_as_rank(&words);
    }
    if !launch::has_mpirun() {
        let why = "there is no mpirun here: install Open MPI (`make setup`) to run these checks";
        return Tally::none(contracts::CHECKS.len() * SIZES.len(), why);
    }
    let mut tally = Tally::new();
    for size in SIZES {
        let names = contracts::CHECKS
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| tally.chosen(name));
        let names: Vec<&str> = names.collect();
        let output = if names.is_empty() {
            String::new()
        } else {
            myself(size, &names)
        };
        for name in names {
            let done = output.lines().any(|line| line == format!("done: {name}"));
            let outcome = if done { Ok(()) } else { Err(output.clone()) };
            tally.count(&format!("{name}, {size} ranks"), outcome);
        }
    }
    let jobs = jobs::JOBS
        .iter()
        .chain(&agreement::JOBS)
        .chain(&growth::JOBS)
        .chain(&held_out::JOBS)
        .chain(&clicks::JOBS)
        .chain(&sparse::JOBS)
        .chain(&sparse_resumed::JOBS)
        .chain(&augmented::JOBS)
        .chain(&products::JOBS)
        .chain(&published::JOBS)
        .chain(&devices::JOBS)
        .chain(&doctor::JOBS)
        .chain(&explained::JOBS)
        .chain(&studies::JOBS)
        .chain(&killed::JOBS)
        .chain(&observed::JOBS)
        .chain(&tensorboard::JOBS)
        .chain(&resumed::JOBS)
        .chain(&resumed_not::JOBS)
        .chain(&stopped::JOBS)
        .chain(&between::JOBS)
        .chain(&mpich::JOBS)
        .chain(&stalled::JOBS)
        .chain(&bad_sets::JOBS)
        .chain(&imports::JOBS)
        .chain(&photos::JOBS)
        .chain(&photos_measured::JOBS)
        .chain(&photos_seen::JOBS)
        .chain(&matrices::JOBS)
        .chain(&bad_input::JOBS)
        .chain(&bad_data::JOBS);
    for (name, job) in jobs {
        tally.job(name, job);
    }
    tally.close()
}

/// Runs this very program under mpirun to do the checks called `names`; gives what it printed.
fn myself(size: usize, names: &[&str]) -> String {
    let mut command = launch::mpirun(size);
    command
        .arg(std::env::current_exe().expect("own path"))
        .arg(AS_RANK)
        .args(names);
    launch::run(command, PATIENCE).output
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
