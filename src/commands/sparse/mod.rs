//! `phalanx train sparse`: from settings to a run folder.

mod report;
mod settings;

pub use settings::Settings;

use std::time::Instant;

pub(super) use self::report::{Figures, calibration, describe};
use self::report::{Report, settings_rows, written};
use self::settings::{Plan, facts};
use super::hosts;
use super::resume::{Begin, check, find, has_ended, open_folder, saver};
use crate::board::{Phase, Shown, Watch};
use crate::checkpoint::Checkpoint;
use crate::comm::{Comm, agree, block, path_of_first};
use crate::observe::{say, table};
use crate::rng::mix;
use crate::sparse::{Goal, Learner, Model, Order, Parts, State, tally_of, train};
use crate::train::{
    Inject, Journal, MODEL, Meeting, RankReport, RankWork, RunFolder, Saver, Terms, Times,
};
use crate::{Error, Result};

/// Trains, writes the run folder and prints the result; *collective*.
pub fn run(comm: &dyn Comm, settings: &Settings) -> Result<()> {
    let begun = Instant::now();
    agree(comm, settings.kind.check(comm, settings.shards))?;
    let plan = agree(comm, Plan::new(comm, settings))?;
    let inject = agree(comm, Inject::on(&settings.inject, comm))?;
    let place = (settings.out.as_deref(), settings.resume);
    let from = match find(comm, place, ("sparse", plan.steps.total()))? {
        Begin::Fresh => None,
        Begin::From(checkpoint) => Some(From {
            state: State::of(&checkpoint)?,
            checkpoint: *checkpoint,
        }),
        Begin::Ended(steps) => {
            if comm.rank() == 0 {
                say(&has_ended(settings.out.as_deref(), steps));
            }
            return Ok(());
        }
    };
    let facts = facts(settings, &plan, comm.size());
    if let Some(from) = &from {
        check(comm, &from.checkpoint, &facts)?;
    }
    let hosts = hosts(comm);
    let start = || {
        let step = from.as_ref().map(|from| from.checkpoint.manifest.step);
        let folder = open_folder(place, step, settings.force, "sparse")?;
        folder.write("settings.toml", &written(comm, hosts, settings, &plan))?;
        let rows = settings_rows(comm, hosts, settings, &plan, &folder);
        say(&table("settings", &rows));
        let metrics = folder.file("metrics.csv");
        let (watched, total) = (settings.watched(), plan.steps.total());
        let journal = match &from {
            None => Journal::create(&metrics, watched, plan.log_every, total)?,
            Some(from) => {
                let place = (from.checkpoint.manifest.step, from.state.page());
                Journal::go_on(&metrics, watched, (plan.log_every, total), place)?
            }
        };
        Ok((Some(folder), journal))
    };
    let started = match comm.rank() {
        0 => start(),
        _ => Ok((None, Journal::none())),
    };
    let (folder, journal) = agree(comm, started)?;
    if folder.is_some() && !plan.data.is_mapped() {
        log::warn!(
            "the data is chunked, compressed or of other types: every rank holds a copy of it"
        );
    }
    let mut learner = Learner::new(Parts {
        set: &plan.data,
        steps: plan.steps.clone(),
        order: Order::new(settings.shuffle, settings.seed),
        schedule: plan.schedule.clone(),
        classes: settings.classes,
        sum: settings.sum,
        shards: settings.shards,
    });
    learner.inject = inject;
    let board = folder.as_ref().map(|folder| folder.file("stalled.json"));
    let watch = Watch::open(comm, settings.stall_timeout, board)?;
    learner.board = watch.board();
    let path = folder.as_ref().map(|folder| folder.path().to_path_buf());
    let run = path_of_first(comm, path);
    let terms = Terms {
        every: settings.checkpoint_every,
        until: settings.time_limit.map(|limit| begun + limit),
        facts,
        choices: serde_json::Value::Null,
    };
    let meeting = Meeting {
        hears: settings.kind.is_together(),
        apart: false,
    };
    let place = (run.as_path(), folder.as_ref());
    let saver = saver(comm, place, settings.keep, (terms, meeting))?;
    let told = (folder, journal, saver);
    let stopped = watch.over(|| go(comm, settings, &plan, learner, told, from))?;
    match stopped {
        Some((step, why)) => Err(Error::Stopped { step, why, run }),
        None => Ok(()),
    }
}

