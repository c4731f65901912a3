//! What the layers cost, for people and for programs.

use serde_json::{Value, json};

use super::row::Row;
use crate::comm::block;
use crate::nn::{LANES, LayerCost};

/// Passes, as they are printed.
const PASSES: [&str; 3] = ["forward", "grad params", "grad input"];

/// A table of layers and passes: milliseconds a step, share of the layers' time, GFLOP/s and their share of the peak, and
/// the memory traffic of the forward pass that cannot be avoided.
pub(super) fn table(row: &Row) -> String {
    let steps = row.steps as f64;
    let all: f64 = row.layers.iter().flat_map(|layer| layer.seconds).sum();
    let mut lines = vec![format!(
        "  {:<22} {:>12} {:<12} {:<9} {:>9} {:>6} {:>8} {:>6} {:>8} {:>6}",
        "layer", "output", "pass", "method", "ms/step", "time", "GFLOP/s", "peak", "MB", "GB/s"
    )];
    for layer in &row.layers {
        let mut names = [layer.name.as_str(), layer.output.as_str()];
        for i in 0..3 {
            let pass = pass(layer, i);
            let seconds = layer.seconds[i];
            if seconds == 0.0 {
                continue;
            }
            let rate = rate(layer, i, row);
            let (flops, share) = match rate {
                0.0 => Default::default(),
                _ => (
                    format!("{:.1}", rate / 1e9),
                    format!("{:.0} %", 100.0 * rate / row.peak),
                ),
            };
            let bytes = traffic(layer, row);
            let (size, speed) = match i {
                0 => (
                    format!("{:.1}", bytes / 1e6),
                    format!("{:.1}", bytes * steps / seconds / 1e9),
                ),
                _ => Default::default(),
            };
            lines.push(format!(
                "  {:<22} {:>12} {pass:<12} {:<9} {:>9.3} {:>6} {flops:>8} {share:>6} {size:>8} {speed:>6}",
                names[0],
                names[1],
                layer.methods[i],
                1e3 * seconds / steps,
                format!("{:.1} %", 100.0 * seconds / all),
            ));
            names = [""; 2];
        }
    }
    lines.join("\n")
}

/// The same for programs; null where layers were not watched.
pub(super) fn json(row: &Row) -> Value {
    if row.layers.is_empty() {
        return Value::Null;
    }
    let layer = |layer: &LayerCost| {
        let passes = (0..3).filter(|&i| layer.seconds[i] > 0.0).map(|i| {
            json!({
                "pass": pass(layer, i), "method": layer.methods[i],
                "seconds": layer.seconds[i] / row.steps as f64,
                "gflops": rate(layer, i, row) / 1e9, "peak_share": rate(layer, i, row) / row.peak,
            })
        });
        json!({
            "layer": layer.name, "output": layer.output, "bytes": traffic(layer, row),
            "passes": passes.collect::<Vec<_>>(),
        })
    };
    row.layers.iter().map(layer).collect()
}

/// What a pass is called.
fn pass(layer: &LayerCost, i: usize) -> &'static str {
    match (i, layer.methods[i]) {
        (1, LANES) => "gradients",
        _ => PASSES[i],
    }
}

/// FLOP/s of a pass on one thread.
fn rate(layer: &LayerCost, pass: usize, row: &Row) -> f64 {
    layer.flops[pass] * share(row) * row.steps as f64 / layer.seconds[pass]
}

/// Samples of the first thread in a step.
fn share(row: &Row) -> f64 {
    block(row.batch, row.threads, 0).len() as f64
}

/// Bytes that the forward pass of a step must read and write.
fn traffic(layer: &LayerCost, row: &Row) -> f64 {
    layer.bytes * share(row) + layer.param_bytes
}
