//! `phalanx doctor`: what this machine and its MPI offer, whether it works, and what to change.
//!
//! Facts are read, things are tried, and `advice` turns both into findings: a pure function, with a test for each rule.

mod advice;
mod disk;
mod facts;
mod latency;
mod machine;
mod show;
mod speed;
mod trials;
mod watch;

use std::time::Duration;

use crate::comm::{Comm, Start};
use crate::observe::say;
use crate::{Error, Result};

use advice::{Mark, diagnose};
use facts::Facts;
pub(super) use speed::copy_rate;
use watch::Watch;

/// Longest that a part of the examination may take: far more than any does, and less than a user waits.
const PATIENCE: Duration = Duration::from_secs(60);

/// How to examine.
pub struct Settings {
    /// Whether to print JSON.
    pub json: bool,
    /// How this process was started.
    pub start: Start,
}

/// Examines, prints, and fails where something is wrong; *collective*.
pub fn run(comm: &dyn Comm, settings: &Settings) -> Result<()> {
    let facts = examine(comm, &settings.start)?;
    let findings = diagnose(&facts);
    // Where MPI has not brought the ranks together, each is the first of its world: one of them is enough to tell.
    let speaks = comm.rank() == 0 && (comm.size() > 1 || settings.start.rank == 0);
    if speaks && settings.json {
        say(&show::json(&facts, &findings));
    } else if speaks {
        say(&show::text(&findings));
    }
    let problems = findings.iter().filter(|found| found.mark == Mark::Problem);
    match problems.count() {
        0 => Ok(()),
        problems if speaks => Err(Error::Unfit { problems }),
        problems => Err(Error::Peer {
            rank: 0,
            message: Error::Unfit { problems }.to_string(),
            code: 1,
        }),
    }
}

/// Reads and tries everything; *collective*.
fn examine(comm: &dyn Comm, start: &Start) -> Result<Facts> {
    let watch = Watch::start(PATIENCE, |stage| {
        eprintln!(
            "error: MPI did not come back from {stage} within {} s\n  hint: {}",
            PATIENCE.as_secs(),
            advice::stuck(stage)
        );
        std::process::exit(1);
    });
    watch.stage("gathering facts from all ranks");
    let mut facts = Facts::gather(comm, start);
    watch.stage("measuring memory and cores");
    facts.speed = speed::measure(comm, &mut facts.ranks);
    watch.stage("adding to windows, counters and shared memory");
    facts.trials = trials::run(comm)?;
    watch.stage("timing messages and one-sided additions");
    facts.latency = latency::measure(comm)?;
    Ok(facts)
}
