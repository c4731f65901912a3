//! What a training run writes down and prints about itself.

use std::collections::BTreeMap;

use serde::Serialize;

use super::train::{BatchSize, Growth, Plan, Settings};
use crate::comm::Comm;
use crate::data::Length;
use crate::nn::Init;
use crate::optim::{Rule, Schedule};
use crate::train::{Every, OnNan, Outcome, RankReport, Reduce, RunFolder, Trainer, Watched};

/// `settings.toml`: as typed and as resolved, enough to repeat the run.
#[derive(Serialize)]
pub(super) struct Written {
    phalanx: &'static str,
    /// The command as it was typed.
    command: Vec<String>,
    ranks: usize,
    hosts: usize,
    /// Of each rank.
    threads: usize,
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
    exchange: &'static str,
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
    init: Init,
    seed: u64,
    eval_every: u64,
    log_every: u64,
    optimizer: Rule,
    schedule: Schedule,
}

/// What `settings.toml` will say.
pub(super) fn settings(
    comm: &dyn Comm,
    settings: &Settings,
    plan: &Plan,
    trainer: &Trainer,
) -> Written {
    Written {
        phalanx: env!("CARGO_PKG_VERSION"),
        command: std::env::args().collect(),
        ranks: comm.size(),
        hosts: comm.size().div_ceil(comm.local_size()),
        threads: settings.threads,
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
            init: settings.init,
            seed: settings.seed,
            eval_every: plan.eval_every.at_first(&plan.steps),
            log_every: plan.log_every,
            optimizer: settings.rule,
            schedule: plan.schedule.clone(),
        },
    }
}

/// How each convolution works.
fn methods(trainer: &Trainer) -> Vec<String> {
    let all = trainer.model().methods().into_iter().enumerate();
    let chosen = all.filter(|(_, methods)| !methods[0].is_empty());
    chosen
        .map(|(i, methods)| format!("layer {i}: {}", methods.join(", ")))
        .collect()
}

/// The table that is printed first.
pub(super) fn settings_rows(
    comm: &dyn Comm,
    settings: &Settings,
    plan: &Plan,
    trainer: &Trainer,
    folder: &RunFolder,
) -> Vec<(&'static str, String)> {
    let hosts = comm.size().div_ceil(comm.local_size());
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
    vec![
        (
            "ranks",
            format!(
                "{} on {hosts} {}{threads}",
                comm.size(),
                if hosts == 1 { "host" } else { "hosts" }
            ),
        ),
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
        ("exchange", plan.exchange.describe().into()),
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
        ("run folder", folder.path().display().to_string()),
    ]
}

/// `result.toml`.
#[derive(Serialize)]
pub(super) struct Result {
    steps: u64,
    epochs: f64,
    samples: u64,
    seconds: f64,
    samples_per_s: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    validation_loss: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    validation_accuracy: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    test_loss: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    test_accuracy: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_step: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_seconds: Option<f64>,
    /// Step of the lowest loss of the watched set, where the run ended for want of a lower one.
    #[serde(skip_serializing_if = "Option::is_none")]
    stale_since: Option<u64>,
    /// Step whose parameters are in model.h5, where it is not the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    best_step: Option<u64>,
    /// Steps without an update, because a loss or a gradient was not finite.
    skipped: u64,
    eval_every: u64,
    /// Samples of a step at the end.
    batch: usize,
    /// The gradient noise scale at the end, where it was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    noise_scale: Option<f64>,
    /// Share of all ranks' time by part.
    time: BTreeMap<&'static str, f64>,
    checksum: String,
}

