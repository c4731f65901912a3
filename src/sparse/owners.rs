//! Synchronous, exact and sparse: each rank owns a block of the weights, and ranks exchange only what their rows touch.
//!
//! Cost of a step, of u different features in a rank's rows and P ranks: one message to each owner with u gradients and the
//! u' numbers of the features of the next step, and one back with u' weights; 12·u bytes there and back in all, whatever the size of
//! the model and the number of ranks, and 28 bytes for the tally and what it says about the run to each. A third, of 8 bytes, says how long the first is.

use std::ops::Range;
use std::time::Duration;

use super::exchange::{Agreed, Exchange, Picked, Work};
use super::gathered::{Gathered, sort};
use super::rule::Move;
use super::saved;
use crate::Result;
use crate::checkpoint::{Checkpoint, Snapshot};
use crate::comm::{Comm, agree, block, cuts, tree_sum};
use crate::data::rows::RowSet;
use crate::exchange::Votes;
use crate::nn::Tally;

/// Words of a tally, and of what a rank says about the run.
const TALLY: usize = 7;

/// Weights divided over all ranks.
pub(super) struct Owners<'c, M, const W: usize> {
    comm: &'c dyn Comm,
    features: usize,
    /// This rank's block of all features and the bias.
    mine: Range<usize>,
    states: Vec<[f32; W]>,
    rule: M,
    /// Parts that a step is computed in, so that its sums do not depend on the number of ranks.
    shards: Option<usize>,
    now: Asked,
    ahead: Asked,
    words: Vec<u32>,
    got: Vec<u32>,
    grads: Vec<f32>,
    keys: Vec<u64>,
    spare: Vec<u64>,
    sent: u64,
}

/// Features that this rank has asked their owners for, and those that others have asked this one for.
#[derive(Default)]
struct Asked {
    features: Gathered,
    /// Of each owner, how many.
    counts: Vec<u64>,
    weights: Vec<f32>,
    /// What each rank asked for, one behind the other, and how many.
    theirs: Vec<u32>,
    from: Vec<u64>,
    /// Whether `weights` belong to `features`.
    ready: bool,
}

impl<'c, M: Move<W>, const W: usize> Owners<'c, M, W> {
    pub(super) fn new(comm: &'c dyn Comm, features: usize, rule: M, shards: Option<usize>) -> Self {
        let mine = block(features + 1, comm.size(), comm.rank());
        Self {
            comm,
            features,
            states: vec![[0.0; W]; mine.len()],
            mine,
            rule,
            shards,
            now: Asked::default(),
            ahead: Asked::default(),
            words: Vec::new(),
            got: Vec::new(),
            grads: Vec::new(),
            keys: Vec::new(),
            spare: Vec::new(),
            sent: 0,
        }
    }

    /// Deals `self.words` out, and counts what leaves this rank.
    fn deal(&mut self, counts: &[u64], from: &[u64]) {
        let others = counts.iter().enumerate();
        let others = others.filter(|(rank, _)| *rank != self.comm.rank());
        self.sent += 4 * others.map(|(_, count)| count).sum::<u64>();
        self.comm.deal(&self.words, counts, from, &mut self.got);
    }

    /// Asks the owners for the features that `self.ahead` has gathered; *collective*.
    fn ask(&mut self) {
        let asked = &mut self.ahead;
        asked.counts = asked.features.owned(self.comm, self.features);
        asked.from = self.comm.deal_counts(&asked.counts);
        self.words.clone_from(&asked.features.ids);
        let (counts, from) = (asked.counts.clone(), asked.from.clone());
        self.deal(&counts, &from);
        std::mem::swap(&mut self.ahead.theirs, &mut self.got);
        self.answer();
    }

    /// Sends everybody the weights that they asked for, as they are now; *collective*.
    fn answer(&mut self) {
        let rule = self.rule;
        let weight = |&id: &u32| {
            rule.weight(self.states[id as usize - self.mine.start])
                .to_bits()
        };
        self.words.clear();
        self.words.extend(self.ahead.theirs.iter().map(weight));
        let (counts, from) = (self.ahead.from.clone(), self.ahead.counts.clone());
        self.deal(&counts, &from);
        let asked = &mut self.ahead;
        asked.weights.clear();
        asked
            .weights
            .extend(self.got.iter().map(|&word| f32::from_bits(word)));
        asked.ready = true;
    }

