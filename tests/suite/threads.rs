//! The contracts of ranks, on ranks as threads.

use phalanx::comm::run_ranks;

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
