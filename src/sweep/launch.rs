//! Starting the runs of a study, one after the other, each in a folder of its own.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::Run;
use crate::{Error, Result, files, interrupt};

/// What says that a run failed, in its folder.
const FAILED: &str = "failed.toml";
/// All that a run printed.
const LOG: &str = "log.txt";
/// What commands print that have no run folder of their own.
const PRINTED: &str = "printed.json";
/// Lines of the log that tell why a run failed.
const LINES: usize = 12;

/// How runs are started.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// The program itself.
    pub program: PathBuf,
    /// What starts ranks, with its words; `-n RANKS` follows.
    pub mpirun: Vec<String>,
}

/// What became of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// It was not run yet.
    Open,
    /// It has a result.
    Done,
    /// It failed.
    Failed(Failure),
}

/// How a run failed.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Failure {
    /// How its process ended.
    pub status: String,
    /// The last lines that it printed.
    pub said: String,
}

/// What became of the run in `folder`.
pub fn state(folder: &Path) -> Result<State> {
    if folder.join("result.toml").exists() || folder.join(PRINTED).exists() {
        return Ok(State::Done);
    }
    let failed = folder.join(FAILED);
    match failed.exists() {
        false => Ok(State::Open),
        true => {
            let text = files::read_text(&failed)?;
            let failure = toml::from_str(&text).map_err(|error| {
                let hint = "remove the file to have the run again";
                Error::file(&failed, error.to_string(), hint)
            })?;
            Ok(State::Failed(failure))
        }
    }
}

impl Launcher {
    /// Runs `run` into `folder`, where what is left of a try before is replaced; gives how it ended and its seconds.
    pub fn launch(&self, run: &Run, folder: &Path) -> Result<(State, f64)> {
        fs::create_dir_all(folder).map_err(Error::io("create folder", folder))?;
        let failed = folder.join(FAILED);
        if failed.exists() {
            fs::remove_file(&failed).map_err(Error::io("remove", &failed))?;
        }
        let log = folder.join(LOG);
        let output = File::create(&log).map_err(Error::io("create", &log))?;
        let mut command = self.command(run.ranks);
        command.args(&run.words).stdin(Stdio::null());
        command.stderr(output.try_clone().map_err(Error::io("write", &log))?);
        if run.trains() {
            // What was begun and killed is continued; a folder with nothing but a log is none of another's.
            command.arg("--out").arg(folder).arg("--continue");
        } else {
            command.arg("--json");
        }
        command.stdout(output);
        let begun = Instant::now();
        let status = command.status().map_err(|error| {
            let hint = "is it installed, and on the PATH? `phalanx doctor` tells";
            Error::file(command.get_program().to_owned(), error.to_string(), hint)
        })?;
        let seconds = begun.elapsed().as_secs_f64();
        interrupt::check()?;
        if status.success() && !run.trains() {
            keep_printed(folder)?;
        }
        if status.success() && state(folder)? == State::Done {
            return Ok((State::Done, seconds));
        }
        let text = fs::read_to_string(&log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
        let failure = Failure {
            status: status.to_string(),
            said: lines[lines.len().saturating_sub(LINES)..].join("\n"),
        };
        let words = toml::to_string(&failure).expect("two texts are a table");
        files::write_text(&failed, &words)?;
        Ok((State::Failed(failure), seconds))
    }

    /// The program on so many ranks.
    fn command(&self, ranks: usize) -> Command {
        if ranks == 1 {
            return Command::new(&self.program);
        }
        let mut command = Command::new(&self.mpirun[0]);
        command.args(&self.mpirun[1..]);
        command.args(["-n", &ranks.to_string()]).arg(&self.program);
        command
    }
}

/// Keeps the last object that a command printed: it is its result.
fn keep_printed(folder: &Path) -> Result<()> {
    let log = files::read_text(&folder.join(LOG))?;
    let objects = log.lines().filter(|line| line.starts_with('{'));
    match objects.last() {
        Some(object) => files::write_text(&folder.join(PRINTED), object),
        None => Ok(()),
    }
}
