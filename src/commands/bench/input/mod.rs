//! `phalanx bench input`: how fast photos become batches, file by file and from records, and what that depends on.

mod analysis;
mod design;
mod plots;
mod reading;
mod report;
mod sets;
mod speedups;
mod tables;
#[cfg(test)]
mod tests;

pub use design::{Design, Kind};
pub use reading::How;

use std::path::PathBuf;

use super::{Waiting, agreed, check_ranks};
use crate::comm::{Comm, agree};
use crate::data::Frame;
use crate::observe::Progress;
use crate::{Error, Result, interrupt};
use design::{Row, Setting};
use report::Report;
use sets::Sets;

/// Photos that are painted, where batches do not ask for more.
const PAINTED: usize = 600;

/// What to measure.
pub struct Settings {
    /// The folder of photos; without, some are painted.
    pub photos: Option<PathBuf>,
    /// How many are painted; without, as many as batches ask for.
    pub painted: Option<usize>,
    /// What they become.
    pub frame: Frame,
    /// All combinations of what is measured; without numbers of ranks 1, 2, 4 and so on up to all, without samples thirds.
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

/// Measures, and says what the measurements say, also when it is interrupted or a run fails; *collective*.
pub fn run(comm: &dyn Comm, settings: &Settings) -> Result<()> {
    interrupt::listen();
    let first = comm.rank() == 0;
    let begun = (first.then(|| Report::begin(settings))).transpose();
    let mut report = agree(comm, begun)?;
    let (design, all) = design(comm, settings)?;
    let photos = (settings.photos.as_deref(), all);
    let sets = Sets::make(comm, photos, settings.frame, settings.work.as_deref())?;
    let mut measured = Measured {
        left: design.runs().len(),
        rows: Vec::new(),
    };
    let ended = measured.take(comm, (settings, &design), &sets, report.as_mut());
    // They are in the way of nobody while the report is written.
    drop(sets);
    let told = match report {
        Some(report) if !measured.rows.is_empty() => report.tell(&measured),
        _ => Ok(()),
    };
    agree(comm, told)?;
    ended
}

/// What has been measured, the same on all ranks.
struct Measured {
    rows: Vec<Row>,
    /// Runs that have not been made.
    left: usize,
}

/// What is measured, and how many photos there are; *collective*.
fn design(comm: &dyn Comm, settings: &Settings) -> Result<(Design, usize)> {
    let mut design = settings.design.clone().once();
    if design.ranks.is_empty() {
        let doubled = std::iter::successors(Some(1), |ranks| Some(2 * ranks));
        design.ranks = doubled.take_while(|&ranks| ranks < comm.size()).collect();
        design.ranks.push(comm.size());
    }
    agree(comm, check_ranks(comm, &design.ranks))?;
    let step = design.largest_step();
    let all = match &settings.photos {
        Some(photos) => agree(comm, Sets::count(photos, settings.frame))?,
        None => settings.painted.unwrap_or(PAINTED.max(3 * step)),
    };
    if design.samples.is_empty() {
        let thirds = [all / 3, 2 * all / 3].into_iter();
        design.samples = thirds.filter(|&samples| samples >= step).collect();
        design.samples.push(all);
    }
    agree(comm, check(&design, all)).map(|()| (design, all))
}

/// Refuses batches that are larger than the set they come from, and sets that are larger than all photos.
fn check(design: &Design, all: usize) -> Result<()> {
    let step = design.largest_step();
    let samples = design.samples.iter();
    let (least, most) = (samples.clone().min(), samples.max());
    if let Some(samples) = most.filter(|&&samples| samples > all) {
        let problem = format!("--samples {samples}, and there are {all} photos");
        return Err(Error::Usage(problem));
    }
    match least.filter(|&&least| step > least) {
        None => Ok(()),
        Some(least) => Err(Error::Usage(format!(
            "a batch on each of {} ranks is {step} samples, more than the {least} of the smallest set: give smaller --batch, or more --samples",
            design.ranks.iter().max().copied().unwrap_or(0)
        ))),
    }
}

impl Measured {
    /// Measures one setting after the other, until it is asked to stop; *collective*.
    fn take(
        &mut self,
        comm: &dyn Comm,
        (settings, design): (&Settings, &Design),
        sets: &Sets,
        mut report: Option<&mut Report>,
    ) -> Result<()> {
        let runs = design.runs();
        let progress = (comm.rank() == 0).then(|| Progress::new("measuring", runs.len() as u64));
        let how = How {
            repetitions: settings.repetitions,
            decoders: settings.decoders,
            floats: settings.floats,
        };
        let mut waiting = Waiting::new(comm)?;
        let mut ended = Ok(());
        for (number, (setting, repeat)) in runs.iter().enumerate() {
            if agreed(comm, interrupt::check().is_err().into()) > 0 {
                ended = Err(Error::Interrupted);
                break;
            }
            let mine = one_run(comm, sets, (setting, how));
            waiting.for_all();
            let (run, repeat) = (number, *repeat);
            let row = |row| Row { run, repeat, ..row };
            let mine = mine.map(|rows| rows.into_iter().map(row).collect::<Vec<Row>>());
            let noted = mine.and_then(|rows| {
                let report = report.as_mut();
                report.map_or(Ok(()), |report| report.add(&rows))?;
                Ok(rows)
            });
            match agree(comm, noted) {
                Ok(rows) => self.rows.extend(rows),
                Err(error) => {
                    ended = Err(error);
                    break;
                }
            }
            self.left -= 1;
            progress.iter().for_each(|progress| progress.add(1));
        }
        waiting.close()?;
        ended
    }
}

/// The rows of one run on the ranks that take part in it; *collective*.
fn one_run(comm: &dyn Comm, sets: &Sets, (setting, how): (&Setting, How)) -> Result<Vec<Row>> {
    let takes_part = comm.rank() < setting.ranks;
    let team = comm.split(usize::from(takes_part));
    match takes_part {
        true => reading::read(&*team, sets, setting, how),
        false => Ok(Vec::new()),
    }
}
