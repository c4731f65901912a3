//! `phalanx train`: from settings to a run folder.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;

use super::{report, warn_if_crowded};
use crate::comm::{Comm, agree};
use crate::data::{Augment, Dataset, Length, Loader, Scaling, Steps, split};
use crate::exchange::Kind;
use crate::nn::{self, Crew, Init, zoo::Choice};
use crate::observe::{say, table};
use crate::optim::{Decay, Rule, Schedule};
use crate::train::{
    CHUNK, Every, Goal, Journal, Need, Noise, OnNan, Parts, RankReport, Reduce, RunFolder, Trainer,
    Watched, budget, readable, train,
};
use crate::{Error, Result};

/// What makes the batch grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Growth {
    /// The schedule: where the rate would fall.
    Schedule,
    /// The gradient noise scale.
    Noise,
}

/// How many samples a step takes.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BatchSize {
    /// On each rank.
    PerRank(usize),
    /// On all ranks together.
    Global(usize),
}

impl BatchSize {
    /// Samples of one step: of all ranks if they step together, of one rank if each steps by itself.
    pub fn of_step(self, exchange: Kind, ranks: usize) -> usize {
        match (self, exchange.is_synchronous()) {
            (Self::PerRank(each), true) => each * ranks,
            (Self::PerRank(each), false) => each,
            (Self::Global(all), true) => all,
            (Self::Global(all), false) => all.div_ceil(ranks),
        }
    }
}

/// Everything that decides a run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The model.
    pub model: Choice,
    /// The training set.
    pub data: PathBuf,
    /// The test set.
    pub test: Option<PathBuf>,
    /// Share of the training set that is held out and watched in place of the test set.
    pub validation: Option<f64>,
    /// How long at the most.
    pub length: Length,
    /// The loss of the watched set to stop at.
    pub until_loss: Option<f64>,
    /// Evaluations without a lower loss to stop after.
    pub early_stop: Option<u64>,
    /// Whether the parameters of the lowest loss are kept.
    pub keep_best: bool,
    /// Samples of a step.
    pub batch: BatchSize,
    /// Threads of each rank.
    pub threads: usize,
    /// What makes the batch grow, if anything.
    pub grow: Option<Growth>,
    /// The most samples of a step that it grows to.
    pub batch_limit: Option<usize>,
    /// Whether the gradient noise scale is measured.
    pub noise_scale: bool,
    /// How gradients become updates.
    pub rule: Rule,
    /// The learning rate of every step.
    pub schedule: Schedule,
    /// The samples of a step that the learning rate is meant for, if it is to follow their number.
    pub lr_per: Option<usize>,
    /// The longest gradient that is not shortened.
    pub clip_norm: Option<f64>,
    /// How gradients become one.
    pub reduce: Reduce,
    /// How ranks agree.
    pub exchange: Kind,
    /// Whether inputs are scaled to mean 0 and deviation 1.
    pub normalize: bool,
    /// How images are changed each time they are trained on.
    pub augment: Augment,
    /// What becomes of a step that is not finite.
    pub on_nan: OnNan,
    /// Whether methods are chosen by measurement.
    pub tune: bool,
    /// What parameters start from.
    pub init: Init,
    /// Names order and start.
    pub seed: u64,
    /// Steps between evaluations.
    pub eval_every: Option<u64>,
    /// Steps between rows of metrics.
    pub log_every: Option<u64>,
    /// The run folder.
    pub out: Option<PathBuf>,
    /// Whether an older run may be replaced.
    pub force: bool,
}

impl Settings {
    /// The set that is looked at while training goes on.
    pub(super) fn watched(&self) -> Watched {
        match self.validation {
            Some(_) => Watched::Validation,
            None => Watched::Test,
        }
    }

    /// Whether the gradient noise scale is measured, to be shown or to be followed.
    fn measures_noise(&self) -> bool {
        self.noise_scale || self.grow == Some(Growth::Noise)
    }

