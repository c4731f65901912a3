//! The checkpoints of a run folder: which there are, whether they are whole, which are kept.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::manifest::{DAMAGED, Manifest, PartFile};
use super::part::{self, Part};
use crate::files::{Staged, sync, write_text};
use crate::{Error, Result};

/// The folder of a run that holds its checkpoints.
pub const FOLDER: &str = "checkpoints";
const MANIFEST: &str = "manifest.json";
/// How names of checkpoints begin; hidden with a point before it while one is being written or removed.
const STEP: &str = "step-";

/// The checkpoints of a run.
#[derive(Clone, Debug)]
pub struct Store(PathBuf);

impl Store {
    /// Those of the run in the folder `run`.
    pub fn of(run: &Path) -> Self {
        Self(run.join(FOLDER))
    }

    /// Where they are.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The folder of the checkpoint after `step` steps.
    pub fn folder(&self, step: u64) -> PathBuf {
        self.0.join(format!("{STEP}{step:09}"))
    }

    /// Where it is while it is being written: the same for all ranks.
    pub(super) fn staging(&self, step: u64) -> PathBuf {
        self.0.join(format!(".{STEP}{step:09}.partial"))
    }

    /// The steps of all checkpoints, newest first, whole or not; none where there is no folder.
    pub fn steps(&self) -> Result<Vec<u64>> {
        let entries = match fs::read_dir(&self.0) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(Error::io("read", &self.0))?,
        };
        let mut steps = Vec::new();
        for entry in entries {
            let name = entry.map_err(Error::io("read", &self.0))?.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix(STEP));
            steps.extend(number.and_then(|number| number.parse::<u64>().ok()));
        }
        steps.sort_unstable_by(|a, b| b.cmp(a));
        Ok(steps)
    }

    /// Removes what a run that was killed has left half-written or half-removed. Only one rank may call it, before any writes.
    pub fn tidy(&self) -> Result<()> {
        let Ok(entries) = fs::read_dir(&self.0) else {
            return Ok(());
        };
        for entry in entries {
            let path = entry.map_err(Error::io("read", &self.0))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with(&format!(".{STEP}")) && path.is_dir() {
                fs::remove_dir_all(&path).map_err(Error::io("remove", &path))?;
            }
        }
        Ok(())
    }

    /// Removes all checkpoints, and the folder if nothing else is in it.
    pub fn clear(&self) -> Result<()> {
        self.tidy()?;
        for step in self.steps()? {
            self.remove(step)?;
        }
        // What else is in it stays.
        let _ = fs::remove_dir(&self.0);
        Ok(())
    }

    /// Gives a checkpoint whose parts are all there its manifest, and then its name; `before` are files that must be as durable.
    pub(super) fn commit(
        &self,
        mut manifest: Manifest,
        ranks: usize,
        before: &[PathBuf],
    ) -> Result<()> {
        let staging = self.staging(manifest.step);
        let staged = Staged::written(staging.clone(), &self.folder(manifest.step), true);
        before.iter().try_for_each(|path| sync(path))?;
        for rank in 0..ranks {
            let path = part::about(&staging, rank);
            let text = fs::read(&path).map_err(Error::io("read", &path))?;
            let about: PartFile = serde_json::from_slice(&text)
                .map_err(|error| Error::file(&path, error, DAMAGED))?;
            manifest.parts.push(about);
        }
        for rank in 0..ranks {
            let path = part::about(&staging, rank);
            fs::remove_file(&path).map_err(Error::io("remove", &path))?;
        }
        write_text(&staging.join(MANIFEST), &manifest.text())?;
        staged.commit()
    }

    /// Removes what was written of a checkpoint that will not be.
    pub(super) fn abandon(&self, step: u64) {
        // What cannot be removed now is when the run goes on the next time.
        let _ = fs::remove_dir_all(self.staging(step));
    }

    /// Removes all but the `keep` newest up to `step` and the one with the best score. Those behind `step` are of a past
    /// that was left when the run was resumed from an older one.
    pub(super) fn prune(&self, step: u64, keep: usize) -> Result<()> {
        let all = self.steps()?;
        let newest: Vec<u64> = all.iter().copied().filter(|&s| s <= step).collect();
        let score = |&step: &u64| {
            let manifest = Manifest::read(&self.folder(step).join(MANIFEST)).ok()?;
            Some((manifest.score?, step))
        };
        let scores = newest.iter().filter_map(score);
        // Of equals the first: it was as good with less training.
        let best = scores.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        for step in all {
            let kept = newest.iter().take(keep).any(|&s| s == step);
            if !kept && best.is_none_or(|(_, best)| best != step) {
                self.remove(step)?;
            }
        }
        Ok(())
    }

    /// Removes a checkpoint: under its name it is whole, or not there.
    fn remove(&self, step: u64) -> Result<()> {
        let (folder, hidden) = (
            self.folder(step),
            self.0.join(format!(".{STEP}{step:09}.old")),
        );
        fs::rename(&folder, &hidden).map_err(Error::io("remove", &folder))?;
        fs::remove_dir_all(&hidden).map_err(Error::io("remove", &hidden))
    }
}

