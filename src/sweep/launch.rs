//! Starting the runs of a study, each in a folder of its own, and what became of them.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::Run;
use crate::{Error, Result, files, interrupt};

/// Lines of the log that tell why a run failed.
const LINES: usize = 12;
/// The exit code of a run that has stopped with a checkpoint, and how often it is started at most.
const STOPPED: i32 = 4;
const STARTS: u32 = 50;
/// Time between two looks at a process.
const LOOK: Duration = Duration::from_millis(10);

/// How runs are started.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// The program itself.
    pub program: PathBuf,
    /// What starts ranks, with its words; `-n RANKS` follows.
    pub mpirun: Vec<String>,
    /// The folder of the study, in which everything runs.
    pub folder: PathBuf,
}

/// What became of a run.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Record {
    /// The words that it was started with.
    pub words: Vec<String>,
    /// Its ranks.
    pub ranks: usize,
    /// How it ended, where that was no good.
    pub failed: Option<Failure>,
    /// Seconds from its start to its end, those of starting ranks and reading data too.
    pub seconds: f64,
    /// How often it was started: again where it had stopped with a checkpoint, as --time-limit has it.
    pub starts: u32,
    /// What a command printed that has no run folder.
    pub printed: Option<serde_json::Value>,
}

/// How a run failed.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Failure {
    /// How its process ended.
    pub status: String,
    /// The last lines that it printed.
    pub said: String,
}

impl Launcher {
    /// The folder of a run.
    pub fn run(&self, run: &Run) -> PathBuf {
        self.folder.join("runs").join(&run.name)
    }

    /// All that a run prints.
    pub fn log(&self, run: &Run) -> PathBuf {
        self.folder.join("logs").join(format!("{}.txt", run.name))
    }

    fn record_file(&self, run: &Run) -> PathBuf {
        let name = format!("{}.json", run.name);
        self.folder.join("records").join(name)
    }

    /// What became of a run; nothing if it has not ended, or was of other words.
    pub fn record(&self, run: &Run) -> Result<Option<Record>> {
        let path = self.record_file(run);
        if !path.exists() {
            return Ok(None);
        }
        let record: Record = serde_json::from_str(&files::read_text(&path)?).map_err(|error| {
            let hint = "remove the file to have the run again";
            Error::file(&path, error, hint)
        })?;
        let same = (&record.words, record.ranks) == (&run.words, run.ranks);
        Ok(same.then_some(record))
    }

