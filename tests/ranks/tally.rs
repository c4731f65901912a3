//! Which checks are asked for, what became of them, and the line that tells.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use crate::launch::skipped;

/// Checks that passed, failed and were skipped.
pub struct Tally {
    /// Words of the command line: checks whose names hold one are asked for, all without any.
    filters: Vec<String>,
    passed: usize,
    failed: Vec<String>,
    skipped: usize,
}

impl Tally {
    /// Of what the command line asks for.
    pub fn new() -> Self {
        let words = std::env::args().skip(1);
        Self {
            filters: words.filter(|word| !word.starts_with('-')).collect(),
            passed: 0,
            failed: Vec::new(),
            skipped: 0,
        }
    }

    /// Whether a check is asked for.
    pub fn chosen(&self, name: &str) -> bool {
        let mut filters = self.filters.iter().peekable();
        filters.peek().is_none() || filters.any(|filter| name.contains(filter.as_str()))
    }

    /// What became of a check.
    pub fn count(&mut self, name: &str, outcome: Result<(), String>) {
        match outcome {
            Ok(()) => {
                println!("{name} ... ok");
                self.passed += 1;
            }
            Err(why) => {
                println!("{name} ... FAILED\n{why}");
                self.failed.push(name.into());
            }
        }
    }

    /// Runs a job if it is asked for; whether it failed.
    pub fn job(&mut self, name: &str, job: impl FnOnce()) -> bool {
        if !self.chosen(name) {
            return false;
        }
        let before = self.failed.len();
        let outcome = catch_unwind(AssertUnwindSafe(job));
        match skipped() {
            Some(why) => {
                println!("{name} ... skipped: {why}");
                self.skipped += 1;
            }
            None => self.count(name, outcome.map_err(|_| "its panic is above".into())),
        }
        self.failed.len() > before
    }

    /// Nothing can run here, of so many checks; under CI that is a failure.
    pub fn none(checks: usize, why: &str) -> ExitCode {
        println!("{why}");
        println!("0 passed, 0 failed, {checks} skipped");
        match std::env::var_os("CI") {
            Some(_) => ExitCode::FAILURE,
            None => ExitCode::SUCCESS,
        }
    }

    /// Tells.
    pub fn close(self) -> ExitCode {
        let skipped = match self.skipped {
            0 => String::new(),
            skipped => format!(", {skipped} skipped"),
        };
        let (passed, failed) = (self.passed, self.failed.len());
        println!("{passed} passed, {failed} failed{skipped}");
        for name in &self.failed {
            println!("  failed: {name}");
        }
        match failed {
            0 => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        }
    }
}
