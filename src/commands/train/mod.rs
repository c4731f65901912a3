//! `phalanx train`: from settings to a run folder.

mod plan;
mod settings;

pub(super) use plan::Plan;
pub use settings::{BatchSize, Growth, Settings};

use super::device::Chosen;
use super::{hosts, replay, report, warn_if_crowded};
use crate::board::{Phase, Watch};
use crate::comm::{Comm, agree, path_of_first};
use crate::data::Loader;
use crate::exchange::Exchange;
use crate::nn::{self, Backend, Crew, DeviceModel};
use crate::observe::{say, table};
use crate::train::{
    Goal, Inject, Journal, Noise, Parts, RankReport, RankWork, RunFolder, Trainer, budget,
    readable, train,
};
use crate::{Error, Result};

/// Trains, writes the run folder and prints the result; *collective*.
pub fn run(comm: &dyn Comm, settings: &Settings) -> Result<()> {
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
    let (mut plan, model) = agree(comm, Plan::new(ranks, settings, &chosen, memory))?;
    warn_if_crowded(comm, settings.threads);
    if plan.limit < plan.asked && comm.rank() == 0 {
        log::warn!(
            "the batch grows to {} samples at most: {} would need more than the {} of memory that a rank may take",
            plan.limit,
            plan.asked,
            readable(memory.unwrap_or(0))
        );
    }
    plan.choose_exchange(comm, settings, model.params())?;
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
            if settings.tune {
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
    let loader = Loader::augmented(data, scaling.clone(), settings.seed, &settings.augment);
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

    let start = || {
        let folder = match &settings.out {
            Some(path) => RunFolder::create(path, settings.force)?,
            None => RunFolder::create_next(&trainer.model().spec.name)?,
        };
        folder.write(
            "settings.toml",
            &report::settings(comm, hosts, settings, &plan, &trainer),
        )?;
        let rows = report::settings_rows(comm, hosts, settings, &plan, &trainer, &folder);
        say(&table("settings", &rows));
        let metrics = folder.file("metrics.csv");
        let journal = Journal::create(
            &metrics,
            settings.watched(),
            plan.log_every,
            plan.steps.total(),
        )?;
        Ok((Some(folder), journal))
    };
    let started = if comm.rank() == 0 {
        start()
    } else {
        Ok((None, Journal::none()))
    };
    let (folder, journal) = agree(comm, started)?;
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
    watch.over(|| go(comm, settings, &plan, (trainer, &exchange), folder, journal))
}

/// How an exchange is started.
type StartExchange<'a, 'c> = &'a dyn Fn(&mut Trainer) -> Result<Box<dyn Exchange + 'c>>;

/// The part of a run that is watched: from the start of the exchange to the last file; *collective*.
fn go<'c>(
    comm: &'c dyn Comm,
    settings: &Settings,
    plan: &Plan,
    (mut trainer, start): (Trainer, StartExchange<'_, 'c>),
    folder: Option<RunFolder>,
    mut journal: Journal,
) -> Result<()> {
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
    trainer.times = crate::train::Times::start();
    let outcome = train(comm, exchange, &mut trainer, &goal, &mut journal)?;
    let seconds = trainer.times.elapsed();
    drop(journal);

    trainer.turn(Phase::Settle);
    let work = RankWork {
        times: &trainer.times,
        conduct: &trainer.conduct,
        skipped: trainer.skipped,
        watched: settings.watched(),
        own: outcome.own,
        checksum: trainer.checksum(),
    };
    let ranks = RankReport::gather(comm, &work);
    let finish = |folder: &RunFolder| {
        trainer.turn(Phase::Write);
        RankReport::write(&folder.file("ranks.csv"), &ranks)?;
        nn::save(
            &folder.file("model.h5"),
            trainer.model(),
            &trainer.params,
            &trainer.scaling,
        )?;
        let result = report::Result::new(settings, &outcome, &ranks, plan, &trainer, seconds);
        folder.write("result.toml", &result)?;
        say(&table("result", &result.rows(settings, &ranks, folder)));
        Ok(())
    };
    let written = folder.as_ref().map_or(Ok(()), finish);
    trainer.turn(Phase::Wait);
    agree(comm, written)
}
