//! Cutting a validation part off a set, by a seed.

use std::path::Path;

use super::sampler::Permutation;
use super::{Dataset, Description, SetWriter};
use crate::observe::Progress;
use crate::{Error, Result};

/// What goes where.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Share of the samples that goes to the second set, between 0 and 1.
    pub fraction: f64,
    /// The key of the choice.
    pub seed: u64,
    /// Whether existing sets may be replaced.
    pub force: bool,
}

/// Copies `data` into two new sets: the part to train on and the part to validate on, each in its old order.
pub fn split(
    data: &Dataset,
    train: &Path,
    validation: &Path,
    options: Options,
) -> Result<[usize; 2]> {
    let n = data.len();
    let second = (n as f64 * options.fraction).round() as usize;
    if !(1..n).contains(&second) {
        let problem = format!(
            "a fraction of {} puts {second} of {n} samples aside: both parts need one",
            options.fraction
        );
        return Err(Error::Usage(problem));
    }
    if same(train, validation) || same(train, &data.path) || same(validation, &data.path) {
        let problem = "the set and its two parts need three different names";
        return Err(Error::Usage(format!(
            "{problem}, got {}, {} and {}",
            data.path.display(),
            train.display(),
            validation.display()
        )));
    }
    let order = Permutation::new(n, options.seed, 0);
    let mut aside = vec![false; n];
    (0..second).for_each(|k| aside[order.at(k)] = true);
    let open = |path: &Path, samples, part: &str| {
        let source = if data.provenance.is_empty() {
            data.path.display().to_string()
        } else {
            data.provenance.clone()
        };
        let about = Description {
            samples,
            shape: data.shape,
            classes: data.classes,
            class_names: data.class_names.clone(),
            float: data.element() == "f32",
            shards: data.files().count().min(samples),
            provenance: format!(
                "{part} part ({} kept aside, seed {}) of: {source}",
                options.fraction, options.seed
            ),
            force: options.force,
        };
        SetWriter::create(path, about)
    };
    let mut writers = [
        open(train, n - second, "training")?,
        open(validation, second, "validation")?,
    ];
    let progress = Progress::new("copying", n as u64);
    for (index, &aside) in aside.iter().enumerate() {
        let writer = &mut writers[usize::from(aside)];
        data.with_bytes(index, |pixels| writer.push(pixels, data.labels()[index]))?;
        progress.add(1);
    }
    for writer in writers {
        writer.finish()?;
    }
    Ok([n - second, second])
}

/// Whether two paths name one file, be it there already or not.
fn same(a: &Path, b: &Path) -> bool {
    let whole = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path));
    match (whole(a), whole(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}
