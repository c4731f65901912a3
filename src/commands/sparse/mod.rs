//! `phalanx train sparse`: from settings to a run folder.

mod report;
mod settings;

pub use settings::Settings;

pub(super) use self::report::{Figures, calibration, describe};
use self::report::{Report, settings_rows, written};
use self::settings::Plan;
use super::hosts;
use crate::Result;
use crate::board::{Phase, Shown, Watch};
use crate::comm::{Comm, agree, block};
use crate::observe::{say, table};
use crate::rng::mix;
use crate::sparse::{Goal, Learner, Model, Order, Parts, tally_of, train};
use crate::train::{Inject, Journal, MODEL, RankReport, RankWork, RunFolder, Times};

/// Trains, writes the run folder and prints the result; *collective*.
pub fn run(comm: &dyn Comm, settings: &Settings) -> Result<()> {
    agree(comm, settings.kind.check(comm, settings.shards))?;
    let plan = agree(comm, Plan::new(comm, settings))?;
    let inject = agree(comm, Inject::on(&settings.inject, comm))?;
    let hosts = hosts(comm);
    let start = || {
        let folder = match &settings.out {
            Some(path) => RunFolder::create(path, settings.force)?,
            None => RunFolder::create_next("sparse")?,
        };
        folder.write("settings.toml", &written(comm, hosts, settings, &plan))?;
        let rows = settings_rows(comm, hosts, settings, &plan, &folder);
        say(&table("settings", &rows));
        let metrics = folder.file("metrics.csv");
        let (watched, total) = (settings.watched(), plan.steps.total());
        let journal = Journal::create(&metrics, watched, plan.log_every, total)?;
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
    watch.over(|| go(comm, settings, &plan, learner, folder, journal))
}

/// The part of a run that is watched; *collective*.
fn go(
    comm: &dyn Comm,
    settings: &Settings,
    plan: &Plan,
    mut learner: Learner,
    folder: Option<RunFolder>,
    mut journal: Journal,
) -> Result<()> {
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
    let outcome = train(comm, &mut *exchange, &mut learner, &goal, &mut journal)?;
    let seconds = learner.times.elapsed();
    drop(journal);
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
    exchange.close()
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
