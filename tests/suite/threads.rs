//! The contracts of ranks, on ranks as threads.

use phalanx::comm::{run_nodes, run_ranks};

use crate::contracts::CHECKS;

fn on(size: usize) {
    for (name, check) in CHECKS {
        println!("{name}, {size} ranks as threads");
        run_ranks(size, |comm| check(comm));
    }
}

#[test]
fn contracts_hold_on_one_rank() {
    on(1);
}

#[test]
fn contracts_hold_on_two_ranks() {
    on(2);
}

#[test]
fn contracts_hold_on_three_ranks() {
    on(3);
}

#[test]
fn contracts_hold_on_four_ranks() {
    on(4);
}

#[test]
fn contracts_hold_on_eight_ranks() {
    on(8);
}

/// Ranks that are to believe that they are on several nodes, also unevenly and not in order.
#[test]
fn contracts_hold_on_several_nodes() {
    for nodes in [
        &[0, 1][..],
        &[0, 0, 1, 1],
        &[0, 1, 0, 1],
        &[0, 0, 0, 1],
        &[0, 1, 2],
    ] {
        for (name, check) in CHECKS {
            println!("{name}, ranks as threads on nodes {nodes:?}");
            run_nodes(nodes, |comm| check(comm));
        }
    }
}