impl Result {
    pub(super) fn new(
        settings: &Settings,
        outcome: &Outcome,
        ranks: &[RankReport],
        plan: &Plan,
        trainer: &Trainer,
        seconds: f64,
    ) -> Self {
        // Ranks that step together take the same steps; ranks that do not take different ones.
        let together = ranks.iter().map(|rank| rank.samples).sum::<u64>()
            == trainer.steps().seen(ranks[0].steps);
        let steps = if together {
            ranks[0].steps
        } else {
            ranks.iter().map(|rank| rank.steps).sum()
        };
        let skipped = match together {
            true => ranks[0].skipped,
            false => ranks.iter().map(|rank| rank.skipped).sum(),
        };
        let samples = ranks.iter().map(|rank| rank.samples).sum();
        let total = |part: fn(&RankReport) -> f64| ranks.iter().map(part).sum::<f64>();
        let parts = [
            ("compute", total(|rank| rank.compute_s)),
            ("exchange", total(|rank| rank.exchange_s)),
            ("wait", total(|rank| rank.wait_s)),
            ("load", total(|rank| rank.load_s)),
            ("evaluate", total(|rank| rank.evaluate_s)),
        ];
        let all = seconds * ranks.len() as f64;
        let (validation, test) = match settings.watched() {
            Watched::Validation => (outcome.settled, outcome.test),
            Watched::Test => (None, outcome.settled),
        };
        Self {
            steps,
            epochs: samples as f64 / plan.data.len() as f64,
            samples,
            seconds,
            samples_per_s: samples as f64 / trainer.times.training().max(1e-9),
            validation_loss: validation.map(|tally| tally.mean_loss()),
            validation_accuracy: validation.map(|tally| tally.accuracy()),
            test_loss: test.map(|tally| tally.mean_loss()),
            test_accuracy: test.map(|tally| tally.accuracy()),
            target_step: outcome.reached.map(|(step, _)| step),
            target_seconds: outcome.reached.map(|(_, seconds)| seconds),
            stale_since: outcome.stale,
            best_step: outcome.kept,
            skipped,
            eval_every: plan.eval_every.at_first(&plan.steps),
            batch: trainer.moment(steps).batch,
            noise_scale: trainer.noise_scale(),
            time: parts
                .into_iter()
                .map(|(name, time)| (name, time / all))
                .collect(),
            checksum: format!("{:016x}", trainer.checksum()),
        }
    }

    /// The table that is printed last.
    pub(super) fn rows(
        &self,
        settings: &Settings,
        ranks: &[RankReport],
        folder: &RunFolder,
    ) -> Vec<(&'static str, String)> {
        let mut rows = vec![
            (
                "steps",
                format!(
                    "{} ({:.2} epochs, {} samples)",
                    self.steps, self.epochs, self.samples
                ),
            ),
            (
                "time",
                format!(
                    "{:.2} s, {:.0} samples/s without evaluation",
                    self.seconds, self.samples_per_s
                ),
            ),
        ];
        let watched = settings.watched().name();
        if let (Some(loss), Some(accuracy)) = (self.validation_loss, self.validation_accuracy) {
            rows.push(("validation loss", format!("{loss:.4}")));
            rows.push(("validation accuracy", format!("{:.2} %", 100.0 * accuracy)));
        }
        if let (Some(loss), Some(accuracy)) = (self.test_loss, self.test_accuracy) {
            rows.push(("test loss", format!("{loss:.4}")));
            rows.push(("test accuracy", format!("{:.2} %", 100.0 * accuracy)));
        }
        if let Some(target) = settings.until_loss {
            rows.push(("target", match (self.target_step, self.target_seconds) {
                (Some(step), Some(seconds)) => format!(
                    "{watched} loss {target} crossed between step {} and step {step} (evaluated every {} steps), after {seconds:.2} s",
                    step.saturating_sub(self.eval_every),
                    self.eval_every
                ),
                _ => format!("{watched} loss {target} was not reached"),
            }));
        }
        if self.skipped > 0 {
            let problem = "steps whose loss or gradient was not finite";
            rows.push(("skipped", format!("{} {problem}", self.skipped)));
        }
        if let Some(step) = self.stale_since {
            rows.push((
                "stopped early",
                format!("no lower {watched} loss since step {step}"),
            ));
        }
        if let Some(step) = self.best_step {
            rows.push((
                "kept",
                format!("the parameters of step {step}, whose {watched} loss was lowest"),
            ));
        }
        if settings.grow.is_some() {
            let batch = format!("{} samples a step at the end", self.batch);
            rows.push(("batch", batch));
        }
        if let Some(scale) = self.noise_scale {
            rows.push(("gradient noise", format!("{scale:.0} samples at the end")));
        }
        let parts: Vec<String> = ["compute", "exchange", "wait", "load", "evaluate"]
            .iter()
            .map(|name| format!("{name} {:.0} %", 100.0 * self.time[name]))
            .collect();
        rows.push(("where time went", parts.join(", ")));
        let shares: Vec<String> = ranks
            .iter()
            .take(8)
            .map(|rank| format!("{:.1}", 100.0 * rank.share))
            .collect();
        let more = if ranks.len() > 8 {
            " … (ranks.csv has all)"
        } else {
            ""
        };
        rows.push(("updates by rank", format!("{} %{more}", shares.join(", "))));
        rows.push(("written to", folder.path().display().to_string()));
        rows
    }
}
