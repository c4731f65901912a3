//! A model as a list of layers that can be written down: in the zoo, in a TOML file, in `model.h5`.

use serde::{Deserialize, Serialize};

use super::activation::{Activation, Kind as ActivationKind};
use super::batch_norm::{BatchNorm, Settings as BatchNormSettings};
use super::conv2d::Conv2d;
use super::description::Origin;
use super::dropout::Dropout;
use super::flatten::Flatten;
use super::global_average::GlobalAverage;
use super::layer::Layer;
use super::linear::Linear;
use super::local_response::LocalResponse;
use super::model::Model;
use super::pool::{Kind as PoolKind, Pool};
use crate::backend::cpu::{conv2d, local_response, pool};
use crate::data::Shape;
use crate::{Error, Result};

/// The most values that a layer may give for one sample, and the most parameters of a model: beyond them a size is a slip of
/// the hand, or a file is damaged.
const MOST_VALUES: u128 = 1 << 31;
const MOST_PARAMS: usize = 1 << 40;
/// The most layers, and the largest number in one.
const MOST_LAYERS: usize = 1000;
const MOST_SIZE: usize = 1 << 24;
/// The most channels that are normalised: their statistics are allocated with the layer.
const MOST_CHANNELS: usize = 1 << 14;

/// One layer, without the sizes that follow from the one before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum LayerSpec {
    /// Convolution.
    Conv2d {
        /// Output channels.
        outputs: usize,
        /// Height and width of the filters.
        kernel: usize,
        /// Step of the filters.
        #[serde(default = "one")]
        stride: usize,
        /// Zeros around the image.
        #[serde(default)]
        pad: usize,
    },
    /// Fully connected layer over all values of the layer before.
    Linear {
        /// Outputs; without it, as many as there are classes.
        outputs: Option<usize>,
        /// Whether parameters start at zero instead of at random.
        #[serde(default)]
        zero: bool,
    },
    /// Largest value of each window.
    MaxPool {
        /// Height and width of the windows.
        kernel: usize,
        /// Step of the windows; without it, the kernel's size.
        stride: Option<usize>,
        /// Cells around the image.
        #[serde(default)]
        pad: usize,
    },
    /// Mean of each window.
    AveragePool {
        /// Height and width of the windows.
        kernel: usize,
        /// Step of the windows; without it, the kernel's size.
        stride: Option<usize>,
        /// Cells around the image.
        #[serde(default)]
        pad: usize,
    },
    /// Mean of each channel.
    GlobalAveragePool,
    /// Each channel to mean 0 and variance 1 over the batch, then scaled and shifted.
    BatchNorm {
        /// Share of the newest batch in the running estimates that evaluation uses.
        #[serde(default = "defaults::momentum")]
        momentum: f32,
        /// What is added to a variance.
        #[serde(default = "defaults::eps")]
        eps: f32,
        /// Whether the batch is that of all ranks that take a step together, or of each rank by itself.
        #[serde(default)]
        across_ranks: bool,
    },
    /// Each value over `(k + alpha/size · Σ x²)^beta`, the sum over `size` channels around its own.
    LocalResponse {
        /// Channels that are summed over.
        #[serde(default = "defaults::size")]
        size: usize,
        /// Weight of the mean of squares.
        #[serde(default = "defaults::alpha")]
        alpha: f32,
        /// The power.
        #[serde(default = "defaults::beta")]
        beta: f32,
        /// What the sum adds to.
        #[serde(default = "defaults::k")]
        k: f32,
    },
    /// All values of a sample in one row.
    Flatten,
    /// Drops values while training.
    Dropout {
        /// Probability that a value is dropped.
        rate: f32,
    },
    /// max(x, 0).
    Relu,
    /// tanh x.
    Tanh,
}

fn one() -> usize {
    1
}

/// What a description may leave out: PyTorch's figures, and for the local response those of AlexNet's authors.
mod defaults {
    pub(super) fn momentum() -> f32 {
        0.1
    }
    pub(super) fn eps() -> f32 {
        1e-5
    }
    pub(super) fn size() -> usize {
        5
    }
    pub(super) fn alpha() -> f32 {
        1e-4
    }
    pub(super) fn beta() -> f32 {
        0.75
    }
    pub(super) fn k() -> f32 {
        2.0
    }
}

/// A model on paper.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spec {
    /// Its name.
    pub name: String,
    /// Its layers, from input to logits.
    #[serde(rename = "layer")]
    pub layers: Vec<LayerSpec>,
    /// The file it was read from, to name its lines.
    #[serde(skip)]
    pub(super) origin: Option<Origin>,
}

