//! Ranks that others wait for.

use super::{Cause, Facts, Finding, WORTH, percent};
use crate::observe::seconds;
use crate::train::{Late, RankReport, median};

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
    /// Its load, compute and what else, and how much of that was without a core.
    parts: [f64; 3],
    starved: f64,
    /// By how much each is above the median of others.
    more: [f64; 3],
    more_starved: f64,
    /// What others need in all.
    typical: f64,
}

/// The ranks that were slow, the worst first.
pub(super) fn named(facts: &Facts) -> Vec<Finding> {
    let size = facts.ranks.len();
    if size < 2 {
        return Vec::new();
    }
    let parts: Vec<[f64; 3]> = match facts.late.is_empty() {
        false => facts.late.iter().map(by_step).collect(),
        true => facts.ranks.iter().map(alone_by_step).collect(),
    };
    let all = (0..size).map(|rank| against(rank, &parts, facts.ranks));
    let mut slow: Vec<(f64, Finding)> = all
        .filter_map(|one| match facts.late.is_empty() {
            false => together(facts, &one),
            true => apart(facts, &one),
        })
        .collect();
    slow.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    slow.into_iter().map(|(_, finding)| finding).collect()
}

/// Seconds of a step that ranks took together.
fn by_step(late: &Late) -> [f64; 3] {
    late.busy.map(|time| time / late.steps.max(1) as f64)
}

/// Seconds of a step that a rank took by itself.
fn alone_by_step(rank: &RankReport) -> [f64; 3] {
    [rank.load_s, rank.compute_s, 0.0].map(|time| time / rank.steps.max(1) as f64)
}

fn against(rank: usize, parts: &[[f64; 3]], ranks: &[RankReport]) -> Against {
    let others = || (0..parts.len()).filter(move |&other| other != rank);
    let above = |value: f64, of: &dyn Fn(usize) -> f64| {
        value - median(others().map(of).collect()).unwrap_or(value)
    };
    let starved = |rank: usize| {
        let rank = &ranks[rank];
        rank.starved_s.unwrap_or(0.0) / rank.steps.max(1) as f64
    };
    let sum = |rank: usize| parts[rank].iter().sum::<f64>();
    let mine = parts[rank];
    Against {
        rank,
        parts: mine,
        starved: starved(rank),
        more: [0, 1, 2].map(|i| above(mine[i], &|other| parts[other][i])),
        more_starved: above(starved(rank), &starved),
        typical: median(others().map(sum).collect()).unwrap_or(0.0),
    }
}

impl Against {
    fn busy(&self) -> f64 {
        self.parts.iter().sum()
    }

    fn more(&self) -> f64 {
        self.busy() - self.typical
    }

    /// Why it is late: what makes up half of what it takes longer, or more.
    fn cause(&self) -> Cause {
        if self.more_starved > self.more() / 2.0 {
            return Cause::Cores;
        }
        let [load, compute, other] = self.more;
        match () {
            () if load >= compute && load >= other => Cause::Load,
            () if compute >= other => Cause::Compute,
            () => Cause::Other,
        }
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
                "look at what else runs on its host, at its clock and its cooling; `phalanx doctor` compares ranks; or take \
                 `--exchange one-sided`, where nobody waits",
            ),
            Cause::Cores => (
                "has no core for itself",
                format!("{} without a core", seconds(self.starved)),
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
                seconds(self.busy()),
                seconds(self.typical)
            ),
            advice: advice.into(),
        }
    }
}

/// A rank that others waited for at steps taken together, with the seconds they lost.
fn together(facts: &Facts, one: &Against) -> Option<(f64, Finding)> {
    let late = &facts.late[one.rank];
    let size = facts.ranks.len() as f64;
    let all: f64 = facts.ranks.iter().filter_map(|rank| rank.late_s).sum();
    let lost = facts.ranks[one.rank].late_s?;
    let (share, of_time) = (
        lost / all.max(1e-9),
        lost / (size * facts.seconds).max(1e-9),
    );
    let blocks = late.slow_blocks as f64 / late.blocks.max(1) as f64;
    if late.blocks == 0 || blocks < MOST_BLOCKS || share < SHARE / size || of_time < WORTH {
        return None;
    }
    let cause = one.cause();
    // Where cores are shared, who has none is a matter of chance.
    if cause == Cause::Cores && facts.cores < 1.0 {
        return None;
    }
    let figures = format!(
        "last to {} of the steps; others waited {lost:.2} s for it, {} of all ranks' time",
        percent(late.last as f64 / late.steps.max(1) as f64),
        percent(of_time)
    );
    let share = format!("{} of all waiting", percent(share));
    Some((lost, one.finding(cause, &share, &figures)))
}

/// A rank that took far longer than others for its own steps, with the share of updates that it missed.
fn apart(facts: &Facts, one: &Against) -> Option<(f64, Finding)> {
    let (rank, size) = (&facts.ranks[one.rank], facts.ranks.len() as f64);
    let few = facts.ranks.iter().any(|rank| rank.steps < STEPS);
    // Time without a core is no fault of the rank where cores are shared.
    let free = one.more() - one.more_starved.max(0.0);
    let chance = facts.cores < 1.0 && one.typical + free < TIMES * one.typical;
    if few || chance || one.busy() < TIMES * one.typical {
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
    Some((missed, one.finding(one.cause(), &share, &figures)))
}
