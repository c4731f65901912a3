//! Finding a good configuration with few trials: Bayesian optimisation over a space of choices, as CherryPick does for clouds.
//!
//! A [`Space`] has axes with values; a [`Search`] says which configuration to try next, from what a model of all trials so far
//! expects of it, and when it no longer pays to go on.

mod forest;
mod gaussian;
mod halton;
mod replay;
mod search;
mod space;
mod task;

pub use forest::Forest;
pub use gaussian::Gaussian;
pub use halton::halton;
pub use replay::{Recorded, Score};
pub use search::{Model, Proposal, Search, Settings, Trial};
pub use space::{Axis, Space, Value};
pub use task::{Instance, Measure, Task};

/// What a model expects of a configuration: a mean, and how far from it the truth may be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Belief {
    /// The expected value.
    pub mean: f64,
    /// One standard deviation.
    pub deviation: f64,
}

/// A model of how good configurations are, learnt from trials.
pub trait Surrogate {
    /// What it expects at a place in the unit cube.
    fn believe(&self, at: &[f64]) -> Belief;
}
