//! `result.toml` and the table that is printed last.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::train::{Plan, Settings};
use crate::exchange::{Histogram, gini};
use crate::train::{Outcome, RankReport, RunFolder, Trainer, Watched};

/// `result.toml`.
#[derive(Serialize)]
pub(crate) struct Result {
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
    /// How unequal the ranks' shares of updates are, after Gini: 0 if all have the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    gini: Option<f64>,
    /// Staleness of all updates, where ranks do not step together.
    #[serde(skip_serializing_if = "Option::is_none")]
    staleness: Option<Staleness>,
    /// Gradients that came too late to be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    dropped: Option<u64>,
    /// Share of all ranks' time by part.
    time: BTreeMap<&'static str, f64>,
    checksum: String,
}

/// How old the parameters were that updates were computed from.
#[derive(Serialize)]
struct Staleness {
    /// Steps that the slowest rank was behind when they were read: mean, most, and updates with 0, 1, 2 …
    mean: f64,
    most: u64,
    counts: Vec<u64>,
    /// Updates of other ranks that were made since: likewise.
    missed_mean: f64,
    missed_most: u64,
    missed_counts: Vec<u64>,
    #[serde(skip)]
    described: [String; 2],
}

impl Staleness {
    /// Of all ranks, if they had any.
    fn of(ranks: &[RankReport]) -> Option<Self> {
        let [mut behind, mut missed] = [Histogram::default(), Histogram::default()];
        for rank in ranks {
            behind.merge(&rank.conduct.behind);
            missed.merge(&rank.conduct.missed);
        }
        (behind.total() > 0).then(|| Self {
            mean: behind.mean(),
            most: behind.most(),
            counts: behind.counts().to_vec(),
            missed_mean: missed.mean(),
            missed_most: missed.most(),
            missed_counts: missed.counts().to_vec(),
            described: [&behind, &missed].map(Histogram::describe),
        })
    }
}

impl Result {
    pub(crate) fn new(
        settings: &Settings,
        outcome: &Outcome,
        ranks: &[RankReport],
        plan: &Plan,
        trainer: &Trainer,
        seconds: f64,
    ) -> Self {
        // Ranks that step together take the same steps; ranks that do not take different ones.
        let together = plan.exchange.is_synchronous();
        let alone = !plan.exchange.is_lockstep();
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
            gini: alone.then(|| gini(&ranks.iter().map(RankReport::updates).collect::<Vec<_>>())),
            staleness: Staleness::of(ranks),
            dropped: (ranks.iter().any(|rank| rank.dropped > 0))
                .then(|| ranks.iter().map(|rank| rank.dropped).sum()),
            time: parts
                .into_iter()
                .map(|(name, time)| (name, time / all))
                .collect(),
            checksum: format!("{:016x}", trainer.checksum()),
        }
    }

    /// The table that is printed last.
    pub(crate) fn rows(
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
        let gini = self
            .gini
            .map(|gini| format!(" (Gini coefficient {gini:.3})"));
        let gini = gini.unwrap_or_default();
        let shares = format!("{} %{more}{gini}", shares.join(", "));
        rows.push(("updates by rank", shares));
        if let Some(staleness) = &self.staleness {
            let [behind, missed] = &staleness.described;
            let mean = |mean: f64, most: u64| format!("mean {mean:.2}, most {most}");
            let words = mean(staleness.mean, staleness.most);
            rows.push(("staleness", format!("{words} steps ({behind})")));
            let words = mean(staleness.missed_mean, staleness.missed_most);
            rows.push(("updates missed", format!("{words} ({missed})")));
        }
        if let Some(dropped) = self.dropped {
            let words = format!("{dropped} gradients came too late and were not used");
            rows.push(("dropped", words));
        }
        rows.push(("written to", folder.path().display().to_string()));
        rows
    }
}
