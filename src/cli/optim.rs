//! The part of `phalanx train` that says how gradients become updates.

use clap::{Args, ValueEnum};

use super::{below_one, positive, positive_real, rate, share};
use crate::optim::{Decay, Epochs, Rule, Schedule, Warmup};
use crate::{Error, Result};

/// How gradients become updates.
#[derive(Args)]
#[command(next_help_heading = "Optimizer and learning rate")]
pub(super) struct Optim {
    /// How gradients become updates: as PyTorch defines them, and lars as You et al. In a one-sided exchange each rank
    /// has velocities and moments of its own.
    #[arg(long, value_enum, default_value_t = OptimizerArg::Sgd)]
    optimizer: OptimizerArg,
    #[command(flatten)]
    pub(super) rate: RateArgs,
    /// Share of the velocity that stays from step to step, with momentum, nesterov and lars [default: 0.9].
    #[arg(long, value_name = "X", value_parser = share)]
    momentum: Option<f64>,
    /// How far lars moves a tensor in a step, as a share of its norm, times the learning rate [default: 0.001].
    #[arg(long, value_name = "X", value_parser = positive_real)]
    trust: Option<f64>,
    /// Share of the first moment that stays, with adam and adamw [default: 0.9].
    #[arg(long, value_name = "X", value_parser = share)]
    beta1: Option<f64>,
    /// Share of the second moment that stays, with adam and adamw [default: 0.999].
    #[arg(long, value_name = "X", value_parser = share)]
    beta2: Option<f64>,
    /// Pulls parameters to zero: part of the gradient, or with adamw of the parameters
    /// [default: 0, or 0.01 with adamw].
    #[arg(long, value_name = "X", value_parser = not_negative)]
    weight_decay: Option<f64>,
    /// Shorten the gradient of a step, over all parameters and ranks, to a norm of X where it is longer.
    #[arg(long, value_name = "X", value_parser = positive_real)]
    pub(super) clip_norm: Option<f64>,
}