    /// The most samples of a step, were memory without end; refuses growth and measurement that these ranks cannot do.
    fn limit(&self, steps: &Steps, exchange: Kind, ranks: usize) -> Result<usize> {
        if self.measures_noise() && (ranks < 2 || !exchange.is_synchronous()) {
            let problem = "the gradient noise scale compares the gradients of ranks that take a step together: \
                it needs 2 ranks or more and an exchange other than one-sided";
            return Err(Error::Usage(problem.into()));
        }
        let batch = steps.batch(0);
        match (self.grow, self.batch_limit) {
            (None, _) => Ok(batch),
            (Some(_), None) => Ok((steps.samples() / 10).max(batch)),
            (Some(_), Some(limit)) if limit < batch => Err(Error::Usage(format!(
                "--batch-limit {limit} is below the {batch} samples that a step begins with"
            ))),
            (Some(_), Some(limit)) => Ok(limit),
        }
    }

    /// The schedule for `batch` samples a step.
    fn schedule(&self, batch: usize) -> Result<Schedule> {
        let mut schedule = self.schedule.clone();
        if let Some(base) = self.lr_per {
            schedule = schedule.scaled(batch, base);
        }
        let lr = schedule.lr;
        if !lr.is_normal() {
            let problem = format!(
                "--lr {:?} meant for --lr-per {} samples is {lr:?} for the {batch} of a step",
                self.schedule.lr,
                self.lr_per.unwrap_or(batch),
            );
            return Err(Error::Usage(problem));
        }
        if let Decay::Cosine { floor } = schedule.decay
            && floor > lr
        {
            let problem = format!("--lr-floor {floor:?} is above the learning rate {lr:?}");
            return Err(Error::Usage(problem));
        }
        Ok(schedule)
    }
}

/// What the settings mean for this data and these ranks.
pub(super) struct Plan {
    pub(super) data: Arc<Dataset>,
    pub(super) test: Option<Dataset>,
    /// The part of `data` that is held out; `data` is then the rest.
    pub(super) validation: Option<Dataset>,
    pub(super) scaling: Scaling,
    pub(super) exchange: Kind,
    /// Before the batch has grown by noise.
    pub(super) steps: Steps,
    /// The most samples of a step.
    pub(super) limit: usize,
    pub(super) schedule: Schedule,
    pub(super) eval_every: Every,
    pub(super) log_every: u64,
}

impl Plan {
    /// The plan and its models; `memory` is what each rank may take, where that is known.
    fn new(comm: &dyn Comm, settings: &Settings, memory: Option<u64>) -> Result<(Self, Crew)> {
        let ranks = comm.size();
        let exchange = settings.exchange.resolve(comm)?;
        let whole = Dataset::open(&settings.data)?;
        let (data, validation) = match settings.validation {
            Some(share) => {
                let [data, validation] = split::divide(&whole, share, settings.seed)?;
                (data, Some(validation))
            }
            None => (whole, None),
        };
        data.enough_for(ranks)?;
        settings.augment.check(data.shape)?;
        let test = settings.test.as_deref().map(Dataset::open).transpose()?;
        if let Some(test) = &test {
            data.fits(test)?;
        }
        let scaling = match settings.normalize {
            true => data.normalization()?,
            false => Scaling::unit(data.shape.c),
        };
        if let BatchSize::Global(all) = settings.batch
            && all < ranks
        {
            let problem =
                format!("--global-batch {all} is less than one sample for each of {ranks} ranks");
            return Err(Error::Usage(problem));
        }
        let batch = settings.batch.of_step(settings.exchange, ranks);
        let mut steps = Steps::new(data.len(), batch, settings.length);
        let mut schedule = settings.schedule(batch)?;
        let limit = settings.limit(&steps, exchange, ranks)?;
        let model = settings.model.build(data.shape, data.classes)?;
        let team = if exchange.is_synchronous() { ranks } else { 1 };
        // The digest of the parameters needs them once more as bytes; every thread but the first has gradients of its own.
        let copies = settings.threads as u64 + u64::from(settings.keep_best);
        let how = (settings.rule, exchange);
        let mut need = Need::of(&model, &data, how, ranks, copies);
        if let Some(longest) = validation.iter().chain(&test).map(Dataset::len).max() {
            need.least = longest.div_ceil(team).min(CHUNK);
        }
        let asked = limit;
        let limit = need.limit(memory, (batch, asked), team, data.len())?;
        if limit < asked && comm.rank() == 0 {
            log::warn!(
                "the batch grows to {limit} samples at most: {asked} would need more than the {} of memory that a rank may take",
                readable(memory.unwrap_or(0))
            );
        }
        if settings.grow == Some(Growth::Schedule) {
            schedule.grow(&mut steps, limit);
        }
        let eval_every = match (settings.eval_every, settings.until_loss) {
            (Some(every), _) => Every::Steps(every),
            (None, Some(_)) => Every::Steps(100),
            (None, None) => Every::Epoch,
        };
        let tenth = (eval_every.at_first(&steps) / 10).max(1);
        let log_every = settings.log_every.unwrap_or(tenth);
        let plan = Self {
            data: Arc::new(data),
            test,
            validation,
            scaling,
            exchange,
            steps,
            limit,
            schedule,
            eval_every,
            log_every,
        };
        Ok((plan, Crew::new(model, settings.threads)?))
    }
}

