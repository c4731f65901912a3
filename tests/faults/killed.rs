//! Runs that are killed.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use phalanx::rng::Stream;

use crate::launch::{children, run, wait};
use crate::run::{Amount, Bench, LIMIT, Outcome, kill};
use crate::shim::{Events, Fault};

/// Kills at events of checkpoints, and goes on.
fn at_events(bench: &Bench, amount: Amount, some: u64, fault: fn(u64) -> Fault) -> Outcome {
    let mut outcome = Outcome::default();
    for at in amount.of(bench.events(), some) {
        match killed_at(bench, at, fault) {
            Ok(what) => bench.go_on("run", &what, &mut outcome),
            Err(wrong) => outcome.wrong.push(wrong),
        }
    }
    outcome
}

/// A run that is killed at event `at`, or at the last one that comes: a checkpoint that falls due while the one before it is
/// still being written is left out, and a busy disk makes events fewer than they were when they were counted.
fn killed_at(bench: &Bench, mut at: u64, fault: fn(u64) -> Fault) -> Result<String, String> {
    loop {
        let events = Events::new(bench.path());
        let ended = run(bench.command("run", &events, fault(at)), LIMIT);
        let what = format!("event {at}");
        if ended.code != Some(0) {
            return Ok(what);
        }
        if events.count() >= at {
            return Err(format!("{what} does not kill\n{}", ended.output));
        }
        at = events.count();
        fs::remove_dir_all(bench.out("run")).unwrap();
    }
}

pub fn events_of_one(amount: Amount) -> Outcome {
    at_events(&Bench::new(1), amount, 5, Fault::Kill)
}

pub fn half_written(amount: Amount) -> Outcome {
    at_events(&Bench::new(1), amount, 3, Fault::Half)
}

pub fn events_of_four(amount: Amount) -> Outcome {
    at_events(&Bench::new(4), amount, 3, Fault::Kill)
}

pub fn events_of_sparse(amount: Amount) -> Outcome {
    at_events(&Bench::sparse(4), amount, 3, Fault::Kill)
}

/// Kills one rank of four, or all of them and mpirun at once, at random moments of a run.
pub fn at_random(amount: Amount) -> Outcome {
    let bench = Bench::new(4);
    let mut outcome = Outcome::default();
    let begun = Instant::now();
    let ended = wait(bench.start("timed", Fault::None), LIMIT);
    let whole = begun.elapsed().as_secs_f64();
    assert_eq!(ended.code, Some(0), "{}", ended.output);
    let mut stream = Stream::new(&[0x6b69_6c6c]);
    let times = match amount {
        Amount::All => 100,
        Amount::Some => 3,
    };
    for i in 0..times {
        let (share, rank) = (
            f64::from(stream.between(0.0, 1.0)),
            stream.below(4) as usize,
        );
        let job = bench.start("run", Fault::None);
        thread::sleep(Duration::from_secs_f64(share * whole));
        let ranks = children(job.id());
        let doomed = match i % 2 {
            0 => ranks.get(rank).copied().into_iter().collect(),
            _ => [ranks, vec![job.id()]].concat(),
        };
        doomed.into_iter().for_each(kill);
        wait(job, LIMIT);
        let what = format!("killed after {:.0} % of {whole:.1} s", 100.0 * share);
        bench.go_on("run", &what, &mut outcome);
    }
    outcome
}
