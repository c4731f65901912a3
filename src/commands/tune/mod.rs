//! `phalanx tune`: a search from its file to the best configuration.

mod told;

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::study::{Slots, lock, mpirun, prepare};
use crate::observe::{mention, say, table};
use crate::sweep::{Launcher, Record, Run, apart};
use crate::tune::{Model, Proposal, Recorded, Search, Space, Task, Trial};
use crate::{Error, Result, interrupt};
use told::{Ends, Told, tell};

/// What `phalanx tune` is to do.
pub struct Settings {
    /// The file with the space.
    pub task: PathBuf,
    /// The folder for all of it.
    pub out: Option<PathBuf>,
    /// Where the user's own data is.
    pub data: PathBuf,
    /// How to search.
    pub search: crate::tune::Settings,
    /// The most trials.
    pub trials: usize,
    /// The most time for them.
    pub budget: Option<Duration>,
    /// Trials at the same time.
    pub parallel: usize,
    /// What starts ranks.
    pub mpirun: Vec<String>,
    /// Whether ranks may be more than slots.
    pub oversubscribe: bool,
    /// A grid in place of trials.
    pub replay: Option<Replay>,
}

/// A grid that was measured before.
pub struct Replay {
    /// `runs.csv` of a study.
    pub runs: PathBuf,
    /// Searches.
    pub seeds: usize,
    /// How near the best is found.
    pub within: f64,
}

/// Searches.
pub fn run(settings: &Settings) -> Result<()> {
    let task = Task::read(&settings.task)?;
    let space = task.space();
    let mut search = settings.search.clone();
    search.limit = task.measure.limit.map(|limit| task.measure.time(limit));
    if let Some(replay) = &settings.replay {
        return replayed(&task, &space, &search, (replay, settings.trials));
    }
    let absolute = |path: &Path| std::path::absolute(path).map_err(Error::io("find", path));
    let data = absolute(&settings.data)?;
    // Every trial is understood before the first one is run.
    let runs: Result<Vec<Run>> = (0..space.len())
        .map(|index| task.trial(&space, index, &data))
        .collect();
    let runs = runs?;
    apart(&runs)?;
    let winner = task.goes_on(&data)?;
    let shares = settings.oversubscribe || task.oversubscribe;
    Slots::find().check(&runs, shares)?;
    let stem = settings.task.file_stem().unwrap_or_default();
    let out = settings.out.clone().unwrap_or_else(|| PathBuf::from(stem));
    fs::create_dir_all(&out).map_err(Error::io("create folder", &out))?;
    let _lock = lock(&out)?;
    let launcher = Launcher {
        program: std::env::current_exe().map_err(Error::io("find", "the program"))?,
        mpirun: mpirun(&settings.mpirun, shares)?,
        folder: absolute(&out)?,
        prepare: crate::sweep::words(&task.prepare, &data)?,
    };
    prepare(&launcher)?;
    let mut hunt = Hunt {
        task: &task,
        runs: &runs,
        launcher: &launcher,
        search: Search::new(&space, search, task.prices(&space)),
        told: Vec::new(),
        seconds: 0.0,
    };
    let why = hunt.all(settings)?;
    let best = hunt.search.best();
    tell(&out, (&task, &space), &hunt.search, &hunt.told, &why)?;
    let Some(best) = best else {
        let problem = match hunt.told.iter().all(|one| one.time.is_none()) {
            true => "no trial has ended well",
            false => "no trial kept to the limit",
        };
        let hint = "logs/ has what each of them said";
        return Err(Error::file(&out, problem, hint));
    };
    match winner {
        Some(words) => go_on(&launcher, &runs[best.index], &words),
        None => Ok(()),
    }
}

/// A search under way.
struct Hunt<'a> {
    task: &'a Task,
    runs: &'a [Run],
    launcher: &'a Launcher,
    search: Search<'a>,
    told: Vec<Told>,
    seconds: f64,
}

