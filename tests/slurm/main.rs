//! Jobs under a real Slurm, of Debian's packages, on nodes that are namespaces of this machine: the scripts of `slurm/`, and what
//! becomes of a run when Slurm takes its nodes away.
//!
//! Words on the command line choose the jobs whose names hold them. Where Slurm cannot be started they are skipped with a message, and
//! under CI that is a failure.
#![allow(clippy::unwrap_used)]

mod cluster;
mod interrupted;
mod lone;
mod scripts;
mod submitted;

// What starts ranks and hosts under mpirun starts them here too; not all of it is needed.
#[allow(dead_code)]
#[path = "../ranks/emulator.rs"]
mod emulator;
#[allow(dead_code)]
#[path = "../ranks/hosts.rs"]
mod hosts;
#[allow(dead_code)]
#[path = "../ranks/job.rs"]
mod job;
#[allow(dead_code)]
#[path = "../ranks/launch.rs"]
mod launch;
#[allow(dead_code)]
#[path = "../ranks/mpis.rs"]
mod mpis;
#[allow(dead_code)]
#[path = "../ranks/tally.rs"]
mod tally;

use std::process::ExitCode;
use std::time::Instant;

use cluster::Cluster;
use tally::Tally;

fn main() -> ExitCode {
    let jobs = scripts::JOBS
        .iter()
        .chain(&lone::JOBS)
        .chain(&interrupted::JOBS);
    let mut tally = Tally::new();
    let jobs: Vec<_> = jobs.filter(|(name, _)| tally.chosen(name)).collect();
    if jobs.is_empty() {
        return tally.close();
    }
    let begun = Instant::now();
    let cluster = match Cluster::start() {
        Ok(cluster) => cluster,
        Err(why) => return Tally::none(jobs.len(), &format!("no Slurm can be started: {why}")),
    };
    println!(
        "  a cluster of three nodes is up after {:.1} s",
        seconds(begun)
    );
    for (name, job) in jobs {
        let begun = Instant::now();
        if tally.job(name, || job(&cluster)) {
            println!("{}", cluster.logs());
            // What it left behind must not be in the way of others.
            cluster.clear();
        }
        println!("  {:.1} s", seconds(begun));
    }
    println!("  {:.1} s in all", seconds(begun));
    tally.close()
}

fn seconds(begun: Instant) -> f64 {
    begun.elapsed().as_secs_f64()
}
