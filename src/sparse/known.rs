//! The arithmetic of one row whose features are cells of shared memory: read, computed on in vectors, written.
// Lanes are indexed: iterators would hide which is which.
#![allow(clippy::needless_range_loop)]

use std::sync::atomic::Ordering;

use super::rule::Move;
use crate::backend::cpu::{Cell, LANES, read_cells, write_cells};

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
pub(super) fn touch<const W: usize>(cells: &[&Cell<W>]) {
    let (full, rest) = cells.as_chunks();
    full.iter()
        .for_each(|cells| write_cells(cells, &read_cells(cells)));
    rest.iter().for_each(|cell| store(cell, load(cell)));
}

/// The features of a row as they were read.
pub(super) struct Known<const W: usize> {
    lanes: Vec<[Lanes<W>; BOTH]>,
}

/// Some of them: what was read of each, float by float, and what follows from it.
#[derive(Clone, Copy)]
#[repr(align(16))]
struct Lanes<const W: usize> {
    states: [[f32; LANES]; W],
    weights: [f32; LANES],
    values: [f32; LANES],
}

/// Lanes at a time, whose sums do not wait for each other.
const BOTH: usize = 2;
/// Cells that a row's are filled up to a multiple of.
pub(super) const FULL: usize = BOTH * LANES;

/// Values of lanes of which the first 0, 1, 2 … have a feature, whose value is 1.
const ONES: [[f32; LANES]; LANES + 1] = [
    [0.0; LANES],
    [1.0, 0.0, 0.0, 0.0],
    [1.0, 1.0, 0.0, 0.0],
    [1.0, 1.0, 1.0, 0.0],
    [1.0; LANES],
];

impl<const W: usize> Known<W> {
    pub(super) fn new() -> Self {
        Self { lanes: Vec::new() }
    }

    /// Reads the features of a row, and gives its logit without the bias. Behind the `count` cells of features there are
    /// others, up to a multiple of [`FULL`], that count as nothing.
    #[inline(always)]
    pub(super) fn load<M: Move<W>>(
        &mut self,
        rule: M,
        cells: &[&Cell<W>],
        (values, count): (Option<&[f32]>, usize),
    ) -> f32 {
        let cells = cells.as_chunks().0.as_chunks::<BOTH>().0;
        if self.lanes.len() < cells.len() {
            self.lanes.resize(cells.len(), [Lanes::none(); BOTH]);
        }
        let mut left = count;
        let mut sums = [[0.0; LANES]; BOTH];
        for (lanes, cells) in self.lanes.iter_mut().zip(cells) {
            for half in 0..BOTH {
                let few = left.min(LANES);
                let given = match values {
                    None => ONES[few],
                    Some(values) => given(&values[count - left..][..few]),
                };
                left -= few;
                lanes[half].read(rule, &cells[half], given);
                for i in 0..LANES {
                    sums[half][i] += lanes[half].weights[i] * lanes[half].values[i];
                }
            }
        }
        let [[a, b, c, d], [e, f, g, h]] = sums;
        ((a + e) + (c + g)) + ((b + f) + (d + h))
    }

    /// Moves the features by the row's `slope`.
    #[inline(always)]
    pub(super) fn store<M: Move<W>>(&mut self, rule: M, cells: &[&Cell<W>], slope: f32) {
        let cells = cells.as_chunks().0.as_chunks::<BOTH>().0;
        for (lanes, cells) in self.lanes.iter().zip(cells) {
            for half in 0..BOTH {
                lanes[half].write(rule, &cells[half], slope);
            }
        }
    }

    /// Replaces the weight of the feature that was read from the cell at `at`, and gives by how much that changes the logit.
    pub(super) fn replace(&mut self, at: usize, weight: f32) -> f32 {
        let lanes = &mut self.lanes[at / FULL][at % FULL / LANES];
        let i = at % LANES;
        (weight - std::mem::replace(&mut lanes.weights[i], weight)) * lanes.values[i]
    }
}

// Loops here are plain ones over indices: the arrays' own methods are left as calls in functions as large as these are
// inlined into.
impl<const W: usize> Lanes<W> {
    fn none() -> Self {
        Self {
            states: [[0.0; LANES]; W],
            weights: [0.0; LANES],
            values: [0.0; LANES],
        }
    }

    #[inline(always)]
    fn read<M: Move<W>>(&mut self, rule: M, cells: &[&Cell<W>; LANES], values: [f32; LANES]) {
        let states = read_cells(cells);
        for i in 0..LANES {
            self.weights[i] = rule.weight(column(&states, i));
        }
        (self.states, self.values) = (states, values);
    }

    #[inline(always)]
    fn write<M: Move<W>>(&self, rule: M, cells: &[&Cell<W>; LANES], slope: f32) {
        let mut states = self.states;
        for i in 0..LANES {
            let gradient = self.values[i] * slope;
            let state = rule.moved(column(&self.states, i), self.weights[i], gradient);
            for j in 0..W {
                states[j][i] = state[j];
            }
        }
        write_cells(cells, &states);
    }
}

/// The floats of one feature.
#[inline(always)]
fn column<const W: usize>(states: &[[f32; LANES]; W], i: usize) -> [f32; W] {
    let mut state = [0.0; W];
    for j in 0..W {
        state[j] = states[j][i];
    }
    state
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
