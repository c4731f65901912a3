//! `phalanx train`: from settings to a run folder.

mod ceilings;
mod observed;
mod plan;
mod resume;
mod sets;
mod settings;
mod strategy;
mod tracing;

pub(super) use plan::Plan;
use resume::{Choices, From};
pub use sets::Input;
pub(super) use sets::Sets;
pub use settings::{BatchSize, Events, Growth, Observe, Resume, Settings};
pub use strategy::Strategy;
use tracing::Tracing;

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::json;

use super::device::Chosen;
use super::resume::{Begin, check, find, has_ended, open_folder, saver};
use super::{hosts, replay, report, warn_if_crowded};
use crate::board::{Phase, Watch};
use crate::comm::{Comm, agree, cores, path_of_first};
use crate::data::Loader;
use crate::exchange::Exchange;
use crate::nn::{self, Backend, Crew, DeviceModel};
use crate::observe::{Facts, Photos, emit, mention, say, table, verdict};
use crate::train::{
    Goal, Inject, Journal, Meeting, Noise, Outcome, Parts, RankReport, RankWork, RunFolder, Saver,
    Terms, Trainer, budget, readable, train,
};
use crate::{Error, Result};

/// Trains, writes the run folder and prints the result; *collective*.
pub fn run(comm: &dyn Comm, settings: &Settings) -> Result<()> {
    let begun = Instant::now();
    if let Some(strategy) = settings.strategy {
        agree(comm, strategy.check(comm))?;
    }
    agree(comm, settings.exchange.check(comm, settings.shards))?;
    if settings.record && comm.local_size() < comm.size() {
        let problem = "--record needs all ranks on one node: between nodes updates have no order";
        return agree(comm, Err(Error::Usage(problem.into())));
    }
    let chosen = Chosen::find(comm, settings.device, settings.unfit())?;
    let memory = match chosen.device {
        Some(_) => chosen.budget(comm)?,
        None => budget(comm),
    };
    let ranks = (comm, comm.size());
    let sets = Sets::open(comm, settings, memory)?;
    let (mut plan, model) = agree(comm, Plan::new(ranks, settings, sets, &chosen, memory))?;
    warn_if_crowded(comm, settings.threads);
    if plan.limit < plan.asked && comm.rank() == 0 {
        log::warn!(
            "the batch grows to {} samples at most: {} would need more than the {} of memory that a rank may take",
            plan.limit,
            plan.asked,
            readable(memory.unwrap_or(0))
        );
    }
    let place = (settings.out.as_deref(), settings.resume);
    let from = match find(comm, place, ("dense", plan.steps.total()))? {
        Begin::Fresh => None,
        Begin::From(checkpoint) => Some(From::new(comm, *checkpoint)?),
        Begin::Ended(steps) => {
            if comm.rank() == 0 {
                let run = settings.out.as_deref();
                let name = run.map(|run| run.display().to_string());
                emit("ended", json!({"run": name, "steps": steps}));
                mention(&has_ended(run, steps));
            }
            return Ok(());
        }
    };
    let before = from.as_ref().map(|from| &from.choices);
    let facts = match comm.rank() {
        0 => resume::facts(
            settings,
            &plan,
            (&model, comm.size()),
            chosen.device.is_some(),
        ),
        _ => Ok(BTreeMap::new()),
    };
    let facts = agree(comm, facts)?;
    if let Some(from) = &from {
        check(comm, &from.checkpoint, &facts)?;
    }
    let kind = before.and_then(Choices::exchange);
    plan.choose_exchange(comm, settings, model.params(), kind)?;
    let optimizer = settings.rule.build(model.tensors(), settings.clip_norm);
    let mut choices = Vec::new();
    let team = if plan.exchange.is_synchronous() {
        comm.size()
    } else {
        1
    };
    let backend: Box<dyn Backend> = match &chosen.device {
        Some(device) => {
            let made = DeviceModel::new(model, device, plan.share(team), chosen.gemm);
            Box::new(agree(comm, made)?)
        }
        None => {
            let mut crew = Crew::new(model, settings.threads)?;
            if let Some(before) = before {
                choices = before.methods.clone();
                if !choices.is_empty() {
                    crew.choose(&choices);
                }
            } else if settings.tune {
                let share = plan.steps.batch(0).div_ceil(team);
                crew.tune(share, |found| {
                    comm.broadcast(0, &mut *found);
                    choices = found.to_vec();
                });
            }
            Box::new(crew)
        }
    };
    let scaling = plan.scaling.clone();
    let data = plan.data.clone();
    let shuffle = settings.input.shuffle;
    let loader = Loader::shuffled(
        data,
        scaling.clone(),
        settings.seed,
        &settings.augment,
        shuffle,
    );
    let (steps, schedule) = (plan.steps.clone(), plan.schedule.clone());
    let (reduce, seed) = (settings.reduce, settings.seed);
    let follows = settings.grow == Some(Growth::Noise);
    let noise = settings
        .measures_noise()
        .then(|| Noise::new(follows.then_some(plan.limit)));
    let parts = Parts {
        backend,
        loader,
        scaling,
        steps,
        reduce,
        shards: settings.shards,
        optimizer,
        schedule,
        noise,
        init: settings.init,
        seed,
        on_nan: settings.on_nan,
    };
    let mut trainer = Trainer::new(comm, parts);
    let hosts = hosts(comm);
    trainer.inject = Inject::on(&settings.inject, comm)?;
    if let Some(from) = &from {
        let gone_on = trainer.go_on(comm, &from.checkpoint, from.state.trainer());
        agree(comm, gone_on)?;
    }

    let start = || {
        let step = from.as_ref().map(|from| from.checkpoint.manifest.step);
        let name = &trainer.model().spec.name;
        let folder = open_folder(place, step, settings.force, name)?;
        folder.write(
            "settings.toml",
            &report::settings(comm, hosts, settings, &plan, &trainer),
        )?;
        let rows = report::settings_rows(comm, hosts, settings, &plan, &trainer, &folder);
        mention(&table("settings", &rows));
        emit(
            "start",
            report::start(&folder, comm.size(), plan.steps.total())?,
        );
        let metrics = folder.file("metrics.csv");
        let (every, total) = (plan.log_every, plan.steps.total());
        let journal = match &from {
            None => Journal::create(&metrics, settings.watched(), every, total)?,
            Some(from) => {
                let place = (from.checkpoint.manifest.step, from.state.page());
                Journal::go_on(&metrics, settings.watched(), (every, total), place)?
            }
        };
        Ok((Some(folder), journal))
    };
    let started = if comm.rank() == 0 {
        start()
    } else {
        Ok((None, Journal::none()))
    };
    let (folder, mut journal) = agree(comm, started)?;
    if folder.is_some() && !plan.data.is_mapped() {
        log::warn!(
            "the data is chunked or compressed and read through HDF5; `phalanx data split` writes it contiguous"
        );
    }

    let record = settings.record.then(|| {
        let made = |folder: &RunFolder| replay::Header::write(comm, folder, &trainer, &choices);
        let made = folder.as_ref().map(made).transpose();
        agree(comm, made).map(|path| path_of_first(comm, path))
    });
    let record = record.transpose()?;
    let board = folder.as_ref().map(|folder| folder.file("stalled.json"));
    let watch = Watch::open(comm, settings.stall_timeout, board)?;
    trainer.board = watch.board();
    let exchange = |trainer: &mut Trainer| trainer.start(comm, plan.exchange, record.as_deref());
    let run = path_of_first(
        comm,
        folder.as_ref().map(|folder| folder.path().to_path_buf()),
    );
    let terms = Terms {
        every: settings.checkpoint_every,
        until: settings.time_limit.map(|limit| begun + limit),
        facts,
        choices: serde_json::to_value(Choices::new(choices, plan.exchange)).expect("plain values"),
    };
    let place = (run.as_path(), folder.as_ref());
    let told = (terms, Meeting::of(plan.exchange));
    let saver = saver(comm, place, settings.keep, told)?;
    let gone = from.as_ref().map(|from| from.checkpoint.manifest.step);
    let device = chosen.device.as_ref().map(|device| device.facts());
    let place = observed::Place::new(comm, &run, gone);
    let told = (&mut trainer, &mut journal);
    let sampler = observed::attach(settings, &plan, (&place, device), told);
    let board = watch.board();
    let ended = watch.over(|| {
        let told = (folder, journal, saver);
        let parts = (trainer, &exchange as StartExchange);
        sampler.over(board, || go(comm, settings, &plan, parts, told, from))
    })?;
    match ended {
        (
            Outcome {
                stopped: true,
                steps: step,
                ..
            },
            why,
        ) => {
            if comm.rank() == 0 {
                emit("stopped", json!({"step": step, "why": why}));
            }
            Err(Error::Stopped { step, why, run })
        }
        _ => Ok(()),
    }
}

