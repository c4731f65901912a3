//! What a training run writes down and prints about itself.

mod ranks;
mod result;

pub(super) use ranks::RankSummary;
pub(super) use result::{Result, written};

use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};

use super::train::{BatchSize, Growth, Plan, Settings};
use crate::checkpoint::When;
use crate::comm::Comm;
use crate::data::Length;
use crate::nn::Init;
use crate::optim::{Rule, Schedule};
use crate::train::{Every, OnNan, Reduce, RunFolder, Trainer};

/// `settings.toml`: as typed and as resolved, enough to repeat the run.
#[derive(Serialize)]
pub(super) struct Written {
    phalanx: &'static str,
    /// The command as it was typed, or as a resumed run has it, and where that was.
    command: Vec<String>,
    folder: String,
    ranks: usize,
    hosts: usize,
    /// Of each rank.
    threads: usize,
    /// What computes.
    device: String,
    resolved: Resolved,
}

#[derive(Serialize)]
struct Resolved {
    model: String,
    parameters: usize,
    data: String,
    samples: usize,
    classes: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    test: Option<String>,
    /// Share of the data that was held out, and how many samples that is; `samples` are the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    validation: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    validation_samples: Option<usize>,
    /// The set that was evaluated during training.
    watched: &'static str,
    exchange: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    virtual_shards: Option<usize>,
    reduce: Reduce,
    step_batch: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    grow_batch: Option<Growth>,
    #[serde(skip_serializing_if = "Option::is_none")]
    batch_limit: Option<usize>,
    noise_scale: bool,
    steps_per_epoch: u64,
    steps: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    until_loss: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    early_stop: Option<u64>,
    keep_best: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    clip_norm: Option<f64>,
    on_nan: OnNan,
    /// How convolutions work: forward, gradient of parameters, gradient of inputs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    methods: Vec<String>,
    normalize: bool,
    augment: String,
    input: String,
    init: Init,
    seed: u64,
    eval_every: u64,
    log_every: u64,
    stall_timeout: f64,
    /// Faults that were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    inject: Vec<String>,
    optimizer: Rule,
    schedule: Schedule,
}

/// What `settings.toml` will say.
pub(super) fn settings(
    comm: &dyn Comm,
    hosts: usize,
    settings: &Settings,
    plan: &Plan,
    trainer: &Trainer,
) -> Written {
    Written {
        phalanx: env!("CARGO_PKG_VERSION"),
        command: settings.words.clone(),
        folder: here(),
        ranks: comm.size(),
        hosts,
        threads: settings.threads,
        device: plan.device.clone(),
        resolved: Resolved {
            model: settings.model.to_string(),
            parameters: trainer.model().params(),
            data: settings.data.display().to_string(),
            samples: plan.data.len(),
            classes: plan.data.classes,
            test: settings
                .test
                .as_ref()
                .map(|path| path.display().to_string()),
            validation: settings.validation,
            validation_samples: plan.validation.as_ref().map(|data| data.len()),
            watched: settings.watched().name(),
            exchange: plan.exchange.describe(),
            virtual_shards: settings.shards,
            reduce: settings.reduce,
            step_batch: plan.steps.batch(0),
            grow_batch: settings.grow,
            batch_limit: settings.grow.map(|_| plan.limit),
            noise_scale: settings.noise_scale,
            steps_per_epoch: plan.steps.in_epoch(0),
            steps: plan.steps.total(),
            until_loss: settings.until_loss,
            early_stop: settings.early_stop,
            keep_best: settings.keep_best,
            clip_norm: settings.clip_norm,
            on_nan: settings.on_nan,
            methods: methods(trainer),
            normalize: settings.normalize,
            augment: settings.augment.to_string(),
            input: settings.input.describe(&plan.data),
            init: settings.init,
            seed: settings.seed,
            eval_every: plan.eval_every.at_first(&plan.steps),
            log_every: plan.log_every,
            stall_timeout: settings
                .stall_timeout
                .map_or(0.0, |time| time.as_secs_f64()),
            inject: settings.inject.iter().map(ToString::to_string).collect(),
            optimizer: settings.rule,
            schedule: plan.schedule.clone(),
        },
    }
}

/// What programs that read along hear first: where the run is, how long it is, and what `settings.toml` says.
pub(super) fn start(folder: &RunFolder, ranks: usize, steps: u64) -> crate::Result<Value> {
    let path = folder.file("settings.toml");
    let text = std::fs::read_to_string(&path).map_err(crate::Error::io("read", &path))?;
    let settings: toml::Table = text.parse().unwrap_or_default();
    let run = folder.path().display().to_string();
    Ok(json!({"run": run, "ranks": ranks, "steps": steps, "settings": settings}))
}

/// The folder that the program was started in; empty if it is no text or gone.
pub(super) fn here() -> String {
    let here = std::env::current_dir().unwrap_or_default();
    here.to_str().unwrap_or_default().into()
}

/// How each convolution works.
fn methods(trainer: &Trainer) -> Vec<String> {
    if trainer.backend.stream().is_some() {
        return Vec::new();
    }
    let all = trainer.model().methods().into_iter().enumerate();
    let chosen = all.filter(|(_, methods)| !methods[0].is_empty());
    chosen
        .map(|(i, methods)| format!("layer {i}: {}", methods.join(", ")))
        .collect()
}

