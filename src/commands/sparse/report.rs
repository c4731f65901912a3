//! What a sparse run writes down and prints about itself.

use serde::Serialize;

use super::settings::{Plan, Settings, weight_bytes};
use crate::checkpoint::Kept;
use crate::comm::Comm;
use crate::commands::report::{RankSummary, checkpoints, here, written as checkpoints_written};
use crate::commands::train::BatchSize;
use crate::data::Length;
use crate::data::rows::RowSet;
use crate::optim::Schedule;
use crate::sparse::{Kind, Learner, Outcome, Rule, Shuffle, Summary};
use crate::train::{Every, RankReport, RunFolder, Watched, readable};

/// `settings.toml`.
#[derive(Serialize)]
pub(super) struct Written {
    phalanx: &'static str,
    command: Vec<String>,
    folder: String,
    ranks: usize,
    hosts: usize,
    resolved: Resolved,
}

#[derive(Serialize)]
struct Resolved {
    model: &'static str,
    data: String,
    rows: usize,
    features: usize,
    encoding: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    test: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    validation: Option<f64>,
    validation_rows: usize,
    watched: &'static str,
    exchange: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    virtual_shards: Option<usize>,
    reduce: &'static str,
    step_batch: usize,
    steps_per_epoch: u64,
    steps: u64,
    shuffle: &'static str,
    positive_weight: f32,
    negative_weight: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    until_loss: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    early_stop: Option<u64>,
    seed: u64,
    eval_every: u64,
    log_every: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    inject: Vec<String>,
    optimizer: Rule,
    schedule: Schedule,
}

/// What `settings.toml` will say.
pub(super) fn written(comm: &dyn Comm, hosts: usize, settings: &Settings, plan: &Plan) -> Written {
    let path = |path: &std::path::PathBuf| path.display().to_string();
    Written {
        phalanx: env!("CARGO_PKG_VERSION"),
        command: settings.words.clone(),
        folder: here(),
        ranks: comm.size(),
        hosts,
        resolved: Resolved {
            model: "sparse",
            data: path(&settings.data),
            rows: plan.trained,
            features: plan.data.about.features,
            encoding: plan.data.about.encoding.clone(),
            test: settings.test.as_ref().map(path),
            validation: settings.validation,
            validation_rows: plan.data.len() - plan.trained,
            watched: settings.watched().name(),
            exchange: settings.kind.describe(comm),
            virtual_shards: settings.shards,
            reduce: if settings.sum { "sum" } else { "mean" },
            step_batch: plan.steps.batch(0),
            steps_per_epoch: plan.steps.in_epoch(0),
            steps: plan.steps.total(),
            shuffle: settings.shuffle.describe(),
            positive_weight: settings.classes.positive,
            negative_weight: settings.classes.negative,
            until_loss: settings.until_loss,
            early_stop: settings.early_stop,
            seed: settings.seed,
            eval_every: plan.eval_every.at_first(&plan.steps),
            log_every: plan.log_every,
            inject: settings.inject.iter().map(ToString::to_string).collect(),
            optimizer: settings.rule,
            schedule: plan.schedule.clone(),
        },
    }
}

