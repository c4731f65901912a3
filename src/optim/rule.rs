//! The optimizers by name, with their settings.

use serde::Serialize;

use super::{Adam, Clip, Lars, Momentum, Optimizer, Sgd};
use crate::nn::Tensor;

/// Which optimizer, and its settings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(tag = "name", rename_all = "lowercase")]
pub enum Rule {
    /// Plain descent.
    Sgd {
        /// Share of each parameter that is added to its gradient.
        weight_decay: f64,
    },
    /// Classic momentum.
    Momentum {
        /// Share of the velocity that stays from step to step.
        momentum: f64,
        /// As for `Sgd`.
        weight_decay: f64,
    },
    /// Momentum that looks ahead.
    Nesterov {
        /// Share of the velocity that stays from step to step.
        momentum: f64,
        /// As for `Sgd`.
        weight_decay: f64,
    },
    /// Each parameter at its own rate; weight decay goes into the gradient.
    Adam {
        /// Share of the first moment that stays.
        beta1: f64,
        /// Share of the second moment that stays.
        beta2: f64,
        /// As for `Sgd`.
        weight_decay: f64,
    },
    /// Adam with weight decay beside the gradient.
    AdamW {
        /// Share of the first moment that stays.
        beta1: f64,
        /// Share of the second moment that stays.
        beta2: f64,
        /// Share of each parameter that it loses in a step, times the learning rate.
        weight_decay: f64,
    },
    /// Momentum at a rate for each tensor.
    Lars {
        /// How far a tensor moves in a step, as a share of its norm, at a learning rate of 1.
        trust: f64,
        /// Share of the velocity that stays from step to step.
        momentum: f64,
        /// As for `Sgd`.
        weight_decay: f64,
    },
}

impl Rule {
    /// The optimizer of parameters that consist of `tensors`, before its first update; with a `limit` for the norm of
    /// gradients, which `Lars` cannot have.
    pub fn build(self, tensors: &[Tensor], limit: Option<f64>) -> Box<dyn Optimizer> {
        if let Some(limit) = limit {
            return Box::new(Clip::new(limit, self.build(tensors, None)));
        }
        match self {
            Self::Sgd { weight_decay } => Box::new(Sgd { weight_decay }),
            Self::Momentum {
                momentum,
                weight_decay,
            } => Box::new(Momentum::new(momentum, false, weight_decay)),
            Self::Nesterov {
                momentum,
                weight_decay,
            } => Box::new(Momentum::new(momentum, true, weight_decay)),
            Self::Adam {
                beta1,
                beta2,
                weight_decay,
            } => Box::new(Adam::new(beta1, beta2, weight_decay, false)),
            Self::AdamW {
                beta1,
                beta2,
                weight_decay,
            } => Box::new(Adam::new(beta1, beta2, weight_decay, true)),
            Self::Lars {
                trust,
                momentum,
                weight_decay,
            } => Box::new(Lars::new(trust, momentum, weight_decay, tensors)),
        }
    }

    /// Values that it remembers of each parameter.
    pub fn state(self) -> usize {
        self.build(&[], None).state()
    }

    /// As the user reads it.
    pub fn describe(self) -> String {
        let (name, decay) = match self {
            Self::Sgd { weight_decay } => ("sgd".into(), weight_decay),
            Self::Momentum {
                momentum,
                weight_decay,
            } => (format!("momentum {momentum}"), weight_decay),
            Self::Nesterov {
                momentum,
                weight_decay,
            } => (format!("nesterov, momentum {momentum}"), weight_decay),
            Self::Adam {
                beta1,
                beta2,
                weight_decay,
            } => (format!("adam, betas {beta1} and {beta2}"), weight_decay),
            Self::AdamW {
                beta1,
                beta2,
                weight_decay,
            } => (format!("adamw, betas {beta1} and {beta2}"), weight_decay),
            Self::Lars {
                trust,
                momentum,
                weight_decay,
            } => (
                format!("lars, trust {trust}, momentum {momentum}"),
                weight_decay,
            ),
        };
        match decay {
            0.0 => name,
            _ => format!("{name}, weight decay {decay}"),
        }
    }
}