/// How an exchange is started.
type StartExchange<'a, 'c> = &'a dyn Fn(&mut Trainer) -> Result<Box<dyn Exchange + 'c>>;

/// What a run tells, and where.
type Told<'c> = (Option<RunFolder>, Journal, Saver<'c>);

/// The part of a run that is watched: from the start of the exchange to the last file; *collective*. Tells how it ended, and why
/// if it was stopped.
fn go<'c>(
    comm: &'c dyn Comm,
    settings: &Settings,
    plan: &Plan,
    (mut trainer, start): (Trainer, StartExchange<'_, 'c>),
    (folder, mut journal, mut saver): Told<'c>,
    from: Option<From>,
) -> Result<(Outcome, String)> {
    let exchange = start(&mut trainer)?;
    let (watch, test) = match &plan.validation {
        Some(validation) => (Some(validation), plan.test.as_ref()),
        None => (plan.test.as_ref(), None),
    };
    let goal = Goal {
        watch,
        watched: settings.watched(),
        test,
        eval_every: plan.eval_every,
        until_loss: settings.until_loss,
        early_stop: settings.early_stop,
        keep_best: settings.keep_best,
    };
    trainer.times.go_on();
    journal.begin(&trainer.times);
    let from = from.as_ref().map(|from| (&from.checkpoint, &from.state));
    let saving = (&mut saver, from);
    let tracing = settings.trace.then(|| Tracing::start(comm));
    let outcome = train(comm, exchange, &mut trainer, &goal, &mut journal, saving)?;
    let seconds = trainer.times.elapsed();
    let mut events = journal.close();
    let traced = tracing.and_then(|tracing| {
        trainer.turn(Phase::Write);
        tracing.end(comm, &trainer, folder.as_ref())
    });
    let kept = saver.kept();
    if outcome.stopped {
        let why = saver.why();
        saver.close()?;
        return Ok((outcome, why));
    }
    saver.close()?;

    trainer.turn(Phase::Settle);
    let work = RankWork {
        times: &trainer.times,
        conduct: &trainer.conduct,
        ledger: Some(&trainer.ledger),
        skipped: trainer.skipped,
        watched: settings.watched(),
        own: outcome.own,
        checksum: trainer.checksum(),
    };
    let ranks = RankReport::gather(comm, &work);
    let params = trainer.params.len();
    let findings = verdict(&Facts {
        ranks: &ranks,
        late: trainer.ledger.lateness().ranks(),
        seconds,
        cores: cores(comm),
        photos: plan.data.is_encoded().then(|| Photos {
            cached: plan.data.is_cached(),
            decoders: plan.data.decoders(),
        }),
        memory: ceilings::memory(comm, plan, params, &ranks),
        link: ceilings::link(comm, params, &ranks, seconds),
    });
    let finish = |folder: &RunFolder| {
        trainer.turn(Phase::Write);
        RankReport::write(&folder.file("ranks.csv"), &ranks)?;
        RankReport::write_waits(&folder.file("waits.csv"), &ranks)?;
        nn::save(
            &folder.file("model.h5"),
            trainer.model(),
            &trainer.params,
            (&trainer.scaling, &plan.data.origin()),
        )?;
        let result = report::Result::new(settings, &outcome, &ranks, plan, &trainer, seconds);
        let result = result.with(kept, findings, traced);
        folder.write("result.toml", &result)?;
        if let Some(events) = &mut events {
            events.end(outcome.steps, &result.numbers());
        }
        emit("end", serde_json::to_value(&result).expect("plain values"));
        say(&table("result", &result.rows(settings, &ranks, folder)));
        Ok(())
    };
    let written = folder.as_ref().map_or(Ok(()), finish);
    trainer.turn(Phase::Wait);
    agree(comm, written)?;
    Ok((outcome, String::new()))
}