/// At which rate.
#[derive(Args)]
#[command(next_help_heading = "Optimizer and learning rate")]
pub(super) struct RateArgs {
    /// Learning rate: the highest, where it changes [default: 0.1, or 0.001 with adam and adamw].
    #[arg(long, value_name = "X", value_parser = rate)]
    lr: Option<f32>,
    /// Learning rate in proportion to the samples of a step: --lr is meant for N of them.
    #[arg(long, value_name = "N", value_parser = positive)]
    pub(super) lr_per: Option<usize>,
    /// How the learning rate falls: not at all, by a factor at certain epochs, or along a cosine to the end of the run.
    #[arg(long, value_enum, default_value_t = ScheduleArg::Constant)]
    pub(super) schedule: ScheduleArg,
    /// Factor of each fall with --schedule step [default: 0.1].
    #[arg(long, value_name = "X", value_parser = below_one)]
    pub(super) decay_factor: Option<f64>,
    /// Epochs that start with a fall, such as 30,60,80.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = positive)]
    decay_epochs: Vec<usize>,
    /// Epochs from one fall to the next.
    #[arg(long, value_name = "N", value_parser = positive, conflicts_with = "decay_epochs")]
    decay_every: Option<usize>,
    /// Learning rate at the end of --schedule cosine [default: 0].
    #[arg(long, value_name = "X", value_parser = rate)]
    lr_floor: Option<f32>,
    /// Epochs in which the learning rate rises from zero; 0.5 is half of one.
    #[arg(long, value_name = "X", value_parser = positive_real, conflicts_with = "warmup_steps")]
    warmup_epochs: Option<f64>,
    /// Steps in which the learning rate rises from zero.
    #[arg(long, value_name = "N", value_parser = positive)]
    warmup_steps: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum OptimizerArg {
    Sgd,
    Momentum,
    Nesterov,
    Adam,
    Adamw,
    Lars,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(super) enum ScheduleArg {
    Constant,
    Step,
    Cosine,
}

impl Optim {
    pub(super) fn rule(&self) -> Result<Rule> {
        use OptimizerArg::{Adam, Adamw, Lars, Momentum, Nesterov, Sgd};
        let is = |names: &[OptimizerArg]| names.contains(&self.optimizer);
        if self.momentum.is_some() && !is(&[Momentum, Nesterov, Lars]) {
            return usage("--momentum needs --optimizer momentum, nesterov or lars");
        }
        if (self.beta1.is_some() || self.beta2.is_some()) && !is(&[Adam, Adamw]) {
            return usage("--beta1 and --beta2 need --optimizer adam or adamw");
        }
        if self.trust.is_some() && !is(&[Lars]) {
            return usage("--trust needs --optimizer lars");
        }
        if self.clip_norm.is_some() && is(&[Lars]) {
            return usage(
                "--clip-norm has no use with lars, which itself sets how far a step goes",
            );
        }
        let trust = self.trust.unwrap_or(0.001);
        let momentum = self.momentum.unwrap_or(0.9);
        let (beta1, beta2) = (self.beta1.unwrap_or(0.9), self.beta2.unwrap_or(0.999));
        let usual = if is(&[Adamw]) { 0.01 } else { 0.0 };
        let weight_decay = self.weight_decay.unwrap_or(usual);
        Ok(match self.optimizer {
            Sgd => Rule::Sgd { weight_decay },
            Momentum => Rule::Momentum {
                momentum,
                weight_decay,
            },
            Nesterov => Rule::Nesterov {
                momentum,
                weight_decay,
            },
            Adam => Rule::Adam {
                beta1,
                beta2,
                weight_decay,
            },
            Adamw => Rule::AdamW {
                beta1,
                beta2,
                weight_decay,
            },
            Lars => Rule::Lars {
                trust,
                momentum,
                weight_decay,
            },
        })
    }

    pub(super) fn schedule(&self) -> Result<Schedule> {
        let adam = matches!(self.optimizer, OptimizerArg::Adam | OptimizerArg::Adamw);
        self.rate.schedule(if adam { 0.001 } else { 0.1 })
    }
}

impl RateArgs {
    /// The schedule, with a rate of `usual` where none was given.
    pub(super) fn schedule(&self, usual: f32) -> Result<Schedule> {
        let lr = self.lr.unwrap_or(usual);
        let warmup = match (self.warmup_epochs, self.warmup_steps) {
            (Some(epochs), _) => Warmup::Epochs(epochs),
            (None, steps) => Warmup::Steps(steps.unwrap_or(0) as u64),
        };
        let decay = self.decay()?;
        Ok(Schedule {
            lr,
            warmup,
            decay,
            grown: 0,
        })
    }

    fn decay(&self) -> Result<Decay> {
        let falls = !self.decay_epochs.is_empty() || self.decay_every.is_some();
        if (falls || self.decay_factor.is_some()) && self.schedule != ScheduleArg::Step {
            return usage("--decay-factor, --decay-epochs and --decay-every need --schedule step");
        }
        if self.lr_floor.is_some() && self.schedule != ScheduleArg::Cosine {
            return usage("--lr-floor needs --schedule cosine");
        }
        let floor = self.lr_floor.unwrap_or(0.0);
        let factor = self.decay_factor.unwrap_or(0.1);
        let epochs = match self.decay_every {
            Some(n) => Epochs::Every(n as u64),
            None => Epochs::At(self.decay_epochs.iter().map(|&n| n as u64).collect()),
        };
        match self.schedule {
            ScheduleArg::Constant => Ok(Decay::Constant),
            ScheduleArg::Cosine => Ok(Decay::Cosine { floor }),
            ScheduleArg::Step if falls => Ok(Decay::Step { factor, epochs }),
            ScheduleArg::Step => usage("--schedule step needs --decay-epochs or --decay-every"),
        }
    }
}

fn usage<T>(problem: &str) -> Result<T> {
    Err(Error::Usage(problem.into()))
}

/// A finite number from 0.
pub(super) fn not_negative(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        Ok(_) => Err("must be at least 0 and finite".into()),
        Err(_) => Err("expected a number".into()),
    }
}
