//! `result.toml` and the table that is printed last.

use serde::Serialize;

use super::super::train::{Plan, Settings};
use super::ranks::RankSummary;
use crate::checkpoint::Kept;
use crate::observe::Finding;
use crate::observe::timeline::Written;
use crate::train::{Outcome, RankReport, RunFolder, Trainer, Watched};

/// `result.toml`.
#[derive(Serialize)]
pub(crate) struct Result {
    steps: u64,
    epochs: f64,
    samples: u64,
    /// What computed.
    device: String,
    /// Whether that was no device but an emulator, whose times mean nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    emulated: bool,
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
    /// Checkpoints written since the program was started, and those that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoints: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoints_failed: Option<u64>,
    checksum: String,
    /// Spans in trace.json, and those that were dropped.
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_spans: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_dropped: Option<u64>,
    #[serde(flatten)]
    ranks: RankSummary,
    /// What limited the run, the most important first.
    verdict: Vec<Finding>,
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
        let (validation, test) = match settings.watched() {
            Watched::Validation => (outcome.settled, outcome.test),
            Watched::Test => (None, outcome.settled),
        };
        Self {
            steps,
            epochs: samples as f64 / plan.data.len() as f64,
            samples,
            device: plan.device.clone(),
            emulated: plan.emulated,
            seconds,
            samples_per_s: samples as f64 / trainer.times.training(seconds).max(1e-9),
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
            checkpoints: None,
            checkpoints_failed: None,
            checksum: format!("{:016x}", trainer.checksum()),
            ranks: RankSummary::new(ranks, seconds, alone),
            verdict: Vec::new(),
            trace_spans: None,
            trace_dropped: None,
        }
    }

    /// With what became of checkpoints, where there were any, what limited the run, and what was traced.
    pub(crate) fn with(
        mut self,
        kept: Option<Kept>,
        verdict: Vec<Finding>,
        traced: Option<Written>,
    ) -> Self {
        self.trace_spans = traced.as_ref().map(|traced| traced.spans);
        self.trace_dropped = traced.map(|traced| traced.dropped);
        self.verdict = verdict;
        self.checkpoints = kept.map(|kept| kept.written);
        self.checkpoints_failed = kept.map(|kept| kept.failed);
        self
    }

    /// What the run has come to, by name: what there is of it.
    pub(crate) fn numbers(&self) -> Vec<(&'static str, f64)> {
        let numbers = [
            ("validation_loss", self.validation_loss),
            ("validation_accuracy", self.validation_accuracy),
            ("test_loss", self.test_loss),
            ("test_accuracy", self.test_accuracy),
            ("seconds", Some(self.seconds)),
            ("samples_per_s", Some(self.samples_per_s)),
        ];
        let there = numbers.into_iter();
        there
            .filter_map(|(name, value)| Some((name, value?)))
            .collect()
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
                    "{:.2} s, {:.0} samples/s without evaluation{}",
                    self.seconds,
                    self.samples_per_s,
                    match self.emulated {
                        true => " (EMULATED: no GPU's speed)",
                        false => "",
                    }
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
        if let (Some(written), Some(failed)) = (self.checkpoints, self.checkpoints_failed) {
            rows.push(("checkpoints", self::written(written, failed)));
        }
        rows.extend(self.ranks.rows(ranks));
        if let (Some(spans), Some(dropped)) = (self.trace_spans, self.trace_dropped) {
            let words = match dropped {
                0 => format!("{spans} spans"),
                dropped => format!("{spans} spans, the first and last; {dropped} between dropped"),
            };
            rows.push((
                "trace",
                format!("{words}: open trace.json in ui.perfetto.dev"),
            ));
        }
        for (i, finding) in self.verdict.iter().enumerate() {
            let name = if i == 0 { "verdict" } else { "" };
            rows.push((name, format!("{} ({})", finding.what, finding.figures)));
            rows.push(("", format!("try: {}", finding.advice)));
        }
        rows.push(("written to", folder.path().display().to_string()));
        rows
    }
}

/// How many checkpoints were written, and how many failed.
pub(in crate::commands) fn written(written: u64, failed: u64) -> String {
    let failures = match failed {
        0 => String::new(),
        failed => format!(", {failed} FAILED: see the warnings above"),
    };
    format!("{written} written{failures}")
}
