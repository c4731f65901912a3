//! Checkpoints, going on from them, and the end of a run's time, as they are typed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, CommandFactory};
use serde::Deserialize;

use super::{Cli, positive};
use crate::checkpoint::{When, time};
use crate::commands::Command as Job;
use crate::commands::train::Resume;
use crate::{Error, Result};

#[derive(Args)]
#[command(next_help_heading = "Checkpoints")]
pub(super) struct SurviveArgs {
    /// Write a checkpoint every so many steps (500), so often (30s, 10m, 2h) or every epoch, in the background. Without it one is
    /// written only when the run is asked to stop: by SIGTERM, SIGINT or SIGUSR1 to any rank, or by --time-limit. The run then
    /// ends with exit code 4.
    #[arg(long, value_name = "WHEN")]
    pub(super) checkpoint_every: Option<When>,
    /// Checkpoints to keep: the newest ones, besides the one with the lowest loss of the watched set.
    #[arg(long, value_name = "K", default_value_t = 2, value_parser = positive)]
    pub(super) keep: usize,
    /// Go on with a run from its newest whole checkpoint, or from that of a step, in the same run folder and with its settings.
    /// MODEL, DATA and all options may be left out; --epochs, --steps, --until-loss, --early-stop, --log-every and what is about
    /// checkpoints and time may be changed.
    #[arg(long, value_name = "RUN[:STEP]", conflicts_with_all = ["go_on", "out"])]
    resume: Option<String>,
    /// Go on with the run in --out if it has a checkpoint, else begin it; one that has ended is left alone. For jobs that are
    /// started again after an interruption with the same command.
    #[arg(long = "continue", requires = "out")]
    go_on: bool,
    /// Stop with a checkpoint after this time (90s, 50m, 2h), counted from the start of the ranks.
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(super) time_limit: Option<Duration>,
}

impl SurviveArgs {
    /// What to go on with.
    pub(super) fn resume(&self) -> Resume {
        match self.go_on {
            true => Resume::IfThere,
            false => Resume::No,
        }
    }

    /// Refuses checkpoints beside a record.
    pub(super) fn check(&self, record: bool) -> Result<()> {
        if record && (self.go_on || self.checkpoint_every.is_some()) {
            let problem =
                "--record and checkpoints do not go together: a replay begins where the run did";
            return Err(Error::Usage(problem.into()));
        }
        Ok(())
    }
}

/// What `settings.toml` says of how a run was begun.
#[derive(Deserialize)]
struct Begun {
    command: Vec<String>,
    #[serde(default)]
    folder: PathBuf,
}

/// The name of the command that trains sparse models.
const SPARSE: &str = "sparse";

/// An argument and its values, as they were typed.
type Typed = (String, Vec<OsString>);

/// Arguments that are paths, and those that a resumed run does not take over.
const PATHS: [&str; 3] = ["data", "test", "model_file"];
const LEFT: [&str; 4] = ["out", "force", "resume", "go_on"];

/// An argument that says who reads along: that may be another one now.
const ANEW: &str = "json";

/// An option that may stand anywhere, also before the command.
pub(super) const ANYWHERE: &str = "--quiet";

/// Whether these are the words of `phalanx train --resume`.
pub(super) fn is_resume(words: &[OsString]) -> bool {
    let words = &in_place(words.to_vec());
    let resumes = |word: &OsString| {
        let word = word.to_string_lossy();
        word == "--resume" || word.starts_with("--resume=")
    };
    is(words, 1, "train") && words.iter().any(resumes)
}

/// The words with the command's names in their places, behind that of the program.
fn in_place(mut words: Vec<OsString>) -> Vec<OsString> {
    words.retain(|word| word != ANYWHERE);
    words
}

fn is(words: &[OsString], i: usize, name: &str) -> bool {
    words.get(i).is_some_and(|word| word == name)
}

/// What to do to go on with the run that is named, with what was typed in the words beside.
pub(super) fn resumed(words: &[OsString]) -> Result<Job> {
    let target = target(words);
    if target.is_empty() || target.starts_with('-') {
        let refused = lenient().try_get_matches_from(words);
        refused.unwrap_or_else(|error| super::refuse(&error));
    }
    let (run, step) = place(&target);
    let file = run.join("settings.toml");
    let text = std::fs::read_to_string(&file).map_err(|error| {
        let hint = "give the folder of a run: --resume RUN, or --resume RUN:STEP";
        Error::file(&file, error, hint)
    })?;
    let begun: Begun = toml::from_str(&text)
        .map_err(|error| Error::file(&file, error, "the settings are damaged"))?;
    let odd = |problem: &dyn std::fmt::Display| {
        let problem = format!("the run's command is not understood: {problem}");
        Error::file(&file, problem, "it is not a run of `phalanx train`")
    };
    let command = in_place(begun.command.iter().map(OsString::from).collect());
    let mut words = in_place(words.to_vec());
    let path: &[&str] = match is(&command, 2, SPARSE) {
        true => &["train", SPARSE],
        false => &["train"],
    };
    // The run knows what it trains.
    match (path.len() == 2, is(&words, 2, SPARSE)) {
        (true, false) => words.insert(2, SPARSE.into()),
        (false, true) => return Err(odd(&"it did not train a sparse model")),
        _ => {}
    }
    let typed = typed(&lenient(), &words, path).unwrap_or_else(|error| super::refuse(&error));
    let before = self::typed(&Cli::command(), &command, path).map_err(|error| odd(&error))?;
    let merged = merge(before, &begun.folder, typed, path);
    let mut job = super::command(&merged[1..])?;
    match &mut job {
        Job::Train(settings) => {
            if settings.record {
                let problem = "a run with --record is not resumed: its replay begins where it did";
                return Err(Error::Usage(problem.into()));
            }
            settings.out = Some(run);
            settings.resume = Resume::From(step);
            settings.words = merged;
        }
        Job::TrainSparse(settings) => {
            settings.out = Some(run);
            settings.resume = Resume::From(step);
            settings.words = merged;
        }
        _ => unreachable!("it trains"),
    }
    Ok(job)
}

