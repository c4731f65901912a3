//! A study's tables and plots, and the folder for them.

use std::fs::{self, File};
use std::path::PathBuf;

use serde::Serialize;

use super::design::Row;
use super::{Measured, Settings, analysis, plots, speedups, tables};
use crate::files::Staged;
use crate::observe::plot::write_all;
use crate::observe::say;
use crate::{Error, Result};

/// What becomes of the measurements.
pub(super) struct Report {
    /// Where they are written while they are taken, and later all else, if anywhere.
    out: Option<Out>,
}

struct Out {
    staged: Staged,
    name: String,
    path: PathBuf,
    measurements: csv::Writer<File>,
}

impl Report {
    /// Begins the folder that is asked for.
    pub(super) fn begin(settings: &Settings) -> Result<Self> {
        let begin = |out: &PathBuf| -> Result<Out> {
            let staged = Staged::new(out, settings.force)?;
            let place = staged.path();
            fs::create_dir(place).map_err(Error::io("create folder", place))?;
            let path = place.join("measurements.csv");
            let file = File::create(&path).map_err(Error::io("create", &path))?;
            Ok(Out {
                name: out.display().to_string(),
                measurements: csv::Writer::from_writer(file),
                staged,
                path,
            })
        };
        let out = settings.out.as_ref().map(begin).transpose()?;
        Ok(Self { out })
    }

    /// Writes rows down, so that they are there whatever happens to the next ones.
    pub(super) fn add(&mut self, rows: &[Row]) -> Result<()> {
        let Some(out) = &mut self.out else {
            return Ok(());
        };
        let mut written = rows
            .iter()
            .try_for_each(|row| out.measurements.serialize(row))
            .map_err(std::io::Error::from);
        if written.is_ok() {
            written = out.measurements.flush();
        }
        written.map_err(Error::io("write", &out.path))
    }

    /// Prints what the rows say, and writes it down.
    pub(super) fn tell(self, measured: &Measured) -> Result<()> {
        let (rows, left) = (&measured.rows[..], measured.left);
        let (parameters, joint) = (analysis::by_parameter(rows), analysis::joint(rows));
        let speedups = speedups::speedups(rows, |kind| tables::came_from_disk(rows, kind));
        let mut told = vec![tables::speeds(rows)];
        told.extend(tables::ended_early(rows, left));
        told.extend(tables::warnings(rows));
        told.extend(tables::speedups(&speedups));
        told.extend(tables::parameters(&parameters));
        told.extend(tables::joint(&joint));
        told.iter().for_each(|text| say(text));
        let Some(out) = self.out else {
            return Ok(());
        };
        let place = out.staged.path();
        table(
            &out,
            "regressions.csv",
            &tables::coefficients(&parameters, &joint),
        )?;
        table(
            &out,
            "residuals.csv",
            &tables::residuals(&parameters, &joint),
        )?;
        table(&out, "speedups.csv", &tables::factors(&speedups))?;
        let plots = plots::all(&parameters, &joint);
        let page = place.join("study.html");
        fs::write(&page, plots::page(&told, &plots)).map_err(Error::io("write", &page))?;
        write_all(&plots, &place.join("plots"))?;
        out.staged.commit()?;
        say(&format!("written to {}", out.name));
        Ok(())
    }
}

/// Writes a table, unless it has no rows.
fn table<T: Serialize>(out: &Out, name: &str, rows: &[T]) -> Result<()> {
    let path = out.staged.path().join(name);
    match rows.is_empty() {
        true => Ok(()),
        false => fs::write(&path, tables::csv(rows)).map_err(Error::io("write", &path)),
    }
}