/// The table that is printed first.
pub(super) fn settings_rows(
    comm: &dyn Comm,
    hosts: usize,
    settings: &Settings,
    plan: &Plan,
    trainer: &Trainer,
    folder: &RunFolder,
) -> Vec<(&'static str, String)> {
    let data = |data: &crate::data::Dataset| {
        format!(
            "{}: {} samples of {}",
            data.path.display(),
            data.len(),
            data.shape
        )
    };
    let threads = match settings.threads {
        1 => String::new(),
        threads => format!(", {threads} threads each"),
    };
    let first = plan.steps.batch(0);
    let batch = match settings.batch {
        BatchSize::PerRank(each) => format!("{each} a rank, {first} samples a step"),
        BatchSize::Global(all) => format!("{all} over all ranks, {first} samples a step"),
    };
    let batch = match settings.grow {
        Some(Growth::Schedule) => {
            let last = plan.steps.batch(plan.steps.total().saturating_sub(1));
            format!("{batch}, growing to {last} where the rate would fall")
        }
        Some(Growth::Noise) => {
            format!("{batch}, following the gradient noise up to {}", plan.limit)
        }
        None => batch,
    };
    let total = plan.steps.total();
    let length = match settings.length {
        Length::Epochs(epochs) => match settings.grow {
            Some(Growth::Noise) => format!("{epochs} epochs, {total} steps or fewer"),
            _ => format!("{epochs} epochs, {total} steps"),
        },
        Length::Steps(steps) => match settings.grow {
            Some(Growth::Noise) => format!(
                "{steps} steps, {:.2} epochs or more",
                plan.steps.epochs(steps)
            ),
            _ => format!("{steps} steps, {:.2} epochs", plan.steps.epochs(steps)),
        },
    };
    let watched = settings.watched().name();
    let length = match settings.until_loss {
        Some(loss) => format!("until {watched} loss {loss}, at most {length}"),
        None => length,
    };
    let length = match settings.early_stop {
        Some(n) => format!("{length}, or {n} evaluations without a lower {watched} loss"),
        None => length,
    };
    let optimizer = match settings.clip_norm {
        Some(limit) => format!("{}, gradients clipped to {limit}", settings.rule.describe()),
        None => settings.rule.describe(),
    };
    let by = match settings.reduce {
        Reduce::Mean => "mean",
        Reduce::Sum => "sum",
    };
    let optimizer = format!("{optimizer}, gradients by {by}");
    let train = match &plan.validation {
        Some(held) => format!("{}, {} more held out", data(&plan.data), held.len()),
        None => data(&plan.data),
    };
    let train = match settings.augment.is_none() {
        true => train,
        false => format!("{train}, changed by {}", settings.augment),
    };
    let mut rows = vec![
        (
            "ranks",
            format!(
                "{} on {hosts} {}{threads}",
                comm.size(),
                if hosts == 1 { "host" } else { "hosts" }
            ),
        ),
        ("device", plan.device.clone()),
        (
            "model",
            format!(
                "{}, {} parameters",
                settings.model,
                trainer.model().params()
            ),
        ),
        ("train", train),
        ("test", plan.test.as_ref().map_or("none".into(), data)),
        ("input", settings.input.describe(&plan.data)),
        ("exchange", exchange(settings, plan)),
        ("batch", batch),
        ("length", length),
        ("optimizer", optimizer),
        ("learning rate", plan.schedule.describe()),
        (
            "evaluate",
            match plan.eval_every {
                Every::Steps(steps) => format!("every {steps} steps"),
                Every::Epoch => "every epoch".into(),
            },
        ),
        ("seed", settings.seed.to_string()),
        (
            "stall timeout",
            match settings.stall_timeout {
                Some(time) => format!("{} s", time.as_secs_f64()),
                None => "none".into(),
            },
        ),
        (
            "checkpoints",
            checkpoints(
                (settings.checkpoint_every, settings.keep),
                settings.time_limit,
            ),
        ),
        ("run folder", folder.path().display().to_string()),
    ];
    if let Some(strategy) = settings.strategy {
        let exchange = rows.iter().position(|(name, _)| *name == "exchange");
        rows.insert(exchange.unwrap_or(0), ("strategy", strategy.to_string()));
    }
    if !settings.inject.is_empty() {
        let faults = settings.inject.iter().map(ToString::to_string);
        rows.push(("injected", faults.collect::<Vec<_>>().join(", ")));
    }
    rows
}

/// When checkpoints are written, how many are kept, and when the run stops.
pub(super) fn checkpoints(
    (every, keep): (Option<When>, usize),
    time_limit: Option<Duration>,
) -> String {
    let words = match every {
        Some(when) => format!("every {when}, the {keep} newest and the best are kept"),
        None => "when asked to stop".into(),
    };
    match time_limit {
        Some(limit) => format!("{words}; stops after {limit:?}"),
        None => words,
    }
}

/// How ranks agree, and why so.
fn exchange(settings: &Settings, plan: &Plan) -> String {
    let mut words = plan.exchange.describe();
    if let Some(shards) = settings.shards {
        words += &format!(", reproducible in {shards} shards");
    }
    if let Some(why) = &plan.why {
        words += &format!("; {why}");
    }
    words
}
