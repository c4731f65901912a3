//! What studies and searches have in common: where ranks have room, and what comes before all runs.

use std::fs::{File, TryLockError};
use std::path::Path;

use crate::comm::Library;
use crate::observe::mention;
use crate::sweep::{Launcher, Run};
use crate::{Error, Result, cli, files};

/// The words that start ranks, which may be more than slots if they share them.
pub(super) fn mpirun(words: &[String], shares: bool) -> Result<Vec<String>> {
    let mut words = words.to_vec();
    let Some(first) = words.first() else {
        return Err(Error::Usage("--mpirun is empty".into()));
    };
    let program = Path::new(first).file_name().unwrap_or_default();
    if shares && program == "mpirun" && Library::called() == "Open MPI" {
        words.push("--oversubscribe".into());
    }
    Ok(words)
}

/// Room for ranks.
pub(super) struct Slots {
    ranks: usize,
    nodes: usize,
    place: &'static str,
}

impl Slots {
    /// Of the allocation that this process is in, or of this machine.
    pub(super) fn find() -> Self {
        let number = |name: &str| std::env::var(name).ok()?.parse::<usize>().ok();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        match number("SLURM_NTASKS") {
            Some(ranks) => Self {
                ranks,
                nodes: number("SLURM_NNODES").unwrap_or(1),
                place: "this allocation",
            },
            None => Self {
                ranks: cores,
                nodes: 1,
                place: "this machine",
            },
        }
    }

    /// Refuses runs that have more ranks than there are slots, unless they share them: mpirun would, one by one.
    pub(super) fn check(&self, runs: &[Run], shares: bool) -> Result<()> {
        let Self {
            ranks,
            nodes,
            place,
        } = self;
        let over = |run: &&Run| run.ranks > *ranks && !shares;
        if let Some(run) = runs.iter().filter(over).max_by_key(|run| run.ranks) {
            return Err(Error::Usage(format!(
                "{}: {} ranks, but {place} has {ranks} slots; --oversubscribe lets ranks share cores",
                run.words_at(),
                run.ranks
            )));
        }
        match runs.iter().find(|run| run.nodes > *nodes) {
            Some(run) => Err(Error::Usage(format!(
                "{}: {} nodes, but {place} has {nodes}",
                run.words_at(),
                run.nodes
            ))),
            None => Ok(()),
        }
    }
}

/// Nobody else works in the same folder while it is held.
pub(super) fn lock(out: &Path) -> Result<File> {
    let path = out.join("lock");
    let file = File::create(&path).map_err(Error::io("create", &path))?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            let problem = "is the folder of a study that is being run";
            let hint = "wait for the other, or give another --out";
            Err(Error::file(out, problem, hint))
        }
        // Not every file system has locks.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}

/// Does what comes before all runs, unless just that was done; what was there before is replaced.
pub(super) fn prepare(launcher: &Launcher) -> Result<()> {
    let path = launcher.folder.join("prepared.json");
    let done: Vec<Vec<String>> = match path.exists() {
        true => serde_json::from_str(&files::read_text(&path)?).unwrap_or_default(),
        false => Vec::new(),
    };
    if done == launcher.prepare {
        return Ok(());
    }
    if path.exists() {
        std::fs::remove_file(&path).map_err(Error::io("remove", &path))?;
    }
    for words in &launcher.prepare {
        mention(&format!("phalanx {}", words.join(" ")));
        let forced = [&words[..], &["--force".into()]].concat();
        let takes = cli::command(&forced).is_ok();
        launcher.prepare(if takes { &forced } else { words })?;
    }
    let text = serde_json::to_string_pretty(&launcher.prepare).expect("plain values");
    files::write_text(&path, &text)
}
