//! A trained sparse model on disk: a folder with a part for each rank that held weights, each with those that are not zero.

use std::fs;
use std::path::Path;

use crate::comm::{Comm, agree, block, path_of_first};
use crate::data::rows::{MOST_FEATURES, RowSet};
use crate::files::Staged;
use crate::h5::File;
use crate::{Error, Result};

const FORMAT: &str = "phalanx sparse model";
const VERSION: u32 = 1;

/// Weights that are not zero.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    /// How many features there are.
    pub features: usize,
    /// How text became features, as the training set said.
    pub encoding: String,
    /// The weight that every row has.
    pub bias: f32,
    /// Features, in rising order, and the weight of each.
    pub indices: Vec<u32>,
    /// See `indices`.
    pub weights: Vec<f32>,
}

impl Model {
    /// Writes the model at `path` in one step, each rank its block of `weights`, as
    /// [`Exchange::weights`](super::Exchange::weights) gives them; *collective*. Only the first rank needs to know the path.
    pub fn save(comm: &dyn Comm, path: Option<&Path>, set: &RowSet, weights: &[f32]) -> Result<()> {
        let staged = path.map(|path| {
            let staged = Staged::new(path, true)?;
            fs::create_dir(staged.path()).map_err(Error::io("create folder", staged.path()))?;
            Ok(staged)
        });
        let staged = agree(comm, staged.transpose())?;
        let folder = staged.as_ref().map(|staged| staged.path().to_path_buf());
        let folder = path_of_first(comm, folder);
        let mine = block(set.about.features + 1, comm.size(), comm.rank());
        let file = folder.join(format!("part-{:05}.h5", comm.rank()));
        agree(comm, write(&file, comm.size(), set, mine.start, weights))?;
        let put = staged.map_or(Ok(()), Staged::commit);
        agree(comm, put)
    }

    /// Reads the model at `path`.
    pub fn load(path: &Path) -> Result<Self> {
        let hint = "give a run folder that `phalanx train sparse` wrote";
        let entries = fs::read_dir(path).map_err(Error::io("read", path))?;
        let mut files = Vec::new();
        for entry in entries {
            files.push(entry.map_err(Error::io("read", path))?.path());
        }
        files.sort();
        let mut model: Option<Self> = None;
        let mut parts = 0;
        for file in &files {
            let opened = File::open(file)?;
            let of = opened.numbers("parts").and_then(|n| n.first().copied());
            parts = of.map_or(0, |n| n as usize);
            read(file, &opened, &mut model)?;
        }
        match model {
            Some(model) if parts == files.len() => Ok(model),
            _ => {
                let problem = format!("has {} parts of a model, expected {parts}", files.len());
                Err(Error::file(path, problem, hint))
            }
        }
    }

    /// Refuses rows that the model was not made for.
    pub fn fits(&self, set: &RowSet) -> Result<()> {
        let mismatch = |what: &str, expected: String, got: String| {
            Err(Error::Mismatch {
                what: format!("{what} of {}", set.path.display()),
                expected: format!("{expected}, as the model was trained for"),
                got,
                hint: "import the data with the options that the training set was imported with",
            })
        };
        if set.about.features != self.features {
            let (expected, got) = (self.features, set.about.features);
            return mismatch("features", expected.to_string(), got.to_string());
        }
        if set.about.encoding != self.encoding {
            let (expected, got) = (self.encoding.clone(), set.about.encoding.clone());
            return mismatch("encoding", expected, got);
        }
        Ok(())
    }
}

fn write(path: &Path, parts: usize, set: &RowSet, first: usize, weights: &[f32]) -> Result<()> {
    let features = set.about.features;
    let all = weights.iter().enumerate().map(|(i, &w)| (first + i, w));
    let (bias, others): (Vec<_>, Vec<_>) = all
        .filter(|&(feature, weight)| weight != 0.0 || feature == features)
        .partition(|&(feature, _)| feature == features);
    let (indices, weights): (Vec<u32>, Vec<f32>) =
        others.into_iter().map(|(i, w)| (i as u32, w)).unzip();
    let file = File::create(path)?;
    file.filled("indices", &indices)?;
    file.filled("weights", &weights)?;
    file.set_text("format", FORMAT)?;
    file.set_numbers("version", &[VERSION])?;
    file.set_numbers("parts", &[parts as u64])?;
    file.set_numbers("features", &[features as u64])?;
    file.set_text("encoding", &set.about.encoding)?;
    if let Some(&(_, bias)) = bias.first() {
        file.set_numbers("bias", &[bias])?;
    }
    file.close()
}

fn read(path: &Path, file: &File, model: &mut Option<Model>) -> Result<()> {
    let damaged = |problem: &str| Error::file(path, problem, "train the model again");
    if file.text("format").as_deref() != Some(FORMAT) {
        return Err(damaged("is not part of a sparse model"));
    }
    let number = |name: &str| file.numbers(name).and_then(|n| n.first().copied());
    if number("version").is_some_and(|version| version > f64::from(VERSION)) {
        return Err(damaged("is of a newer version of phalanx"));
    }
    let possible = 1.0..=MOST_FEATURES as f64;
    let features = number("features").filter(|features| possible.contains(features));
    let features = features.ok_or_else(|| damaged("has no good attribute `features`"))?;
    let model = model.get_or_insert_with(|| Model {
        features: features as usize,
        encoding: file.text("encoding").unwrap_or_default(),
        ..Model::default()
    });
    let table = |name: &str| -> Result<_> {
        let table = file.table(name)?;
        let rows = table.shape()[0];
        Ok((table, rows))
    };
    let ((indices, n), (weights, m)) = (table("indices")?, table("weights")?);
    if n != m {
        return Err(damaged("has other numbers of indices than of weights"));
    }
    if n > 0 {
        let first = model.indices.len();
        model.indices.extend(indices.read::<u32>(0..n)?);
        model.weights.extend(weights.read::<f32>(0..n)?);
        let new = &model.indices[first.saturating_sub(1)..];
        let rises = new.windows(2).all(|pair| pair[0] < pair[1]);
        if !rises
            || new
                .last()
                .is_some_and(|&last| last as usize >= model.features)
        {
            return Err(damaged("has features out of order or beyond the last"));
        }
    }
    if let Some(bias) = number("bias") {
        model.bias = bias as f32;
    }
    Ok(())
}
