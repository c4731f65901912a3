//! The learning rate of every step: a pure function, so that all ranks agree and a run can be repeated.

use std::f64::consts::PI;

use serde::Serialize;

/// A rate that rises to its peak and falls again.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Schedule {
    /// The peak: the rate after warm-up and before decay.
    pub lr: f32,
    /// How it rises.
    pub warmup: Warmup,
    /// How it falls.
    pub decay: Decay,
}

/// How long the rate rises in equal amounts from zero to the peak.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Warmup {
    /// Passes over the data.
    Epochs(f64),
    /// Updates of the parameters.
    Steps(u64),
}

/// How the rate falls.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "name", rename_all = "lowercase")]
pub enum Decay {
    /// Not at all.
    Constant,
    /// Multiplied by `factor` at the start of certain epochs.
    Step {
        /// Below 1.
        factor: f64,
        /// Which epochs.
        epochs: Epochs,
    },
    /// Along half a cosine from the end of warm-up to the end of the run.
    Cosine {
        /// The rate at the end.
        floor: f32,
    },
}

/// Epochs, counted from 0 with warm-up included.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Epochs {
    /// Every so many.
    Every(u64),
    /// These.
    At(Vec<u64>),
}

impl Schedule {
    /// The same rate at every step.
    pub fn constant(lr: f32) -> Self {
        Self {
            lr,
            warmup: Warmup::Steps(0),
            decay: Decay::Constant,
        }
    }

    /// The rate in proportion to the samples of a step, where the peak is meant for `base` of them.
    pub fn scaled(mut self, batch: usize, base: usize) -> Self {
        self.lr = (f64::from(self.lr) * batch as f64 / base as f64) as f32;
        self
    }

    /// The rate of `step`, from 0, in a run of `total` steps with `per_epoch` of them in an epoch.
    pub fn at(&self, step: u64, per_epoch: u64, total: u64) -> f32 {
        let warmup = self.warmup.steps(per_epoch);
        let peak = f64::from(self.lr);
        let rate = match &self.decay {
            Decay::Constant => peak,
            Decay::Step { factor, epochs } => {
                let times = epochs.passed(step / per_epoch).min(1 << 20);
                peak * factor.powi(times as i32)
            }
            Decay::Cosine { floor } => {
                let (done, all) = (step.saturating_sub(warmup), total.saturating_sub(warmup));
                let part = (done as f64 / all.max(1) as f64).min(1.0);
                let floor = f64::from(*floor);
                floor + (peak - floor) * 0.5 * (1.0 + (PI * part).cos())
            }
        };
        if step < warmup {
            return (rate * (step + 1) as f64 / warmup as f64) as f32;
        }
        rate as f32
    }

    /// As the user reads it.
    pub fn describe(&self) -> String {
        let rise = match self.warmup {
            Warmup::Steps(0) => String::new(),
            Warmup::Steps(steps) => format!(" after {steps} steps of warm-up"),
            Warmup::Epochs(epochs) => format!(" after {epochs} epochs of warm-up"),
        };
        let fall = match &self.decay {
            Decay::Constant => String::new(),
            Decay::Step { factor, epochs } => match epochs {
                Epochs::Every(1) => format!(", times {factor} every epoch"),
                Epochs::Every(n) => format!(", times {factor} every {n} epochs"),
                Epochs::At(list) => {
                    let list: Vec<String> = list.iter().map(u64::to_string).collect();
                    format!(", times {factor} at epochs {}", list.join(", "))
                }
            },
            Decay::Cosine { floor } => format!(", by a cosine to {floor}"),
        };
        format!("{}{rise}{fall}", self.lr)
    }
}

impl Warmup {
    fn steps(self, per_epoch: u64) -> u64 {
        match self {
            Self::Steps(steps) => steps,
            Self::Epochs(epochs) => (epochs * per_epoch as f64).round() as u64,
        }
    }
}

impl Epochs {
    /// How many of them have begun when `epoch` has.
    fn passed(&self, epoch: u64) -> u64 {
        match self {
            Self::Every(n) => epoch / n,
            Self::At(list) => list.iter().filter(|&&at| at <= epoch).count() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rates of a peak of 0.8 at the steps given, with 10 steps an epoch and 100 in all.
    fn rates<const N: usize>(warmup: Warmup, decay: Decay, steps: [u64; N]) -> [f32; N] {
        let lr = 0.8;
        let schedule = Schedule { lr, warmup, decay };
        steps.map(|step| (schedule.at(step, 10, 100) * 1e5).round() / 1e5)
    }

    const NO_WARMUP: Warmup = Warmup::Steps(0);

    #[test]
    fn a_constant_rate_is_the_one_given_to_the_last_bit() {
        let schedule = Schedule::constant(0.1);
        assert!([0, 1, 99, 1 << 50].map(|step| schedule.at(step, 7, 100)) == [0.1; 4]);
    }

    #[test]
    fn steps_fall_with_the_first_step_of_an_epoch() {
        let decay = |epochs| Decay::Step {
            factor: 0.5,
            epochs,
        };
        let every = rates(NO_WARMUP, decay(Epochs::Every(3)), [0, 29, 30, 59, 60, 99]);
        assert_eq!(every, [0.8, 0.8, 0.4, 0.4, 0.2, 0.1]);
        let at = rates(
            NO_WARMUP,
            decay(Epochs::At(vec![2, 5])),
            [0, 19, 20, 49, 50, 99],
        );
        assert_eq!(at, [0.8, 0.8, 0.4, 0.4, 0.2, 0.2]);
    }

    #[test]
    fn a_cosine_goes_from_the_peak_to_the_floor() {
        let cosine = |floor| Decay::Cosine { floor };
        let plain = rates(NO_WARMUP, cosine(0.0), [0, 25, 50, 75, 100, 200]);
        assert_eq!(plain, [0.8, 0.68284, 0.4, 0.11716, 0.0, 0.0]);
        let floored = rates(NO_WARMUP, cosine(0.2), [0, 50, 100, 200]);
        assert_eq!(floored, [0.8, 0.5, 0.2, 0.2]);
    }

    #[test]
    fn warm_up_rises_evenly_and_ends_at_the_peak() {
        let constant = rates(Warmup::Steps(4), Decay::Constant, [0, 1, 2, 3, 4, 99]);
        assert_eq!(constant, [0.2, 0.4, 0.6, 0.8, 0.8, 0.8]);
        let epochs = rates(Warmup::Epochs(0.4), Decay::Constant, [0, 3, 4]);
        assert_eq!(epochs, [0.2, 0.8, 0.8]);
        // The cosine takes the 80 steps behind 20 of warm-up.
        let cosine = rates(
            Warmup::Epochs(2.0),
            Decay::Cosine { floor: 0.0 },
            [0, 19, 20, 60, 100],
        );
        assert_eq!(cosine, [0.04, 0.8, 0.8, 0.4, 0.0]);
    }

    #[test]
    fn warm_up_longer_than_the_run_only_rises() {
        let rates = rates(Warmup::Steps(1000), Decay::Cosine { floor: 0.0 }, [0, 99]);
        assert_eq!(rates, [0.0008, 0.08]);
    }

    #[test]
    fn the_rate_grows_with_the_batch_it_was_not_meant_for() {
        let schedule = Schedule::constant(0.1).scaled(8192, 256);
        assert!((schedule.lr - 3.2).abs() < 1e-6);
        assert_eq!(Schedule::constant(0.1).scaled(256, 256).lr, 0.1);
    }
}
