//! What limited a run, in words, with the figures behind it and what to try.
//!
//! A pure function of what ranks measured. A rank is named only if it was slow in most blocks of steps and others lost time by it: what
//! happens by chance on a busy machine names nobody.

mod late;
mod limits;

pub use limits::{Link, Memory, Moved, Photos};

use serde::{Deserialize, Serialize};

use crate::train::{Late, RankReport};

/// Share of all ranks' time below which nothing is worth a word.
const WORTH: f64 = 0.05;

/// What made a rank late, or limited all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Batches came late.
    Load,
    /// Forward and backward.
    Compute,
    /// What a rank does between steps: metrics, checkpoints.
    Other,
    /// Ranks have no core to run on.
    Cores,
    /// Moving and adding numbers.
    Exchange,
    /// The memory of a node.
    Memory,
    /// The network between nodes.
    Network,
    /// Ranks wait for each other, now for this one and now for that.
    Waiting,
    /// Evaluation.
    Evaluate,
    /// Checkpoints.
    Checkpoint,
}

/// One thing that limited a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// In short.
    pub what: String,
    /// The rank to blame, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<usize>,
    /// Its kind; none if nothing stands out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
    /// What was measured.
    pub figures: String,
    /// What may help.
    #[serde(rename = "try")]
    pub advice: String,
}

/// What is known of a run.
pub struct Facts<'a> {
    /// Every rank's times.
    pub ranks: &'a [RankReport],
    /// Who was late at steps that ranks took together; empty where they did not.
    pub late: &'a [Late],
    /// Seconds of the run.
    pub seconds: f64,
    /// Cores for each rank.
    pub cores: f64,
    /// Where samples are photos that are decoded when they are trained on: what is done for them.
    pub photos: Option<Photos>,
    /// What was moved through memory, and what it can move, where it was measured.
    pub memory: Option<Memory>,
    /// The same of the network.
    pub link: Option<Link>,
}

/// What limited the run, the most important first; never empty.
pub fn verdict(facts: &Facts) -> Vec<Finding> {
    let mut found = late::named(facts);
    let named = !found.is_empty();
    let share = |part: fn(&RankReport) -> f64| {
        let total: f64 = facts.ranks.iter().map(part).sum();
        total / (facts.seconds * facts.ranks.len() as f64).max(1e-9)
    };
    let parts = Shares {
        compute: share(|rank| rank.compute_s),
        exchange: share(|rank| rank.exchange_s),
        wait: share(|rank| rank.wait_s),
        load: share(|rank| rank.load_s),
        evaluate: share(|rank| rank.evaluate_s),
        checkpoint: share(|rank| rank.checkpoint_s),
    };
    found.extend(limits::limits(facts, &parts, named));
    if found.is_empty() {
        found.push(Finding {
            what: "nothing stands out".into(),
            rank: None,
            cause: None,
            figures: parts.describe(),
            advice: match parts.compute > 0.5 {
                true => "the run is limited by arithmetic: more ranks, or a GPU".into(),
                false => "run for longer, so that there is more to measure".into(),
            },
        });
    }
    found
}

/// Shares of all ranks' time.
struct Shares {
    compute: f64,
    exchange: f64,
    wait: f64,
    load: f64,
    evaluate: f64,
    checkpoint: f64,
}

impl Shares {
    fn describe(&self) -> String {
        let parts = [
            ("compute", self.compute),
            ("exchange", self.exchange),
            ("waiting", self.wait),
            ("load", self.load),
            ("evaluation", self.evaluate),
            ("checkpoints", self.checkpoint),
        ];
        let parts = parts.into_iter().filter(|(_, share)| *share >= 0.005);
        let words: Vec<String> = parts
            .map(|(name, share)| format!("{name} {}", percent(share)))
            .collect();
        format!("{} of all ranks' time", words.join(", "))
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

#[cfg(test)]
mod tests;
