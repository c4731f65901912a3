//! Synchronous and dense: every rank holds all weights and sends all gradients, as if the model were not sparse. The oracle
//! of the sparse exchanges, and what they are compared with.
//!
//! Cost of a step: an all-reduce of 4 bytes for each feature there is, and a pass over all of them.

use std::ops::Range;
use std::time::Duration;

use super::exchange::{Agreed, Exchange, Picked, Work};
use super::gathered::Gathered;
use super::rule::Move;
use super::saved;
use crate::Result;
use crate::checkpoint::{Checkpoint, Snapshot};
use crate::comm::{BUCKET, Comm, agree, block, cuts, tree_sum};
use crate::data::rows::RowSet;
use crate::exchange::Votes;
use crate::nn::Tally;

/// All weights on every rank.
pub(super) struct Dense<'c, M, const W: usize> {
    comm: &'c dyn Comm,
    states: Vec<[f32; W]>,
    rule: M,
    shards: Option<usize>,
    features: Gathered,
    grads: Vec<f32>,
}

impl<'c, M: Move<W>, const W: usize> Dense<'c, M, W> {
    pub(super) fn new(comm: &'c dyn Comm, features: usize, rule: M, shards: Option<usize>) -> Self {
        Self {
            comm,
            states: vec![[0.0; W]; features + 1],
            rule,
            shards,
            features: Gathered::default(),
            grads: vec![0.0; features + 1],
        }
    }

    /// The weights of the features gathered.
    fn gathered(&self) -> Vec<f32> {
        let rule = self.rule;
        let ids = self.features.ids.iter();
        ids.map(|&id| rule.weight(self.states[id as usize]))
            .collect()
    }

    /// Writes the gradients of this rank's rows, each of its `shards` by itself and then added up by the tree over them.
    fn compute(&mut self, work: &Work) -> Result<Tally> {
        self.features.gather(work.set, work.rows)?;
        let weights = self.gathered();
        let all = self.shards.unwrap_or(self.comm.size());
        let each = all / self.comm.size();
        let first = self.comm.rank() * each;
        let cuts = cuts(work.samples, all, first..first + each);
        let (mut tally, mut at) = (Tally::default(), 0);
        let mut parts = Vec::new();
        for cut in cuts.windows(2) {
            let mut part = vec![0.0; weights.len()];
            let rows = work.rows.part(cut[0]..cut[1]);
            let mut one = Tally::default();
            let sums = (&weights[..], &mut part[..]);
            at = self.features.gradients(work, &rows, at, sums, &mut one)?;
            tally = tally.plus(one);
            parts.push(part);
        }
        let mut sums = vec![0.0; weights.len()];
        tree_sum(each, |i| &parts[i], &mut sums);
        self.grads.fill(0.0);
        let pairs = self.features.ids.iter().zip(sums);
        pairs.for_each(|(&id, sum)| self.grads[id as usize] = sum);
        Ok(tally)
    }

    /// Adds up over ranks; *collective*.
    fn exchange(&mut self, tally: Tally, votes: Votes) -> (Tally, Votes) {
        let comm = self.comm;
        match self.shards {
            Some(_) => comm.tree_sum(&mut self.grads),
            None => self
                .grads
                .chunks_mut(BUCKET)
                .for_each(|part| comm.sum(part)),
        }
        let mut loss = [tally.loss];
        let [stop, save, over, failed, asked] = votes.numbers();
        let mut counts = [tally.correct, tally.count, stop, save, over, failed, asked];
        comm.sum(&mut loss);
        comm.sum(&mut counts);
        let [correct, count, votes @ ..] = counts;
        let tally = Tally {
            loss: loss[0],
            correct,
            count,
        };
        (tally, Votes::of(votes))
    }
}

impl<M: Move<W>, const W: usize> Exchange for Dense<'_, M, W> {
    fn is_together(&self) -> bool {
        true
    }

    fn fetch(&mut self, work: &Work) -> Result<Duration> {
        self.rule = self.rule.at(work.lr, work.time);
        Ok(Duration::ZERO)
    }

    fn learn(&mut self, work: &Work) -> Result<Tally> {
        self.compute(work)
    }

    fn agree(&mut self, work: &Work, mine: Tally) -> Result<Agreed> {
        let (tally, votes) = self.exchange(mine, work.votes);
        let rule = self.rule;
        for (state, &grad) in self.states.iter_mut().zip(&self.grads) {
            // Features that no row of the step has stay as they are, as in the sparse exchanges.
            if grad != 0.0 {
                *state = rule.moved(*state, rule.weight(*state), grad);
            }
        }
        let (size, bytes) = (self.comm.size() as u64, 4 * self.grads.len() as u64);
        Ok(Agreed {
            tally,
            wait: Duration::ZERO,
            // What no all-reduce can do without: every rank sends each of its values, and each sum, but for its own part.
            sent: 2 * bytes * (size - 1) / size,
            votes,
        })
    }

    fn logits(&mut self, rows: &RowSet, range: Range<usize>, out: &mut Vec<f32>) -> Result<()> {
        let picked = Picked::Run(range);
        self.features.gather(rows, &picked)?;
        let weights = self.gathered();
        self.features.logits(rows, &picked, &weights, out);
        Ok(())
    }

    fn leave(&mut self, time: f32) -> Result<()> {
        self.rule = self.rule.at_time(time);
        Ok(())
    }

    fn weights(&mut self, weights: &mut Vec<f32>) -> Result<()> {
        let rule = self.rule;
        let mine = block(self.states.len(), self.comm.size(), self.comm.rank());
        weights.clear();
        weights.extend(self.states[mine].iter().map(|&state| rule.weight(state)));
        Ok(())
    }

    fn save(&mut self, _time: f32, to: &mut Snapshot) -> Result<()> {
        let all = self.states.len();
        let mine = block(all, self.comm.size(), self.comm.rank());
        saved::room(to, mine.clone(), all).copy_from_slice(&self.states[mine]);
        Ok(())
    }

    fn load(&mut self, from: &Checkpoint) -> Result<()> {
        let all = 0..self.states.len();
        agree(self.comm, saved::read(from, all, &mut self.states))
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
