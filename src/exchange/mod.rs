//! How ranks agree on parameters: the choice between synchronous and asynchronous training.

mod all_reduce;
mod gradients;
mod kind;
mod node_shared;
mod one_sided;

pub use all_reduce::AllReduce;
pub use gradients::Gradients;
pub use kind::Kind;
pub use node_shared::NodeShared;
pub use one_sided::{OneSided, Placement};

use std::time::Duration;

use crate::Result;
use crate::comm::Comm;
use crate::optim::Optimizer;

/// Takes steps on behalf of the whole group; the training loop does not know which kind it has.
pub trait Exchange {
    /// The ranks that take one step together: all of them, or this one alone.
    fn team(&self) -> &dyn Comm;
    /// The step that this rank's team takes next, from 0; it has `claimed` so many before. A team of all ranks takes one
    /// after the other.
    fn claim(&mut self, claimed: u64) -> Result<u64> {
        Ok(claimed)
    }
    /// Moves `params` one step along the team's gradients at the rate `lr`; afterwards `grads` holds the team's tally.
    fn step(
        &mut self,
        params: &mut [f32],
        grads: &mut Gradients,
        lr: f32,
        optimizer: &mut dyn Optimizer,
    ) -> Result<Spent>;
    /// Any step claimed from now on is past the end of every run.
    fn finish(&mut self) -> Result<()>;
    /// Ends the exchange and leaves every rank with the same `params`; *collective* over all ranks.
    fn settle(self: Box<Self>, params: &mut [f32]) -> Result<()>;
}

/// Where the time of an exchange went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// Moving and adding numbers.
    pub exchange: Duration,
    /// Waiting for other ranks to arrive.
    pub wait: Duration,
}
