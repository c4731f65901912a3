//! The folder that holds all that a run wrote.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::checkpoint::Store;
use crate::{Error, Result};

/// What a run folder holds; only these are ever replaced.
const FILES: [&str; 8] = [
    "settings.toml",
    "metrics.csv",
    "ranks.csv",
    "waits.csv",
    "trace.json",
    "result.toml",
    "model.h5",
    "stalled.json",
];

/// The folder in it that holds the record of all updates, if there is one.
pub const UPDATES: &str = "updates";

/// The folder in it that holds a sparse model.
pub const MODEL: &str = "model";

/// How the folders of ranks begin, and what may be in them: only that is ever replaced.
const RANK: &str = "rank-";
const OF_RANK: [&str; 5] = [
    "events.out.tfevents.",
    "resources.csv",
    "dstat.csv",
    "now.json",
    ".now.json.partial",
];

/// Where a rank of the run at `run` writes what is its own.
pub fn rank_folder(run: &Path, rank: usize) -> PathBuf {
    run.join(format!("{RANK}{rank:05}"))
}

/// A run's folder.
#[derive(Clone, Debug)]
pub struct RunFolder(PathBuf);

impl RunFolder {
    /// Makes the folder, or with `force` empties an older run's. Files that are not a run's are never touched.
    pub fn create(path: &Path, force: bool) -> Result<Self> {
        if path.exists() && !path.is_dir() {
            let hint = "give another --out: a run needs a folder";
            return Err(Error::file(path, "is a file", hint));
        }
        let used = path.is_dir()
            && fs::read_dir(path)
                .map_err(Error::io("read", path))?
                .next()
                .is_some();
        if used && !force {
            return Err(Error::Exists(path.to_path_buf()));
        }
        if used && !path.join(FILES[0]).exists() {
            let hint = "--force replaces runs only; give another --out";
            return Err(Error::file(path, "is a folder that is not a run", hint));
        }
        Self::empty(path)
    }

    /// Makes the folder, or empties it of a run that did not get far. Others may have put their files there before.
    pub fn begin(path: &Path) -> Result<Self> {
        let foreign = FILES.iter().find(|name| path.join(name).exists());
        if let Some(name) = foreign.filter(|_| !path.join(FILES[0]).exists()) {
            let hint = "give another --out";
            let problem = format!("has a {name}, and is not a run");
            return Err(Error::file(path, problem, hint));
        }
        Self::empty(path)
    }

    fn empty(path: &Path) -> Result<Self> {
        fs::create_dir_all(path).map_err(Error::io("create folder", path))?;
        let folder = Self(path.to_path_buf());
        Store::of(path).clear()?;
        for name in FILES {
            let file = folder.file(name);
            if file.exists() {
                fs::remove_file(&file).map_err(Error::io("remove", &file))?;
            }
        }
        // Nothing but the parts of a model are ever in it.
        let model = folder.file(MODEL);
        if model.join("part-00000.h5").exists() {
            fs::remove_dir_all(&model).map_err(Error::io("remove", &model))?;
        }
        // Nothing but a record is ever in it.
        let updates = folder.file(UPDATES);
        if updates.join("run.json").exists() {
            fs::remove_dir_all(&updates).map_err(Error::io("remove", &updates))?;
        }
        folder.empty_ranks()?;
        Ok(folder)
    }

    /// Removes what the ranks of an older run wrote.
    fn empty_ranks(&self) -> Result<()> {
        let list = |folder: &Path| {
            let entries =
                fs::read_dir(folder).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
            entries.map_err(Error::io("read", folder))
        };
        let starts = |entry: &fs::DirEntry, word: &str| {
            entry.file_name().to_string_lossy().starts_with(word)
        };
        let folders = list(&self.0)?.into_iter();
        for folder in folders.filter(|entry| starts(entry, RANK) && entry.path().is_dir()) {
            for entry in list(&folder.path())? {
                if OF_RANK.iter().any(|word| starts(&entry, word)) {
                    let path = entry.path();
                    fs::remove_file(&path).map_err(Error::io("remove", &path))?;
                }
            }
            // What is not a run's stays, and its folder with it.
            let _ = fs::remove_dir(folder.path());
        }
        Ok(())
    }

    /// The next free `runs/MODEL-NNN`.
    pub fn create_next(model: &str) -> Result<Self> {
        let runs = Path::new("runs");
        fs::create_dir_all(runs).map_err(Error::io("create folder", runs))?;
        for number in 1.. {
            let path = runs.join(format!("{model}-{number:03}"));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::io("create folder", &path)(error)),
            }
        }
        unreachable!("some number is free")
    }

    /// A run's folder that is there already.
    pub fn open(path: &Path) -> Result<Self> {
        if !path.is_dir() {
            let missing = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(Error::io("open run folder", path)(missing));
        }
        Ok(Self(path.to_path_buf()))
    }

    /// Removes what says that the run has ended: it goes on.
    pub fn reopen(&self) -> Result<()> {
        let result = self.file("result.toml");
        match fs::remove_file(&result) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io("remove", &result)(error))
            }
            _ => Ok(()),
        }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes `value` as TOML in one step.
    pub fn write(&self, name: &str, value: &impl Serialize) -> Result<()> {
        let text = toml::to_string_pretty(value).expect("settings and results are plain tables");
        crate::files::write_text(&self.file(name), &text)
    }
}
