//! `phalanx sweep`: a study from its file to its tables.

mod slurm;

use std::fs;
use std::path::{Path, PathBuf};

use super::study::{Slots, lock, mpirun, prepare};
use crate::observe::plot::write_all;
use crate::observe::{Progress, mention, say, table};
use crate::sweep::{Format, Launcher, Outcome, Plan, Study};
use crate::{Error, Result, files, interrupt};

/// What `phalanx sweep` is to do.
pub struct Settings {
    /// The study's file.
    pub study: PathBuf,
    /// The folder for all of it.
    pub out: Option<PathBuf>,
    /// Whether it has its full size.
    pub full: bool,
    /// Where the user's own data is.
    pub data: PathBuf,
    /// Whether runs are tried again that failed.
    pub retry: bool,
    /// Names the order of runs.
    pub order: u64,
    /// What starts ranks.
    pub mpirun: Vec<String>,
    /// Whether ranks may be more than slots.
    pub oversubscribe: bool,
    /// How, or how much of it.
    pub way: Way,
}

/// How a study is run.
pub enum Way {
    /// One run after the other, then the tables.
    Here,
    /// Not at all: what there is to run is told.
    Tell,
    /// Not at all: tables are made of what there is.
    Collect,
    /// One run by its number.
    Only(usize),
    /// As an array of jobs.
    Slurm {
        /// Options for sbatch.
        sbatch: Vec<String>,
        /// Jobs at the same time.
        at_once: usize,
    },
}

/// Runs a study.
pub fn run(settings: &Settings) -> Result<()> {
    let study = Study::read(&settings.study, settings.full)?;
    let absolute = |path: &Path| std::path::absolute(path).map_err(Error::io("find", path));
    let plan = Plan::new(&study, &absolute(&settings.data)?)?;
    if let Way::Tell = settings.way {
        tell(&study, &plan);
        return Ok(());
    }
    let shares = settings.oversubscribe || study.oversubscribe;
    let stem = settings.study.file_stem().unwrap_or_default();
    let mut name = stem.to_owned();
    if settings.full {
        name.push("-full");
    }
    let out = settings.out.clone().unwrap_or_else(|| PathBuf::from(name));
    let launcher = Launcher {
        program: std::env::current_exe().map_err(Error::io("find", "the program"))?,
        mpirun: mpirun(&settings.mpirun, shares)?,
        folder: absolute(&out)?,
        prepare: plan.prepare.clone(),
    };
    match settings.way {
        Way::Collect => {}
        // A job gets what it needs.
        Way::Slurm { .. } => fs::create_dir_all(&out).map_err(Error::io("create folder", &out))?,
        _ => {
            let only = match settings.way {
                Way::Only(number) => number..number + 1,
                _ => 0..plan.runs.len(),
            };
            Slots::find().check(plan.runs.get(only).unwrap_or_default(), shares)?;
            fs::create_dir_all(&out).map_err(Error::io("create folder", &out))?;
        }
    }
    match &settings.way {
        Way::Only(number) => only(&plan, *number, &launcher),
        Way::Collect => collect(&study, &plan, &launcher, &out),
        Way::Slurm { sbatch, at_once } => {
            let _lock = lock(&out)?;
            prepare(&launcher)?;
            let open = to_run(&plan, &launcher, settings)?;
            slurm::submit(
                settings,
                &plan,
                &open,
                (&out, &launcher),
                (sbatch, *at_once),
            )
        }
        _ => {
            let _lock = lock(&out)?;
            prepare(&launcher)?;
            let open = to_run(&plan, &launcher, settings)?;
            run_all(&plan, &open, &launcher)?;
            collect(&study, &plan, &launcher, &out)
        }
    }
}

fn tell(study: &Study, plan: &Plan) {
    say(&study.title);
    for words in &plan.prepare {
        say(&format!("prepare  phalanx {}", words.join(" ")));
    }
    for (number, run) in plan.runs.iter().enumerate() {
        let ranks = run.ranks;
        say(&format!(
            "{number:>7}  {ranks} ranks: phalanx {}",
            run.words.join(" ")
        ));
    }
}

