//! What a sparse run is asked for, and what follows from it and the data.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::checkpoint::When;
use crate::comm::Comm;
use crate::commands::train::{BatchSize, Resume};
use crate::data::rows::RowSet;
use crate::data::{Length, Steps};
use crate::optim::Schedule;
use crate::sparse::{ClassWeights, Kind, Part, Rule, Shuffle};
use crate::train::{Every, Inject, Watched, available, readable};
use crate::{Error, Result};

/// What `phalanx train sparse` was asked for.
pub struct Settings {
    /// The training set.
    pub data: PathBuf,
    /// The test set.
    pub test: Option<PathBuf>,
    /// Share of the training set that is held out.
    pub validation: Option<f64>,
    /// How long to train at the most.
    pub length: Length,
    /// Stop at this log loss.
    pub until_loss: Option<f64>,
    /// Stop after so many evaluations without a lower one.
    pub early_stop: Option<u64>,
    /// Rows of a step.
    pub batch: BatchSize,
    /// The order of rows.
    pub shuffle: Shuffle,
    /// How much rows count.
    pub classes: ClassWeights,
    /// How ranks agree.
    pub kind: Kind,
    /// Parts of a step, where results are not to depend on the number of ranks.
    pub shards: Option<usize>,
    /// Whether gradients of a step are added up, not averaged.
    pub sum: bool,
    /// How gradients become updates.
    pub rule: Rule,
    /// At which rate.
    pub schedule: Schedule,
    /// Rows of a step that the rate is meant for.
    pub lr_per: Option<usize>,
    /// Names the order of rows.
    pub seed: u64,
    /// Steps between evaluations.
    pub eval_every: Option<u64>,
    /// Steps between rows of metrics.csv.
    pub log_every: Option<u64>,
    /// Whether a run goes on.
    pub resume: Resume,
    /// From one checkpoint to the next.
    pub checkpoint_every: Option<When>,
    /// How many of the newest are kept.
    pub keep: usize,
    /// When the run stops with a checkpoint.
    pub time_limit: Option<Duration>,
    /// The command, as it was typed or as a resumed run has it.
    pub words: Vec<String>,
    /// The run folder.
    pub out: Option<PathBuf>,
    /// Whether an older run may be replaced.
    pub force: bool,
    /// How long a rank may stand still.
    pub stall_timeout: Option<Duration>,
    /// Faults on demand.
    pub inject: Vec<Inject>,
}

impl Settings {
    /// Which rows are looked at while training goes on.
    pub fn watched(&self) -> Watched {
        match self.validation {
            Some(_) => Watched::Validation,
            None => Watched::Test,
        }
    }
}

/// The data, and how it is cut into steps.
pub(super) struct Plan {
    pub(super) data: RowSet,
    pub(super) test: Option<RowSet>,
    /// Rows of `data` that are trained on; those behind are held out.
    pub(super) trained: usize,
    pub(super) steps: Steps,
    pub(super) schedule: Schedule,
    pub(super) eval_every: Every,
    pub(super) log_every: u64,
}

impl Plan {
    pub(super) fn new(comm: &dyn Comm, settings: &Settings) -> Result<Self> {
        let mut data = RowSet::open(&settings.data)?;
        let test = settings.test.as_ref().map(|path| RowSet::open(path));
        let test = test.transpose()?;
        if let Some(test) = &test {
            data.fits(test)?;
        }
        // The bias has the number behind the last feature.
        if data.about.features > u32::MAX as usize {
            let problem = format!(
                "has {} features, training takes up to {}",
                data.about.features,
                u32::MAX
            );
            return Err(Error::file(
                &data.path,
                problem,
                "hash to fewer: `phalanx data import … --bits 31`",
            ));
        }
        let trained = match settings.validation {
            None => data.len(),
            // What comes last in time is what a model will meet.
            Some(share) if settings.shuffle == Shuffle::None => {
                data.len() - (share * data.len() as f64).round() as usize
            }
            Some(share) => data.hold_out(share, settings.seed),
        };
        let held = data.len() - trained;
        if trained < comm.size() || (settings.validation.is_some() && held == 0) {
            return Err(Error::Mismatch {
                what: format!("rows of {}", data.path.display()),
                expected: format!(
                    "at least one to train on for each of {} ranks, and one to validate on where asked",
                    comm.size()
                ),
                got: format!("{trained} and {held}"),
                hint: "start fewer ranks, or use more data",
            });
        }
        let team = if settings.kind.is_together() {
            comm.size()
        } else {
            1
        };
        let batch = match settings.batch {
            BatchSize::PerRank(each) => each.saturating_mul(team),
            BatchSize::Global(all) => all,
        };
        let steps = Steps::new(trained, batch.min(trained), settings.length);
        let schedule = match settings.lr_per {
            Some(base) => settings.schedule.clone().scaled(steps.batch(0), base),
            None => settings.schedule.clone(),
        };
        let eval_every = settings.eval_every.map_or(Every::Epoch, Every::Steps);
        let log_every = settings.log_every.unwrap_or((steps.total() / 100).max(1));
        check_memory(comm, settings, data.about.features)?;
        Ok(Self {
            data,
            test,
            trained,
            steps,
            schedule,
            eval_every,
            log_every,
        })
    }

