//! What limits all ranks alike.

use super::{Cause, Facts, Finding, Shares, WORTH, percent};

/// Shares of all ranks' time from which on something limits a run.
const INPUT: f64 = 0.2;
const EXCHANGE: f64 = 0.3;
const WAITING: f64 = 0.2;
const SIDE: f64 = 0.3;
/// Share of compute without a core.
const STARVED: f64 = 0.15;
/// Share of what was measured of memory or network from which on that is the limit.
const FULL: f64 = 0.6;

/// Bytes that must have been moved, and how fast such can be.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    /// Bytes a second that the run has moved at the least.
    pub rate: f64,
    /// Bytes a second that were measured to be possible.
    pub most: f64,
}

impl Moved {
    fn share(self) -> f64 {
        self.rate / self.most.max(1.0)
    }
}

/// The memory of a node, over load and compute and over exchanges alone.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    /// In compute and exchange together.
    pub steps: Moved,
    /// In exchanges.
    pub exchange: Moved,
}

/// How photos are decoded.
#[derive(Clone, Copy, Debug)]
pub struct Photos {
    /// Whether what was decoded is kept.
    pub cached: bool,
    /// Threads of a rank that decode.
    pub decoders: usize,
}

/// The link of a node to others, in exchanges.
pub type Link = Moved;

pub(super) fn limits(facts: &Facts, parts: &Shares, named: bool) -> Vec<Finding> {
    let all = [
        input(facts, parts),
        memory(facts, parts),
        exchange(facts, parts),
        cores(facts),
        waiting(parts, named, facts),
        beside(parts),
    ];
    let mut found: Vec<(f64, Finding)> = all.into_iter().flatten().collect();
    found.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    found.into_iter().map(|(_, finding)| finding).collect()
}

fn general(what: String, cause: Cause, figures: String, advice: &str) -> Finding {
    Finding {
        what,
        rank: None,
        cause: Some(cause),
        figures,
        advice: advice.into(),
    }
}

fn input(facts: &Facts, parts: &Shares) -> Option<(f64, Finding)> {
    // One slow loader is no limit of all.
    let loads: Vec<f64> = facts.ranks.iter().map(|rank| rank.load_s).collect();
    let typical = crate::study::median(loads).unwrap_or(0.0) / facts.seconds.max(1e-9);
    (typical >= INPUT).then(|| {
        let figures = format!(
            "ranks wait for batches for {} of their time, and compute for {}",
            percent(parts.load),
            percent(parts.compute)
        );
        let what = format!("input bound: {} of the time in loading", percent(typical));
        let advice = faster(facts.photos);
        (typical, general(what, Cause::Load, figures, &advice))
    })
}

/// What makes batches come sooner.
fn faster(photos: Option<Photos>) -> String {
    let Some(Photos { cached, decoders }) = photos else {
        return "write the set contiguous (`phalanx data split`), put it on a faster disk or copy it to the node, use fewer \
                augmentations, or more ranks for each disk"
            .into();
    };
    let keep = match cached {
        true => "",
        false => "keep what was decoded (`--cache node`), ",
    };
    format!(
        "pack the photos as pixels (`phalanx data pack`), {keep}decode by more threads than {decoders} a rank where cores are free \
         (`--decoders`), or use fewer augmentations"
    )
}

fn gigabytes(rate: f64) -> String {
    format!("{:.1} GB/s", rate / 1e9)
}

fn memory(facts: &Facts, parts: &Shares) -> Option<(f64, Finding)> {
    let memory = facts.memory?;
    let (whole, share) = (memory.steps.share(), parts.compute + parts.exchange);
    let (alone, moved, when) = match whole >= FULL {
        true => (share, memory.steps, "compute and exchange"),
        false => (parts.exchange, memory.exchange, "exchanges"),
    };
    (moved.share() >= FULL && alone >= EXCHANGE).then(|| {
        let figures = format!(
            "parameters and gradients alone move {} a node in {when}, which are {} of the time; copies by all ranks at once reach {}",
            gigabytes(moved.rate),
            percent(alone),
            gigabytes(moved.most)
        );
        let advice = "larger batches do more arithmetic for each parameter that is read; fewer ranks on a node share its memory";
        let what = format!(
            "memory-bandwidth bound at {} of what copies reach",
            percent(moved.share())
        );
        (alone, general(what, Cause::Memory, figures, advice))
    })
}

