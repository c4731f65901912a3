//! `phalanx eval`: a trained model on a data set.

use std::path::PathBuf;

use super::device::Chosen;
use super::sparse::{Figures, calibration, describe};
use super::{predict, warn_if_crowded};
use crate::backend::{Gemm, Wanted};
use crate::comm::{Comm, agree, block};
use crate::data::photos::Fit;
use crate::data::{Dataset, Origin};
use crate::nn::{self, Model, Params};
use crate::observe::{say, table};
use crate::sparse::Quality;
use crate::train::{CHUNK, MODEL, RunFolder, evaluate};
use crate::{Error, Result};

/// What to evaluate.
pub struct Settings {
    /// The run folder.
    pub run: PathBuf,
    /// The data set.
    pub data: PathBuf,
    /// What becomes of photos, where that is not what became of those that were trained on.
    pub fit: Option<Fit>,
    /// Threads of each rank.
    pub threads: usize,
    /// What computes, and whose kernels multiply.
    pub device: (Wanted, Gemm),
    /// Whether to print JSON.
    pub json: bool,
}

/// Evaluates and prints; *collective*.
pub fn run(comm: &dyn Comm, settings: &Settings) -> Result<()> {
    // All ranks see the same folder, or agree below that one does not.
    if settings.run.join(MODEL).is_dir() {
        return sparse(comm, settings);
    }
    let open = || {
        let file = RunFolder::open(&settings.run)?.file("model.h5");
        let (model, params, (scaling, origin)) = nn::load(&file)?;
        let frame = origin.frame(model.input, settings.fit);
        let known = &origin.class_names;
        let data = Dataset::open_framed(&settings.data, Some(frame), Some(known))?;
        data.check_fit(settings.fit)?;
        check(&model, &origin, &data)?;
        Ok((model, params, scaling, data, origin))
    };
    let (model, params, scaling, data, origin) = agree(comm, open())?;
    data.same_on_all(comm)?;
    origin.warn_of_fit(comm, &data);
    let unfit = (settings.threads > 1).then_some("--threads divides samples over cores");
    let chosen = Chosen::find(comm, settings.device, unfit)?;
    let name = model.spec.name.clone();
    // Parameters, and gradients that nobody asks for.
    let fixed = 8 * params.len() as u64;
    let how = (settings.threads, fixed);
    let mut backend = chosen.backend(comm, model, &data, how, (1, CHUNK))?;
    warn_if_crowded(comm, settings.threads);
    let blocks = comm.size();
    let (params, blocks) = (Params::Host(&params), (blocks, None));
    let tally = evaluate(comm, &mut *backend, params, &data, &scaling, blocks)?;
    if comm.rank() > 0 {
        return Ok(());
    }
    if settings.json {
        let line = serde_json::json!({
            "run": settings.run, "data": settings.data, "model": name, "device": chosen.words, "samples": tally.count,
            "loss": tally.mean_loss(), "accuracy": tally.accuracy(),
        });
        say(&line.to_string());
        return Ok(());
    }
    let rows = [
        ("model", format!("{name} of {}", settings.run.display())),
        ("device", chosen.words),
        ("samples", tally.count.to_string()),
        ("loss", format!("{:.4}", tally.mean_loss())),
        ("accuracy", format!("{:.2} %", 100.0 * tally.accuracy())),
    ];
    say(&table("evaluation", &rows));
    Ok(())
}

/// Refuses samples that the model was not trained for.
fn check(model: &Model, origin: &Origin, data: &Dataset) -> Result<()> {
    let mismatch = |what: &str, expected: String, got: String| {
        Err(Error::Mismatch {
            what: format!("{what} of {}", data.path.display()),
            expected: format!("{expected}, as the model was trained for"),
            got,
            hint: "use data that was made like the training set",
        })
    };
    let classes = data.classes as usize;
    // Without names, a folder that is missing would give all that follow other numbers.
    let fits = match data.is_folder() && origin.class_names.is_empty() {
        true => classes == model.classes,
        false => classes <= model.classes,
    };
    if data.shape != model.input || !fits {
        let expected = format!("{} and up to {} classes", model.input, model.classes);
        let got = format!("{} and {} classes", data.shape, data.classes);
        return mismatch("samples", expected, got);
    }
    match origin.renamed(&data.class_names) {
        Some((mine, other)) => mismatch("names of classes", mine.into(), other.into()),
        None => Ok(()),
    }
}

/// As `run`, of a sparse model; *collective*.
fn sparse(comm: &dyn Comm, settings: &Settings) -> Result<()> {
    let (served, data) = predict::open(comm, &settings.run, &settings.data)?;
    let mut quality = Quality::default();
    let mine = block(data.len(), comm.size(), comm.rank());
    agree(comm, served.logits(&data, mine, &mut quality).map(|_| ()))?;
    quality.merge_over(comm);
    served.close()?;
    let Some(found) = quality.summary().filter(|_| comm.rank() == 0) else {
        return Ok(());
    };
    if settings.json {
        let line = serde_json::json!({
            "run": settings.run, "data": settings.data, "model": "sparse", "figures": Figures::new(&found),
        });
        say(&line.to_string());
        return Ok(());
    }
    let mut rows = vec![
        ("model", format!("sparse of {}", settings.run.display())),
        ("rows", found.count.to_string()),
        ("quality", describe(&found, data.about.best_loss)),
        ("calibration", calibration(&found)),
    ];
    for (tenth, bin) in found
        .calibration
        .iter()
        .enumerate()
        .filter(|(_, bin)| bin.count > 0)
    {
        let words = format!(
            "{} to {} %: {} rows, {:.2} % predicted, {:.2} % are 1",
            10 * tenth,
            10 * (tenth + 1),
            bin.count,
            100.0 * bin.prediction,
            100.0 * bin.positives
        );
        rows.push(("", words));
    }
    say(&table("evaluation", &rows));
    Ok(())
}
