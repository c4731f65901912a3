//! Ranks that others wait for.

use super::{Cause, Facts, Finding, WORTH, percent};
use crate::observe::seconds;
use crate::study::median;
use crate::train::RankReport;

/// Share of the blocks of steps in which a rank must be slow.
const MOST_BLOCKS: f64 = 0.75;
/// Share of the waiting that must be for it, in equal parts of all ranks.
const SHARE: f64 = 1.25;
/// Without common steps: how many times as long as others a rank must take for a step.
const TIMES: f64 = 1.5;
/// Steps that each rank must have taken to be compared so.
const STEPS: u64 = 20;

/// One rank against the others: seconds of a step.
struct Against {
    rank: usize,
    /// Its load, its compute while it had a core, what else there was, and compute without a core.
    parts: [f64; 4],
    /// By how much each is above the median of others.
    more: [f64; 4],
    /// Without the last one: its own, and what others need.
    own: f64,
    typical_own: f64,
    /// The same with it.
    busy: f64,
    typical: f64,
}

/// The ranks that were slow, the worst first.
pub(super) fn named(facts: &Facts) -> Vec<Finding> {
    let size = facts.ranks.len();
    if size < 2 {
        return Vec::new();
    }
    let step = |(i, rank): (usize, &RankReport)| match facts.late.get(i) {
        Some(late) => parts(late.busy, rank, late.steps),
        None => parts([rank.load_s, rank.compute_s, 0.0], rank, rank.steps),
    };
    let parts: Vec<[f64; 4]> = facts.ranks.iter().enumerate().map(step).collect();
    let all = (0..size).map(|rank| against(rank, &parts));
    let mut slow: Vec<(f64, Finding)> = all
        .filter_map(|one| match facts.late.is_empty() {
            false => together(facts, &one),
            true => apart(facts, &one),
        })
        .collect();
    slow.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    slow.into_iter().map(|(_, finding)| finding).collect()
}

/// Seconds of a step, of the seconds that a rank was busy in load, compute and else in all.
fn parts([load, compute, other]: [f64; 3], rank: &RankReport, steps: u64) -> [f64; 4] {
    let starved = rank.starved_s.unwrap_or(0.0).min(compute);
    [load, compute - starved, other, starved].map(|time| time / steps.max(1) as f64)
}

fn against(rank: usize, all: &[[f64; 4]]) -> Against {
    let typical = |of: &dyn Fn(&[f64; 4]) -> f64| {
        let others = all.iter().enumerate().filter(|(other, _)| *other != rank);
        median(others.map(|(_, parts)| of(parts)).collect()).unwrap_or(0.0)
    };
    let own = |parts: &[f64; 4]| parts[..3].iter().sum();
    let busy = |parts: &[f64; 4]| parts.iter().sum();
    let mine = all[rank];
    Against {
        rank,
        parts: mine,
        more: [0, 1, 2, 3].map(|i| mine[i] - typical(&|parts| parts[i])),
        own: own(&mine),
        typical_own: typical(&own),
        busy: busy(&mine),
        typical: typical(&busy),
    }
}

impl Against {
    /// What makes it later than others the most, on a machine with so many cores for each rank. Nothing where that is chance: cores that
    /// ranks share, or that others of them are without for as long or half of it.
    fn cause(&self, cores: f64) -> Option<Cause> {
        let causes = [Cause::Load, Cause::Compute, Cause::Other, Cause::Cores];
        let all = self.more.iter().zip(causes);
        let (more, cause) = all.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
        let chance = cause == Cause::Cores && (cores < 1.0 || *more < self.parts[3] / 2.0);
        (!chance).then_some(cause)
    }

    fn finding(&self, cause: Cause, share: &str, figures: &str) -> Finding {
        let rank = self.rank;
        let (how, part, advice) = match cause {
            Cause::Load => (
                "slow in loading",
                format!("{} in loading", seconds(self.parts[0])),
                "put the data on a disk that is near to this rank, copy it to the node, or take fewer augmentations",
            ),
            Cause::Compute => (
                "slow in compute",
                format!("{} in compute", seconds(self.parts[1])),
                "look at what else runs on its host, at its clock and its cooling; `phalanx doctor` compares ranks",
            ),
            Cause::Cores => (
                "has no core for itself",
                format!("{} without a core", seconds(self.parts[3])),
                "look at what else runs on its host, bind ranks to cores (mpirun --bind-to core), or start fewer ranks there",
            ),
            _ => (
                "late between steps",
                format!("{} outside of load and compute", seconds(self.parts[2])),
                "write metrics and checkpoints less often (--log-every, --checkpoint-every), or to a faster disk",
            ),
        };
        Finding {
            what: format!("rank {rank} {how}: {share}"),
            rank: Some(rank),
            cause: Some(cause),
            figures: format!(
                "{} a step until it meets others, who take {}; {part}; {figures}",
                seconds(self.busy),
                seconds(self.typical)
            ),
            advice: advice.into(),
        }
    }
}

/// A rank that others waited for at steps taken together, with the seconds they lost.
fn together(facts: &Facts, one: &Against) -> Option<(f64, Finding)> {
    let (late, size) = (&facts.late[one.rank], facts.ranks.len() as f64);
    let cause = one.cause(facts.cores)?;
    let later = one.busy - one.typical;
    let (slow, more) = match cause {
        Cause::Cores => (late.held_blocks, later),
        _ => (late.slow_blocks, later.min(one.own - one.typical_own)),
    };
    // What the run would save if this rank were like others.
    let saved = more * late.steps as f64 / facts.seconds.max(1e-9);
    let blocks = slow as f64 / late.blocks.max(1) as f64;
    let all: f64 = facts.ranks.iter().filter_map(|rank| rank.late_s).sum();
    let lost = facts.ranks[one.rank].late_s?;
    let share = lost / all.max(1e-9);
    if blocks < MOST_BLOCKS || saved < WORTH || share < SHARE / size {
        return None;
    }
    let figures = format!(
        "last to {} of the steps; others waited {lost:.2} s for it, {} of all ranks' time",
        percent(late.last as f64 / late.steps.max(1) as f64),
        percent(lost / (size * facts.seconds).max(1e-9))
    );
    let share = format!("{} of all waiting", percent(share));
    let mut finding = one.finding(cause, &share, &figures);
    finding.advice += "; or take `--exchange one-sided`, where nobody waits";
    Some((lost, finding))
}

/// A rank that took far longer than others for its own steps, with the share of updates that it missed.
fn apart(facts: &Facts, one: &Against) -> Option<(f64, Finding)> {
    let (rank, size) = (&facts.ranks[one.rank], facts.ranks.len() as f64);
    let cause = one.cause(facts.cores)?;
    let (mine, others) = match cause {
        Cause::Cores => (one.busy, one.typical),
        _ => (one.own, one.typical_own),
    };
    let few = facts.ranks.iter().any(|rank| rank.steps < STEPS);
    let more = (mine - others).min(one.busy - one.typical);
    let little = more * (rank.steps as f64) < WORTH * facts.seconds;
    if few || little || mine < TIMES * others {
        return None;
    }
    let missed = 1.0 / size - rank.share;
    let share = match rank.late_s.filter(|late| *late > 0.0) {
        Some(late) => {
            let all: f64 = facts.ranks.iter().filter_map(|rank| rank.late_s).sum();
            format!("{} of all waiting", percent(late / all.max(1e-9)))
        }
        None => format!("it made {} of the updates", percent(rank.share)),
    };
    let figures = format!(
        "{} steps, {} of all updates",
        rank.steps,
        percent(rank.share)
    );
    Some((missed, one.finding(cause, &share, &figures)))
}
