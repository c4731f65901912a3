//! The program built against MPICH, on one host and between two.

use crate::between::{
    in_step, in_step_between, killed_between, out_of_step, out_of_step_between, two_hosts,
};
use crate::job::folder;
use crate::mpis::Mpi;

/// Jobs by name.
pub const JOBS: [(&str, fn()); 4] = [
    ("MPICH trains by every exchange on one host", one_host),
    (
        "MPICH: two hosts in step compute what one host does",
        || with_two_hosts(in_step_between),
    ),
    ("MPICH: two hosts out of step take every step once", || {
        with_two_hosts(out_of_step_between)
    }),
    ("MPICH: a rank killed on another host ends the job", || {
        with_two_hosts(killed_between)
    }),
];

fn one_host() {
    let Some(mpi) = Mpi::mpich() else { return };
    let folder = folder();
    let path = folder.path();
    for size in [1, 2, 4] {
        for exchange in ["node-shared", "all-reduce"] {
            in_step(mpi.phalanx(size, path), size, path, exchange);
        }
        for placement in ["sharded", "rank0"] {
            out_of_step(mpi.phalanx(size, path), size, path, placement);
        }
    }
}

fn with_two_hosts(check: fn(&Mpi, &crate::hosts::Hosts)) {
    if let Some(mpi) = Mpi::mpich() {
        two_hosts(|hosts| check(&mpi, hosts));
    }
}
