//! The models that can be asked for by name.

use super::layer::Layer;
use super::linear::Linear;
use super::model::Model;
use crate::data::Shape;
use crate::{Error, Result};

/// Names that `build` knows.
pub const NAMES: [&str; 1] = ["softmax"];

/// The model called `name` for inputs of `shape` and so many classes.
pub fn build(name: &str, shape: Shape, classes: u32) -> Result<Model> {
    match name {
        "softmax" => Ok(softmax(shape, classes as usize)),
        _ => Err(Error::Usage(format!(
            "there is no model `{name}`; there are: {}",
            NAMES.join(", ")
        ))),
    }
}

/// Softmax regression: one linear layer.
fn softmax(shape: Shape, classes: usize) -> Model {
    let layer: Box<dyn Layer> = Box::new(Linear {
        ci: shape.len(),
        co: classes,
    });
    Model::new("softmax", shape, vec![layer])
}