/// Trains, writes the run folder and prints the result; *collective*.
pub fn run(comm: &dyn Comm, settings: &Settings) -> Result<()> {
    let memory = budget(comm);
    let (plan, mut crew) = agree(comm, Plan::new(comm, settings, memory))?;
    warn_if_crowded(comm, settings.threads);
    if settings.tune {
        let alone = !plan.exchange.is_synchronous();
        let team = if alone { 1 } else { comm.size() };
        let share = plan.steps.batch(0).div_ceil(team);
        crew.tune(share, |choices| comm.broadcast(0, choices));
    }
    let scaling = plan.scaling.clone();
    let data = plan.data.clone();
    let loader = Loader::augmented(data, scaling.clone(), settings.seed, &settings.augment);
    let optimizer = settings
        .rule
        .build(crew.model().tensors(), settings.clip_norm);
    let (steps, schedule) = (plan.steps.clone(), plan.schedule.clone());
    let (reduce, seed) = (settings.reduce, settings.seed);
    let follows = settings.grow == Some(Growth::Noise);
    let noise = settings
        .measures_noise()
        .then(|| Noise::new(follows.then_some(plan.limit)));
    let parts = Parts {
        crew,
        loader,
        scaling,
        steps,
        reduce,
        optimizer,
        schedule,
        noise,
        init: settings.init,
        seed,
        on_nan: settings.on_nan,
    };
    let mut trainer = Trainer::new(comm, parts);

    let start = || {
        let folder = match &settings.out {
            Some(path) => RunFolder::create(path, settings.force)?,
            None => RunFolder::create_next(&trainer.model().spec.name)?,
        };
        folder.write(
            "settings.toml",
            &report::settings(comm, settings, &plan, &trainer),
        )?;
        let rows = report::settings_rows(comm, settings, &plan, &trainer, &folder);
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
    let (folder, mut journal) = agree(comm, started)?;
    if folder.is_some() && !plan.data.is_mapped() {
        log::warn!(
            "the data is chunked or compressed and read through HDF5; `phalanx data split` writes it contiguous"
        );
    }

    let exchange = trainer.start(comm, plan.exchange)?;
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

    let ranks = RankReport::gather(comm, &trainer, settings.watched(), &outcome);
    let finish = |folder: &RunFolder| {
        RankReport::write(&folder.file("ranks.csv"), &ranks)?;
        nn::save(
            &folder.file("model.h5"),
            trainer.model(),
            &trainer.params,
            &trainer.scaling,
        )?;
        let result = report::Result::new(settings, &outcome, &ranks, &plan, &trainer, seconds);
        folder.write("result.toml", &result)?;
        say(&table("result", &result.rows(settings, &ranks, folder)));
        Ok(())
    };
    agree(comm, folder.as_ref().map_or(Ok(()), finish))
}