    /// The rows that are watched, and the test rows where they are others.
    pub(super) fn parts(&self) -> (Option<Part<'_>>, Option<Part<'_>>) {
        let test = self.test.as_ref().map(|set| Part {
            set,
            rows: 0..set.len(),
        });
        match self.trained < self.data.len() {
            true => {
                let rows = self.trained..self.data.len();
                (
                    Some(Part {
                        set: &self.data,
                        rows,
                    }),
                    test,
                )
            }
            false => (test, None),
        }
    }
}

/// What must be the same for a run to go on, by the names of the options that decide it.
pub(super) fn facts(settings: &Settings, plan: &Plan, ranks: usize) -> BTreeMap<String, String> {
    let json =
        |value: serde_json::Result<serde_json::Value>| value.expect("plain values").to_string();
    let test = plan.test.as_ref().map(|test| test.fingerprint());
    let mut facts = vec![
        ("model", "sparse".into()),
        ("training set", plan.data.fingerprint()),
        ("test set", test.unwrap_or("none".into())),
        ("--validation", format!("{:?}", settings.validation)),
        ("rows of a step", plan.steps.batch(0).to_string()),
        ("--shuffle", format!("{:?}", settings.shuffle)),
        ("weights of labels", format!("{:?}", settings.classes)),
        ("--optimizer", json(serde_json::to_value(settings.rule))),
        (
            "learning rate",
            json(serde_json::to_value(&settings.schedule)),
        ),
        ("--lr-per", format!("{:?}", settings.lr_per)),
        ("--reduce", if settings.sum { "sum" } else { "mean" }.into()),
        ("exchange", format!("{:?}", settings.kind)),
        ("--reproducible, shards", format!("{:?}", settings.shards)),
        ("--seed", settings.seed.to_string()),
        ("--eval-every", format!("{:?}", plan.eval_every)),
    ];
    // In shards the result does not depend on it, and without steps in common there is none to repeat.
    if settings.shards.is_none() && settings.kind.is_together() {
        facts.push(("ranks", ranks.to_string()));
    }
    let named = |(name, value): (&str, String)| (name.to_string(), value);
    facts.into_iter().map(named).collect()
}

/// Bytes that the weights and what belongs to them take on a node, in all.
pub(super) fn weight_bytes(comm: &dyn Comm, settings: &Settings, features: usize) -> u64 {
    let state = 4 * settings.rule.width() as u64 * (features as u64 + 1);
    let (here, all) = (comm.local_size() as u64, comm.size() as u64);
    match settings.kind {
        Kind::AllReduce => here * (state + 8 * features as u64),
        Kind::OneSided { .. } if here == all => state,
        // Divided over all ranks.
        _ => state * here / all,
    }
}

/// Refuses a model that the node's memory cannot hold.
fn check_memory(comm: &dyn Comm, settings: &Settings, features: usize) -> Result<()> {
    let need = weight_bytes(comm, settings, features);
    match available() {
        Some(have) if need > have => Err(Error::Usage(format!(
            "the weights of {features} features and what {} remembers of them need {} of memory on a node, and there are {}: \
             use --optimizer sgd, more nodes, or fewer features (`phalanx data import … --bits`)",
            settings.rule.describe(),
            readable(need),
            readable(have)
        ))),
        _ => Ok(()),
    }
}
