//! `model.h5`: a model's parameters and state by name, with what is needed to use them.

use std::path::Path;

use super::{Model, Spec, Tensor};
use crate::data::{Origin, Scaling, Shape};
use crate::files::Staged;
use crate::h5::File;
use crate::{Error, Result};

/// Version of the file that this program writes.
const VERSION: u32 = 1;

/// Writes the model in one step: a reader sees the old file or the whole new one.
pub fn save(
    path: &Path,
    model: &Model,
    params: &[f32],
    (scaling, origin): (&Scaling, &Origin),
) -> Result<()> {
    let staged = Staged::new(path, true)?;
    let file = File::create(staged.path())?;
    file.set_text("format", "phalanx model")?;
    file.set_numbers("version", &[VERSION])?;
    file.set_text("model", &model.spec.text())?;
    let Shape { c, h, w } = model.input;
    file.set_numbers("input", &[c as u64, h as u64, w as u64])?;
    file.set_numbers("classes", &[model.classes as u64])?;
    let (factors, shifts) = scaling.channels();
    file.set_numbers("input_factor", &factors)?;
    file.set_numbers("input_shift", &shifts)?;
    if !origin.class_names.is_empty() {
        file.set_text("class_names", &origin.class_names.join("\n"))?;
    }
    if let Some(fit) = origin.fit {
        file.set_text("fit", &fit.to_string())?;
    }
    let write = |tensors: &[Tensor], values: &[f32]| {
        tensors.iter().try_for_each(|tensor| {
            let table = file.new_table::<f32>(&tensor.name, &tensor.shape)?;
            table.write(0, &values[tensor.range.clone()])
        })
    };
    write(model.tensors(), params)?;
    write(&model.state_tensors(), &model.state())?;
    file.close()?;
    staged.commit()
}

/// Reads what `save` wrote; files of older versions know less of the samples.
pub fn load(path: &Path) -> Result<(Model, Vec<f32>, (Scaling, Origin))> {
    let hint = "give a run folder that `phalanx train` wrote";
    let bad = |problem: String| Error::file(path, problem, hint);
    let file = File::open(path)?;
    let number = |name: &str, count: usize| {
        let values = file.numbers(name).filter(|values| values.len() == count);
        values.ok_or_else(|| bad(format!("lacks the attribute `{name}` of {count} numbers")))
    };
    if file.text("format").as_deref() != Some("phalanx model") {
        return Err(bad("is not a model that phalanx wrote".into()));
    }
    let version = number("version", 1)?[0] as u32;
    if version > VERSION {
        return Err(bad(format!(
            "has version {version}, this program reads up to {VERSION}"
        )));
    }
    let text = file
        .text("model")
        .ok_or_else(|| bad("lacks the attribute `model`".into()))?;
    let input = number("input", 3)?;
    let shape = Shape {
        c: input[0] as usize,
        h: input[1] as usize,
        w: input[2] as usize,
    };
    let spec = Spec::parse(&text)
        .map_err(|problem| bad(format!("its model cannot be read: {problem}")))?;
    // Its parameters are in the file, so that the file tells how many they can be.
    let bytes = std::fs::metadata(path).map_err(Error::io("read", path))?;
    let mut model = spec
        .build_within(
            shape,
            number("classes", 1)?[0] as u32,
            bytes.len() as usize / 4,
        )
        .map_err(|error| bad(error.to_string()))?;
    let read = |tensors: &[Tensor], values: &mut [f32]| {
        for tensor in tensors {
            let table = file.table(&tensor.name)?;
            if table.shape() != tensor.shape {
                let problem = format!(
                    "`{}` has shape {:?}, expected {:?}",
                    tensor.name,
                    table.shape(),
                    tensor.shape
                );
                return Err(bad(problem));
            }
            values[tensor.range.clone()].copy_from_slice(&table.read(0..tensor.shape[0])?);
        }
        Ok(())
    };
    let mut params = vec![0.0; model.params()];
    read(model.tensors(), &mut params)?;
    let mut state = model.state();
    read(&model.state_tensors(), &mut state)?;
    model.set_state(&state);
    let single = |values: Vec<f64>| values.iter().map(|&v| v as f32).collect::<Vec<_>>();
    let scaling = Scaling::of_channels(
        &single(number("input_factor", shape.c)?),
        &single(number("input_shift", shape.c)?),
    );
    let fit = file.text("fit").map(|text| text.parse()).transpose();
    let origin = Origin {
        class_names: file.text("class_names").map_or(Vec::new(), |names| {
            names.lines().map(str::to_owned).collect()
        }),
        fit: fit.map_err(|problem: String| bad(format!("attribute `fit`: {problem}")))?,
    };
    Ok((model, params, (scaling, origin)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::photos::Fit;
    use crate::nn::{Init, zoo};

    #[test]
    fn a_model_knows_what_it_was_trained_on_where_its_file_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.h5");
        let shape = Shape { c: 1, h: 2, w: 3 };
        let model = zoo::build("softmax", shape, 2).unwrap();
        let params = model.init(Init::default(), 1);
        let scaling = Scaling::unit(1);
        let known = Origin {
            class_names: vec!["fig tree".into(), "kiwi".into()],
            fit: Some(Fit::Stretch),
        };
        // As files of older versions, the last says nothing.
        for origin in [known, Origin::default()] {
            save(&path, &model, &params, (&scaling, &origin)).unwrap();
            let (_, again, (same, found)) = load(&path).unwrap();
            assert_eq!(
                (again, same, found),
                (params.clone(), scaling.clone(), origin)
            );
        }
        let file = File::open_to_write(&path).unwrap();
        file.set_text("fit", "squeeze").unwrap();
        file.close().unwrap();
        let refused = load(&path).err().unwrap().to_string();
        assert!(refused.contains("there is no `squeeze`"), "{refused}");
    }
}