impl Spec {
    /// Whether a layer adds up over all ranks that take a step together.
    pub fn sums_across_ranks(&self) -> bool {
        let across = |layer: &LayerSpec| {
            matches!(
                layer,
                LayerSpec::BatchNorm {
                    across_ranks: true,
                    ..
                }
            )
        };
        self.layers.iter().any(across)
    }

    /// As TOML.
    pub fn text(&self) -> String {
        toml::to_string(self).expect("a list of plain layers")
    }

    /// The model for inputs of `shape` and so many classes; an impossible layer is named.
    pub fn build(&self, shape: Shape, classes: u32) -> Result<Model> {
        self.build_within(shape, classes, MOST_PARAMS)
    }

    /// As `build`, with no more than so many parameters: nothing is allocated for a model that has more.
    pub(super) fn build_within(&self, shape: Shape, classes: u32, most: usize) -> Result<Model> {
        if !(1..=MOST_VALUES).contains(&values(shape)) || self.layers.len() > MOST_LAYERS {
            return Err(Error::Mismatch {
                what: format!("size of {}", self.name),
                expected: format!("images of 1 to 2³¹ values and up to {MOST_LAYERS} layers"),
                got: format!("{shape} and {}", self.layers.len()),
                hint: "use images that the model is made for, or change the model",
            });
        }
        let mut layers: Vec<Box<dyn Layer>> = Vec::new();
        let mut x = shape;
        let mut left = most as u128;
        for (i, spec) in self.layers.iter().enumerate() {
            let built = spec.check(x, classes).and_then(|params| {
                let fewer = || format!("at most {left} parameters of this layer and those behind");
                left = left.checked_sub(params).ok_or_else(fewer)?;
                spec.build(i as u64, x, classes)
            });
            let layer = built.map_err(|problem| Error::Mismatch {
                what: self.place(i),
                expected: problem,
                got: format!("an input of {x}"),
                hint: "use images that the model is made for, or change the layer",
            })?;
            x = layer.output();
            layers.push(layer);
        }
        if x.len() != classes as usize {
            return Err(Error::Mismatch {
                what: self.place(self.layers.len() - 1),
                expected: format!("{classes} outputs, one for each class"),
                got: x.len().to_string(),
                hint: "end with a linear layer without `outputs`",
            });
        }
        Ok(Model::new(self.clone(), shape, layers))
    }

    /// Where layer `i` stands.
    fn place(&self, i: usize) -> String {
        let kind = self.layers[i].name();
        match &self.origin {
            Some(Origin { path, lines }) => {
                format!("{}, line {}: layer {i} ({kind})", path.display(), lines[i])
            }
            None => format!("layer {i} of {} ({kind})", self.name),
        }
    }
}

