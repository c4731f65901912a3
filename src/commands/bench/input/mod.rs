//! `phalanx bench input`: how fast photos become batches, file by file and from records, and what that depends on.

mod analysis;
mod design;
mod plots;
mod reading;
mod sets;
mod tables;
#[cfg(test)]
mod tests;

pub use design::{Design, Kind};
pub use reading::How;

use std::path::PathBuf;

use super::{Waiting, check_ranks};
use crate::comm::{Comm, agree};
use crate::data::Frame;
use crate::observe::plot::write_all;
use crate::observe::{Progress, say};
use crate::{Error, Result, files, interrupt};
use design::Row;
use sets::Sets;

/// What to measure.
pub struct Settings {
    /// The folder of photos; without, some are painted.
    pub photos: Option<PathBuf>,
    /// How many are painted.
    pub painted: usize,
    /// What they become.
    pub frame: Frame,
    /// All combinations of what is measured; without numbers of ranks or samples, all and thirds.
    pub design: Design,
    /// How often batches are read, and whether they are scaled.
    pub repetitions: usize,
    /// Threads of a rank that decode photos.
    pub decoders: usize,
    /// Whether pixels are scaled to floats.
    pub floats: bool,
    /// Where sets are packed for the time of the study.
    pub work: Option<PathBuf>,
    /// The folder for tables.
    pub out: Option<PathBuf>,
    /// Whether an older study may be replaced.
    pub force: bool,
}

/// Measures, and says what the measurements say; *collective*.
pub fn run(comm: &dyn Comm, settings: &Settings) -> Result<()> {
    let out = settings
        .out
        .as_ref()
        .filter(|out| out.exists() && !settings.force);
    agree(
        comm,
        out.map_or(Ok(()), |out| Err(Error::Exists(out.clone()))),
    )?;
    let ranks = agree(comm, check_ranks(comm, &settings.design.ranks))?;
    let photos = (settings.photos.as_deref(), settings.painted);
    let sets = Sets::make(comm, photos, settings.frame, settings.work.as_deref())?;
    let all = agree(comm, sets.open(Kind::Pixels))?.len();
    let mut design = Design {
        ranks,
        ..settings.design.clone()
    };
    if design.samples.is_empty() {
        design.samples = vec![(all / 3).max(1), (2 * all / 3).max(1), all];
        design.samples.dedup();
    }
    agree(comm, check(&design, all))?;
    let rows = measure(comm, settings, &sets, &design)?;
    drop(sets);
    let told = match comm.rank() {
        0 => tell(settings, &rows),
        _ => Ok(()),
    };
    agree(comm, told)
}

/// Refuses batches that are larger than the set they come from, and sets that are larger than all photos.
fn check(design: &Design, all: usize) -> Result<()> {
    let most = |list: &[usize]| list.iter().max().copied().unwrap_or(0);
    let (step, samples) = (
        most(&design.batch) * most(&design.ranks),
        most(&design.samples),
    );
    let least = design.samples.iter().min().copied().unwrap_or(0);
    if samples > all {
        let problem = format!("--samples {samples}, and there are {all} photos");
        return Err(Error::Usage(problem));
    }
    match step <= least {
        true => Ok(()),
        false => Err(Error::Usage(format!(
            "a batch on each of {} ranks is {step} samples, more than the {least} of the smallest set",
            most(&design.ranks)
        ))),
    }
}

/// All measurements, in the order of the design; *collective*.
fn measure(comm: &dyn Comm, settings: &Settings, sets: &Sets, design: &Design) -> Result<Vec<Row>> {
    let runs = design.runs();
    let progress = (comm.rank() == 0).then(|| Progress::new("measuring", runs.len() as u64));
    let how = How {
        repetitions: settings.repetitions,
        decoders: settings.decoders,
        floats: settings.floats,
    };
    let mut waiting = Waiting::new(comm)?;
    let mut rows = Vec::new();
    for (number, (setting, repeat)) in runs.iter().enumerate() {
        let takes_part = comm.rank() < setting.ranks;
        let team = comm.split(usize::from(takes_part));
        let mine = match takes_part {
            true => agree(&*team, interrupt::check())
                .and_then(|()| reading::read(&*team, sets, setting, how)),
            false => Ok(Vec::new()),
        };
        waiting.for_all();
        for row in agree(comm, mine)? {
            rows.push(Row {
                run: number,
                repeat: *repeat,
                ..row
            });
        }
        progress.iter().for_each(|progress| progress.add(1));
    }
    waiting.close()?;
    Ok(rows)
}

/// Prints what the rows say, and writes it down; by the first rank.
fn tell(settings: &Settings, rows: &[Row]) -> Result<()> {
    let (parameters, joint) = (analysis::by_parameter(rows), analysis::joint(rows));
    let speedups = analysis::speedups(rows);
    let mut told = vec![tables::speeds(rows)];
    told.extend(tables::cold(rows));
    told.push(tables::speedups(&speedups));
    told.push(tables::parameters(&parameters));
    told.push(tables::joint(&joint));
    told.iter().for_each(|text| say(text));
    let Some(out) = &settings.out else {
        return Ok(());
    };
    let staged = files::Staged::new(out, settings.force)?;
    let place = staged.path();
    std::fs::create_dir(place).map_err(Error::io("create folder", place))?;
    let write = |name: &str, text: String| {
        let path = place.join(name);
        std::fs::write(&path, text).map_err(Error::io("write", &path))
    };
    write("measurements.csv", tables::csv(rows))?;
    write(
        "regressions.csv",
        tables::csv(&tables::coefficients(&parameters, &joint)),
    )?;
    write(
        "residuals.csv",
        tables::csv(&tables::residuals(&parameters, &joint)),
    )?;
    write("speedups.csv", tables::csv(&tables::factors(&speedups)))?;
    let plots = plots::all(&parameters, &joint);
    write("study.html", plots::page(&told, &plots))?;
    write_all(&plots, &place.join("plots"))?;
    staged.commit()?;
    say(&format!("written to {}", out.display()));
    Ok(())
}