/// The table that is printed first.
pub(super) fn settings_rows(
    comm: &dyn Comm,
    hosts: usize,
    settings: &Settings,
    plan: &Plan,
    folder: &RunFolder,
) -> Vec<(&'static str, String)> {
    let data = |set: &RowSet, rows: usize| {
        let each = set.nonzeros() as f64 / set.len() as f64;
        format!(
            "{}: {rows} rows, {each:.1} features each",
            set.path.display()
        )
    };
    let held = plan.data.len() - plan.trained;
    let mut train = data(&plan.data, plan.trained);
    if held > 0 {
        train += &match settings.shuffle {
            Shuffle::None => format!(", the last {held} held out"),
            _ => format!(", {held} more held out"),
        };
    }
    let batch = match settings.batch {
        BatchSize::PerRank(each) => format!("{each} rows a rank"),
        BatchSize::Global(all) => format!("{all} rows over all ranks"),
    };
    let batch = match settings.kind {
        Kind::OneSided { .. } => format!("{batch}, learnt from one by one"),
        _ => format!("{batch}, {} a step", plan.steps.batch(0)),
    };
    let total = plan.steps.total();
    let length = match settings.length {
        Length::Epochs(1) => format!("1 epoch, {total} steps"),
        Length::Epochs(epochs) => format!("{epochs} epochs, {total} steps"),
        Length::Steps(steps) => format!("{steps} steps, {:.2} epochs", plan.steps.epochs(steps)),
    };
    let bytes = weight_bytes(comm, settings, plan.data.about.features);
    let mut rows = vec![
        (
            "ranks",
            match hosts {
                1 => format!("{} on 1 host", comm.size()),
                _ => format!("{} on {hosts} hosts", comm.size()),
            },
        ),
        (
            "model",
            format!(
                "logistic regression, {} features and a bias; {} on a node",
                plan.data.about.features,
                readable(bytes)
            ),
        ),
        ("train", train),
        (
            "test",
            plan.test
                .as_ref()
                .map_or("none".into(), |set| data(set, set.len())),
        ),
        ("exchange", settings.kind.describe(comm)),
        ("order", settings.shuffle.describe().into()),
        ("batch", batch),
        ("length", length),
        ("optimizer", settings.rule.describe()),
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
            "checkpoints",
            checkpoints(
                (settings.checkpoint_every, settings.keep),
                settings.time_limit,
            ),
        ),
        ("run folder", folder.path().display().to_string()),
    ];
    if !settings.inject.is_empty() {
        let faults = settings.inject.iter().map(ToString::to_string);
        rows.push(("injected", faults.collect::<Vec<_>>().join(", ")));
    }
    rows
}

/// How good a model is on some rows, as `result.toml` says it.
#[derive(Serialize)]
pub(in crate::commands) struct Figures {
    rows: u64,
    log_loss: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    auc: Option<f64>,
    accuracy: f64,
    mean_prediction: f64,
    share_of_positives: f64,
}

impl Figures {
    pub(in crate::commands) fn new(found: &Summary) -> Self {
        Self {
            rows: found.count,
            log_loss: found.loss,
            auc: found.auc.map(|auc| auc.value),
            accuracy: found.accuracy,
            mean_prediction: found.prediction,
            share_of_positives: found.positives,
        }
    }
}

/// `result.toml`.
#[derive(Serialize)]
pub(super) struct Report {
    steps: u64,
    epochs: f64,
    samples: u64,
    seconds: f64,
    samples_per_s: f64,
    /// Log loss of the training rows, each before it was learnt from.
    progressive_loss: f64,
    nonzero_weights: u64,
    /// Sent by messages, by all ranks in a step.
    bytes_per_step: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_step: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stale_since: Option<u64>,
    checksum: String,
    /// Checkpoints written since the program was started, and those that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoints: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoints_failed: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    validation: Option<Figures>,
    #[serde(skip_serializing_if = "Option::is_none")]
    test: Option<Figures>,
    #[serde(flatten)]
    ranks: RankSummary,
    #[serde(skip)]
    found: [Option<Summary>; 2],
}

impl Report {
    /// Of all ranks; *collective*.
    pub(super) fn new(
        comm: &dyn Comm,
        settings: &Settings,
        plan: &Plan,
        (outcome, learner): (&Outcome, &Learner),
        weights: &[f32],
        (ranks, seconds): (&[RankReport], f64),
    ) -> Self {
        let together = settings.kind.is_together();
        let steps = match together {
            true => ranks[0].steps,
            false => ranks.iter().map(|rank| rank.steps).sum(),
        };
        let mut loss = [outcome.progressive.loss];
        let nonzeros = weights.iter().filter(|weight| **weight != 0.0).count() as u64;
        let mut counts = [outcome.progressive.count, learner.sent, nonzeros];
        comm.sum(&mut loss);
        comm.sum(&mut counts);
        let samples = ranks.iter().map(|rank| rank.samples).sum();
        let (validation, test) = match settings.watched() {
            Watched::Validation => (outcome.watched.clone(), outcome.test.clone()),
            Watched::Test => (None, outcome.watched.clone()),
        };
        Self {
            steps,
            epochs: samples as f64 / plan.trained as f64,
            samples,
            seconds,
            samples_per_s: samples as f64 / learner.times.training(seconds).max(1e-9),
            progressive_loss: loss[0] / counts[0].max(1) as f64,
            nonzero_weights: counts[2],
            bytes_per_step: counts[1] as f64 / steps.max(1) as f64,
            target_step: outcome.reached.map(|(step, _)| step),
            target_seconds: outcome.reached.map(|(_, seconds)| seconds),
            stale_since: outcome.stale,
            checksum: ranks[0].checksum.clone(),
            checkpoints: None,
            checkpoints_failed: None,
            validation: validation.as_ref().map(Figures::new),
            test: test.as_ref().map(Figures::new),
            ranks: RankSummary::new(ranks, seconds, !together),
            found: [validation, test],
        }
    }