    /// The gradients of this rank's rows, for each of their features.
    fn compute(&mut self, work: &Work) -> Result<Tally> {
        let Asked {
            features, weights, ..
        } = &self.now;
        let len = features.ids.len();
        let mut tally = Tally::default();
        let Some(all) = self.shards else {
            self.grads.clear();
            self.grads.resize(len, 0.0);
            let sums = (&weights[..], &mut self.grads[..]);
            features.gradients(work, work.rows, 0, sums, &mut tally)?;
            return Ok(tally);
        };
        let shards = all / self.comm.size();
        let first = self.comm.rank() * shards;
        let cuts = cuts(work.samples, all, first..first + shards);
        let mut parts = vec![0.0; shards * len];
        let mut at = 0;
        for (cut, part) in cuts.windows(2).zip(parts.chunks_exact_mut(len)) {
            let rows = work.rows.part(cut[0]..cut[1]);
            let mut one = Tally::default();
            at = features.gradients(work, &rows, at, (weights, part), &mut one)?;
            tally = tally.plus(one);
        }
        self.grads.resize(len, 0.0);
        let part = |i: usize| &parts[i * len..(i + 1) * len];
        tree_sum(shards, part, &mut self.grads);
        Ok(tally)
    }

    /// Sends gradients and the next features to their owners; gives the tally of all ranks; *collective*.
    fn send(&mut self, (tally, votes): (Tally, Votes), next: bool) -> (Tally, Votes) {
        let mut ahead = vec![0; self.comm.size()];
        if next {
            ahead = self.ahead.features.owned(self.comm, self.features);
        }
        let theirs = self.comm.deal_counts(&ahead);
        let length = |grads: &[u64], ids: &[u64]| -> Vec<u64> {
            let both = grads.iter().zip(ids);
            both.map(|(grads, ids)| TALLY as u64 + grads + ids)
                .collect()
        };
        let counts = length(&self.now.counts, &ahead);
        let from = length(&self.now.from, &theirs);
        self.words.clear();
        let (mut grads, mut ids) = (&self.grads[..], &self.ahead.features.ids[..]);
        for (&count, &asked) in self.now.counts.iter().zip(&ahead) {
            let (mine, others) = grads.split_at(count as usize);
            grads = others;
            self.words.extend(tally_words(tally, votes));
            self.words.extend(mine.iter().map(|grad| grad.to_bits()));
            let (mine, others) = ids.split_at(asked as usize);
            ids = others;
            self.words.extend_from_slice(mine);
        }
        self.deal(&counts, &from);
        (self.ahead.counts, self.ahead.from) = (ahead, theirs);
        self.receive()
    }

    /// Takes what others have sent apart: gradients become steps of their features.
    fn receive(&mut self) -> (Tally, Votes) {
        let (mut total, mut votes) = (Tally::default(), [0; 5]);
        let mut words = &self.got[..];
        self.keys.clear();
        self.ahead.theirs.clear();
        let mut grads = std::mem::take(&mut self.spare);
        grads.clear();
        let mut ids = &self.now.theirs[..];
        for rank in 0..self.comm.size() {
            let (count, ahead) = (self.now.from[rank] as usize, self.ahead.from[rank] as usize);
            let (tally, rest) = words.split_at(TALLY);
            total = total.plus(tally_of(tally));
            let said = votes.iter_mut().zip(votes_of(tally));
            said.for_each(|(sum, vote)| *sum += vote);
            let (mine, rest) = rest.split_at(count);
            let (asked, rest) = rest.split_at(ahead);
            words = rest;
            self.ahead.theirs.extend_from_slice(asked);
            let (features, rest) = ids.split_at(count);
            ids = rest;
            for (&id, &grad) in features.iter().zip(mine) {
                let at = grads.len() as u64;
                self.keys.push(u64::from(id) << 32 | at);
                grads.push(u64::from(grad) << 32 | rank as u64);
            }
        }
        let mut spare = Vec::new();
        sort(&mut self.keys, &mut spare, self.features as u32);
        self.apply(&grads);
        self.spare = grads;
        (total, Votes::of(votes))
    }