/// What stands behind `--resume`.
fn target(words: &[OsString]) -> String {
    let words = words.iter().map(|word| word.to_string_lossy());
    let mut words = words.skip_while(|word| !word.starts_with("--resume"));
    let first = words.next().unwrap_or_default();
    match first.split_once('=') {
        Some((_, target)) => target.into(),
        None => words.next().unwrap_or_default().into(),
    }
}

/// The command line, but that the data may be left out: the run knows.
fn lenient() -> Command {
    let optional = |arg: Arg| arg.required(false);
    Cli::command().mut_subcommand("train", |train| {
        let train = train.mut_arg("data", optional);
        train.mut_subcommand(SPARSE, |sparse| sparse.mut_arg("data", optional))
    })
}

/// A run folder, and the step behind it.
fn place(text: &str) -> (PathBuf, Option<u64>) {
    let parts = text.rsplit_once(':').filter(|_| !Path::new(text).is_dir());
    match parts.and_then(|(run, step)| Some((run, step.parse().ok()?))) {
        Some((run, step)) => (run.into(), Some(step)),
        None => (text.into(), None),
    }
}

/// What was typed behind the command at `path`.
fn typed(command: &Command, words: &[OsString], path: &[&str]) -> Result<Vec<Typed>, clap::Error> {
    let mut matches = command.clone().try_get_matches_from(words)?;
    for name in path {
        match matches.remove_subcommand() {
            Some((found, inner)) if found == *name => matches = inner,
            _ => return Ok(Vec::new()),
        }
    }
    let arguments = arguments(path);
    let given = |arg: &&Arg| {
        let id = arg.get_id().as_str();
        matches.value_source(id) == Some(ValueSource::CommandLine)
    };
    let values = |arg: &Arg| (arg.get_id().to_string(), values(&matches, arg));
    Ok(arguments.iter().filter(given).map(values).collect())
}

fn values(matches: &ArgMatches, arg: &Arg) -> Vec<OsString> {
    match arg.get_action().takes_values() {
        true => {
            let raw = matches.get_raw(arg.get_id().as_str());
            raw.map_or(Vec::new(), |raw| raw.map(Into::into).collect())
        }
        false => Vec::new(),
    }
}

/// What the command at `path` takes.
fn arguments(path: &[&str]) -> Vec<Arg> {
    let mut command = Cli::command();
    for name in path {
        command = (command.find_subcommand(name).expect("it is a command")).clone();
    }
    command.get_arguments().cloned().collect()
}

/// The words of a run that was begun with some arguments, in a folder, and goes on with others.
fn merge(before: Vec<Typed>, folder: &Path, now: Vec<Typed>, path: &[&str]) -> Vec<String> {
    let here = std::env::current_dir().unwrap_or_default();
    let length = |name: &str| name == "epochs" || name == "steps";
    let changes = now.iter().any(|(name, _)| length(name));
    let stays = |(name, _): &Typed| {
        let again = now.iter().any(|(other, _)| other == name);
        let gone = (length(name) && changes) || name == ANEW;
        !again && !gone
    };
    let before = before.into_iter().filter(stays).collect::<Vec<_>>();
    let mut all = before
        .into_iter()
        .map(|typed| absolute(typed, folder))
        .collect::<Vec<_>>();
    all.extend(now.into_iter().map(|typed| absolute(typed, &here)));
    all.retain(|(name, _)| !LEFT.contains(&name.as_str()));
    let mut words: Vec<String> = vec!["phalanx".into()];
    words.extend(path.iter().map(ToString::to_string));
    for arg in arguments(path) {
        let Some((_, values)) = all.iter().find(|(name, _)| name == arg.get_id().as_str()) else {
            continue;
        };
        let values = values.iter().map(|value| value.to_string_lossy());
        match arg.get_long() {
            None => words.extend(values.map(Into::into)),
            Some(long) if arg.get_action().takes_values() => {
                words.extend(values.map(|value| format!("--{long}={value}")));
            }
            Some(long) => words.push(format!("--{long}")),
        }
    }
    words
}

/// A path as it is from anywhere.
fn absolute((name, values): Typed, folder: &Path) -> Typed {
    match PATHS.contains(&name.as_str()) {
        true => {
            let values = values.into_iter().map(|value| folder.join(value).into());
            (name, values.collect())
        }
        false => (name, values),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `--quiet` before the command made of it one that was not known to go on.
    #[test]
    fn a_run_is_resumed_wherever_quiet_stands() {
        for (line, resumes) in [
            ("phalanx train --resume run", true),
            ("phalanx --quiet train --resume=run", true),
            ("phalanx train --quiet sparse --resume run", true),
            ("phalanx --quiet train softmax digits.h5", false),
            ("phalanx --quiet eval run --resume", false),
        ] {
            let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
            assert_eq!(is_resume(&words), resumes, "{line}");
        }
    }
}
