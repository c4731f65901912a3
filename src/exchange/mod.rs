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
    /// The next step for this rank's team, or none when all are taken.
    fn claim(&mut self) -> Result<Option<u64>>;
    /// The parameters as this rank sees them.
    fn params(&self) -> &[f32];
    /// What a rank's share of a step is computed with.
    fn arenas(&mut self) -> Arenas<'_>;
    /// Moves the parameters one step along the team's gradients at the rate `lr`, unless a rank has a fault. Gives the
    /// sum of the team's tails.
    fn step(&mut self, mine: Tail, lr: f32, mover: &mut Mover) -> Result<(Tail, Spent)>;
    /// No rank claims another step.
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
