//! Asynchronous between nodes: each rank holds a block of the weights in a window, and any rank reads and adds to it.
//!
//! A rank fetches what its rows touch, learns from row after row on that copy, and adds what has changed. Cost of a step, of
//! u different features of W floats: one read and one addition at each owner, (8·W + 16)·u bytes there and 4·W·u back, and a call for each
//! of four counters.

use std::ops::Range;
use std::time::Duration;

use super::exchange::{Agreed, Exchange, Picked, Work, no_number};
use super::gathered::Gathered;
use super::logistic::note;
use super::rule::Move;
use super::saved;
use crate::Result;
use crate::checkpoint::{Checkpoint, Snapshot};
use crate::comm::{Comm, Window, agree, block};
use crate::data::rows::RowSet;
use crate::exchange::{Clock, Conduct};
use crate::nn::Tally;

/// Weights in windows.
pub(super) struct Far<'c, M, const W: usize> {
    comm: &'c dyn Comm,
    features: usize,
    window: Box<dyn Window>,
    clock: Clock<'c>,
    rule: M,
    /// Of the rows at hand.
    gathered: Gathered,
    states: Vec<[f32; W]>,
    /// As they were when fetched.
    before: Vec<[f32; W]>,
}

impl<'c, M: Move<W>, const W: usize> Far<'c, M, W> {
    /// Weights of zero; *collective*.
    pub(super) fn new(
        comm: &'c dyn Comm,
        features: usize,
        rule: M,
        bound: Option<u64>,
    ) -> Result<Self> {
        let mine = block(features + 1, comm.size(), comm.rank());
        Ok(Self {
            comm,
            features,
            window: comm.window(&vec![0.0; mine.len() * W])?,
            clock: Clock::new(comm, bound, 0)?,
            rule,
            gathered: Gathered::default(),
            states: Vec::new(),
            before: Vec::new(),
        })
    }

    /// Learns from row after row of `work`, on the copy.
    fn learn_all(&mut self, work: &Work) -> Result<Tally> {
        let rule = self.rule;
        let (states, bias) = (&mut self.states, self.gathered.ids.len() - 1);
        let (mut tally, mut at, mut weights) = (Tally::default(), 0, Vec::new());
        for (number, row) in work.rows.iter(work.set).enumerate() {
            let places = &self.gathered.places()[at..at + row.indices.len()];
            at += row.indices.len();
            let value = |i: usize| row.values.map_or(1.0, |values| values[i]);
            let offset = rule.weight(states[bias]);
            let mut logit = offset;
            weights.clear();
            for (i, &place) in places.iter().enumerate() {
                let weight = rule.weight(states[place as usize]);
                weights.push(weight);
                logit += weight * value(i);
            }
            if !logit.is_finite() {
                return Err(no_number(work, work.rows.number(number), logit));
            }
            let slope = note(&mut tally, logit, row.label) * work.classes.of(row.label);
            for (i, (&place, &weight)) in places.iter().zip(&weights).enumerate() {
                let state = &mut states[place as usize];
                *state = rule.moved(*state, weight, slope * value(i));
            }
            states[bias] = rule.moved(states[bias], offset, slope);
        }
        Ok(tally)
    }

    /// Adds what has changed since the fetch to what all ranks know; gives the bytes of that.
    fn add(&mut self) -> Result<u64> {
        let pairs = self.states.iter().zip(&self.before);
        let change = |(now, was): (&[f32; W], &[f32; W])| std::array::from_fn(|i| now[i] - was[i]);
        let deltas: Vec<[f32; W]> = pairs.map(change).collect();
        let (comm, window, gathered) = (self.comm, &self.window, &self.gathered);
        let at = (comm, self.features);
        let mut bytes = 0;
        self.clock.update(|| {
            each_owner(at, gathered, |owner, places, range| {
                if owner != comm.rank() {
                    // The floats, and where each feature's go.
                    bytes += range.len() * (4 * W + 8);
                }
                window.add_at(owner, places, W, deltas[range].as_flattened())
            })
        })?;
        Ok(bytes as u64)
    }
}

/// Fetches what all ranks know of the features gathered.
fn get<const W: usize>(
    at: (&dyn Comm, usize),
    window: &dyn Window,
    gathered: &Gathered,
    states: &mut Vec<[f32; W]>,
) -> Result<()> {
    states.resize(gathered.ids.len(), [0.0; W]);
    each_owner(at, gathered, |owner, places, range| {
        window.get_at(owner, places, W, states[range].as_flattened_mut())
    })
}

