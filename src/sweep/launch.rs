//! Starting the runs of a study, each in a folder of its own, and what became of them.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{Run, figures};
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
    /// What is done once before all runs: with other data, a run is another one.
    pub prepare: Vec<Vec<String>>,
}

/// What a run is: one that differs in any of this is another run.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Order {
    /// The words that it is started with.
    pub words: Vec<String>,
    /// Its ranks.
    pub ranks: usize,
    /// What is done before.
    pub prepare: Vec<Vec<String>>,
}

/// A run that was begun.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Begun {
    order: Order,
    /// Seconds that its processes have taken, those of starting ranks and reading data too.
    seconds: f64,
    /// How often it was started: again where it had stopped with a checkpoint, as --time-limit has it.
    starts: u32,
}

/// What became of a run.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Record {
    /// What it was.
    pub order: Order,
    /// How it ended, where that was no good.
    pub failed: Option<Failure>,
    /// From its start to its end.
    pub seconds: f64,
    /// What it had to tell when it ended; JSON has `null` where a figure is no number, such as the loss of a model that diverged.
    #[serde(deserialize_with = "or_nan")]
    pub figures: BTreeMap<String, f64>,
}

fn or_nan<'de, D: serde::Deserializer<'de>>(from: D) -> Result<BTreeMap<String, f64>, D::Error> {
    let figures = BTreeMap::<String, Option<f64>>::deserialize(from)?;
    let number = |(name, figure): (String, Option<f64>)| (name, figure.unwrap_or(f64::NAN));
    Ok(figures.into_iter().map(number).collect())
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

    fn note(&self, run: &Run, ending: &str) -> PathBuf {
        let name = format!("{}.{ending}", run.name);
        self.folder.join("records").join(name)
    }

    fn order(&self, run: &Run) -> Order {
        Order {
            words: run.words.clone(),
            ranks: run.ranks,
            prepare: self.prepare.clone(),
        }
    }

    /// What became of a run; nothing if it has not ended, or was another one.
    pub fn record(&self, run: &Run) -> Result<Option<Record>> {
        let record: Option<Record> = read(&self.note(run, "json"))?;
        Ok(record.filter(|record| record.order == self.order(run)))
    }

    /// Makes a run and keeps what became of it. One that was begun and did not end is continued, if it has checkpoints.
    pub fn launch(&self, run: &Run) -> Result<Record> {
        for path in [self.run(run), self.log(run), self.note(run, "json")] {
            make_parent(&path)?;
        }
        let (log, kept, begun) = (
            self.log(run),
            self.note(run, "json"),
            self.note(run, "begun"),
        );
        let output = hold(&log)?;
        // Another process may have made it in the meantime.
        if let Some(record) = self.record(run)?.filter(|record| record.failed.is_none()) {
            return Ok(record);
        }
        let order = self.order(run);
        let before: Option<Begun> = read(&begun)?;
        let mut progress = match before.filter(|before| before.order == order && !kept.exists()) {
            Some(before) => before,
            None => {
                // Of another run, or one that failed: nothing of it is continued.
                remove(&self.run(run))?;
                Begun {
                    order: order.clone(),
                    seconds: 0.0,
                    starts: 0,
                }
            }
        };
        write(&begun, &progress)?;
        if kept.exists() {
            fs::remove_file(&kept).map_err(Error::io("remove", &kept))?;
        }
        let status = loop {
            let start = Instant::now();
            let ended = self.finish(self.words(run), &output, &log);
            progress.seconds += start.elapsed().as_secs_f64();
            progress.starts += 1;
            write(&begun, &progress)?;
            let status = ended?;
            if status.code() != Some(STOPPED) || progress.starts >= STARTS {
                break status;
            }
        };
        let text = String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()).into_owned();
        let printed = (!run.trains()).then(|| object(&text)).flatten();
        let told = printed.is_some() || self.run(run).join("result.toml").exists();
        let failed = (!status.success() || !told).then(|| Failure {
            status: status.to_string(),
            said: last_lines(&text),
        });
        let mut figures = match failed {
            Some(_) => BTreeMap::new(),
            None => figures(printed.as_ref(), &self.run(run))?,
        };
        if failed.is_none() {
            figures.insert("wall_seconds".into(), progress.seconds);
            figures.insert("starts".into(), f64::from(progress.starts));
        }
        let record = Record {
            order,
            failed,
            seconds: progress.seconds,
            figures,
        };
        write(&kept, &record)?;
        fs::remove_file(&begun).map_err(Error::io("remove", &begun))?;
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
        make_parent(&log)?;
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

    /// All words of a run.
    fn words(&self, run: &Run) -> Command {
        let mut command = self.command(run);
        command.args(&run.words);
        command.args(run.more(&format!("runs/{}", run.name)));
        command
    }

    /// The program on the ranks of a run.
    fn command(&self, run: &Run) -> Command {
        let starter = Path::new(&self.mpirun[0]).file_name().unwrap_or_default();
        let slurm = starter == "srun";
        if run.ranks == 1 && !slurm {
            return Command::new(&self.program);
        }
        let mut command = Command::new(&self.mpirun[0]);
        command.args(&self.mpirun[1..]);
        let each = run.ranks.div_ceil(run.nodes);
        match slurm {
            true => {
                command.args(["--nodes", &run.nodes.to_string()]);
            }
            false if run.nodes > 1 => {
                command.args(["--map-by", &format!("ppr:{each}:node")]);
            }
            false => {}
        }
        command.args(["-n", &run.ranks.to_string()]);
        command.arg(&self.program);
        command
    }

    /// Waits for the end of a command, all of whose words go to `output`. A signal is passed on to it, and is an error once it has ended,
    /// unless it has ended well all the same.
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
            if !status.success() {
                interrupt::check()?;
            }
            return Ok(status);
        }
        if !told && interrupt::check().is_err() {
            interrupt::pass_on(child);
            told = true;
        }
        thread::sleep(LOOK);
    }
}

fn make_parent(path: &Path) -> Result<()> {
    let folder = path.parent().expect("it is in a folder");
    fs::create_dir_all(folder).map_err(Error::io("create folder", folder))
}

fn remove(folder: &Path) -> Result<()> {
    match folder.exists() {
        true => fs::remove_dir_all(folder).map_err(Error::io("remove", folder)),
        false => Ok(()),
    }
}

/// What was written to a file, if it is there.
fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    if !path.exists() {
        return Ok(None);
    }
    let text = files::read_text(path)?;
    let hint = "remove the file to have the run again";
    serde_json::from_str(&text)
        .map(Some)
        .map_err(|error| Error::file(path, error, hint))
}

fn write(path: &Path, what: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(what).expect("plain values");
    files::write_text(path, &text)
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
