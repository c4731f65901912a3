//! Going on from a checkpoint: which one, whether it is whole, and whether it fits.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::train::Resume;
use crate::checkpoint::{Checkpoint, Keeper, Manifest, Store};
use crate::comm::{Comm, agree};
use crate::observe::mention;
use crate::train::{Meeting, RunFolder, Saver, Terms};
use crate::{Error, Result};

/// Where a run begins.
pub(super) enum Begin {
    /// At its begin.
    Fresh,
    /// Nowhere: it has ended after so many steps.
    Ended(u64),
    /// Where a checkpoint was written.
    From(Box<Checkpoint>),
}

/// Finds out where the run in the folder `run` begins, of a `kind` and of so many steps in all; *collective*.
pub(super) fn find(
    comm: &dyn Comm,
    (run, resume): (Option<&Path>, Resume),
    (kind, total): (&str, u64),
) -> Result<Begin> {
    let Some(run) = run.filter(|_| resume != Resume::No) else {
        return Ok(Begin::Fresh);
    };
    let store = Store::of(run);
    let seen = (comm.rank() == 0).then(|| look(run, &store, resume, total));
    let seen = agree(comm, seen.transpose())?.unwrap_or_default();
    // What the first rank sees counts: file systems of clusters do not show everybody the same at once.
    let all = comm.gather(&serde_json::to_vec(&seen).expect("plain values"));
    let seen: Seen = serde_json::from_slice(&all[0]).expect("written by the same program");
    if let Some(steps) = seen.ended {
        return Ok(Begin::Ended(steps));
    }
    for step in &seen.steps {
        match whole(comm, &store, *step) {
            Ok(checkpoint) => return of_kind(comm, checkpoint, kind),
            Err(error) if matches!(resume, Resume::From(Some(_))) => return Err(error),
            Err(error) => {
                if comm.rank() == 0 {
                    let error = error.to_string();
                    let what = error.lines().next().unwrap_or_default();
                    log::warn!("{what}; the checkpoint before it is tried");
                }
            }
        }
    }
    match (resume, seen.steps.is_empty()) {
        (Resume::IfThere, true) => Ok(Begin::Fresh),
        (_, nothing) => {
            let problem = match nothing {
                true => "has no checkpoint",
                false => "has no checkpoint that is whole",
            };
            let hint = "begin anew, with another --out or with --force";
            agree(comm, Err(Error::file(store.path(), problem, hint)))
        }
    }
}

/// The run folder: a new one, or the one in `out` of a run that goes on after `step` steps.
pub(super) fn open_folder(
    (out, resume): (Option<&Path>, Resume),
    step: Option<u64>,
    force: bool,
    name: &str,
) -> Result<RunFolder> {
    match (out, step) {
        (Some(path), Some(step)) => {
            let folder = RunFolder::open(path)?;
            Store::of(path).tidy()?;
            folder.reopen()?;
            let path = path.display();
            mention(&format!("going on after step {step} of {path}\n"));
            Ok(folder)
        }
        (Some(path), None) if resume == Resume::IfThere => RunFolder::begin(path),
        (Some(path), None) => RunFolder::create(path, force),
        (None, _) => RunFolder::create_next(name),
    }
}

/// What writes checkpoints of the run in the folder `run`, which only the first rank has open; *collective*.
pub(super) fn saver<'c>(
    comm: &'c dyn Comm,
    (run, folder): (&Path, Option<&RunFolder>),
    keep: usize,
    (terms, ranks): (Terms, Meeting),
) -> Result<Saver<'c>> {
    let journals = folder.iter().map(|folder| folder.file("metrics.csv"));
    let keeper = Keeper::new(comm, Store::of(run), keep, journals.collect());
    Saver::new(comm, agree(comm, keeper)?, terms, ranks)
}

/// Tells that there is nothing to do.
pub(super) fn has_ended(run: Option<&Path>, steps: u64) -> String {
    let run = run.unwrap_or(Path::new("")).display();
    format!("{run} has ended after {steps} steps: nothing is left to do\n")
}

