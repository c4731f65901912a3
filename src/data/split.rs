//! Cutting a validation part off a set, by a seed: as new files, or in place.

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
    let aside = aside(n, options.fraction, options.seed)?;
    let second = aside.iter().filter(|&&aside| aside).count();
    if same(train, validation) || same(train, &data.path) || same(validation, &data.path) {
        let problem = "the set and its two parts need three different names";
        return Err(Error::Usage(format!(
            "{problem}, got {}, {} and {}",
            data.path.display(),
            train.display(),
            validation.display()
        )));
    }
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

/// The part of `data` to train on and the part to validate on: the samples that `split` would copy, where they are.
pub fn divide(data: &Dataset, fraction: f64, seed: u64) -> Result<[Dataset; 2]> {
    let aside = aside(data.len(), fraction, seed)?;
    let part = |second| {
        let chosen = (0..aside.len()).filter(|&index| aside[index] == second);
        data.part(chosen.collect())
    };
    Ok([part(false), part(true)])
}

/// Which of `n` samples go to the second part.
fn aside(n: usize, fraction: f64, seed: u64) -> Result<Vec<bool>> {
    let second = (n as f64 * fraction).round() as usize;
    if !(1..n).contains(&second) {
        let problem = format!(
            "a fraction of {fraction} puts {second} of {n} samples aside: both parts need one"
        );
        return Err(Error::Usage(problem));
    }
    Ok(chosen(n, second, seed))
}

/// Which of `n` are the `some` that `seed` chooses.
pub(super) fn chosen(n: usize, some: usize, seed: u64) -> Vec<bool> {
    let order = Permutation::new(n, seed, 0);
    let mut chosen = vec![false; n];
    (0..some).for_each(|k| chosen[order.at(k)] = true);
    chosen
}

/// Whether two paths name one file, be it there already or not.
fn same(a: &Path, b: &Path) -> bool {
    let whole = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path));
    match (whole(a), whole(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => a == b,
    }
}
