//! Going on from a checkpoint: which one, and whether it fits.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use xxhash_rust::xxh3::xxh3_64;

use super::{Plan, Resume, Settings};
use crate::backend::cpu::isa;
use crate::checkpoint::{Checkpoint, Manifest, Store};
use crate::comm::{Comm, agree};
use crate::exchange::Kind;
use crate::nn::Model;
use crate::train::State;
use crate::{Error, Result};

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

/// Where a run begins.
pub(super) enum Begin {
    /// At its begin.
    Fresh,
    /// Nowhere: it has ended after so many steps.
    Ended(u64),
    /// Where a checkpoint was written.
    From(Box<From>),
}

/// A checkpoint to go on from.
pub(super) struct From {
    pub(super) checkpoint: Checkpoint,
    pub(super) state: State,
    pub(super) choices: Choices,
}

/// Finds out where the run of these settings begins, of so many steps in all; *collective*.
pub(super) fn find(comm: &dyn Comm, settings: &Settings, total: u64) -> Result<Begin> {
    let (Some(run), resume) = (&settings.out, settings.resume) else {
        return Ok(Begin::Fresh);
    };
    if resume == Resume::No {
        return Ok(Begin::Fresh);
    }
    let store = Store::of(run);
    let seen = (comm.rank() == 0).then(|| look(run, &store, resume, total));
    let seen = agree(comm, seen.transpose())?.unwrap_or_default();
    // What the first rank sees counts: file systems of clusters do not show everybody the same at once.
    let all = comm.gather(&serde_json::to_vec(&seen).expect("plain values"));
    let seen: Seen = serde_json::from_slice(&all[0]).expect("written by the same program");
    if let Some(steps) = seen.ended {
        return Ok(Begin::Ended(steps));
    }
    for step in &seen.steps {
        match whole(comm, &store, *step) {
            Ok(checkpoint) => return from(comm, checkpoint),
            Err(error) if matches!(resume, Resume::From(Some(_))) => return Err(error),
            Err(error) => {
                if comm.rank() == 0 {
                    let error = error.to_string();
                    let what = error.lines().next().unwrap_or_default();
                    log::warn!("{what}; the checkpoint before it is tried");
                }
            }
        }
    }
    match (resume, seen.steps.is_empty()) {
        (Resume::IfThere, true) => Ok(Begin::Fresh),
        (_, nothing) => {
            let problem = match nothing {
                true => "has no checkpoint",
                false => "has no checkpoint that is whole",
            };
            let hint = "begin anew, with another --out or with --force";
            agree(comm, Err(Error::file(store.path(), problem, hint)))
        }
    }
}

/// What the first rank sees in the run folder.
#[derive(Default, Serialize, Deserialize)]
struct Seen {
    /// Checkpoints to try, newest first.
    steps: Vec<u64>,
    /// Steps of a run that has ended.
    ended: Option<u64>,
}

fn look(run: &Path, store: &Store, resume: Resume, total: u64) -> Result<Seen> {
    let mut steps = store.steps()?;
    if let Resume::From(Some(step)) = resume {
        if !steps.contains(&step) {
            let known: Vec<String> = steps.iter().map(ToString::to_string).collect();
            let problem = format!(
                "has no checkpoint of step {step} (it has: {})",
                known.join(", ")
            );
            return Err(Error::file(
                store.path(),
                problem,
                "give one of these, or none for the newest",
            ));
        }
        steps = vec![step];
    }
    let ended = ended(run)?.filter(|ended| !ended.leaves(total, resume));
    Ok(Seen {
        steps,
        ended: ended.map(|ended| ended.steps),
    })
}

/// What `result.toml` says, if the run has come to its end.
#[derive(Deserialize)]
struct Ended {
    steps: u64,
    target_step: Option<u64>,
    stale_since: Option<u64>,
}

impl Ended {
    /// Whether there is more to do: the run is to be longer now, or to be taken up at an earlier step.
    fn leaves(&self, total: u64, resume: Resume) -> bool {
        let early = self.target_step.is_some() || self.stale_since.is_some();
        matches!(resume, Resume::From(Some(_))) || (!early && self.steps < total)
    }
}

fn ended(run: &Path) -> Result<Option<Ended>> {
    let path = run.join("result.toml");
    match std::fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read", &path)(error)),
        Ok(text) => toml::from_str(&text)
            .map(Some)
            .map_err(|error| Error::file(&path, error, "the result is damaged: remove it")),
    }
}

/// The checkpoint of `step`, if all its parts are whole; every rank looks at some of them; *collective*.
fn whole(comm: &dyn Comm, store: &Store, step: u64) -> Result<Checkpoint> {
    let opened = agree(comm, Checkpoint::open(store, step))?;
    let mine = (comm.rank()..opened.manifest.parts.len()).step_by(comm.size());
    agree(comm, opened.verify(mine))?;
    Ok(opened)
}

fn from(comm: &dyn Comm, checkpoint: Checkpoint) -> Result<Begin> {
    let kind = &checkpoint.manifest.kind;
    if kind != "dense" {
        let problem = format!("is one of `phalanx train {kind}`");
        let hint = "resume it with that command";
        return agree(comm, Err(Error::file(checkpoint.path(), problem, hint)));
    }
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
    Ok(Begin::From(Box::new(From {
        checkpoint,
        state,
        choices,
    })))
}

impl From {
    /// Refuses a run that is not the one that wrote the checkpoint; *collective*. Only the first rank has `facts`.
    pub(super) fn check(&self, comm: &dyn Comm, facts: &BTreeMap<String, String>) -> Result<()> {
        let fits = match comm.rank() {
            0 => compare(&self.checkpoint.manifest, facts),
            _ => Ok(()),
        };
        agree(comm, fits)
    }
}

fn compare(manifest: &Manifest, facts: &BTreeMap<String, String>) -> Result<()> {
    let (mut expected, mut got) = (Vec::new(), Vec::new());
    let none = String::from("none");
    for name in manifest.facts.keys().chain(facts.keys()) {
        let (was, is) = (manifest.facts.get(name), facts.get(name));
        let (was, is) = (was.unwrap_or(&none), is.unwrap_or(&none));
        let told = format!("{name}: {was}");
        if was != is && !expected.contains(&told) {
            expected.push(told);
            got.push(format!("{name}: {is}"));
        }
    }
    if expected.is_empty() {
        return Ok(());
    }
    Err(Error::Mismatch {
        what: format!(
            "the run that wrote the checkpoint of step {}",
            manifest.step
        ),
        expected: expected.join("; "),
        got: got.join("; "),
        hint: "leave out what differs, or begin another run with another --out",
    })
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
        ("training set", plan.data.fingerprint()?),
        ("test set", test.transpose()?.unwrap_or("none".into())),
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
