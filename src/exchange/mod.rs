//! How ranks agree on parameters: the choice between synchronous and asynchronous training.

mod all_reduce;
mod auto;
mod backup;
mod clock;
mod conduct;
pub mod cost;
mod kind;
mod local;
mod node_shared;
mod on_device;
mod one_sided;
mod saved;
mod tail;

pub use all_reduce::AllReduce;
pub use auto::fastest;
pub use backup::Backup;
pub use clock::Clock;
pub use conduct::{Conduct, Histogram, gini};
pub use kind::{Kind, Start};
pub use local::{Averaging, Local};
pub use node_shared::NodeShared;
pub use on_device::OnDevice;
pub use one_sided::{Freedom, OneSided, Placement, Record, Update};
pub use tail::{Tail, Votes};

use std::time::Duration;

use crate::Result;
use crate::checkpoint::{Checkpoint, Snapshot};
use crate::comm::Comm;
use crate::nn::{Arenas, Params};
use crate::optim::Mover;

/// Holds parameters and gradients, and takes steps on behalf of the whole group; the training loop does not know which
/// kind it has.
pub trait Exchange {
    /// The ranks that take one step together and may wait for each other: all of them, or this one alone.
    fn team(&self) -> &dyn Comm;
    /// This rank's place among those that divide the samples of a step, and how many they are.
    fn place(&self) -> (usize, usize) {
        (self.team().rank(), self.team().size())
    }
    /// The step that this rank's team takes next, from 0; it has `claimed` so many before. A team of all ranks takes one
    /// after the other.
    fn claim(&mut self, claimed: u64) -> Result<u64> {
        Ok(claimed)
    }
    /// Makes the parameters ready for `step`, and gives the time that this meant waiting for others; nothing if the others
    /// have taken that step already, so that its gradients would be thrown away.
    fn ready(&mut self, _step: u64) -> Result<Option<Duration>> {
        Ok(Some(Duration::ZERO))
    }
    /// The parameters as this rank sees them.
    fn params(&self) -> Params<'_>;
    /// What a rank's share of a step is computed with.
    fn arenas(&mut self) -> Arenas<'_>;
    /// Moves the parameters one step along the team's gradients at the rate `lr`, unless a rank has a fault. Gives the
    /// sum of the team's tails.
    fn step(&mut self, mine: Tail, lr: f32, mover: &mut Mover) -> Result<(Tail, Spent)>;
    /// Any step claimed from now on is past the end of every run. A team of all ranks decides that together: the loop ends
    /// on all of them at the same step.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
    /// This rank takes no more steps: nobody is to wait for them.
    fn leave(&mut self) -> Result<()> {
        Ok(())
    }
    /// How this rank's updates were among those of others.
    fn conduct(&self) -> Conduct {
        Conduct::default()
    }
    /// How many steps all ranks have taken when this one has taken `step`, in the sense of a checkpoint: a run that goes on from
    /// there claims those behind them.
    fn reached(&self, step: u64) -> u64 {
        step + 1
    }
    /// Copies what this rank gives to a checkpoint: its part of the parameters, what the optimizer remembers of that, and what
    /// else only the exchange knows.
    fn save(&mut self, mover: &mut Mover, to: &mut Snapshot) -> Result<()>;
    /// Takes back what the rank whose part is the `part`th gave, but for the parameters, which the exchange has been started
    /// with, after `updates` of the optimizer; *collective*.
    fn load(
        &mut self,
        mover: &mut Mover,
        updates: u64,
        from: &Checkpoint,
        part: usize,
    ) -> Result<()>;
    /// Ends the exchange and gives every rank the same parameters; *collective* over all ranks.
    fn settle(self: Box<Self>) -> Result<Vec<f32>>;
}

/// In place of a step when the run is over, or added to a counter of steps to be past every end; no run has so many.
const FINISHED: u64 = 1 << 60;

/// Where the time of an exchange went.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spent {
    /// Moving and adding numbers.
    pub exchange: Duration,
    /// Waiting for other ranks to arrive.
    pub wait: Duration,
}
