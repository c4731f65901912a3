//! Steps of an optimizer, piece by piece, so that sums, updates and parameters meet in the cache.

use std::ops::Range;

use super::{Optimizer, Step, There};
use crate::Result;
use crate::comm::{plus, tree_middle};

/// Parameters of a piece: it, its gradients and the optimizer's state of it fit into the first-level cache.
const PIECE: usize = 2048;

/// What an optimizer moves.
pub struct Part<'a> {
    /// Where it begins in all parameters.
    pub at: usize,
    /// The parameters.
    pub params: &'a mut [f32],
    /// Where it is cut into leaves, both ends among them: what is summed over parameters is summed in each leaf alone, and
    /// then by a tree over leaves, so that the result depends on them and not on who moves which.
    pub cuts: &'a [usize],
}

impl<'a> Part<'a> {
    /// All parameters.
    pub fn whole(params: &'a mut [f32], cuts: &'a [usize]) -> Self {
        Self {
            at: 0,
            params,
            cuts,
        }
    }
}

/// An optimizer with the memory its steps work in.
pub struct Mover {
    optimizer: Box<dyn Optimizer>,
    piece: Vec<f32>,
    sums: Vec<f64>,
    begun: bool,
    taken: u64,
}

impl Mover {
    /// Before the first step.
    pub fn new(optimizer: Box<dyn Optimizer>) -> Self {
        Self {
            piece: vec![0.0; PIECE],
            sums: Vec::new(),
            optimizer,
            begun: false,
            taken: 0,
        }
    }

    /// Moves `part` of the parameters, at every step the same, by one step at the rate `lr`.
    ///
    /// `gradient` gives the gradients of a range, counted from the begin of the part. `total` replaces sums over this part
    /// by those over all; it is not called where the optimizer needs none.
    pub fn step(
        &mut self,
        lr: f32,
        part: Part,
        gradient: impl Fn(Range<usize>, &mut [f32]),
        total: impl FnOnce(&mut [f64]),
    ) {
        let Part { at, params, cuts } = part;
        self.begin(at..at + params.len());
        let needed = self.optimizer.sums();
        if needed > 0 {
            self.measure(at, params, cuts, &gradient);
            total(&mut self.sums[..needed]);
            self.optimizer.measured(&self.sums[..needed]);
        }
        for start in (0..params.len()).step_by(PIECE) {
            let range = start..params.len().min(start + PIECE);
            let grads = &mut self.piece[..range.len()];
            gradient(range.clone(), grads);
            let step = Step {
                lr,
                at: at + start,
                sums: &self.sums[..needed],
            };
            let params = &mut params[range];
            self.optimizer.update(&step, params, grads);
            plus(params, grads);
        }
    }

    /// Sets the first sums to what the optimizer must know, over all leaves: each is added up by itself, and leaves by
    /// the tree over them.
    fn measure(
        &mut self,
        at: usize,
        params: &[f32],
        cuts: &[usize],
        gradient: &impl Fn(Range<usize>, &mut [f32]),
    ) {
        let needed = self.optimizer.sums();
        self.sums.clear();
        // A part without parameters has no leaf, and sums of nothing.
        self.sums.resize(needed * (cuts.len() - 1).max(1), 0.0);
        let leaves = cuts.windows(2).zip(self.sums.chunks_exact_mut(needed));
        for (cut, sums) in leaves {
            for start in (cut[0]..cut[1]).step_by(PIECE) {
                let range = start..cut[1].min(start + PIECE);
                let grads = &mut self.piece[..range.len()];
                gradient(range.clone(), grads);
                (self.optimizer).measure(at + start, &params[range], grads, sums);
            }
        }
        fold(&mut self.sums, needed);
    }

    /// Replaces the gradients of all parameters by the amounts to add to them.
    pub fn deltas(&mut self, lr: f32, params: &[f32], grads: &mut [f32]) {
        self.begin(0..params.len());
        self.sums.clear();
        self.sums.resize(self.optimizer.sums(), 0.0);
        self.optimizer.measure(0, params, grads, &mut self.sums);
        if !self.sums.is_empty() {
            self.optimizer.measured(&self.sums);
        }
        let sums = &self.sums;
        self.optimizer
            .update(&Step { lr, at: 0, sums }, params, grads);
    }

    /// Moves all parameters on a device by one step at the rate `lr`.
    pub fn step_there(&mut self, lr: f32, mut there: There) -> Result<()> {
        self.taken += 1;
        self.optimizer.advance(self.taken);
        self.optimizer.measure_there(&mut there)?;
        // Only who tells the norm reads sums on the host.
        if self.optimizer.norm().is_some() {
            let sums = there.stream.values(there.sums.shared())?;
            self.optimizer.measured(&sums);
        }
        self.optimizer.move_there(lr, there)
    }

    /// Sums over all parameters or gradients that the optimizer must know before an update.
    pub fn sums(&self) -> usize {
        self.optimizer.sums()
    }

    /// Values that the optimizer remembers of each parameter.
    pub fn state(&self) -> usize {
        self.optimizer.state()
    }

    /// Steps taken.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Goes on after `taken` steps.
    pub fn go_on(&mut self, taken: u64) {
        self.taken = taken;
    }

    /// What the optimizer remembers of `part`, which is at every step the same.
    pub fn memory(&mut self, part: Range<usize>) -> Vec<&mut [f32]> {
        self.make_ready(part);
        self.optimizer.memory()
    }