    /// Makes a run and keeps what became of it. One that was begun and did not end is continued, if it has checkpoints.
    pub fn launch(&self, run: &Run) -> Result<Record> {
        for path in [self.run(run), self.log(run), self.record_file(run)] {
            let folder = path.parent().expect("all are in folders");
            fs::create_dir_all(folder).map_err(Error::io("create folder", folder))?;
        }
        let (log, kept) = (self.log(run), self.record_file(run));
        let output = hold(&log)?;
        if kept.exists() {
            // Of other words, or a failure: nothing of it is continued.
            remove(&self.run(run))?;
            fs::remove_file(&kept).map_err(Error::io("remove", &kept))?;
        }
        let begun = Instant::now();
        let mut starts = 0;
        let status = loop {
            let mut command = self.command(run);
            command.args(&run.words);
            match run.trains() {
                true => command.args(["--out", &format!("runs/{}", run.name), "--continue"]),
                false => command.arg("--json"),
            };
            let status = self.finish(command, &output, &log)?;
            starts += 1;
            if status.code() != Some(STOPPED) || starts == STARTS {
                break status;
            }
        };
        let seconds = begun.elapsed().as_secs_f64();
        let text = String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()).into_owned();
        let printed = (!run.trains()).then(|| object(&text)).flatten();
        let told = printed.is_some() || self.run(run).join("result.toml").exists();
        let record = Record {
            words: run.words.clone(),
            ranks: run.ranks,
            failed: (!status.success() || !told).then(|| Failure {
                status: status.to_string(),
                said: last_lines(&text),
            }),
            seconds,
            starts,
            printed,
        };
        let text = serde_json::to_string_pretty(&record).expect("plain values");
        files::write_text(&kept, &text)?;
        Ok(record)
    }

    /// Does a command of the program on one rank.
    pub fn prepare(&self, words: &[String]) -> Result<()> {
        self.must(Command::new(&self.program), words, "prepare")
    }

    /// Does a command of the program on the ranks of a run that has been made.
    pub fn go_on(&self, run: &Run, words: &[String]) -> Result<()> {
        self.must(self.command(run), words, "winner")
    }

    fn must(&self, mut command: Command, words: &[String], name: &str) -> Result<()> {
        let log = self.folder.join("logs").join(format!("{name}.txt"));
        let folder = log.parent().expect("it is in a folder");
        fs::create_dir_all(folder).map_err(Error::io("create folder", folder))?;
        let output = hold(&log)?;
        command.args(words);
        let status = self.finish(command, &output, &log)?;
        if status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()).into_owned();
        let problem = format!(
            "`phalanx {}` failed ({status})\n{}",
            words.join(" "),
            last_lines(&text)
        );
        Err(Error::file(&log, problem, "it has all that was said"))
    }

    /// The program on the ranks of a run.
    fn command(&self, run: &Run) -> Command {
        if run.ranks == 1 {
            return Command::new(&self.program);
        }
        let mut command = Command::new(&self.mpirun[0]);
        command.args(&self.mpirun[1..]);
        if run.nodes > 1 {
            let each = run.ranks.div_ceil(run.nodes);
            command.args(["--map-by", &format!("ppr:{each}:node")]);
        }
        command.args(["-n", &run.ranks.to_string()]);
        command.arg(&self.program);
        command
    }

    /// Waits for the end of a command, all of whose words go to `output`. A signal is passed on to it, and is an error once it has ended.
    fn finish(&self, mut command: Command, output: &File, log: &Path) -> Result<ExitStatus> {
        let copy = || output.try_clone().map_err(Error::io("write", log));
        command.stdin(Stdio::null()).stdout(copy()?).stderr(copy()?);
        let child = command.current_dir(&self.folder).spawn();
        let mut child = child.map_err(|error| {
            let hint = "is it installed, and on the PATH? `phalanx doctor` tells";
            Error::file(command.get_program(), error, hint)
        })?;
        wait(&mut child, log)
    }
}

/// An empty file for what a command prints. It is locked as long as this process or the command has it open: a command that was left
/// behind by one that was killed is waited for.
fn hold(log: &Path) -> Result<File> {
    let file = File::options().create(true).append(true).open(log);
    let file = file.map_err(Error::io("create", log))?;
    let mut told = false;
    while let Err(TryLockError::WouldBlock) = file.try_lock() {
        if !told {
            log::warn!(
                "waiting for a run that was started before: {}",
                log.display()
            );
            told = true;
        }
        interrupt::check()?;
        thread::sleep(10 * LOOK);
    }
    file.set_len(0).map_err(Error::io("write", log))?;
    Ok(file)
}

fn wait(child: &mut Child, log: &Path) -> Result<ExitStatus> {
    let mut told = false;
    loop {
        let ended = child.try_wait().map_err(Error::io("wait for", log))?;
        if let Some(status) = ended {
            interrupt::check()?;
            return Ok(status);
        }
        if !told && interrupt::check().is_err() {
            interrupt::pass_on(child);
            told = true;
        }
        thread::sleep(LOOK);
    }
}

fn remove(folder: &Path) -> Result<()> {
    match folder.exists() {
        true => fs::remove_dir_all(folder).map_err(Error::io("remove", folder)),
        false => Ok(()),
    }
}

/// The last object of what a command printed: its result.
fn object(text: &str) -> Option<serde_json::Value> {
    // One in a line, or one in many.
    let lines = text.lines().rev().filter(|line| line.starts_with('{'));
    let whole = text.find("\n{\n").map(|at| &text[at..]);
    let texts = lines.chain(whole).chain([text]);
    texts
        .filter_map(|text| serde_json::from_str(text).ok())
        .find(serde_json::Value::is_object)
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(LINES)..].join("\n")
}
