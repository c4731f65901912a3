//! All ranks of a run at one moment.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::life::{Life, SILENT};
use super::{Now, State, clock};
use crate::{Error, Result};

/// What was seen in a run folder.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The run folder.
    pub run: PathBuf,
    /// Its ranks, in their order; those that have said nothing yet are missing.
    pub ranks: Vec<Now>,
    /// How it is with the run.
    pub life: Life,
}

/// Names of the columns.
pub(super) const COLUMNS: [&str; 11] = [
    "rank",
    "host",
    "pid",
    "phase",
    "step",
    "samples/s",
    "CPU %",
    "MiB",
    "compute %",
    "wait %",
    "exchange %",
];

impl Seen {
    /// Looks into a run folder.
    pub fn look(run: &Path) -> Result<Self> {
        if !run.join("settings.toml").exists() {
            let problem = match run.is_dir() {
                true => "is not a run: it has no settings.toml",
                false => "there is no such run folder",
            };
            return Err(Error::file(
                run,
                problem,
                "give the folder that `phalanx train` writes to",
            ));
        }
        let mut ranks = read(run)?;
        // One that goes on with fewer ranks leaves folders of others behind.
        let newest = ranks.iter().max_by(|a, b| a.time.total_cmp(&b.time));
        let count = newest.map_or(0, |now| now.ranks);
        ranks.retain(|now| now.rank < count);
        ranks.sort_by_key(|now| now.rank);
        let life = match ranks.is_empty() {
            true if run.join("result.toml").exists() => Life::Finished,
            true => {
                let problem = "its ranks have said nothing of themselves";
                let hint = "it has just been started, or it trains with --resources off or is a sparse one: these do not";
                return Err(Error::file(run, problem, hint));
            }
            false => Life::of(run, &ranks),
        };
        Ok(Self {
            run: run.to_path_buf(),
            ranks,
            life,
        })
    }

    /// As `look`; ranks that seem to be silent are given another moment, for clocks of hosts that differ.
    pub fn look_twice(run: &Path) -> Result<Self> {
        let first = Self::look(run)?;
        let Life::Gone(_) = first.life else {
            return Ok(first);
        };
        thread::sleep(Duration::from_millis(1500));
        let mut second = Self::look(run)?;
        second.compare(&first);
        Ok(second)
    }

    /// Ranks that have said more than `before` are alive, whatever their clocks show.
    pub(super) fn compare(&mut self, before: &Self) {
        let moved = |now: &Now| {
            let mut others = before.ranks.iter();
            others.any(|then| then.rank == now.rank && then.time != now.time)
        };
        let moves = self.ranks.iter().any(moved);
        if moves && matches!(self.life, Life::Gone(_)) {
            self.life = Life::Running;
        }
    }

    /// What is to be said of the run as a whole.
    pub fn title(&self) -> String {
        let mut words = format!("{}: {}", self.run.display(), self.life.words());
        let Some(first) = self.ranks.first() else {
            return words;
        };
        let hosts: std::collections::BTreeSet<&str> =
            self.ranks.iter().map(|now| now.host.as_str()).collect();
        let plural = |n: usize| if n == 1 { "" } else { "s" };
        words += &format!(
            "\n{} rank{} on {} host{}, step {} of {}, epoch {:.2}",
            first.ranks,
            plural(first.ranks),
            hosts.len(),
            plural(hosts.len()),
            self.step(),
            first.total,
            first.epoch
        );
        if let Some(loss) = first.loss {
            words += &format!(", loss {loss:.4}");
        }
        if self.life == Life::Running {
            let speed: f64 = self.ranks.iter().map(|now| now.samples_per_s).sum();
            words += &format!(", {speed:.0} samples/s");
        }
        words
    }

    /// The step that the run is in.
    pub fn step(&self) -> u64 {
        self.ranks.iter().map(|now| now.step).max().unwrap_or(0)
    }

    /// Steps of the run.
    pub fn total(&self) -> u64 {
        self.ranks.first().map_or(0, |now| now.total)
    }

    /// The cells of every rank's row.
    pub(super) fn cells(&self) -> Vec<[String; 11]> {
        let newest = self.ranks.iter().map(|now| now.time).fold(0.0, f64::max);
        let row = |now: &Now| {
            let silent = newest.min(clock()) - now.time;
            let phase = match now.state {
                State::Running if silent > SILENT => format!("silent {silent:.0} s"),
                State::Running if self.life != Life::Running => format!("{} (last)", now.phase),
                State::Running => now.phase.clone(),
                State::Ended => "ended".into(),
                State::Failed => "failed".into(),
            };
            [
                now.rank.to_string(),
                now.host.clone(),
                now.pid.to_string(),
                phase,
                now.step.to_string(),
                format!("{:.0}", now.samples_per_s),
                format!("{:.0}", now.cpu_percent),
                format!("{:.0}", now.resident_mb),
                format!("{:.1}", now.compute_percent),
                format!("{:.1}", now.wait_percent),
                format!("{:.1}", now.exchange_percent),
            ]
        };
        self.ranks.iter().map(row).collect()
    }

    /// All of it as text.
    pub fn table(&self) -> String {
        let cells = self.cells();
        let widths = widths(&cells);
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let padded = cells.zip(widths).enumerate().map(|(i, (cell, width))| {
                // Words to the left, numbers to the right.
                match i {
                    1 | 3 => format!("{cell:<width$}"),
                    _ => format!("{cell:>width$}"),
                }
            });
            let padded: Vec<String> = padded.collect();
            padded.join("  ").trim_end().to_owned()
        };
        let mut text = self.title();
        if !cells.is_empty() {
            text += &format!("\n{}", line(&mut COLUMNS.into_iter()));
        }
        for row in &cells {
            text += &format!("\n{}", line(&mut row.iter().map(String::as_str)));
        }
        text
    }
}

/// The widths of the columns.
pub(super) fn widths(cells: &[[String; 11]]) -> [usize; 11] {
    let mut widths = COLUMNS.map(|name| name.chars().count());
    for row in cells {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    widths
}

/// What all ranks have said.
fn read(run: &Path) -> Result<Vec<Now>> {
    let entries = fs::read_dir(run).map_err(Error::io("read", run))?;
    let folders = entries.flatten().map(|entry| entry.path());
    let of_rank = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("rank-")
    };
    Ok(folders
        .filter(of_rank)
        .filter_map(|path| Now::read(&path))
        .collect())
}