fn exchange(facts: &Facts, parts: &Shares) -> Option<(f64, Finding)> {
    if parts.exchange < EXCHANGE {
        return None;
    }
    let advice = "larger batches exchange less often; `--sync-every K` averages every K steps, `--exchange one-sided` waits for nobody";
    let share = percent(parts.exchange);
    Some(match facts.link.filter(|link| link.share() >= FULL) {
        Some(link) => {
            let figures = format!(
                "exchanges are {share} of the time and move {} out of a node; the link was measured to carry {}",
                gigabytes(link.rate),
                gigabytes(link.most)
            );
            let what = format!(
                "network bound at {} of the measured link",
                percent(link.share())
            );
            (
                parts.exchange,
                general(what, Cause::Network, figures, advice),
            )
        }
        None => {
            let figures = match facts.link {
                Some(link) => format!(
                    "{} out of a node, {} of the measured link: latency rather than bytes",
                    gigabytes(link.rate),
                    percent(link.share())
                ),
                None => format!("compute is {}", percent(parts.compute)),
            };
            let what = format!("exchange bound: {share} of the time in exchanges");
            (
                parts.exchange,
                general(what, Cause::Exchange, figures, advice),
            )
        }
    })
}

fn cores(facts: &Facts) -> Option<(f64, Finding)> {
    let without: f64 = facts.ranks.iter().filter_map(|rank| rank.starved_s).sum();
    let compute: f64 = facts.ranks.iter().map(|rank| rank.compute_s).sum();
    let mean = without / compute.max(1e-9);
    (mean >= STARVED).then(|| {
        let (count, cores) = (facts.ranks.len(), facts.cores);
        let figures = match cores < 1.0 {
            true => format!("{count} ranks with {cores:.2} cores each"),
            false => format!("a rank has {cores:.0} cores, and others use them"),
        };
        let advice = match cores < 1.0 {
            true => "start as many ranks as there are cores",
            false => {
                "look at what else runs on the hosts (`phalanx doctor`), or bind ranks to cores"
            }
        };
        let what = format!(
            "ranks share cores: for {} of compute none was free",
            percent(mean)
        );
        (mean, general(what, Cause::Cores, figures, advice))
    })
}

fn waiting(parts: &Shares, named: bool, facts: &Facts) -> Option<(f64, Finding)> {
    // Ranks without cores wait for each other: that has been said.
    let said = named || cores(facts).is_some();
    if parts.wait < WAITING || said {
        return None;
    }
    if facts.cores < 1.0 {
        let (count, cores) = (facts.ranks.len(), facts.cores);
        let what = format!(
            "ranks share cores: they wait {} of the time",
            percent(parts.wait)
        );
        let figures =
            format!("{count} ranks with {cores:.2} cores each, and none is late in most steps");
        let advice = "start as many ranks as there are cores";
        return Some((parts.wait, general(what, Cause::Cores, figures, advice)));
    }
    Some({
        let most = facts.ranks.iter().filter_map(|rank| rank.late_s);
        let (most, all) = (most.clone().fold(0.0, f64::max), most.sum::<f64>());
        let figures = format!(
            "waiting is {} of all ranks' time, and no rank is late in most steps; the most for one rank is {} of it",
            percent(parts.wait),
            percent(most / all.max(1e-9))
        );
        let advice =
            "larger batches even out; `--exchange one-sided` or `--sync-every K` wait less";
        let what = format!(
            "ranks wait for each other in turns: {} of the time",
            percent(parts.wait)
        );
        (parts.wait, general(what, Cause::Waiting, figures, advice))
    })
}

/// What is no training.
fn beside(parts: &Shares) -> Option<(f64, Finding)> {
    let (share, name, cause, advice) = match parts.checkpoint > parts.evaluate {
        true => (
            parts.checkpoint,
            "checkpoints",
            Cause::Checkpoint,
            "write them less often (--checkpoint-every 10m), or to a faster disk",
        ),
        false => (
            parts.evaluate,
            "evaluation",
            Cause::Evaluate,
            "evaluate less often (--eval-every), or on fewer samples",
        ),
    };
    (share >= SIDE.max(WORTH)).then(|| {
        let what = format!("{} of the time is {name}", percent(share));
        let figures = format!("compute is {}", percent(parts.compute));
        (share, general(what, cause, figures, advice))
    })
}
