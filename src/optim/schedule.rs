//! The learning rate of every step: a pure function, so that all ranks agree and a run can be repeated.

use std::f64::consts::PI;

use serde::Serialize;

use crate::data::Steps;

/// A rate that rises to its peak and falls again.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Schedule {
    /// The peak: the rate after warm-up and before decay.
    pub lr: f32,
    /// How it rises.
    pub warmup: Warmup,
    /// How it falls.
    pub decay: Decay,
    /// How many of the first falls leave the rate as it is, because the batch grew instead.
    pub grown: u64,
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
            grown: 0,
        }
    }

    /// The rate in proportion to the samples of a step, where the peak is meant for `base` of them.
    pub fn scaled(mut self, batch: usize, base: usize) -> Self {
        self.lr = (f64::from(self.lr) * batch as f64 / base as f64) as f32;
        self
    }

    /// Lets the batch grow where the rate would fall, by the inverse of the factor, for as long as it stays within `limit`
    /// (Smith et al. 2018); from then on the rate falls.
    pub fn grow(&mut self, steps: &mut Steps, limit: usize) {
        let Decay::Step { factor, epochs } = &self.decay else {
            return;
        };
        let first = steps.batch(0) as f64;
        for epoch in epochs.begin() {
            // From the first batch each time: rounding does not add up.
            let batch = (first / factor.powi(self.grown as i32 + 1)).round();
            if batch > limit as f64 || steps.first(epoch) >= steps.total() {
                return;
            }
            steps.grow(epoch, batch as usize);
            self.grown += 1;
        }
    }

    /// Whether warm-up is over before `step`.
    pub fn is_warm(&self, step: u64, steps: &Steps) -> bool {
        step >= self.warmup.steps(steps)
    }

    /// The rate of `step`, from 0, among `steps`.
    pub fn at(&self, step: u64, steps: &Steps) -> f32 {
        let warmup = self.warmup.steps(steps);
        let peak = f64::from(self.lr);
        let rate = match &self.decay {
            Decay::Constant => peak,
            Decay::Step { factor, epochs } => {
                let passed = epochs.passed(steps.place(step).epoch).min(1 << 20);
                peak * factor.powi(passed.saturating_sub(self.grown) as i32)
            }
            Decay::Cosine { floor } => {
                let (begin, now) = (steps.progress(warmup), steps.progress(step));
                let part = ((now - begin) / (1.0 - begin)).clamp(0.0, 1.0);
                // Warm-up to the end leaves nothing to fall.
                let part = if part.is_nan() { 0.0 } else { part };
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
    fn steps(self, steps: &Steps) -> u64 {
        match self {
            Self::Steps(steps) => steps,
            Self::Epochs(epochs) => steps.of(epochs),
        }
    }
}

impl Epochs {
    /// All of them, in order.
    fn begin(&self) -> Box<dyn Iterator<Item = u64>> {
        match *self {
            Self::Every(n) => Box::new((1..).map(move |i: u64| i.saturating_mul(n))),
            Self::At(ref list) => {
                let mut list = list.clone();
                list.sort_unstable();
                Box::new(list.into_iter())
            }
        }
    }

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
    use crate::data::Length;

    /// Rates of a peak of 0.8 at the steps given, with 10 steps an epoch and 100 in all.
    fn rates<const N: usize>(warmup: Warmup, decay: Decay, steps: [u64; N]) -> [f32; N] {
        let lr = 0.8;
        let grown = 0;
        let schedule = Schedule {
            lr,
            warmup,
            decay,
            grown,
        };
        let run = Steps::new(50, 5, Length::Epochs(10));
        steps.map(|step| (schedule.at(step, &run) * 1e5).round() / 1e5)
    }

    const NO_WARMUP: Warmup = Warmup::Steps(0);

    #[test]
    fn a_constant_rate_is_the_one_given_to_the_last_bit() {
        let schedule = Schedule::constant(0.1);
        let run = Steps::new(700, 100, Length::Steps(100));
        assert!([0, 1, 99, 1 << 50].map(|step| schedule.at(step, &run)) == [0.1; 4]);
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
    fn the_batch_grows_instead_of_the_rate_until_its_limit() {
        let factor = 0.2;
        for epochs in [Epochs::Every(2), Epochs::At(vec![6, 2, 4, 8])] {
            let mut schedule = Schedule::constant(0.5);
            schedule.decay = Decay::Step { factor, epochs };
            let mut run = Steps::new(60_000, 100, Length::Epochs(9));
            schedule.grow(&mut run, 6000);
            let at = |epoch| {
                let step = run.first(epoch);
                (run.batch(step), schedule.at(step, &run))
            };
            assert_eq!([at(0), at(1)], [(100, 0.5); 2]);
            assert_eq!([at(2), at(3)], [(500, 0.5); 2]);
            assert_eq!([at(4), at(5)], [(2500, 0.5); 2]);
            assert_eq!([at(6), at(7)], [(2500, 0.1); 2]);
            assert_eq!(at(8), (2500, 0.02));
            assert_eq!(run.total(), 2 * 600 + 2 * 120 + 5 * 24);
        }
    }

    #[test]
    fn the_rate_grows_with_the_batch_it_was_not_meant_for() {
        let schedule = Schedule::constant(0.1).scaled(8192, 256);
        assert!((schedule.lr - 3.2).abs() < 1e-6);
        assert_eq!(Schedule::constant(0.1).scaled(256, 256).lr, 0.1);
    }
}
