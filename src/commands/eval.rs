//! `phalanx eval`: a trained model on a data set.

use std::path::PathBuf;

use super::warn_if_crowded;
use crate::comm::{Comm, agree};
use crate::data::Dataset;
use crate::nn::{self, Crew};
use crate::observe::{say, table};
use crate::train::{RunFolder, evaluate};
use crate::{Error, Result};

/// What to evaluate.
pub struct Settings {
    /// The run folder.
    pub run: PathBuf,
    /// The data set.
    pub data: PathBuf,
    /// Threads of each rank.
    pub threads: usize,
    /// Whether to print JSON.
    pub json: bool,
}

/// Evaluates and prints; *collective*.
pub fn run(comm: &dyn Comm, settings: &Settings) -> Result<()> {
    let open = || {
        let (model, params, scaling) = nn::load(&RunFolder::open(&settings.run)?.file("model.h5"))?;
        let data = Dataset::open(&settings.data)?;
        if data.shape != model.input || data.classes as usize > model.classes {
            return Err(Error::Mismatch {
                what: format!("samples of {}", settings.data.display()),
                expected: format!(
                    "{} and up to {} classes, as the model was trained for",
                    model.input, model.classes
                ),
                got: format!("{} and {} classes", data.shape, data.classes),
                hint: "use data that was made like the training set",
            });
        }
        let crew = Crew::new(model, settings.threads)?;
        Ok((crew, params, scaling, data))
    };
    let (mut crew, params, scaling, data) = agree(comm, open())?;
    warn_if_crowded(comm, settings.threads);
    let blocks = comm.size();
    let tally = evaluate(comm, &mut crew, &params, &data, &scaling, (blocks, None))?;
    if comm.rank() > 0 {
        return Ok(());
    }
    let name = &crew.model().spec.name;
    if settings.json {
        let line = serde_json::json!({
            "run": settings.run, "data": settings.data, "model": name, "samples": tally.count,
            "loss": tally.mean_loss(), "accuracy": tally.accuracy(),
        });
        say(&line.to_string());
        return Ok(());
    }
    let rows = [
        ("model", format!("{name} of {}", settings.run.display())),
        ("samples", tally.count.to_string()),
        ("loss", format!("{:.4}", tally.mean_loss())),
        ("accuracy", format!("{:.2} %", 100.0 * tally.accuracy())),
    ];
    say(&table("evaluation", &rows));
    Ok(())
}
