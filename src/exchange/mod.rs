//! How ranks agree on parameters: the choice between synchronous and asynchronous training.

mod all_reduce;
mod kind;
mod node_shared;
mod one_sided;
mod tail;

pub use all_reduce::AllReduce;
pub use kind::Kind;
pub use node_shared::NodeShared;
pub use one_sided::{OneSided, Placement};
pub use tail::Tail;

use std::time::Duration;

use crate::Result;
use crate::comm::Comm;
use crate::optim::Mover;

/// Holds parameters and gradients, and takes steps on behalf of the whole group; the training loop does not know which
/// kind it has.
pub trait Exchange {
    /// The ranks that take one step together: all of them, or this one alone.
    fn team(&self) -> &dyn Comm;
    /// The step that this rank's team takes next, from 0; it has `claimed` so many before. A team of all ranks takes one
    /// after the other.
    fn claim(&mut self, claimed: u64) -> Result<u64> {
        Ok(claimed)
    }
    /// The parameters as this rank sees them.
    fn params(&self) -> &[f32];
    /// What a rank's share of a step is computed with.
    fn arenas(&mut self) -> Arenas<'_>;
    /// Moves the parameters one step along the team's gradients at the rate `lr`, unless a rank has a fault. Gives the
    /// sum of the team's tails.
    fn step(&mut self, mine: Tail, lr: f32, mover: &mut Mover) -> Result<(Tail, Spent)>;
    /// Any step claimed from now on is past the end of every run.
    fn finish(&mut self) -> Result<()>;
    /// Ends the exchange and gives every rank the same parameters; *collective* over all ranks.
    fn settle(self: Box<Self>) -> Result<Vec<f32>>;
}

/// What a rank's share of a step is computed with.
pub struct Arenas<'a> {
    /// The ranks that take the step together.
    pub team: &'a dyn Comm,
    /// The parameters.
    pub params: &'a [f32],
    /// Where the rank's gradients are to be written.
    pub grads: &'a mut [f32],
}

/// Where the time of an exchange went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// Moving and adding numbers.
    pub exchange: Duration,
    /// Waiting for other ranks to arrive.
    pub wait: Duration,
}
