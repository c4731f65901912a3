//! Gradients of a batch that is computed in numbered shards and added up by the tree over them, so that the sum does not
//! depend on how many ranks and threads share the work.

use std::ops::Range;

use super::{Draw, Model, Peers, Tally};
use crate::comm::{plus, tree_middle};
use crate::data::Batch;
use crate::optim::squares;

/// What a rank's share of a step is computed from, besides parameters.
#[derive(Clone, Copy)]
pub struct Share<'a> {
    /// The samples of this rank.
    pub batch: &'a Batch,
    /// Where they are cut into shards, both ends too; empty if they are not.
    pub cuts: &'a [usize],
    /// What names the step's random numbers.
    pub draw: Draw,
    /// What the sum of losses is multiplied by.
    pub scale: f32,
    /// Samples of the whole step, if the noise of gradients is measured.
    pub measured: Option<usize>,
}

impl Share<'_> {
    /// The squared norm of the mean gradient times its share of the samples, where that is measured: of gradients with the sum
    /// of squares `squares`, over the samples of `tally`.
    pub(super) fn norm(&self, squares: f64, tally: Tally) -> f64 {
        Self::norm_of(self.measured, squares, tally)
    }

    /// The same of a step with so many samples, if that is measured.
    pub(super) fn norm_of(measured: Option<usize>, squares: f64, tally: Tally) -> f64 {
        match measured {
            // The arena holds this share of the mean: c/n of its own mean, whose square counts c/n times.
            Some(samples) if tally.count > 0 => squares * samples as f64 / tally.count as f64,
            _ => 0.0,
        }
    }
}

/// What shards add up to besides gradients. Its sums are rounded to floats at every addition, so that they are the same
/// whichever of them ranks send to each other as floats.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ShardSums {
    /// Losses and right answers.
    pub tally: Tally,
    /// Squared norms of the shards' mean gradients, each times its share of the samples.
    pub norm: f64,
}

impl ShardSums {
    pub(super) fn plus(self, other: Self) -> Self {
        let sum = |a: f64, b: f64| f64::from(a as f32 + b as f32);
        let loss = sum(self.tally.loss, other.tally.loss);
        Self {
            tally: Tally {
                loss,
                ..self.tally.plus(other.tally)
            },
            norm: sum(self.norm, other.norm),
        }
    }
}

/// Where one thread adds up its shards.
#[derive(Default)]
pub(super) struct Tree {
    /// Sums that wait for their other half, one for each level.
    spare: Vec<Vec<f32>>,
    /// The state of the model that each shard sees: what a rank would have that had this shard alone.
    pub(super) states: Vec<Vec<f32>>,
}

impl Tree {
    /// The sums over `shards`, of `all` that this thread has from the first of them on; sets `grads` to the gradients'.
    pub(super) fn add_up(
        &mut self,
        (model, params): (&mut Model, &[f32]),
        work: &Share,
        shards: Range<usize>,
        grads: &mut [f32],
    ) -> ShardSums {
        let levels = shards.len().next_power_of_two().ilog2() as usize;
        self.spare.resize(levels, Vec::new());
        self.spare
            .iter_mut()
            .for_each(|spare| spare.resize(grads.len(), 0.0));
        let state = model.state();
        if !state.is_empty() && self.states.len() != shards.len() {
            self.states = vec![state; shards.len()];
        }
        let first = shards.start;
        let states = &mut self.states[..];
        Walk {
            model,
            params,
            work,
            states,
            first,
        }
        .tree(shards, &mut self.spare, grads)
    }
}

struct Walk<'a> {
    model: &'a mut Model,
    params: &'a [f32],
    work: &'a Share<'a>,
    states: &'a mut [Vec<f32>],
    first: usize,
}

impl Walk<'_> {
    fn tree(
        &mut self,
        shards: Range<usize>,
        spare: &mut [Vec<f32>],
        grads: &mut [f32],
    ) -> ShardSums {
        if shards.len() == 1 {
            return self.shard(shards.start, grads);
        }
        let middle = tree_middle(&shards);
        let (theirs, spare) = spare.split_first_mut().expect("one for each level");
        let low = self.tree(shards.start..middle, spare, grads);
        let high = self.tree(middle..shards.end, spare, theirs);
        plus(grads, theirs);
        low.plus(high)
    }

    fn shard(&mut self, shard: usize, grads: &mut [f32]) -> ShardSums {
        let Share {
            batch,
            cuts,
            draw,
            scale,
            measured,
        } = *self.work;
        let part = batch.part(cuts[shard]..cuts[shard + 1]);
        let state = self.states.get_mut(shard - self.first);
        if let Some(state) = &state {
            self.model.set_state(state);
        }
        let alone = Peers::default();
        let tally = self
            .model
            .gradients(self.params, part, draw, scale, alone, grads);
        if let Some(state) = state {
            *state = self.model.state();
        }
        let squares = measured.map_or(0.0, |_| squares(grads));
        let norm = self.work.norm(squares, tally);
        let loss = f64::from(tally.loss as f32);
        ShardSums {
            tally: Tally { loss, ..tally },
            norm: f64::from(norm as f32),
        }
    }
}
