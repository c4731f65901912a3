//! `phalanx model show`: a model on paper.

use crate::Result;
use crate::data::Shape;
use crate::nn::zoo::Choice;
use crate::observe::{say, table};

/// Which model, for which data.
pub struct Settings {
    /// Which one.
    pub model: Choice,
    /// One input sample's dimensions.
    pub input: Shape,
    /// Number of classes.
    pub classes: u32,
    /// Samples of a rank in a step.
    pub batch: usize,
}

/// Prints layers, shapes, parameters, work and memory.
pub fn run(settings: &Settings) -> Result<()> {
    let model = settings.model.build(settings.input, settings.classes)?;
    let mut rows = vec![(
        "input".to_owned(),
        format!("{:>14}", settings.input.to_string()),
    )];
    for (i, layer) in model.summary().iter().enumerate() {
        let work = if layer.flops > 0.0 {
            format!("{:>12.2} MFLOP forward", layer.flops / 1e6)
        } else {
            String::new()
        };
        let params = if layer.params > 0 {
            format!("{:>12} parameters", layer.params)
        } else {
            " ".repeat(23)
        };
        let line = format!("{:>14} {params} {work}", layer.output.to_string());
        rows.push((format!("{i} {}", layer.name), line.trim_end().to_owned()));
    }
    say(&table(
        &format!("{} for {} classes", model.spec.name, settings.classes),
        &rows,
    ));
    let mib = |floats: usize| format!("{:.1} MiB", floats as f64 * 4.0 / (1 << 20) as f64);
    let totals = [
        (
            "parameters",
            format!("{} ({})", model.params(), mib(model.params())),
        ),
        (
            "work",
            format!("{:.2} MFLOP to train on one sample", model.flops() / 1e6),
        ),
        (
            "memory",
            format!(
                "{} of outputs and slopes for a batch of {}",
                mib(model.floats(settings.batch)),
                settings.batch
            ),
        ),
    ];
    say(&table("in all", &totals));
    Ok(())
}