impl LayerSpec {
    fn name(&self) -> &'static str {
        match self {
            Self::Conv2d { .. } => "conv2d",
            Self::Linear { .. } => "linear",
            Self::MaxPool { .. } => "max_pool",
            Self::AveragePool { .. } => "average_pool",
            Self::GlobalAveragePool => "global_average_pool",
            Self::BatchNorm { .. } => "batch_norm",
            Self::LocalResponse { .. } => "local_response",
            Self::Flatten => "flatten",
            Self::Dropout { .. } => "dropout",
            Self::Relu => "relu",
            Self::Tanh => "tanh",
        }
    }

    /// How many parameters it has for inputs of `x`, or what it would need: no size of it, nor of what it gives, is beyond
    /// what can be.
    fn check(&self, x: Shape, classes: u32) -> Result<u128, String> {
        let wide = |size: usize| size as u128;
        let most = |sizes: [usize; 4]| match sizes.iter().all(|&size| size <= MOST_SIZE) {
            true => Ok(()),
            false => Err(format!("no size above {MOST_SIZE}")),
        };
        let (params, outputs) = match *self {
            Self::Conv2d {
                outputs,
                kernel,
                stride,
                pad,
            } => {
                most([outputs, kernel, stride, pad])?;
                fits(x, kernel, stride, pad)?;
                let under = wide(x.c) * wide(kernel) * wide(kernel);
                let side = |size: usize| wide((size + 2 * pad - kernel) / stride + 1);
                let plane = side(x.h) * side(x.w);
                (wide(outputs) * (under + 1), wide(outputs) * plane)
            }
            Self::Linear { outputs, .. } => {
                let outputs = wide(outputs.unwrap_or(classes as usize));
                (outputs.saturating_mul(values(x) + 1), outputs)
            }
            Self::MaxPool {
                kernel,
                stride,
                pad,
            }
            | Self::AveragePool {
                kernel,
                stride,
                pad,
            } => {
                most([kernel, stride.unwrap_or(kernel), pad, 0])?;
                // At most a row and a column more than there were.
                (0, wide(x.c) * (wide(x.h) + 1) * (wide(x.w) + 1))
            }
            Self::BatchNorm { .. } if x.c > MOST_CHANNELS => {
                return Err(format!("at most {MOST_CHANNELS} channels"));
            }
            Self::BatchNorm { .. } => (2 * wide(x.c), values(x)),
            Self::LocalResponse { size, .. } => {
                most([size, 0, 0, 0])?;
                (0, values(x))
            }
            _ => (0, values(x)),
        };
        match outputs <= MOST_VALUES {
            true => Ok(params),
            false => Err("no more than 2³¹ outputs for a sample".into()),
        }
    }

    /// The layer, number `i` of its model, for inputs of `x`; or what it would need.
    fn build(&self, i: u64, x: Shape, classes: u32) -> Result<Box<dyn Layer>, String> {
        let Shape { c, h, w } = x;
        Ok(match *self {
            Self::Conv2d {
                outputs,
                kernel,
                stride,
                pad,
            } => {
                fits(x, kernel, stride, pad)?;
                if outputs == 0 {
                    return Err("at least one output".into());
                }
                let g = conv2d::Geometry {
                    ci: c,
                    h,
                    w,
                    co: outputs,
                    kh: kernel,
                    kw: kernel,
                    stride,
                    pad,
                };
                Box::new(Conv2d::new(g))
            }
            Self::Linear { outputs, zero } => {
                let co = outputs.unwrap_or(classes as usize);
                if co == 0 {
                    return Err("at least one output".into());
                }
                Box::new(Linear {
                    ci: x.len(),
                    co,
                    zero,
                })
            }
            Self::MaxPool {
                kernel,
                stride,
                pad,
            } => pooling(PoolKind::Max, x, kernel, stride, pad)?,
            Self::AveragePool {
                kernel,
                stride,
                pad,
            } => pooling(PoolKind::Average, x, kernel, stride, pad)?,
            Self::GlobalAveragePool => Box::new(GlobalAverage { input: x }),
            Self::BatchNorm {
                momentum,
                eps,
                across_ranks,
            } => {
                if !(0.0..=1.0).contains(&momentum) || !eps.is_normal() || eps < 0.0 {
                    return Err("a momentum from 0 to 1 and an eps above 0".into());
                }
                let settings = BatchNormSettings {
                    momentum,
                    eps,
                    across_ranks,
                };
                Box::new(BatchNorm::new(settings, x))
            }
            Self::LocalResponse {
                size,
                alpha,
                beta,
                k,
            } => {
                let sound = alpha.is_finite() && alpha >= 0.0 && beta.is_finite() && beta >= 0.0;
                if size == 0 || !sound || !k.is_normal() || k < 0.0 {
                    let need = "a size of at least 1, alpha and beta of at least 0, and k above 0";
                    return Err(need.into());
                }
                let plane = h * w;
                let kernel = local_response::LocalResponse {
                    c,
                    plane,
                    size,
                    alpha,
                    beta,
                    k,
                };
                Box::new(LocalResponse::new(kernel, x))
            }
            Self::Flatten => Box::new(Flatten { values: x.len() }),
            Self::Dropout { rate } if !(0.0..1.0).contains(&rate) => {
                return Err("a rate from 0 to below 1".into());
            }
            Self::Dropout { rate } => Box::new(Dropout {
                rate,
                layer: i,
                shape: x,
            }),
            Self::Relu => Box::new(Activation {
                kind: ActivationKind::Relu,
                shape: x,
            }),
            Self::Tanh => Box::new(Activation {
                kind: ActivationKind::Tanh,
                shape: x,
            }),
        })
    }
}

fn pooling(
    kind: PoolKind,
    x: Shape,
    k: usize,
    stride: Option<usize>,
    pad: usize,
) -> Result<Box<dyn Layer>, String> {
    let stride = stride.unwrap_or(k);
    fits(x, k, stride, pad)?;
    if pad > k / 2 {
        return Err(format!("padding of at most half the window, {}", k / 2));
    }
    let Shape { c, h, w } = x;
    Ok(Box::new(Pool::new(
        kind,
        pool::Geometry {
            c,
            h,
            w,
            k,
            stride,
            pad,
        },
    )))
}

/// Values of a sample, however many those are.
fn values(Shape { c, h, w }: Shape) -> u128 {
    (c as u128).saturating_mul(h as u128 * w as u128)
}

/// Whether windows of `k` fit into the padded image.
fn fits(x: Shape, k: usize, stride: usize, pad: usize) -> Result<(), String> {
    if k == 0 || stride == 0 {
        return Err("a kernel and a stride of at least 1".into());
    }
    if x.h + 2 * pad < k || x.w + 2 * pad < k {
        return Err(format!("room for a {k}×{k} window with padding {pad}"));
    }
    Ok(())
}
