//! `phalanx sweep`: a study from its file to its tables.

mod slurm;

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use crate::comm::Library;
use crate::observe::plot::Plot;
use crate::observe::{Progress, mention, say, table};
use crate::sweep::{Format, Launcher, Outcome, Plan, Run, Study};
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
    let stem = settings.study.file_stem().unwrap_or_default();
    let out = settings.out.clone().unwrap_or_else(|| PathBuf::from(stem));
    let launcher = Launcher {
        program: std::env::current_exe().map_err(Error::io("find", "the program"))?,
        mpirun: mpirun(settings, &study)?,
        folder: absolute(&out)?,
    };
    if !matches!(settings.way, Way::Collect) {
        check_slots(&study, &plan, settings)?;
        fs::create_dir_all(&out).map_err(Error::io("create folder", &out))?;
    }
    match &settings.way {
        Way::Only(number) => only(&plan, *number, &launcher),
        Way::Collect => collect(&study, &plan, &launcher, &out),
        Way::Slurm { sbatch, at_once } => {
            let _lock = lock(&out)?;
            prepare(&plan, &launcher)?;
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
            prepare(&plan, &launcher)?;
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

/// The words that start ranks.
fn mpirun(settings: &Settings, study: &Study) -> Result<Vec<String>> {
    let mut words = settings.mpirun.clone();
    if words.is_empty() {
        return Err(Error::Usage("--mpirun is empty".into()));
    }
    let open_mpi = Library::called() == "Open MPI";
    if (settings.oversubscribe || study.oversubscribe) && open_mpi {
        words.push("--oversubscribe".into());
    }
    Ok(words)
}

/// Refuses runs that have more ranks than there are slots: mpirun would, one by one.
fn check_slots(study: &Study, plan: &Plan, settings: &Settings) -> Result<()> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<usize>().ok();
    let here = std::thread::available_parallelism().map_or(1, usize::from);
    let (slots, what) = match (number("SLURM_NTASKS"), &settings.way) {
        (_, Way::Slurm { .. }) => return Ok(()),
        (Some(tasks), _) => (tasks, "this allocation"),
        (None, _) => (here, "this machine"),
    };
    let nodes = number("SLURM_NNODES").unwrap_or(1);
    let shared = settings.oversubscribe || study.oversubscribe;
    let over = |run: &&Run| run.ranks > slots && !shared;
    if let Some(run) = plan.runs.iter().filter(over).max_by_key(|run| run.ranks) {
        return Err(Error::Usage(format!(
            "{}: {} ranks, but {what} has {slots} slots; --oversubscribe lets ranks share cores, --slurm asks for as many as are needed",
            run.words_at(),
            run.ranks
        )));
    }
    match plan.runs.iter().find(|run| run.nodes > nodes) {
        Some(run) => Err(Error::Usage(format!(
            "{}: {} nodes, but there are {nodes}; --slurm asks for as many as are needed",
            run.words_at(),
            run.nodes
        ))),
        None => Ok(()),
    }
}

/// Nobody else runs the same study while it is held.
fn lock(out: &Path) -> Result<File> {
    let path = out.join("lock");
    let file = File::create(&path).map_err(Error::io("create", &path))?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            let hint = "wait for the other, or give another --out";
            Err(Error::file(
                out,
                "is the folder of a study that is being run",
                hint,
            ))
        }
        // Not every file system has locks.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}

/// Does what was not done yet of what comes before all runs.
fn prepare(plan: &Plan, launcher: &Launcher) -> Result<()> {
    let path = launcher.folder.join("prepared.json");
    let mut done: Vec<Vec<String>> = match path.exists() {
        true => serde_json::from_str(&files::read_text(&path)?).unwrap_or_default(),
        false => Vec::new(),
    };
    for words in &plan.prepare {
        if !done.contains(words) {
            mention(&format!("phalanx {}", words.join(" ")));
            // What was begun and not finished is replaced.
            let mut forced = words.clone();
            forced.push("--force".into());
            let takes = crate::cli::command(&forced).is_ok();
            launcher.prepare(if takes { &forced } else { words })?;
            done.push(words.clone());
            let text = serde_json::to_string_pretty(&done).expect("plain values");
            files::write_text(&path, &text)?;
        }
    }
    Ok(())
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
    let plots = outcome.plots();
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
    draw(&plots, &out.join("plots"))?;
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

fn draw(plots: &[Plot], folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(Error::io("create folder", folder))?;
    for plot in plots {
        files::write_text(
            &folder.join(format!("{}.svg", plot.name)),
            &plot.standalone(),
        )?;
    }
    Ok(())
}
