//! What the ranks of a run did, in numbers and in words.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::exchange::{Histogram, gini};
use crate::train::RankReport;

/// The part of `result.toml` that is about ranks.
#[derive(Serialize)]
pub(crate) struct RankSummary {
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
}

impl RankSummary {
    /// Of a run of so many seconds; `alone` says that each rank had updates of its own.
    pub(crate) fn new(ranks: &[RankReport], seconds: f64, alone: bool) -> Self {
        let total = |part: fn(&RankReport) -> f64| ranks.iter().map(part).sum::<f64>();
        let parts = [
            ("compute", total(|rank| rank.compute_s)),
            ("exchange", total(|rank| rank.exchange_s)),
            ("wait", total(|rank| rank.wait_s)),
            ("load", total(|rank| rank.load_s)),
            ("evaluate", total(|rank| rank.evaluate_s)),
            ("checkpoint", total(|rank| rank.checkpoint_s)),
        ];
        let all = seconds * ranks.len() as f64;
        Self {
            gini: alone.then(|| gini(&ranks.iter().map(RankReport::updates).collect::<Vec<_>>())),
            staleness: Staleness::of(ranks),
            dropped: (ranks.iter().any(|rank| rank.dropped > 0))
                .then(|| ranks.iter().map(|rank| rank.dropped).sum()),
            time: parts
                .into_iter()
                .map(|(name, time)| (name, time / all))
                .collect(),
        }
    }

    /// As the user reads it.
    pub(crate) fn rows(&self, ranks: &[RankReport]) -> Vec<(&'static str, String)> {
        let mut rows = Vec::new();
        let names = [
            "compute",
            "exchange",
            "wait",
            "load",
            "evaluate",
            "checkpoint",
        ];
        let parts: Vec<String> = names
            .iter()
            .filter(|name| **name != "checkpoint" || self.time[**name] >= 0.005)
            .map(|name| format!("{name} {:.0} %", 100.0 * self.time[name]))
            .collect();
        rows.push(("where time went", parts.join(", ")));
        let seconds = |rank: &RankReport| rank.load_s;
        let mean = ranks.iter().map(seconds).sum::<f64>() / ranks.len() as f64;
        let most = ranks.iter().map(seconds).fold(0.0, f64::max);
        let waited = format!("{mean:.2} s a rank, {most:.2} s the longest");
        rows.push(("waited for data", waited));
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
        rows
    }
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
