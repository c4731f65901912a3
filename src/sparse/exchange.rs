//! How ranks agree on the weights of a sparse model.

use std::ops::Range;
use std::time::Duration;

use super::logistic::ClassWeights;
use crate::checkpoint::{Checkpoint, Snapshot};
use crate::data::rows::{Row, RowSet};
use crate::exchange::{Conduct, Votes};
use crate::nn::Tally;
use crate::{Error, Result};

/// Holds the weights and takes steps; the training loop does not know which kind it has.
pub trait Exchange {
    /// Whether all ranks take every step together.
    fn is_together(&self) -> bool;
    /// The step that this rank takes next, from 0; it has `claimed` so many before.
    fn claim(&mut self, claimed: u64) -> Result<u64> {
        Ok(claimed)
    }
    /// Makes ready what is needed to learn from the rows of `work`; gives the time that this meant waiting for others.
    fn fetch(&mut self, work: &Work) -> Result<Duration>;
    /// Computes on the rows of `work`, without anybody's help; gives their tally as they were before.
    fn learn(&mut self, work: &Work) -> Result<Tally>;
    /// Moves the memory that learning from `work` moves, and computes nothing: what the machine could do at best. Says whether
    /// it can, as only weights in shared memory do.
    fn touch(&mut self, _work: &Work) -> bool {
        false
    }
    /// Ends the step: what was learnt reaches the others.
    fn agree(&mut self, work: &Work, mine: Tally) -> Result<Agreed>;
    /// The logits of `rows`, in order, with the weights as they are now; *collective* where ranks step together.
    fn logits(&mut self, rows: &RowSet, range: Range<usize>, out: &mut Vec<f32>) -> Result<()>;
    /// Any step claimed from now on is past the end of every run.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
    /// This rank takes no more steps; `time` is the sum of rates over the whole run.
    fn leave(&mut self, _time: f32) -> Result<()> {
        Ok(())
    }
    /// What it got of what it would like to have, in words.
    fn describe(&self) -> Option<String> {
        None
    }
    /// How this rank's updates were among those of others.
    fn conduct(&self) -> Conduct {
        Conduct::default()
    }
    /// Replaces `weights` by those of this rank's block, as [`block`](crate::comm::block) divides all features and the bias
    /// behind them; *collective*, once every rank has left.
    fn weights(&mut self, weights: &mut Vec<f32>) -> Result<()>;
    /// Copies what this rank gives to a checkpoint, when rates have summed up to `time`: its block of what is remembered of all
    /// features and the bias.
    fn save(&mut self, time: f32, to: &mut Snapshot) -> Result<()>;
    /// Takes back what all ranks gave; *collective*, before the first step.
    fn load(&mut self, from: &Checkpoint) -> Result<()>;
    /// Gives all memory back; *collective*.
    fn close(self: Box<Self>) -> Result<()>;
}

/// A rank's rows of a step, and how to learn from them.
pub struct Work<'a> {
    /// The set.
    pub set: &'a RowSet,
    /// Which of its rows.
    pub rows: &'a Picked,
    /// Which rows the rank will have in the next step of a team that steps together, where there is one.
    pub next: Option<&'a Picked>,
    /// The step, from 0.
    pub step: u64,
    /// The rate.
    pub lr: f32,
    /// The rate of any step.
    pub rate: &'a dyn Fn(u64) -> f32,
    /// The sum of rates before, and behind.
    pub time: f32,
    /// See `time`.
    pub time_after: f32,
    /// Rows of the step, over all ranks that take it together.
    pub samples: usize,
    /// What gradients are multiplied by where those of a step are added up.
    pub scale: f32,
    /// How much rows count.
    pub classes: ClassWeights,
    /// What this rank says about the run.
    pub votes: Votes,
}

/// What came of a step.
#[derive(Clone, Copy, Debug, Default)]
pub struct Agreed {
    /// Of all ranks that took the step.
    pub tally: Tally,
    /// Time spent waiting for others only.
    pub wait: Duration,
    /// Bytes that this rank sent to others by messages in the whole step.
    pub sent: u64,
    /// What ranks say about the run, of those that take the step together.
    pub votes: Votes,
}

/// Rows of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Picked {
    /// Neighbours.
    Run(Range<usize>),
    /// These, in this order.
    Each(Vec<usize>),
}

impl Picked {
    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Self::Run(range) => range.len(),
            Self::Each(rows) => rows.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number in the set of the `i`-th of them.
    pub fn number(&self, i: usize) -> usize {
        match self {
            Self::Run(range) => range.start + i,
            Self::Each(rows) => rows[i],
        }
    }

    /// Some of them.
    pub fn part(&self, range: Range<usize>) -> Self {
        match self {
            Self::Run(all) => Self::Run(all.start + range.start..all.start + range.end),
            Self::Each(rows) => Self::Each(rows[range].to_vec()),
        }
    }

    /// The rows.
    pub fn iter<'a>(&'a self, set: &'a RowSet) -> Box<dyn Iterator<Item = Row<'a>> + 'a> {
        match self {
            Self::Run(range) => Box::new(set.rows(range.clone())),
            Self::Each(rows) => Box::new(rows.iter().map(|&i| set.row(i))),
        }
    }
}

/// The error of a row whose feature is none of the set's.
pub(super) fn no_such_feature(set: &RowSet, row: usize, feature: u32) -> Error {
    let (features, row) = (set.about.features, set.stored(row));
    let problem = format!("row {row} has feature {feature}, expected below {features}");
    Error::file(&set.path, problem, "make or import the set again")
}

/// The error of a logit that is no finite number: the row's fault, or that of the weights.
pub(super) fn no_number(work: &Work, row: usize, logit: f32) -> Error {
    let values = work.set.row(row).values.unwrap_or_default();
    let row = work.set.stored(row);
    if let Some(value) = values.iter().find(|value| !value.is_finite()) {
        let problem = format!("row {row} has a value of {value}, expected a finite number");
        return Error::file(&work.set.path, problem, "make or import the set again");
    }
    Error::Diverged {
        what: format!("the logit of row {row}"),
        value: f64::from(logit),
        step: work.step + 1,
        rank: None,
        lr: work.lr,
    }
}
