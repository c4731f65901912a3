//! What a measurement came to, for people and for programs.

use super::costs::Cost;
use super::layers;
use crate::backend::cpu::isa;
use crate::commands::device::Chosen;
use crate::data::Dataset;
use crate::exchange::Kind;
use crate::nn::LayerCost;

/// One measurement.
pub(super) struct Row {
    /// Samples of a rank in a step.
    pub(super) batch: usize,
    pub(super) ranks: usize,
    /// Of each rank.
    pub(super) threads: usize,
    /// Steps of a rank.
    pub(super) steps: u64,
    pub(super) seconds: f64,
    /// Samples a second, of all ranks.
    pub(super) speed: f64,
    /// FLOP/s, of all ranks.
    pub(super) flops: f64,
    /// FLOP/s that a core reached at its best, measured on as many at once.
    pub(super) peak: f64,
    /// Of the ranks' time: compute, exchange, wait, load.
    pub(super) shares: [f64; 4],
    /// MiB over all ranks: the peak of what each sees, and what they hold in the end, shared memory counted once.
    pub(super) memory: [f64; 2],
    /// What the first rank's layers cost, where they were watched.
    pub(super) layers: Vec<LayerCost>,
    /// What cost was asked for, of what looks on.
    pub(super) costs: Vec<Cost>,
    /// Faults that were asked for.
    pub(super) faults: Vec<String>,
    /// What computed, and whether that is an emulator.
    pub(super) device: String,
    pub(super) emulated: bool,
}

/// What stands above the rows.
pub(super) fn head(
    work: &str,
    data: &Dataset,
    exchange: Kind,
    (chosen, threads): (&Chosen, usize),
) -> String {
    let of = match (&chosen.device, chosen.is_emulated()) {
        (_, true) => "an emulator has no peak",
        (Some(_), _) => "peak: of what as many devices do on paper, each so many GFLOP/s",
        (None, _) => "peak: of what as many cores do at their best, each so many GFLOP/s",
    };
    format!(
        "bench train: {work}, {} samples of {}, {} classes
device: {}
exchange: {}; threads of a rank: {threads}; vectors: {}; {of}
{:>5} {:>7} {:>6} {:>10} {:>10} {:>8} {:>6} {:>6}  {:>7} {:>8} {:>6} {:>6} {:>7} {:>7}",
        data.len(),
        data.shape,
        data.classes,
        chosen.words,
        exchange.describe(),
        isa(),
        "ranks",
        "batch",
        "steps",
        "s/step",
        "samples/s",
        "GFLOP/s",
        "peak",
        "each",
        "compute",
        "exchange",
        "wait",
        "load",
        "RSS MiB",
        "PSS MiB",
    )
}

impl Row {
    /// Of what a core for each thread of all ranks could do.
    fn share(&self) -> f64 {
        self.flops / (self.peak * (self.ranks * self.threads) as f64)
    }

    /// As a line under `head`.
    pub(super) fn line(&self) -> String {
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        let [compute, exchange, wait, load] = self.shares.map(percent);
        let each = self.seconds / self.steps as f64;
        format!(
            "{:>5} {:>7} {:>6} {:>10.6} {:>10.1} {:>8.1} {:>6} {:>6}  {compute:>7} {exchange:>8} {wait:>6} {load:>6} {:>7.0} {:>7.0}",
            self.ranks,
            self.batch,
            self.steps,
            each,
            self.speed,
            self.flops / 1e9,
            match self.emulated {
                true => "-".into(),
                false => format!("{:.0} %", 100.0 * self.share()),
            },
            match self.emulated {
                true => "-".into(),
                false => format!("{:.1}", self.peak / 1e9),
            },
            self.memory[0],
            self.memory[1],
        )
    }

    /// As one line of JSON.
    pub(super) fn json(&self, model: &str, data: &str) -> String {
        let [compute, exchange, wait, load] = self.shares;
        serde_json::json!({
            "peer": "phalanx", "workload": format!("{model}:{data}"), "procs": self.ranks, "threads": self.threads,
            "device": self.device, "emulated": self.emulated,
            "batch": self.batch, "examples_per_s": self.speed, "s_per_batch": self.seconds / self.steps as f64,
            "rss_mb": self.memory[0], "pss_mb": self.memory[1], "steps": self.steps, "seconds": self.seconds, "gflops": self.flops / 1e9,
            "isa": isa().name(), "core_peak_gflops": self.peak / 1e9, "peak_share": self.share(),
            "compute": compute, "exchange": exchange, "wait": wait, "load": load,
            "layers": layers::json(self), "costs": self.costs.iter().map(Cost::json).collect::<Vec<_>>(), "inject": self.faults,
        })
        .to_string()
    }
}