/// A checkpoint on disk.
pub struct Checkpoint {
    folder: PathBuf,
    /// What it consists of.
    pub manifest: Manifest,
}

impl Checkpoint {
    /// The one after `step` steps; its parts are not looked at yet.
    pub fn open(store: &Store, step: u64) -> Result<Self> {
        let folder = store.folder(step);
        let path = folder.join(MANIFEST);
        let manifest = Manifest::read(&path)?;
        if manifest.step != step {
            let problem = format!("is of step {}, and not of {step}", manifest.step);
            return Err(Error::file(&path, problem, DAMAGED));
        }
        Ok(Self { folder, manifest })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// Refuses some of the parts if they are not, byte for byte, those that were written.
    pub fn verify(&self, parts: impl Iterator<Item = usize>) -> Result<()> {
        for i in parts {
            part::verify(&self.file(i), &self.manifest.parts[i])?;
        }
        Ok(())
    }

    /// The values of the whole array `name`, if there is one.
    pub fn len(&self, name: &str) -> Option<usize> {
        let parts = self.manifest.parts.iter();
        let mut arrays = parts.flat_map(|part| &part.arrays);
        let found = arrays.find(|array| array.name == name && array.of.is_some());
        found.and_then(|array| array.of).map(|of| of as usize)
    }

    /// Copies `range` of the array `name`, which ranks have in common, to `out`, from whichever parts it is in.
    pub fn read(&self, name: &str, range: Range<usize>, out: &mut [f32]) -> Result<()> {
        assert_eq!(range.len(), out.len(), "as many values as asked for");
        let mut found = 0;
        for (i, part) in self.manifest.parts.iter().enumerate() {
            let arrays = part.arrays.iter();
            let here = arrays.filter(|array| array.name == name && array.of.is_some());
            for array in here {
                let (first, len) = (array.start as usize, array.len as usize);
                let start = range.start.max(first);
                let end = range.end.min(first.saturating_add(len));
                if start < end {
                    let out = &mut out[start - range.start..end - range.start];
                    Part::open(&self.file(i))?.read(name, start - first..end - first, out)?;
                    found += end - start;
                }
            }
        }
        match found == range.len() {
            true => Ok(()),
            false => {
                let problem = format!(
                    "has {found} values of `{name}` from {} to {}, expected {}",
                    range.start,
                    range.end,
                    range.len()
                );
                Err(Error::file(&self.folder, problem, DAMAGED))
            }
        }
    }

    /// The array `name` that is the rank's own whose part is the `i`th; none if it has none.
    pub fn own(&self, i: usize, name: &str) -> Result<Option<Vec<f32>>> {
        let arrays = self.manifest.parts.get(i).map(|part| &part.arrays[..]);
        let mut arrays = arrays.unwrap_or_default().iter();
        let found = arrays.find(|array| array.name == name && array.of.is_none());
        let Some(array) = found else {
            return Ok(None);
        };
        let part = Part::open(&self.file(i))?;
        // As long as the file says, which its checksum vouches for.
        let mut values = vec![0.0; array.len.min(self.manifest.parts[i].bytes / 4) as usize];
        part.read(name, 0..values.len(), &mut values)?;
        Ok(Some(values))
    }

    /// The note of the rank whose part is the `i`th.
    pub fn note(&self, i: usize) -> Result<String> {
        Part::open(&self.file(i))?.note()
    }

    fn file(&self, i: usize) -> PathBuf {
        self.folder.join(part::name(i))
    }
}
