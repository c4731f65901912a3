//! The models that can be asked for by name.

use std::path::Path;

use super::Model;
use super::spec::{LayerSpec, Spec};
use crate::data::Shape;
use crate::{Error, Result};

/// Names that `spec` knows.
pub const NAMES: [&str; 4] = ["softmax", "mlp", "lenet", "alexnet"];

/// The model called `name`, or described in the TOML file of that name, for inputs of `shape` and so many classes.
pub fn build(name: &str, shape: Shape, classes: u32) -> Result<Model> {
    spec(name)?.build(shape, classes)
}

/// Shape and number of classes of what the model called `name` was made for.
pub fn home(name: &str) -> (Shape, u32) {
    let (c, h, w, classes) = match name {
        "alexnet" => (3, 224, 224, 1000),
        _ => (1, 28, 28, 10),
    };
    (Shape { c, h, w }, classes)
}

/// Whether `name` is that of a file.
pub fn is_file(name: &str) -> bool {
    name.ends_with(".toml")
}

/// The model called `name`, or described in the TOML file of that name, on paper.
pub fn spec(name: &str) -> Result<Spec> {
    let layers = match name {
        _ if is_file(name) => return Spec::read(Path::new(name)),
        "softmax" => vec![LayerSpec::Linear {
            outputs: None,
            zero: true,
        }],
        "mlp" => vec![
            linear(256),
            LayerSpec::Relu,
            linear(128),
            LayerSpec::Relu,
            logits(),
        ],
        "lenet" => lenet(),
        "alexnet" => alexnet(),
        _ => {
            let names = NAMES.join(", ");
            return Err(Error::Usage(format!(
                "there is no model `{name}`; there are: {names}"
            )));
        }
    };
    Ok(Spec {
        name: name.into(),
        layers,
    })
}

/// LeNet-5 for 28×28 with rectifiers and average pooling.
fn lenet() -> Vec<LayerSpec> {
    let pool = LayerSpec::AveragePool {
        kernel: 2,
        stride: None,
        pad: 0,
    };
    let convolution = |outputs, pad| LayerSpec::Conv2d {
        outputs,
        kernel: 5,
        stride: 1,
        pad,
    };
    vec![
        convolution(6, 2),
        LayerSpec::Relu,
        pool.clone(),
        convolution(16, 0),
        LayerSpec::Relu,
        pool,
        linear(120),
        LayerSpec::Relu,
        linear(84),
        LayerSpec::Relu,
        logits(),
    ]
}

/// AlexNet in its one-tower form for 3×224×224: 61.1 million parameters for 1000 classes.
fn alexnet() -> Vec<LayerSpec> {
    let pool = LayerSpec::MaxPool {
        kernel: 3,
        stride: Some(2),
        pad: 0,
    };
    let convolution = |outputs, kernel, stride, pad| LayerSpec::Conv2d {
        outputs,
        kernel,
        stride,
        pad,
    };
    vec![
        convolution(64, 11, 4, 2),
        LayerSpec::Relu,
        pool.clone(),
        convolution(192, 5, 1, 2),
        LayerSpec::Relu,
        pool.clone(),
        convolution(384, 3, 1, 1),
        LayerSpec::Relu,
        convolution(256, 3, 1, 1),
        LayerSpec::Relu,
        convolution(256, 3, 1, 1),
        LayerSpec::Relu,
        pool,
        LayerSpec::Dropout { rate: 0.5 },
        linear(4096),
        LayerSpec::Relu,
        LayerSpec::Dropout { rate: 0.5 },
        linear(4096),
        LayerSpec::Relu,
        logits(),
    ]
}

fn linear(outputs: usize) -> LayerSpec {
    LayerSpec::Linear {
        outputs: Some(outputs),
        zero: false,
    }
}

/// The last layer: one output for each class.
fn logits() -> LayerSpec {
    LayerSpec::Linear {
        outputs: None,
        zero: false,
    }
}
