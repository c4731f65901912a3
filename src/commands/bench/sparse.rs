//! `phalanx bench sparse`: rows a second, beside what memory allows.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::median;
use crate::Result;
use crate::comm::{Comm, agree, path_of_first};
use crate::data::rows::RowSet;
use crate::data::{Length, Steps, clicks};
use crate::observe::{proportional_memory_mb, say};
use crate::optim::Schedule;
use crate::sparse::{
    ClassWeights, Exchange, Kind, Learner, Order, Part, Parts, Rule, Shuffle, Summary,
};
use crate::train::readable;

/// What to measure.
pub struct Settings {
    /// The data set; without one, clicks are made.
    pub data: Option<PathBuf>,
    /// A test set.
    pub test: Option<PathBuf>,
    /// Rows to make.
    pub rows: usize,
    /// Features to make.
    pub features: usize,
    /// Which exchanges.
    pub kinds: Vec<Kind>,
    /// How gradients become updates.
    pub rule: Rule,
    /// The rate.
    pub lr: f32,
    /// Rows at once, one-sided.
    pub batch: usize,
    /// Rows of a step, in step.
    pub global_batch: usize,
    /// Times that each is measured.
    pub rounds: usize,
    /// Whether to print JSON.
    pub json: bool,
}

/// The most steps of a measurement of ranks in step.
const STEPS: u64 = 1000;

/// What a pass over the data came to.
struct Pass {
    rows: u64,
    steps: u64,
    seconds: f64,
    /// Seconds of the same pass with nothing computed, where that can be.
    touch: Option<f64>,
    sent: u64,
    /// MiB of all ranks, shared memory counted once.
    memory: f64,
    found: Option<Summary>,
    /// What the exchange got of what it would like to have.
    got: Option<String>,
}

/// Measures and prints; *collective*.
pub fn run(comm: &dyn Comm, settings: &Settings) -> Result<()> {
    let (data, test) = open(comm, settings)?;
    let mut all: Vec<Vec<Pass>> = settings.kinds.iter().map(|_| Vec::new()).collect();
    for _ in 0..settings.rounds {
        for (kind, passes) in settings.kinds.iter().zip(&mut all) {
            passes.push(measure(comm, settings, *kind, &data, test.as_ref())?);
        }
    }
    if comm.rank() > 0 {
        return Ok(());
    }
    if !settings.json {
        say(&head(comm, settings, &data));
    }
    for (kind, passes) in settings.kinds.iter().zip(&all) {
        say(&match settings.json {
            true => json(comm, settings, *kind, passes),
            false => line(comm, *kind, passes),
        });
    }
    let got = all.iter().zip(&settings.kinds);
    for (passes, kind) in got.filter(|_| !settings.json) {
        if let Some(got) = passes.last().and_then(|pass| pass.got.as_ref()) {
            say(&format!("{}: {got}", name(*kind)));
        }
    }
    Ok(())
}

/// The sets; *collective*.
fn open(comm: &dyn Comm, settings: &Settings) -> Result<(RowSet, Option<RowSet>)> {
    let sets = |data: &Path, test: Option<&PathBuf>| {
        let data = RowSet::open(data)?;
        let test = test.map(|path| RowSet::open(path)).transpose()?;
        test.as_ref().map_or(Ok(()), |test| data.fits(test))?;
        Ok((data, test))
    };
    if let Some(data) = &settings.data {
        return agree(comm, sets(data, settings.test.as_ref()));
    }
    let name = format!("phalanx-bench-{}", std::process::id());
    let folder = path_of_first(comm, Some(std::env::temp_dir().join(name)));
    let made = |name: &str, rows: usize, first: u64| {
        let options = clicks::Options {
            rows,
            features: settings.features,
            seed: 1,
            first,
            shard: clicks::SHARD,
            positives: 0.25,
            force: false,
        };
        clicks::make(comm, options, &folder.join(name))
    };
    made("train", settings.rows, 0)?;
    made("test", (settings.rows / 10).max(1), settings.rows as u64)?;
    let opened = sets(&folder.join("train"), Some(&folder.join("test")));
    let opened = agree(comm, opened)?;
    if comm.rank() == 0 {
        // The maps stay; a name that cannot be removed is only litter.
        let _ = std::fs::remove_dir_all(&folder);
    }
    Ok(opened)
}