    /// Adds up the gradients of each feature, in an order that ranks give, and moves it.
    fn apply(&mut self, grads: &[u64]) {
        let rule = self.rule;
        let grad = |key: u64| {
            let both = grads[key as u32 as usize];
            (both as u32 as usize, f32::from_bits((both >> 32) as u32))
        };
        let size = self.comm.size();
        let mut leaves = vec![0.0; size];
        for same in self.keys.chunk_by(|a, b| a >> 32 == b >> 32) {
            let id = (same[0] >> 32) as usize;
            let sum = match self.shards {
                None => same.iter().map(|&key| grad(key).1).sum(),
                Some(_) => {
                    leaves.fill(0.0);
                    for &key in same {
                        let (rank, value) = grad(key);
                        leaves[rank] = value;
                    }
                    let mut sum = [0.0];
                    tree_sum(size, |rank| &leaves[rank..=rank], &mut sum);
                    sum[0]
                }
            };
            let state = &mut self.states[id - self.mine.start];
            *state = rule.moved(*state, rule.weight(*state), sum);
        }
    }
}

fn tally_words(tally: Tally, votes: Votes) -> [u32; TALLY] {
    let numbers = [tally.loss.to_bits(), tally.correct, tally.count];
    let halves = numbers.map(|number| [number as u32, (number >> 32) as u32]);
    // A rank has one vote for each.
    let votes = votes.numbers().into_iter().enumerate();
    let votes = votes.fold(0, |all, (i, vote)| all | (vote as u32) << i);
    std::array::from_fn(|i| match i {
        6 => votes,
        i => halves[i / 2][i % 2],
    })
}

fn votes_of(words: &[u32]) -> [u64; 5] {
    std::array::from_fn(|i| u64::from(words[TALLY - 1] >> i & 1))
}

fn tally_of(words: &[u32]) -> Tally {
    let number = |i: usize| u64::from(words[2 * i]) | u64::from(words[2 * i + 1]) << 32;
    Tally {
        loss: f64::from_bits(number(0)),
        correct: number(1),
        count: number(2),
    }
}

impl<M: Move<W>, const W: usize> Exchange for Owners<'_, M, W> {
    fn is_together(&self) -> bool {
        true
    }

    fn fetch(&mut self, work: &Work) -> Result<Duration> {
        self.sent = 0;
        self.rule = self.rule.at(work.lr, work.time);
        if !self.ahead.ready {
            self.ahead.features.gather(work.set, work.rows)?;
            self.ask();
        }
        std::mem::swap(&mut self.now, &mut self.ahead);
        self.ahead.ready = false;
        Ok(Duration::ZERO)
    }

    fn learn(&mut self, work: &Work) -> Result<Tally> {
        match work.next {
            Some(next) => self.ahead.features.gather(work.set, next)?,
            None => self.ahead.features.ids.clear(),
        }
        self.compute(work)
    }

    fn agree(&mut self, work: &Work, mine: Tally) -> Result<Agreed> {
        let (tally, votes) = self.send((mine, work.votes), work.next.is_some());
        if work.next.is_some() {
            self.rule = self.rule.at_time(work.time_after);
            self.answer();
        }
        Ok(Agreed {
            tally,
            wait: Duration::ZERO,
            sent: self.sent,
            votes,
        })
    }

    fn logits(&mut self, rows: &RowSet, range: Range<usize>, out: &mut Vec<f32>) -> Result<()> {
        // What the next step has asked for stays.
        let kept = std::mem::take(&mut self.ahead);
        let rows_of = Picked::Run(range);
        self.ahead.features.gather(rows, &rows_of)?;
        self.ask();
        let asked = std::mem::replace(&mut self.ahead, kept);
        asked.features.logits(rows, &rows_of, &asked.weights, out);
        Ok(())
    }

    fn leave(&mut self, time: f32) -> Result<()> {
        self.rule = self.rule.at_time(time);
        Ok(())
    }

    fn weights(&mut self, weights: &mut Vec<f32>) -> Result<()> {
        let rule = self.rule;
        weights.clear();
        weights.extend(self.states.iter().map(|&state| rule.weight(state)));
        Ok(())
    }

    fn save(&mut self, _time: f32, to: &mut Snapshot) -> Result<()> {
        saved::room(to, self.mine.clone(), self.features + 1).copy_from_slice(&self.states);
        Ok(())
    }

    fn load(&mut self, from: &Checkpoint) -> Result<()> {
        let read = saved::read(from, self.mine.clone(), &mut self.states);
        agree(self.comm, read)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