/// What the first rank sees in the run folder.
#[derive(Default, Serialize, Deserialize)]
struct Seen {
    /// Checkpoints to try, newest first.
    steps: Vec<u64>,
    /// Steps of a run that has ended.
    ended: Option<u64>,
}

fn look(run: &Path, store: &Store, resume: Resume, total: u64) -> Result<Seen> {
    let mut steps = store.steps()?;
    if let Resume::From(Some(step)) = resume {
        if !steps.contains(&step) {
            let known: Vec<String> = steps.iter().map(ToString::to_string).collect();
            let problem = format!(
                "has no checkpoint of step {step} (it has: {})",
                known.join(", ")
            );
            return Err(Error::file(
                store.path(),
                problem,
                "give one of these, or none for the newest",
            ));
        }
        steps = vec![step];
    }
    let ended = ended(run)?.filter(|ended| !ended.leaves(total, resume));
    Ok(Seen {
        steps,
        ended: ended.map(|ended| ended.steps),
    })
}

/// What `result.toml` says, if the run has come to its end.
#[derive(Deserialize)]
struct Ended {
    steps: u64,
    target_step: Option<u64>,
    stale_since: Option<u64>,
}

impl Ended {
    /// Whether there is more to do: the run is to be longer now, or to be taken up at an earlier step.
    fn leaves(&self, total: u64, resume: Resume) -> bool {
        let early = self.target_step.is_some() || self.stale_since.is_some();
        matches!(resume, Resume::From(Some(_))) || (!early && self.steps < total)
    }
}

fn ended(run: &Path) -> Result<Option<Ended>> {
    let path = run.join("result.toml");
    match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", &path)(error)),
        Ok(text) => toml::from_str(&text)
            .map(Some)
            .map_err(|error| Error::file(&path, error, "the result is damaged: remove it")),
    }
}

/// The checkpoint of `step`, if all its parts are whole; every rank looks at some of them; *collective*.
fn whole(comm: &dyn Comm, store: &Store, step: u64) -> Result<Checkpoint> {
    let opened = agree(comm, Checkpoint::open(store, step))?;
    let mine = (comm.rank()..opened.manifest.parts.len()).step_by(comm.size());
    agree(comm, opened.verify(mine))?;
    Ok(opened)
}

fn of_kind(comm: &dyn Comm, checkpoint: Checkpoint, kind: &str) -> Result<Begin> {
    let found = &checkpoint.manifest.kind;
    if found != kind {
        let problem = format!("is of a {found} run, not of a {kind} one");
        let hint = "`phalanx train MODEL` and `phalanx train sparse` go on with their own runs";
        return agree(comm, Err(Error::file(checkpoint.path(), problem, hint)));
    }
    Ok(Begin::From(Box::new(checkpoint)))
}

/// Refuses a run that is not the one that wrote the checkpoint; *collective*. Only the first rank has `facts`.
pub(super) fn check(
    comm: &dyn Comm,
    checkpoint: &Checkpoint,
    facts: &BTreeMap<String, String>,
) -> Result<()> {
    let fits = match comm.rank() {
        0 => compare(&checkpoint.manifest, facts),
        _ => Ok(()),
    };
    agree(comm, fits)
}

fn compare(manifest: &Manifest, facts: &BTreeMap<String, String>) -> Result<()> {
    let (mut expected, mut got) = (Vec::new(), Vec::new());
    let none = String::from("none");
    for name in manifest.facts.keys().chain(facts.keys()) {
        let (was, is) = (manifest.facts.get(name), facts.get(name));
        let (was, is) = (was.unwrap_or(&none), is.unwrap_or(&none));
        let told = format!("{name}: {was}");
        if was != is && !expected.contains(&told) {
            expected.push(told);
            got.push(format!("{name}: {is}"));
        }
    }
    if expected.is_empty() {
        return Ok(());
    }
    Err(Error::Mismatch {
        what: format!(
            "the run that wrote the checkpoint of step {}",
            manifest.step
        ),
        expected: expected.join("; "),
        got: got.join("; "),
        hint: "leave out what differs, or begin another run with another --out",
    })
}