    /// Goes on where another has been after `taken` steps of `part`, with what that one remembered.
    pub fn resume(&mut self, part: Range<usize>, taken: u64, memory: &[f32]) {
        self.make_ready(part);
        self.taken = taken;
        let mut rest = memory;
        for values in self.optimizer.memory() {
            let (first, behind) = rest.split_at(values.len());
            values.copy_from_slice(first);
            rest = behind;
        }
    }

    /// Copies what the optimizer remembers to `memory`.
    pub fn remember(&mut self, memory: &mut [f32]) {
        let mut rest = memory;
        for values in self.optimizer.memory() {
            let (first, behind) = rest.split_at_mut(values.len());
            first.copy_from_slice(values);
            rest = behind;
        }
    }

    /// The squared norm of the whole gradient of the last step, where the optimizer measures it.
    pub fn norm(&self) -> Option<f64> {
        self.optimizer.norm()
    }

    fn begin(&mut self, part: Range<usize>) {
        self.make_ready(part);
        self.taken += 1;
        self.optimizer.advance(self.taken);
    }

    fn make_ready(&mut self, part: Range<usize>) {
        if !self.begun {
            self.optimizer.begin(part);
            self.begun = true;
        }
    }
}

/// Adds up leaves of `width` sums each into the first, by the tree over leaves.
fn fold(sums: &mut [f64], width: usize) {
    if sums.len() <= width {
        return;
    }
    let middle = tree_middle(&(0..sums.len() / width));
    let (low, high) = sums.split_at_mut(middle * width);
    fold(low, width);
    fold(high, width);
    let pairs = low.iter_mut().zip(&high[..width]);
    pairs.for_each(|(sum, value)| *sum += value);
}

#[cfg(test)]
mod tests {
    use super::super::{Adam, Clip, Rule};
    use super::*;
    use crate::nn::Tensor;

    /// More than two pieces, cut where no piece ends.
    const LEN: usize = 2 * PIECE + 100;

    fn values(seed: usize) -> Vec<f32> {
        let value = |i: usize| ((i * 31 + seed * 17) % 101) as f32 / 50.0 - 1.0;
        (0..LEN).map(value).collect()
    }

    fn rules() -> [Rule; 3] {
        let (momentum, weight_decay) = (0.9, 0.01);
        let (beta1, beta2, trust) = (0.9, 0.99, 0.1);
        [
            Rule::Nesterov {
                momentum,
                weight_decay,
            },
            Rule::AdamW {
                beta1,
                beta2,
                weight_decay,
            },
            Rule::Lars {
                trust,
                momentum,
                weight_decay,
            },
        ]
    }

    /// Pieces do as the whole, up to the order in which squares are added.
    #[test]
    fn pieces_of_two_parts_do_as_the_whole_at_once() {
        let tensor = |shape: &[usize], range: Range<usize>| Tensor {
            name: String::new(),
            shape: shape.to_vec(),
            range,
        };
        let cut = PIECE + 77;
        let tensors = [
            tensor(&[2, cut / 2], 0..cut - 1),
            tensor(&[1], cut - 1..LEN),
        ];
        for rule in rules() {
            let mover = || Mover::new(rule.build(&tensors, None));
            let (mut whole, mut parts) = (mover(), [mover(), mover()]);
            let (mut expected, mut params) = (values(0), values(0));
            for step in 1..4 {
                let mut delta = values(step);
                whole.deltas(0.1, &expected, &mut delta);
                let grads = values(step);
                let mut sums = vec![0.0; whole.optimizer.sums()];
                let optimizer = rule.build(&tensors, None);
                optimizer.measure(0, &expected, &grads, &mut sums);
                expected.iter_mut().zip(delta).for_each(|(p, d)| *p += d);
                let (low, high) = params.split_at_mut(cut);
                for (mover, at, params) in [(0, 0, low), (1, cut, high)] {
                    let gradient = |range: Range<usize>, out: &mut [f32]| {
                        out.copy_from_slice(&grads[at + range.start..at + range.end]);
                    };
                    let total = |all: &mut [f64]| all.copy_from_slice(&sums);
                    let cuts = [0, params.len()];
                    let part = Part {
                        at,
                        params,
                        cuts: &cuts,
                    };
                    parts[mover].step(0.1, part, gradient, total);
                }
                let worst = expected.iter().zip(&params).map(|(a, b)| (a - b).abs());
                assert!(worst.fold(0.0, f32::max) < 1e-6, "{rule:?}, step {step}");
            }
        }
    }

    #[test]
    fn updates_are_counted_by_step_and_not_by_piece() {
        let adam = || Box::new(Adam::new(0.9, 0.999, 0.0, false));
        let (mut plain, mut clipped) = (
            Mover::new(adam()),
            Mover::new(Box::new(Clip::new(1e9, adam()))),
        );
        let mut ends = [vec![0.0; LEN], vec![0.0; LEN]];
        for (mover, params) in [&mut plain, &mut clipped].into_iter().zip(&mut ends) {
            for _ in 0..2 {
                mover.step(
                    0.01,
                    Part::whole(params, &[0, LEN]),
                    |_, grads| grads.fill(0.5),
                    |_| {},
                );
            }
            // With a constant gradient, every corrected step has the size of the rate.
            let close = |param: &f32| (param + 0.02).abs() < 1e-6;
            assert!(params.iter().all(close));
        }
    }
}
