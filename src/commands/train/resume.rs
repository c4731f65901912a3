//! What a checkpoint of a dense run says, and what must fit it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use super::{Plan, Settings};
use crate::Result;
use crate::backend::cpu::isa;
use crate::checkpoint::Checkpoint;
use crate::comm::Comm;
use crate::exchange::Kind;
use crate::nn::Model;
use crate::train::State;

/// What was found out by measurement when a run began, and must not be again: other choices round otherwise.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Choices {
    /// How convolutions work, in numbers; empty where that was not measured.
    pub(super) methods: Vec<u64>,
    /// The exchange.
    exchange: Option<String>,
    /// The processor's set of vector instructions.
    vectors: String,
}

impl Choices {
    pub(super) fn new(methods: Vec<u64>, exchange: Kind) -> Self {
        Self {
            methods,
            exchange: exchange.chosen_name().map(Into::into),
            vectors: isa().name().into(),
        }
    }

    /// The exchange that was found to be the fastest.
    pub(super) fn exchange(&self) -> Option<Kind> {
        self.exchange.as_deref().and_then(Kind::of_chosen)
    }
}

/// A checkpoint to go on from.
pub(super) struct From {
    pub(super) checkpoint: Checkpoint,
    pub(super) state: State,
    pub(super) choices: Choices,
}

impl From {
    pub(super) fn new(comm: &dyn Comm, checkpoint: Checkpoint) -> Result<Self> {
        let choices = checkpoint.manifest.state["choices"].clone();
        let choices: Choices = serde_json::from_value(choices).unwrap_or_default();
        let state = State::of(&checkpoint)?;
        let vectors = isa().name();
        if comm.rank() == 0 && choices.vectors != vectors {
            log::warn!(
                "the checkpoint was made with {} kernels and this machine computes with {vectors}: results will differ in rounding",
                choices.vectors
            );
        }
        Ok(Self {
            checkpoint,
            state,
            choices,
        })
    }
}

/// What must be the same for a run to go on, by the names of the options that decide it.
pub(super) fn facts(
    settings: &Settings,
    plan: &Plan,
    (model, ranks): (&Model, usize),
    device: bool,
) -> Result<BTreeMap<String, String>> {
    let json = |value: Value| value.to_string();
    let layers = xxh3_64(model.spec.text().as_bytes());
    let test = plan.test.as_ref().map(|test| test.fingerprint());
    let mut facts = vec![
        ("model", model.spec.name.clone()),
        (
            "layers",
            format!("{} parameters, {layers:016x}", model.params()),
        ),
        ("training set", plan.data.fingerprint()),
        ("test set", test.unwrap_or("none".into())),
        ("--validation", format!("{:?}", settings.validation)),
        ("samples of a step", plan.steps.batch(0).to_string()),
        (
            "--optimizer",
            json(serde_json::to_value(settings.rule).expect("plain values")),
        ),
        (
            "learning rate",
            json(serde_json::to_value(&settings.schedule).expect("plain values")),
        ),
        ("--lr-per", format!("{:?}", settings.lr_per)),
        ("--clip-norm", format!("{:?}", settings.clip_norm)),
        ("--reduce", format!("{:?}", settings.reduce)),
        ("exchange", format!("{:?}", settings.exchange)),
        ("--reproducible, shards", format!("{:?}", settings.shards)),
        ("--record", settings.record.to_string()),
        ("--normalize", settings.normalize.to_string()),
        ("--augment", settings.augment.to_string()),
        ("--shuffle", format!("{:?}", settings.input.shuffle)),
        ("--on-nan", format!("{:?}", settings.on_nan)),
        ("tuned methods", settings.tune.to_string()),
        ("--init", format!("{:?}", settings.init)),
        ("--seed", settings.seed.to_string()),
        ("--eval-every", format!("{:?}", plan.eval_every)),
        ("--keep-best", settings.keep_best.to_string()),
        ("--grow-batch", format!("{:?}", settings.grow)),
        ("--noise-scale", settings.noise_scale.to_string()),
        ("device", if device { "cuda" } else { "cpu" }.into()),
        ("--gemm", format!("{:?}", settings.device.1)),
    ];
    if settings.grow.is_some() {
        facts.push(("--batch-limit", plan.limit.to_string()));
    }
    // In shards the result depends on neither.
    if settings.shards.is_none() {
        facts.push(("ranks", ranks.to_string()));
        facts.push(("--threads", settings.threads.to_string()));
    }
    Ok(facts
        .into_iter()
        .map(|(name, value)| (name.to_string(), value))
        .collect())
}
