//! Wide sparse logistic regression: rows of features that are mostly zero, and a weight for each of millions.
//!
//! ```text
//!  RowSet ─▶ Order ─▶ Picked rows ─▶ Exchange ─▶ weights ─▶ model/*.h5, checkpoints/
//!  (mapped)                           │  Near: one copy in shared memory, without locks; hot features in copies
//!                                     │  Far: windows between nodes
//!                                     │  Owners: in step, every weight with its owner, only what rows touch is sent
//!                                     └  Dense: in step, all weights everywhere
//! ```

mod asked;
mod dense;
mod exchange;
mod far;
mod gathered;
mod hot;
mod known;
mod learner;
pub mod logistic;
pub mod model;
mod near;
mod order;
mod owners;
mod quality;
mod rule;
mod saved;
mod served;
mod training;

pub use exchange::{Agreed, Exchange, Picked, Work};
pub use hot::HotFeatures;
pub use learner::{Learner, Part, Parts};
pub use logistic::ClassWeights;
pub use model::Model;
pub use order::{Order, Shuffle};
pub use quality::{Auc, Calibration, Quality, Summary};
pub use rule::{Move, Rule};
pub use served::Served;
pub use training::{Goal, Outcome, State, tally_of, train};

use serde::Serialize;

use self::dense::Dense;
use self::far::Far;
use self::near::Near;
use self::owners::Owners;
use self::rule::{Adagrad, Ftrl, Pull, PulledAdagrad, PulledSgd, Sgd};
use crate::comm::Comm;
use crate::data::rows::RowSet;
use crate::{Error, Result};

/// How ranks agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// In step: each weight with its owner.
    Owners,
    /// In step: all weights everywhere.
    AllReduce,
    /// Each rank by itself.
    OneSided {
        /// The most steps that a rank may be ahead of the slowest.
        bound: Option<u64>,
    },
}

impl Kind {
    /// Whether all ranks take every step together.
    pub fn is_together(self) -> bool {
        !matches!(self, Self::OneSided { .. })
    }

    /// As the user reads it.
    pub fn describe(self, comm: &dyn Comm) -> String {
        let near = comm.local_size() == comm.size();
        match self {
            Self::Owners => "owners (synchronous): only what rows touch is sent".into(),
            Self::AllReduce => "all-reduce (synchronous): all gradients are sent".into(),
            Self::OneSided { bound } => {
                let place = match near {
                    true => "in shared memory",
                    false => "divided over all ranks",
                };
                let bound = bound.map(|bound| format!(", staleness at most {bound}"));
                let bound = bound.unwrap_or_default();
                format!("one-sided (asynchronous), weights {place}{bound}")
            }
        }
    }

    /// Refuses what does not go together; on every rank alike.
    pub fn check(self, comm: &dyn Comm, shards: Option<usize>) -> Result<()> {
        let Some(shards) = shards else {
            return Ok(());
        };
        if !self.is_together() {
            let problem = "--reproducible needs ranks in step: --exchange owners or all-reduce";
            return Err(Error::Usage(problem.into()));
        }
        let ranks = comm.size();
        if !shards.is_multiple_of(ranks) || !ranks.is_power_of_two() {
            let problem = format!(
                "--reproducible needs a power of two of ranks that divides --virtual-shards {shards}, got {ranks}"
            );
            return Err(Error::Usage(problem));
        }
        Ok(())
    }

    /// Weights of zero for the features of `set`, and a rule that starts at the rate `lr`, for a run of so many `rows` over
    /// all epochs; *collective*.
    pub fn start<'c>(
        self,
        comm: &'c dyn Comm,
        set: &RowSet,
        (rule, lr): (Rule, f32),
        (shards, rows): (Option<usize>, u64),
    ) -> Result<Box<dyn Exchange + 'c>> {
        let start = Start {
            kind: self,
            comm,
            set,
            shards,
            rows,
            lr,
        };
        match rule {
            Rule::Sgd { l1: 0.0, l2: 0.0 } => start.with::<Sgd, 1>(Sgd::default()),
            Rule::Sgd { l1, l2 } => start.with(PulledSgd::new(Pull::new(l1, l2))),
            Rule::Adagrad { l1: 0.0, l2: 0.0 } => start.with(Adagrad::default()),
            Rule::Adagrad { l1, l2 } => start.with(PulledAdagrad::new(Pull::new(l1, l2))),
            Rule::Ftrl { beta, l1, l2 } => start.with(Ftrl::new(beta, l1, l2)),
        }
    }
}

/// What an exchange is started from.
struct Start<'a, 'c> {
    kind: Kind,
    comm: &'c dyn Comm,
    set: &'a RowSet,
    shards: Option<usize>,
    rows: u64,
    lr: f32,
}

impl<'c> Start<'_, 'c> {
    fn with<M: Move<W>, const W: usize>(self, rule: M) -> Result<Box<dyn Exchange + 'c>> {
        let rule = rule.at_rate(self.lr);
        let (comm, features, shards) = (self.comm, self.set.about.features, self.shards);
        Ok(match self.kind {
            Kind::Owners => Box::new(Owners::<M, W>::new(comm, features, rule, shards)),
            Kind::AllReduce => Box::new(Dense::<M, W>::new(comm, features, rule, shards)),
            Kind::OneSided { bound } if comm.local_size() == comm.size() => {
                Box::new(Near::<M, W>::new(comm, self.set, rule, (bound, self.rows))?)
            }
            Kind::OneSided { bound } => Box::new(Far::<M, W>::new(comm, features, rule, bound)?),
        })
    }
}
