//! What takes batches through a model: the threads of a rank, or a device.

use std::rc::Rc;
use std::slice::ChunksExact;

use super::{Arenas, Crew, Fault, Grads, LayerCost, Model, Params, ShardSums, Share, Tally};
use crate::Result;
use crate::backend::cuda::Stream;
use crate::data::Batch;
use crate::optim::squares;

/// Computes a rank's share of every step, and evaluates. The training loop does not know which kind it has.
pub trait Backend {
    /// The model on paper: its layers and tables, and the state that was last set.
    fn model(&self) -> &Model;

    /// Begins a rank's share of a step: sets the arenas' gradients to those of the scaled losses, at the latest when `end` returns.
    ///
    /// Layers that normalise by the batch of all ranks add up over the team: then it is *collective* over that.
    fn begin(&mut self, share: &Share, arenas: Arenas) -> Result<()>;

    /// Whether it takes in the batch of the step after, by `stage`, while the step that was begun is computed.
    fn stages(&self) -> bool {
        false
    }

    /// Takes the batch of `step` in, ahead of that.
    fn stage(&mut self, _step: u64, _batch: &Batch) -> Result<()> {
        Ok(())
    }

    /// What the step that was begun came to; with the same arenas.
    fn end(&mut self, params: Params, grads: Grads) -> Result<Found>;

    /// Losses and right answers over all batches that `next` fills; it says whether there was another.
    fn evaluate(&mut self, params: Params, batch: &mut Batch, next: Next) -> Result<Tally>;

    /// What training changes in the model and no gradient moves, as it is now.
    fn state(&mut self) -> Result<Vec<f32>>;

    /// Replaces the state by one that a model of this kind gave.
    fn set_state(&mut self, values: &[f32]) -> Result<()>;

    /// The states that shards have left the model in, in the order of shards; none where there are no shards.
    fn shard_states(&mut self) -> Vec<&mut Vec<f32>> {
        Vec::new()
    }

    /// Replaces the states that shards have left the model in, in the order of this rank's shards.
    fn set_shard_states(&mut self, _states: ChunksExact<f32>) {
        unreachable!("only asked of those that compute in shards")
    }

    /// Starts to add up the time of each layer.
    fn watch(&mut self);

    /// What each layer did since `watch`.
    fn costs(&self) -> Vec<LayerCost>;

    /// The stream of a device that parameters may stay on.
    fn stream(&self) -> Option<Rc<Stream>> {
        None
    }
}

/// Fills a batch, if there is another.
pub type Next<'a> = &'a mut dyn FnMut(&mut Batch) -> Result<bool>;

/// What a rank's share of a step came to.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Losses, and norms where they are measured.
    pub sums: ShardSums,
    /// What is not finite.
    pub fault: Option<Fault>,
}

impl Backend for Crew {
    fn model(&self) -> &Model {
        self.model()
    }

    /// In shards if the share has cuts, else at once, and handed to the courier where there is one.
    fn begin(&mut self, share: &Share, arenas: Arenas) -> Result<()> {
        let Arenas {
            team,
            params,
            grads,
            courier,
        } = arenas;
        let (params, grads) = (params.host(), grads.host());
        let &Share {
            batch, draw, scale, ..
        } = share;
        let sums = match courier {
            _ if !share.cuts.is_empty() => self.sharded_gradients(params, share, grads),
            Some(courier) => {
                let (how, grads) = ((draw, scale), &mut *grads);
                let tally = courier
                    .overlap(|hand| self.gradients_by_layer(params, batch, how, grads, hand));
                ShardSums { tally, norm: 0.0 }
            }
            None => {
                let tally = self.gradients(params, batch, draw, scale, team, grads);
                let squares = share.measured.map_or(0.0, |_| squares(grads));
                let norm = share.norm(squares, tally);
                ShardSums { tally, norm }
            }
        };
        let fault = self.fault(params, batch, sums.tally, grads);
        self.found = Found { sums, fault };
        Ok(())
    }

    fn end(&mut self, _params: Params, _grads: Grads) -> Result<Found> {
        Ok(std::mem::take(&mut self.found))
    }

    fn evaluate(&mut self, params: Params, batch: &mut Batch, next: Next) -> Result<Tally> {
        let mut total = Tally::default();
        while next(batch)? {
            total = total.plus(self.evaluate(params.host(), batch));
        }
        Ok(total)
    }

    fn state(&mut self) -> Result<Vec<f32>> {
        Ok(self.model().state())
    }

    fn set_state(&mut self, values: &[f32]) -> Result<()> {
        self.set_state(values);
        Ok(())
    }

    fn shard_states(&mut self) -> Vec<&mut Vec<f32>> {
        self.shard_states()
    }

    fn set_shard_states(&mut self, states: ChunksExact<f32>) {
        self.set_shard_states(states);
    }

    fn watch(&mut self) {
        self.watch();
    }

    fn costs(&self) -> Vec<LayerCost> {
        self.model().costs()
    }
}