    /// With what became of checkpoints, where there were any.
    pub(super) fn with(mut self, kept: Option<Kept>) -> Self {
        self.checkpoints = kept.map(|kept| kept.written);
        self.checkpoints_failed = kept.map(|kept| kept.failed);
        self
    }

    /// The table that is printed last.
    pub(super) fn rows(
        &self,
        settings: &Settings,
        plan: &Plan,
        ranks: &[RankReport],
        folder: &RunFolder,
    ) -> Vec<(&'static str, String)> {
        let mut rows = vec![
            (
                "steps",
                format!(
                    "{} ({:.2} epochs, {} rows)",
                    self.steps, self.epochs, self.samples
                ),
            ),
            (
                "time",
                format!(
                    "{:.2} s, {:.0} rows/s without evaluation",
                    self.seconds, self.samples_per_s
                ),
            ),
            (
                "progressive loss",
                format!(
                    "{:.4}, each row before it was learnt from",
                    self.progressive_loss
                ),
            ),
        ];
        let best = plan.test.as_ref().and_then(|set| set.about.best_loss);
        for (name, found) in ["validation", "test"].into_iter().zip(&self.found) {
            if let Some(found) = found {
                rows.push((name, describe(found, best.filter(|_| name == "test"))));
                rows.push(("calibration", calibration(found)));
            }
        }
        let watched = settings.watched().name();
        if let Some(target) = settings.until_loss {
            rows.push(("target", match (self.target_step, self.target_seconds) {
                (Some(step), Some(seconds)) => {
                    format!("{watched} log loss {target} reached by step {step}, after {seconds:.2} s")
                }
                _ => format!("{watched} log loss {target} was not reached"),
            }));
        }
        if let Some(step) = self.stale_since {
            let words = format!("no lower {watched} log loss since step {step}");
            rows.push(("stopped early", words));
        }
        let all = plan.data.about.features as u64 + 1;
        let share = 100.0 * self.nonzero_weights as f64 / all as f64;
        rows.push((
            "weights",
            format!(
                "{} of {all} are not zero ({share:.2} %)",
                self.nonzero_weights
            ),
        ));
        if self.bytes_per_step > 0.0 {
            let dense = 8.0 * all as f64 * (ranks.len() - 1) as f64;
            let least = match settings.kind {
                Kind::AllReduce => "at least ",
                _ => "",
            };
            let words = format!(
                "{least}{} a step by messages of all ranks, {:.3} % of a dense all-reduce",
                readable(self.bytes_per_step as u64),
                100.0 * self.bytes_per_step / dense.max(1.0)
            );
            rows.push(("sent", words));
        }
        if let (Some(whole), Some(failed)) = (self.checkpoints, self.checkpoints_failed) {
            rows.push(("checkpoints", checkpoints_written(whole, failed)));
        }
        rows.extend(self.ranks.rows(ranks));
        rows.push(("written to", folder.path().display().to_string()));
        rows
    }
}

/// How good a model is, in words; `best` is the log loss that nobody can go below.
pub(in crate::commands) fn describe(found: &Summary, best: Option<f64>) -> String {
    let auc = match found.auc {
        Some(auc) => format!("{:.4}", auc.value),
        None => "none, of one class".into(),
    };
    let (loss, right) = (found.loss, 100.0 * found.accuracy);
    let mut words = format!("log loss {loss:.4}, AUC {auc}, accuracy {right:.2} %");
    if let Some(best) = best {
        let (above, side) = match 100.0 * (loss / best - 1.0) {
            below if below < 0.0 => (-below, "below, as on rows that it has learnt from,"),
            above => (above, "above"),
        };
        words += &format!("; {above:.2} % {side} the best possible log loss, {best:.4}");
    }
    words
}

/// How predictions and labels agree on the whole.
pub(in crate::commands) fn calibration(found: &Summary) -> String {
    let (mean, share) = (100.0 * found.prediction, 100.0 * found.positives);
    format!("{mean:.3} % predicted on average, {share:.3} % are 1")
}