/// Passes the places of the features gathered that each owner has, and which of the features they are, to `visit`.
fn each_owner(
    (comm, features): (&dyn Comm, usize),
    gathered: &Gathered,
    mut visit: impl FnMut(usize, &[u32], Range<usize>) -> Result<()>,
) -> Result<()> {
    let mut begin = 0;
    let counts = gathered.owned(comm, features);
    for (owner, count) in counts.into_iter().enumerate() {
        let range = begin..begin + count as usize;
        begin = range.end;
        let first = block(features + 1, comm.size(), owner).start as u32;
        let ids = gathered.ids[range.clone()].iter();
        let places: Vec<u32> = ids.map(|id| id - first).collect();
        visit(owner, &places, range)?;
    }
    Ok(())
}

impl<M: Move<W>, const W: usize> Exchange for Far<'_, M, W> {
    fn is_together(&self) -> bool {
        false
    }

    fn claim(&mut self, claimed: u64) -> Result<u64> {
        self.clock.claim(claimed)
    }

    fn fetch(&mut self, work: &Work) -> Result<Duration> {
        self.rule = self.rule.at(work.lr, work.time);
        self.gathered.gather(work.set, work.rows)?;
        let at = (self.comm, self.features);
        let (window, gathered, states) = (&self.window, &self.gathered, &mut self.states);
        let waited = self.clock.begin(|_| get(at, &**window, gathered, states))?;
        self.before.clone_from(&self.states);
        Ok(waited)
    }

    fn learn(&mut self, work: &Work) -> Result<Tally> {
        self.learn_all(work)
    }

    fn agree(&mut self, _work: &Work, tally: Tally) -> Result<Agreed> {
        let wait = self.clock.in_step()?;
        let sent = self.add()?;
        self.clock.end()?;
        Ok(Agreed {
            tally,
            wait,
            // As much went there, with zeros, when the values were fetched.
            sent: 2 * sent,
            ..Agreed::default()
        })
    }

    fn logits(&mut self, rows: &RowSet, range: Range<usize>, out: &mut Vec<f32>) -> Result<()> {
        let picked = Picked::Run(range);
        self.gathered.gather(rows, &picked)?;
        let at = (self.comm, self.features);
        get(at, &*self.window, &self.gathered, &mut self.states)?;
        let weights: Vec<f32> = self
            .states
            .iter()
            .map(|&state| self.rule.weight(state))
            .collect();
        self.gathered.logits(rows, &picked, &weights, out);
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.clock.finish()
    }

    fn leave(&mut self, time: f32) -> Result<()> {
        self.rule = self.rule.at_time(time);
        self.clock.leave()
    }

    fn conduct(&self) -> Conduct {
        self.clock.conduct().clone()
    }

    fn weights(&mut self, weights: &mut Vec<f32>) -> Result<()> {
        self.comm.barrier();
        let mine = block(self.features + 1, self.comm.size(), self.comm.rank());
        let mut states = vec![[0.0; W]; mine.len()];
        self.window
            .get(self.comm.rank(), 0, states.as_flattened_mut())?;
        weights.clear();
        weights.extend(states.iter().map(|&state| self.rule.weight(state)));
        self.comm.barrier();
        Ok(())
    }

    fn save(&mut self, _time: f32, to: &mut Snapshot) -> Result<()> {
        let all = self.features + 1;
        let mine = block(all, self.comm.size(), self.comm.rank());
        let states = saved::room::<W>(to, mine, all).as_flattened_mut();
        self.window.get(self.comm.rank(), 0, states)
    }

    fn load(&mut self, from: &Checkpoint) -> Result<()> {
        let mine = block(self.features + 1, self.comm.size(), self.comm.rank());
        let mut states = vec![[0.0; W]; mine.len()];
        agree(self.comm, saved::read(from, mine, &mut states))?;
        // Nobody has added anything to the zeros there yet.
        let mut sums = vec![0.0; states.len() * W];
        self.window
            .add(self.comm.rank(), 0, states.as_flattened(), &mut sums)?;
        self.clock.go_on(from.manifest.step)
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.window.close()?;
        self.clock.close()
    }
}
