//! The arithmetic of one row whose features are cells of shared memory: read, computed on in vectors, written.
// Lanes are indexed: iterators would hide which is which.
#![allow(clippy::needless_range_loop)]

use std::sync::atomic::Ordering;

use super::rule::Move;
use crate::backend::cpu::{Cell, LANES, Lanes};

/// Reads the floats of a feature.
#[inline(always)]
pub(super) fn load<const W: usize>(cell: &Cell<W>) -> [f32; W] {
    std::array::from_fn(|i| f32::from_bits(cell[i].load(Ordering::Relaxed)))
}

/// Writes them.
#[inline(always)]
pub(super) fn store<const W: usize>(cell: &Cell<W>, state: [f32; W]) {
    for (cell, value) in cell.iter().zip(state) {
        cell.store(value.to_bits(), Ordering::Relaxed);
    }
}

/// Reads cells and writes them as they are, by the same moves as learning does.
#[inline(always)]
pub(super) fn touch<const W: usize>(lanes: impl Lanes, cells: &[&Cell<W>]) {
    for cells in cells.as_chunks().0 {
        lanes.write(cells, lanes.read(cells));
    }
}

/// The features of a row as they were read.
pub(super) struct Known<L: Lanes, const W: usize> {
    lanes: L,
    parts: Vec<Part<L::Floats, W>>,
}

/// Some of them: what was read of each, float by float, and what follows from it.
#[derive(Clone, Copy)]
struct Part<F, const W: usize> {
    states: [F; W],
    weights: F,
    values: F,
}

/// Values of a part of which the first 0, 1, 2 … have a feature, whose value is 1.
const ONES: [[f32; LANES]; LANES + 1] = {
    let mut all = [[0.0; LANES]; LANES + 1];
    let mut count = 1;
    while count <= LANES {
        all[count] = all[count - 1];
        all[count][count - 1] = 1.0;
        count += 1;
    }
    all
};

impl<L: Lanes, const W: usize> Known<L, W> {
    pub(super) fn new(lanes: L) -> Self {
        Self {
            lanes,
            parts: Vec::new(),
        }
    }

    /// Reads the features of a row, and gives its logit without the bias. Behind the `count` cells of features there are
    /// others, up to a multiple of [`LANES`], that count as nothing. `meanwhile` is called for each part.
    #[inline(always)]
    pub(super) fn load<M: Move<W>>(
        &mut self,
        rule: M,
        cells: &[&Cell<W>],
        (values, count): (Option<&[f32]>, usize),
        mut meanwhile: impl FnMut(),
    ) -> f32 {
        let (lanes, cells) = (self.lanes, cells.as_chunks().0);
        if self.parts.len() < cells.len() {
            let zero = lanes.splat(0.0);
            let none = Part {
                states: [zero; W],
                weights: zero,
                values: zero,
            };
            self.parts.resize(cells.len(), none);
        }
        let (mut left, mut sums) = (count, lanes.splat(0.0));
        for (part, cells) in self.parts.iter_mut().zip(cells) {
            let few = left.min(LANES);
            let values = match values {
                None => ONES[few],
                Some(values) => given(&values[count - left..][..few]),
            };
            left -= few;
            part.values = lanes.of(values);
            part.states = lanes.read(cells);
            part.weights = rule.weights(lanes, part.states);
            sums = lanes.add(sums, lanes.mul(part.weights, part.values));
            meanwhile();
        }
        lanes.sum(sums)
    }

    /// Moves the features by the row's `slope`; `meanwhile` as in `load`.
    #[inline(always)]
    pub(super) fn store<M: Move<W>>(
        &mut self,
        rule: M,
        cells: &[&Cell<W>],
        slope: f32,
        mut meanwhile: impl FnMut(),
    ) {
        let lanes = self.lanes;
        let slopes = lanes.splat(slope);
        for (part, cells) in self.parts.iter().zip(cells.as_chunks().0) {
            let both = (part.weights, lanes.mul(part.values, slopes));
            lanes.write(cells, rule.moves(lanes, part.states, both));
            meanwhile();
        }
    }

    /// Replaces the weight of the feature that was read from the cell at `at`, and gives by how much that changes the logit.
    pub(super) fn replace(&mut self, at: usize, weight: f32) -> f32 {
        let part = &mut self.parts[at / LANES];
        let (mut weights, i) = (self.lanes.each(part.weights), at % LANES);
        let change = weight - std::mem::replace(&mut weights[i], weight);
        part.weights = self.lanes.of(weights);
        change * self.lanes.each(part.values)[i]
    }
}

/// Values as they are given, and zeros behind them.
#[inline(always)]
fn given(values: &[f32]) -> [f32; LANES] {
    let mut all = [0.0; LANES];
    for (all, value) in all.iter_mut().zip(values) {
        *all = *value;
    }
    all
}
