//! Processes that Slurm starts together and MPI does not join, and processes that are alone on purpose.

use std::fs;
use std::time::Duration;

use crate::cluster::{Check, Cluster};
use crate::submitted::Submitted;

/// Jobs by name.
pub const JOBS: [Check; 2] = [
    (
        "slurm: srun that joins no ranks is refused with the line that works",
        refused,
    ),
    (
        "slurm: one process in an allocation of four may be alone",
        alone,
    ),
];

const LIMIT: Duration = Duration::from_secs(60);

/// A job of two nodes with two ranks each that does `lines`.
fn script<'a>(cluster: &'a Cluster, name: &str, lines: &str) -> Submitted<'a> {
    let path = cluster.home().join(format!("{name}.sh"));
    fs::write(&path, format!("#!/bin/bash\n{lines}\n")).unwrap();
    let words = "--nodes=2 --ntasks-per-node=2 --output=%x-%j.out";
    Submitted::new(
        cluster,
        &[],
        &format!("{words} --job-name={name} {name}.sh"),
    )
}

fn refused(cluster: &Cluster) {
    let train = "phalanx train softmax train.h5 --steps 5";
    let job = script(
        cluster,
        "lone",
        &format!(
            "export PATH=target/release:$PATH\nsrun {train} --out lone; echo ended with $?\nsrun --mpi=none phalanx data make clicks lone-clicks; echo ended with $?"
        ),
    );
    job.ends("COMPLETED", LIMIT);
    assert_eq!(job.says("ended with 2"), 2, "{}", job.output());
    // Of four processes one tells.
    let problem = "srun without PMIx started 4 processes, but MPI's world has 1";
    assert_eq!(job.says(problem), 2, "{}", job.output());
    for starter in ["srun --mpi=pmix -n 4", "mpirun -n 4"] {
        let output = job.output();
        let line = output
            .lines()
            .find(|line| line.trim_start().starts_with(starter) && line.contains("softmax"));
        assert!(
            line.unwrap()
                .ends_with("train softmax train.h5 --steps 5 --out lone"),
            "{output}"
        );
    }
    for out in ["lone", "lone-clicks"] {
        assert!(!cluster.home().join(out).exists(), "nothing is written");
    }
}

fn alone(cluster: &Cluster) {
    let phalanx = "target/release/phalanx";
    let job = script(
        cluster,
        "alone",
        &format!(
            "set -e\n\
             {phalanx} train softmax train.h5 --steps 5 --out alone-batch\n\
             srun --nodes=1 --ntasks=1 {phalanx} train softmax train.h5 --steps 5 --out alone-srun\n\
             srun --nodes=1 --ntasks=1 --mpi=pmix {phalanx} train softmax train.h5 --steps 5 --out alone-pmix\n\
             mpirun -n 1 {phalanx} train softmax train.h5 --steps 5 --out alone-mpirun\n\
             mpirun -n 2 {phalanx} train softmax train.h5 --steps 5 --out two-mpirun\n\
             srun --nodes=2 --ntasks=2 --mpi=pmix {phalanx} train softmax train.h5 --steps 5 --out two-srun"
        ),
    );
    job.ends("COMPLETED", LIMIT);
    assert_eq!(job.says("1 on 1 host"), 4, "{}", job.output());
    assert_eq!(job.says("2 on 1 host"), 1, "{}", job.output());
    assert_eq!(job.says("2 on 2 hosts"), 1, "{}", job.output());
}