/// One pass; *collective*.
fn measure(
    comm: &dyn Comm,
    settings: &Settings,
    kind: Kind,
    data: &RowSet,
    test: Option<&RowSet>,
) -> Result<Pass> {
    let batch = match kind.is_together() {
        true => settings.global_batch,
        false => settings.batch,
    };
    let mut steps = Steps::new(data.len(), batch.min(data.len()), Length::Epochs(1));
    if kind.is_together() {
        let most = Length::Steps(steps.total().min(STEPS));
        steps = Steps::new(data.len(), batch.min(data.len()), most);
    }
    let mut learner = Learner::new(Parts {
        set: data,
        steps,
        order: Order::new(Shuffle::Steps, 1),
        schedule: Schedule::constant(settings.lr),
        classes: ClassWeights::default(),
        sum: false,
        shards: None,
    });
    let begin = Instant::now();
    let mut exchange = kind.start(comm, data, (settings.rule, settings.lr), (None, u64::MAX))?;
    let got = exchange.describe();
    let got = got.map(|got| format!("{got}; {:.2} s to start", begin.elapsed().as_secs_f64()));
    let touch = touched(comm, &mut *exchange, &mut learner);
    comm.barrier();
    let start = Instant::now();
    while let Some(step) = learner.claim(&mut *exchange)? {
        learner.step(comm, &mut *exchange, step)?;
    }
    comm.barrier();
    let seconds = start.elapsed().as_secs_f64();
    exchange.leave(0.0)?;
    comm.barrier();
    let part = test.map(|set| Part {
        set,
        rows: 0..set.len(),
    });
    let found = part.map(|part| learner.evaluate(Some(comm), &mut *exchange, &part));
    let found = found.transpose()?;
    let mut sums = [learner.times.samples, learner.sent, learner.times.steps];
    comm.sum(&mut sums);
    let mut memory = [proportional_memory_mb()];
    comm.sum(&mut memory);
    exchange.close()?;
    Ok(Pass {
        rows: sums[0],
        steps: match kind.is_together() {
            true => learner.times.steps,
            false => sums[2],
        },
        seconds,
        touch,
        sent: sums[1],
        memory: memory[0],
        found,
        got,
    })
}

/// Seconds in which memory is moved as in a pass; *collective*.
fn touched(comm: &dyn Comm, exchange: &mut dyn Exchange, learner: &mut Learner) -> Option<f64> {
    if exchange.is_together() {
        return None;
    }
    // Twice, for the first pass also meets memory that nobody has touched yet.
    let mut seconds = None;
    for _ in 0..2 {
        comm.barrier();
        let start = Instant::now();
        let (size, total) = (comm.size() as u64, learner.parts.steps.total());
        let mine = (comm.rank() as u64..total).step_by(size as usize);
        let mut can = false;
        for step in mine {
            can = learner.touch(exchange, step);
        }
        comm.barrier();
        seconds = can.then(|| start.elapsed().as_secs_f64());
    }
    seconds
}

/// Of all passes: rows and steps a second, and the limit in rows a second and the share of it that was reached.
fn medians(passes: &[Pass]) -> (f64, f64, Option<(f64, f64)>) {
    let rows = median(passes.iter().map(|pass| pass.rows as f64 / pass.seconds));
    let steps = median(passes.iter().map(|pass| pass.steps as f64 / pass.seconds));
    let touched = || passes.iter().filter_map(|pass| Some((pass, pass.touch?)));
    let limit = touched().next().map(|_| {
        let limit = median(touched().map(|(pass, touch)| pass.rows as f64 / touch));
        (
            limit,
            median(touched().map(|(pass, touch)| touch / pass.seconds)),
        )
    });
    (rows, steps, limit)
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::OneSided { .. } => "one-sided",
        Kind::Owners => "owners",
        Kind::AllReduce => "all-reduce",
    }
}

fn head(comm: &dyn Comm, settings: &Settings, data: &RowSet) -> String {
    let each = data.nonzeros() as f64 / data.len() as f64;
    format!(
        "bench sparse: {} rows, {each:.1} of {} features each; {}, {} ranks, medians of {} rounds
{:<10} {:>10} {:>10} {:>12} {:>7} {:>14} {:>8} {:>9}",
        data.len(),
        data.about.features,
        settings.rule.describe(),
        comm.size(),
        settings.rounds,
        "exchange",
        "rows/s",
        "steps/s",
        "limit rows/s",
        "share",
        "sent a step",
        "PSS MiB",
        "test loss",
    )
}

fn line(comm: &dyn Comm, kind: Kind, passes: &[Pass]) -> String {
    let (rows, steps, limit) = medians(passes);
    let (limit, share) = match limit {
        Some((limit, share)) => (format!("{limit:.0}"), format!("{:.0} %", 100.0 * share)),
        None => ("-".into(), "-".into()),
    };
    let last = &passes[passes.len() - 1];
    let sent = match comm.size() {
        1 => "-".into(),
        _ => readable((last.sent as f64 / last.steps as f64) as u64),
    };
    let loss = last.found.as_ref();
    let loss = loss.map_or("-".into(), |found| format!("{:.4}", found.loss));
    format!(
        "{:<10} {rows:>10.0} {steps:>10.0} {limit:>12} {share:>7} {sent:>14} {:>8.0} {loss:>9}",
        name(kind),
        last.memory,
    )
}

fn json(comm: &dyn Comm, settings: &Settings, kind: Kind, passes: &[Pass]) -> String {
    let (rows, steps, limit) = medians(passes);
    let last = &passes[passes.len() - 1];
    serde_json::json!({
        "peer": "phalanx", "workload": format!("sparselr-{}", name(kind)), "procs": comm.size(), "threads": 1,
        "batch": if kind.is_together() { settings.global_batch } else { settings.batch },
        "examples_per_s": rows, "steps_per_s": steps, "s_per_batch": 1.0 / steps,
        "limit_rows_per_s": limit.map(|(limit, _)| limit), "limit_share": limit.map(|(_, share)| share),
        "bytes_per_step": last.sent as f64 / last.steps as f64, "pss_mb": last.memory,
        "test_loss": last.found.as_ref().map(|found| found.loss), "optimizer": settings.rule, "lr": settings.lr,
    })
    .to_string()
}
