//! The models that can be asked for by name.

use std::fmt;
use std::path::PathBuf;

use super::Model;
use super::spec::{LayerSpec, Spec};
use crate::data::Shape;
use crate::{Error, Result};

/// Names of the models.
pub const NAMES: [&str; 5] = ["softmax", "mlp", "lenet", "alexnet", "flowers"];

/// Which model is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// One that has a name.
    Named(String, Options),
    /// One that is described in a TOML file.
    File(PathBuf),
}

/// What may be chosen about a model that has a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// What follows its hidden layers, if not what it usually has: of `mlp` and `lenet`.
    pub activation: Option<Activation>,
    /// Whether the first two convolutions are followed by local response normalisation: of `alexnet`.
    pub response_norm: bool,
}

/// What may follow a hidden layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// max(x, 0).
    Relu,
    /// tanh x.
    Tanh,
}

impl Choice {
    /// The model on paper.
    pub fn spec(&self) -> Result<Spec> {
        match self {
            Self::Named(name, options) => with(name, *options),
            Self::File(path) => Spec::read(path),
        }
    }

    /// Shape and number of classes of what it was made for.
    pub fn home(&self) -> (Shape, u32) {
        let name = match self {
            Self::Named(name, _) => name,
            Self::File(_) => "",
        };
        let (c, h, w, classes) = match name {
            "alexnet" => (3, 224, 224, 1000),
            "flowers" => (3, 100, 100, 10),
            _ => (1, 28, 28, 10),
        };
        (Shape { c, h, w }, classes)
    }

    /// The model for inputs of `shape` and so many classes.
    pub fn build(&self, shape: Shape, classes: u32) -> Result<Model> {
        let flowers = matches!(self, Self::Named(name, _) if name == "flowers");
        if flowers && shape.h.min(shape.w) < 16 {
            return Err(Error::Mismatch {
                what: "images for flowers".into(),
                expected: "at least 16×16 pixels".into(),
                got: shape.to_string(),
                hint: "make the images larger, or use lenet or mlp",
            });
        }
        self.spec()?.build(shape, classes)
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Named(name, options) => f.write_str(&full_name(name, *options)),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// The model called `name` for inputs of `shape` and so many classes.
pub fn build(name: &str, shape: Shape, classes: u32) -> Result<Model> {
    Choice::Named(name.into(), Options::default()).build(shape, classes)
}

/// The model called `name` on paper.
pub fn spec(name: &str) -> Result<Spec> {
    with(name, Options::default())
}

fn with(name: &str, options: Options) -> Result<Spec> {
    let hidden = match options.activation {
        Some(Activation::Tanh) => LayerSpec::Tanh,
        _ => LayerSpec::Relu,
    };
    let layers = match name {
        "softmax" => vec![LayerSpec::Linear {
            outputs: None,
            zero: true,
        }],
        "mlp" => vec![linear(256), hidden.clone(), linear(128), hidden, logits()],
        "lenet" => lenet(hidden),
        "alexnet" => alexnet(options.response_norm),
        "flowers" => flowers(),
        _ => {
            let names = NAMES.join(", ");
            return Err(Error::Usage(format!(
                "there is no model `{name}`; there are: {names}"
            )));
        }
    };
    if options.activation.is_some() && !["mlp", "lenet"].contains(&name) {
        let problem = format!("--activation is for mlp and lenet: {name} has none to choose");
        return Err(Error::Usage(problem));
    }
    if options.response_norm && name != "alexnet" {
        let problem = format!("--response-norm is for alexnet: {name} has no place for it");
        return Err(Error::Usage(problem));
    }
    Ok(Spec {
        name: full_name(name, options),
        layers,
        origin: None,
    })
}

/// The name with what was chosen.
fn full_name(name: &str, options: Options) -> String {
    let tanh = options.activation == Some(Activation::Tanh);
    let activation = if tanh { "-tanh" } else { "" };
    let norm = if options.response_norm {
        "-response-norm"
    } else {
        ""
    };
    format!("{name}{activation}{norm}")
}

/// LeNet-5 for 28×28 with average pooling.
fn lenet(hidden: LayerSpec) -> Vec<LayerSpec> {
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
        hidden.clone(),
        pool.clone(),
        convolution(16, 0),
        hidden.clone(),
        pool,
        linear(120),
        hidden.clone(),
        linear(84),
        hidden,
        logits(),
    ]
}

/// AlexNet in its one-tower form for 3×224×224: 61.1 million parameters for 1000 classes.
///
/// Local response normalisation stands where its authors had it, between a rectifier and a pooling.
fn alexnet(response_norm: bool) -> Vec<LayerSpec> {
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
    let norm = response_norm.then_some(LayerSpec::LocalResponse {
        size: 5,
        // The authors' 1e-4 was the weight of each square, ours is that of their mean.
        alpha: 5e-4,
        beta: 0.75,
        k: 2.0,
    });
    let mut layers = vec![convolution(64, 11, 4, 2), LayerSpec::Relu];
    layers.extend(norm.clone());
    layers.extend([pool.clone(), convolution(192, 5, 1, 2), LayerSpec::Relu]);
    layers.extend(norm);
    layers.extend([
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
    ]);
    layers
}

/// A compact network for a few hundred photos or more, of any size from 16×16: 0.39 million parameters.
///
/// What it learns does not depend on where in the photo a thing is: the last layer sees means over the whole of it.
fn flowers() -> Vec<LayerSpec> {
    let pool = LayerSpec::MaxPool {
        kernel: 2,
        stride: None,
        pad: 0,
    };
    let mut layers = Vec::new();
    for (i, outputs) in [32, 64, 128, 256].into_iter().enumerate() {
        layers.extend((i > 0).then(|| pool.clone()));
        layers.extend([
            LayerSpec::Conv2d {
                outputs,
                kernel: 3,
                stride: 1,
                pad: 1,
            },
            LayerSpec::BatchNorm {
                momentum: 0.1,
                eps: 1e-5,
                across_ranks: false,
            },
            LayerSpec::Relu,
        ]);
    }
    layers.extend([
        LayerSpec::GlobalAveragePool,
        LayerSpec::Dropout { rate: 0.2 },
        logits(),
    ]);
    layers
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
