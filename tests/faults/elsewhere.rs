//! Faults that are not of files: the clock, a rank that stands still, memory.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::launch::{children, signal, wait};
use crate::run::{Amount, Bench, LIMIT, Outcome, checkpoints};
use crate::shim::Fault;

/// The time of day jumps by a day, forward and back: nothing may be early, late or different.
pub fn clock(amount: Amount) -> Outcome {
    let about = "--steps 300 --checkpoint-every 1s --keep 2 --time-limit 90s --stall-timeout 20";
    let bench = Bench::of(2, about);
    let mut outcome = Outcome::default();
    let jumps: &[i64] = match amount {
        Amount::All => &[86_400, -86_400, 3600, 1_000_000_000],
        Amount::Some => &[86_400],
    };
    for &jump in jumps {
        let ended = wait(bench.start("run", Fault::Clock(jump)), LIMIT);
        outcome.moments += 1;
        if ended.code != Some(0) {
            let wrong = format!("{jump} s: {:?}\n{}", ended.code, ended.output);
            outcome.wrong.push(wrong);
            continue;
        }
        outcome.resumed += 1;
        bench.compare(
            "run",
            &format!("a clock that jumps by {jump} s"),
            &mut outcome,
        );
    }
    outcome
}

/// A run of which checkpoints are there; with its ranks.
fn begun(bench: &Bench) -> (std::process::Child, Vec<u32>) {
    let job = bench.start("run", Fault::None);
    let begun = Instant::now();
    while checkpoints(&bench.out("run")).is_empty() && begun.elapsed() < LIMIT {
        thread::sleep(Duration::from_millis(5));
    }
    let ranks = children(job.id());
    (job, ranks)
}

/// A rank is stopped: the watchdog ends the job, and it goes on.
pub fn stopped(amount: Amount) -> Outcome {
    let bench = Bench::of(
        3,
        "--steps 800 --checkpoint-every 20 --keep 2 --stall-timeout 10",
    );
    let mut outcome = Outcome::default();
    let times = if amount == Amount::All { 6 } else { 1 };
    for i in 0..times {
        let (job, ranks) = begun(&bench);
        thread::sleep(Duration::from_millis(31 * i as u64));
        let Some(&rank) = ranks.get(i % 3) else {
            outcome
                .wrong
                .push("it has ended before it could be stopped".into());
            continue;
        };
        signal("STOP", rank);
        let ended = wait(job, LIMIT);
        if ended.code != Some(3) || !ended.output.contains("hangs") {
            let wrong = format!("stopped: {:?}\n{}", ended.code, ended.output);
            outcome.wrong.push(wrong);
        }
        bench.go_on("run", &format!("rank {} stopped", i % 3), &mut outcome);
    }
    outcome
}

/// A rank gets no more memory: the job ends, and goes on when there is some.
pub fn memory(amount: Amount) -> Outcome {
    let bench = Bench::of(3, "--steps 800 --checkpoint-every 20 --keep 2");
    let mut outcome = Outcome::default();
    let times = if amount == Amount::All { 6 } else { 1 };
    for i in 0..times {
        let (job, ranks) = begun(&bench);
        let Some(&rank) = ranks.get(i % 3) else {
            outcome
                .wrong
                .push("it has ended before its memory could be limited".into());
            continue;
        };
        let mut limit = Command::new("prlimit");
        limit.args(["--pid", &rank.to_string(), "--as=1000000", "--data=1000000"]);
        assert!(
            limit.status().is_ok_and(|status| status.success()),
            "prlimit works"
        );
        // It may come to its end without asking for more: that is no fault.
        wait(job, LIMIT);
        bench.go_on(
            "run",
            &format!("rank {} without memory", i % 3),
            &mut outcome,
        );
    }
    outcome
}
