//! `phalanx predict`: the probability of label 1 for each row.

use std::fmt::Write as _;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use super::sparse::{calibration, describe};
use crate::comm::{Comm, agree};
use crate::data::rows::RowSet;
use crate::files::Staged;
use crate::observe::{Progress, table};
use crate::sparse::logistic::probability;
use crate::sparse::{Model, Quality, Served};
use crate::train::{MODEL, RunFolder};
use crate::{Error, Result, interrupt};

/// What to predict.
pub struct Settings {
    /// The run folder.
    pub run: PathBuf,
    /// The rows.
    pub data: PathBuf,
    /// Where to; stdout without.
    pub out: Option<PathBuf>,
    /// Whether an existing file may be replaced.
    pub force: bool,
}

impl Settings {
    /// What became of writing; a reader of stdout that has left, such as `head`, is no error.
    fn check(&self, written: std::io::Result<()>) -> Result<()> {
        let gone = |error: &std::io::Error| error.kind() == std::io::ErrorKind::BrokenPipe;
        match (written, &self.out) {
            (Err(error), None) if gone(&error) => Ok(()),
            (written, Some(path)) => written.map_err(Error::io("write", path)),
            (written, None) => written.map_err(Error::io("write", Path::new("stdout"))),
        }
    }
}

/// Rows that a rank takes at once.
const CHUNK: usize = 1 << 14;

/// Opens a model and rows that fit it; *collective*.
pub(super) fn open(comm: &dyn Comm, run: &Path, data: &Path) -> Result<(Served, RowSet)> {
    let open = || {
        let model = Model::load(&RunFolder::open(run)?.file(MODEL))?;
        let data = RowSet::open(data)?;
        model.fits(&data)?;
        Ok((model, data))
    };
    let (model, data) = agree(comm, open())?;
    Ok((Served::new(comm, &model)?, data))
}

/// Predicts and writes a probability a line, in the order of rows; *collective*.
pub fn run(comm: &dyn Comm, settings: &Settings) -> Result<()> {
    let (served, data) = open(comm, &settings.run, &settings.data)?;
    let staged = settings.out.as_ref().filter(|_| comm.rank() == 0);
    let staged = staged.map(|path| Staged::new(path, settings.force));
    let staged = agree(comm, staged.transpose())?;
    let create = |staged: &Staged| -> Result<Box<dyn Write>> {
        let file = std::fs::File::create(staged.path());
        Ok(Box::new(BufWriter::new(
            file.map_err(Error::io("create", staged.path()))?,
        )))
    };
    let out = match (&staged, comm.rank()) {
        (Some(staged), _) => create(staged),
        (None, _) => Ok(Box::new(std::io::stdout().lock()) as Box<dyn Write>),
    };
    let mut out = agree(comm, out)?;
    let mut quality = Quality::default();
    let progress = staged
        .as_ref()
        .map(|_| Progress::new("predicting", data.len() as u64));
    for start in (0..data.len()).step_by(CHUNK * comm.size()) {
        let begin = (start + comm.rank() * CHUNK).min(data.len());
        let range = begin..(begin + CHUNK).min(data.len());
        let logits = agree(comm, served.logits(&data, range, &mut quality))?;
        let mut text = String::new();
        for logit in logits {
            let _ = writeln!(text, "{:.6}", probability(logit));
        }
        let texts = comm.gather(text.as_bytes());
        interrupt::check()?;
        if comm.rank() == 0 {
            let written = texts.iter().try_for_each(|text| out.write_all(text));
            settings.check(written)?;
            if let Some(progress) = &progress {
                progress.add((CHUNK * comm.size()).min(data.len() - start) as u64);
            }
        }
    }
    agree(comm, settings.check(out.flush()))?;
    drop((out, progress));
    agree(comm, staged.map_or(Ok(()), Staged::commit))?;
    quality.merge_over(comm);
    if let Some(found) = quality.summary().filter(|_| comm.rank() == 0) {
        let rows = [
            ("rows", found.count.to_string()),
            ("against labels", describe(&found, data.about.best_loss)),
            ("calibration", calibration(&found)),
        ];
        // Predictions may go to stdout: what is said of them does not.
        eprintln!("{}", table("predictions", &rows));
    }
    served.close()
}