impl Hunt<'_> {
    /// Tries one configuration after the other, or several at once; gives why it stopped.
    fn all(&mut self, settings: &Settings) -> Result<String> {
        loop {
            let left = settings.trials.saturating_sub(self.told.len());
            if left == 0 {
                return Ok(format!("{} trials were allowed", settings.trials));
            }
            if settings
                .budget
                .is_some_and(|budget| self.seconds >= budget.as_secs_f64())
            {
                return Ok(format!(
                    "the time for trials is used up ({:.0} s)",
                    self.seconds
                ));
            }
            let picked = self.pick(settings.parallel.min(left));
            let picked = match picked {
                Ok(picked) => picked,
                Err(gain) => {
                    return Ok(match self.told.len() == self.runs.len() {
                        true => "all configurations were tried".into(),
                        false => format!(
                            "{:.1} % of the best is expected to be gained by any other",
                            100.0 * gain
                        ),
                    });
                }
            };
            // Of what is spread at first, nothing is expected.
            let enough = self.search.trials().len() >= self.search.settings().first;
            let expected = self.search.expected().filter(|_| enough);
            let records = self.run(&picked)?;
            let longest = records.iter().map(|record| record.seconds);
            self.seconds += longest.fold(0.0, f64::max);
            for ((index, gain), record) in picked.into_iter().zip(records) {
                let expected = expected.as_ref().map(|all| all[index]);
                self.learn(index, (gain, expected), &record);
            }
        }
    }

    /// Which to try next, with what is expected of them: of several, each as if those before it were what the model expects.
    fn pick(&mut self, count: usize) -> Result<Vec<(usize, Option<f64>)>, f64> {
        let mut picked: Vec<(usize, Option<f64>)> = Vec::new();
        let mut stopped = 0.0;
        let known = self.search.trials().len();
        for _ in 0..count {
            match self.search.next() {
                Proposal::Try { index, gain } => {
                    picked.push((index, gain));
                    let expected = self.search.expected().map(|all| all[index].0);
                    self.search.learn(Trial {
                        index,
                        time: expected,
                    });
                }
                Proposal::Stop { gain } => {
                    stopped = gain;
                    break;
                }
            }
        }
        self.search.forget(known);
        match picked.is_empty() {
            true => Err(stopped),
            false => Ok(picked),
        }
    }

    /// Makes trials at the same time, unless they were made before.
    fn run(&self, picked: &[(usize, Option<f64>)]) -> Result<Vec<Record>> {
        interrupt::check()?;
        let one = |index: usize| {
            let run = &self.runs[index];
            match self.launcher.record(run)? {
                Some(record) => Ok(record),
                None => self.launcher.launch(run),
            }
        };
        let records = thread::scope(|scope| {
            let started: Vec<_> = picked
                .iter()
                .map(|&(index, _)| scope.spawn(move || one(index)))
                .collect();
            let ended = started
                .into_iter()
                .map(|trial| trial.join().expect("a trial does not panic"));
            ended.collect::<Vec<Result<Record>>>()
        });
        records.into_iter().collect()
    }

    fn learn(
        &mut self,
        index: usize,
        (gain, expected): (Option<f64>, Option<Ends>),
        record: &Record,
    ) {
        let run = &self.runs[index];
        let name = &self.task.measure.figure;
        let figure = record.figures.get(name).copied();
        let figure = figure.filter(|figure| figure.is_finite() && *figure > 0.0);
        if record.failed.is_none() && figure.is_none() {
            let run = &run.name;
            log::warn!("{run} has no figure `{name}` above 0: it counts as failed");
        }
        let time = figure.map(|figure| self.task.measure.time(figure));
        self.search.learn(Trial { index, time });
        let told = Told {
            index,
            words: run.words_at(),
            figure,
            time,
            expected,
            gain,
            seconds: record.seconds,
            best: self.search.best().is_some_and(|best| best.index == index),
        };
        mention(&format!(
            "{:>3}  {}",
            self.told.len() + 1,
            told.line(self.task)
        ));
        self.told.push(told);
    }
}

/// The best trial goes on from its checkpoint.
fn go_on(launcher: &Launcher, best: &Run, winner: &[String]) -> Result<()> {
    let run = format!("runs/{}", best.name);
    let words = [&["train".into(), "--resume".into(), run], winner].concat();
    mention(&format!("phalanx {}", words.join(" ")));
    launcher.go_on(best, &words)?;
    say(&table(
        "winner",
        &[
            ("configuration", best.words_at()),
            ("goes on in", launcher.run(best).display().to_string()),
        ],
    ));
    Ok(())
}

/// How searches do on a grid that was measured before.
fn replayed(
    task: &Task,
    space: &Space,
    search: &crate::tune::Settings,
    (replay, trials): (&Replay, usize),
) -> Result<()> {
    let recorded = Recorded::read(&replay.runs, task, space)?;
    let least = (0..space.len())
        .map(|i| recorded.time(i))
        .fold(f64::INFINITY, f64::min);
    let most = (0..space.len())
        .map(|i| recorded.time(i))
        .fold(0.0, f64::max);
    let mut rows = vec![
        ("configurations", space.len().to_string()),
        (
            "times",
            format!("the longest is {:.1} times the shortest", most / least),
        ),
    ];
    let trials = trials.min(space.len());
    for (name, model) in [
        ("gaussian", Model::Gaussian),
        ("forest", Model::Forest),
        ("random", Model::Random),
    ] {
        let settings = crate::tune::Settings {
            model,
            ..search.clone()
        };
        let place = (task, space);
        let wanted = (replay.within, trials);
        let score = recorded.score(place, &settings, replay.seeds, wanted)?;
        let stopped = match model {
            Model::Random => String::new(),
            _ => format!(
                "; as it stops by itself {}, after {:.0} trials, {:.1} % from the best (medians)",
                score.kept,
                score.stopped.0,
                100.0 * score.stopped.1
            ),
        };
        rows.push((
            name,
            format!(
                "{} of {} searches within {:.0} % of the best in {trials} trials; first such trial: {:.0} in the middle, {} at most{stopped}",
                score.good,
                score.seeds,
                100.0 * replay.within,
                score.trials.0,
                score.trials.1
            ),
        ));
    }
    say(&table(&task.title, &rows));
    Ok(())
}