/// The numbers of the runs that are left, in the order in which they are made.
fn to_run(plan: &Plan, launcher: &Launcher, settings: &Settings) -> Result<Vec<usize>> {
    let mut open = Vec::new();
    for number in plan.order(settings.order) {
        let again = match launcher.record(&plan.runs[number])? {
            None => true,
            Some(record) => record.failed.is_some() && settings.retry,
        };
        if again {
            open.push(number);
        }
    }
    Ok(open)
}

fn run_all(plan: &Plan, open: &[usize], launcher: &Launcher) -> Result<()> {
    let before = plan.runs.len() - open.len();
    if before > 0 {
        mention(&format!(
            "{before} of {} runs have been made before",
            plan.runs.len()
        ));
    }
    let progress = Progress::new("runs", plan.runs.len() as u64);
    progress.skip(before as u64);
    for &number in open {
        interrupt::check()?;
        let run = &plan.runs[number];
        let record = launcher.launch(run).inspect_err(|error| {
            if matches!(error, Error::Interrupted) {
                log::warn!("the same command goes on with the runs that are left");
            }
        })?;
        let words = format!("{}, seed {}", run.words_at(), run.seed);
        let seconds = record.seconds;
        match &record.failed {
            None => progress.line(&format!("{words}: {seconds:.1} s")),
            Some(failure) => progress.line(&format!("{words}: failed, {}", failure.status)),
        }
        progress.add(1);
    }
    Ok(())
}

/// Makes one run, unless it was made.
fn only(plan: &Plan, number: usize, launcher: &Launcher) -> Result<()> {
    let Some(run) = plan.runs.get(number) else {
        let problem = format!("--only {number}: the study has {} runs", plan.runs.len());
        return Err(Error::Usage(problem));
    };
    if launcher
        .record(run)?
        .is_some_and(|record| record.failed.is_none())
    {
        return Ok(());
    }
    match launcher.launch(run)?.failed {
        None => Ok(()),
        Some(failure) => Err(Error::file(
            launcher.log(run),
            format!("the run failed ({})\n{}", failure.status, failure.said),
            "--retry tries it again",
        )),
    }
}

/// Writes tables, plots and the page, and tells the table.
fn collect(study: &Study, plan: &Plan, launcher: &Launcher, out: &Path) -> Result<()> {
    let outcome = Outcome::read(study, plan, launcher)?;
    let plots = outcome.plots()?;
    let write = |name: &str, text: &str| files::write_text(&out.join(name), text);
    for (name, format) in [
        ("table.md", Format::Markdown),
        ("table.csv", Format::Csv),
        ("table.tex", Format::Latex),
    ] {
        write(name, &outcome.table.text(format))?;
    }
    let (heads, rows) = outcome.all_runs();
    write("runs.csv", &crate::sweep::csv(&heads, &rows))?;
    write("report.html", &outcome.page(&plots))?;
    write_all(&plots, &out.join("plots"))?;
    say(&format!(
        "{}\n\n{}",
        study.title,
        outcome.table.text(Format::Markdown)
    ));
    outcome
        .unknown()
        .iter()
        .for_each(|problem| log::warn!("{problem}"));
    let failures = outcome.failures();
    for (run, failure) in &failures {
        let last = failure.said.lines().last().unwrap_or_default();
        say(&format!(
            "failed: {}: {} ({last})",
            run.name, failure.status
        ));
    }
    let mut rows = vec![("written to", out.display().to_string())];
    rows.push(("page", out.join("report.html").display().to_string()));
    if outcome.open() > 0 {
        rows.push((
            "left",
            format!("{} runs: the same command goes on", outcome.open()),
        ));
    }
    say(&table("study", &rows));
    match failures.len() {
        0 => Ok(()),
        n => Err(Error::file(
            out.join("logs"),
            format!("{n} of {} runs failed", plan.runs.len()),
            "the table has all others; --retry tries those again",
        )),
    }
}