/// A checkpoint to go on from.
struct From {
    checkpoint: Checkpoint,
    state: State,
}

/// What a run tells, and where.
type Told<'c> = (Option<RunFolder>, Journal, Saver<'c>);

/// The part of a run that is watched; *collective*. Tells at which step and why it was stopped, if it was.
fn go(
    comm: &dyn Comm,
    settings: &Settings,
    plan: &Plan,
    mut learner: Learner,
    (folder, mut journal, mut saver): Told,
    from: Option<From>,
) -> Result<Option<(u64, String)>> {
    let board = learner.board.clone();
    let shown = Shown {
        comm,
        board: board.as_deref(),
        phase: Phase::Compute,
    };
    let (watch, test) = plan.parts();
    let goal = Goal {
        watch,
        test,
        eval_every: plan.eval_every,
        until_loss: settings.until_loss,
        early_stop: settings.early_stop,
    };
    let rule = (settings.rule, plan.schedule.at(0, &plan.steps));
    let rows = plan.steps.seen(plan.steps.total());
    let mut exchange = settings
        .kind
        .start(&shown, &plan.data, rule, (settings.shards, rows))?;
    if let Some(words) = exchange.describe().filter(|_| comm.rank() == 0) {
        say(&format!("  memory         {words}"));
    }
    learner.times = Times::start();
    let from = from.as_ref().map(|from| (&from.checkpoint, &from.state));
    let saving = (&mut saver, from);
    let outcome = train(
        comm,
        &mut *exchange,
        &mut learner,
        &goal,
        &mut journal,
        saving,
    )?;
    let seconds = learner.times.elapsed();
    drop(journal);
    let kept = saver.kept();
    if outcome.stopped {
        let why = saver.why();
        saver.close()?;
        exchange.close()?;
        let mut step = [outcome.steps];
        comm.max(&mut step);
        return Ok(Some((step[0], why)));
    }
    saver.close()?;
    learner.turn(Phase::Settle);
    let mut weights = Vec::new();
    exchange.weights(&mut weights)?;
    let checksum = checksum(comm, plan.data.about.features, &weights);
    let work = RankWork {
        times: &learner.times,
        conduct: &learner.conduct,
        ledger: None,
        skipped: 0,
        watched: settings.watched(),
        own: outcome.watched.as_ref().map(tally_of),
        checksum,
    };
    let ranks = RankReport::gather(comm, &work);
    let report = Report::new(
        comm,
        settings,
        plan,
        (&outcome, &learner),
        &weights,
        (&ranks, seconds),
    );
    let report = report.with(kept);
    learner.turn(Phase::Write);
    let path = folder.as_ref().map(|folder| folder.file(MODEL));
    Model::save(comm, path.as_deref(), &plan.data, &weights)?;
    let finish = |folder: &RunFolder| {
        RankReport::write(&folder.file("ranks.csv"), &ranks)?;
        folder.write("result.toml", &report)?;
        say(&table(
            "result",
            &report.rows(settings, plan, &ranks, folder),
        ));
        Ok(())
    };
    let written = folder.as_ref().map_or(Ok(()), finish);
    learner.turn(Phase::Wait);
    agree(comm, written)?;
    exchange.close()?;
    Ok(None)
}

/// A digest of all weights and the bias that does not depend on how they are divided; *collective*.
fn checksum(comm: &dyn Comm, features: usize, weights: &[f32]) -> u64 {
    let first = block(features + 1, comm.size(), comm.rank()).start;
    let each = weights
        .iter()
        .enumerate()
        .filter(|(_, weight)| **weight != 0.0);
    let mine = each.fold(0, |sum: u64, (i, weight)| {
        sum.wrapping_add(mix(mix((first + i) as u64) ^ u64::from(weight.to_bits())))
    });
    let all = comm.gather(&mine.to_le_bytes());
    let number = |bytes: &Vec<u8>| {
        let eight = bytes[..].try_into().expect("eight bytes of each rank");
        u64::from_le_bytes(eight)
    };
    all.iter().map(number).fold(0, u64::wrapping_add)
}
