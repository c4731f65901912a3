//! The arithmetic of one row whose features are cells of shared memory: read, computed on in vectors, written.

use std::sync::atomic::{AtomicU32, Ordering};

use super::rule::Move;

/// Features that a vector can hold.
const LANES: usize = 8;

/// The floats of a feature.
pub(super) type Cell<const W: usize> = [AtomicU32; W];

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

/// The features of a row as they were read: what was read of each, float by float, and what follows from it. Behind the
/// last there are zeros up to a multiple of `LANES`, so that vectors are full.
pub(super) struct Known<const W: usize> {
    pub(super) states: [Vec<f32>; W],
    pub(super) weights: Vec<f32>,
    pub(super) values: Vec<f32>,
}

impl<const W: usize> Known<W> {
    pub(super) fn new() -> Self {
        Self {
            states: std::array::from_fn(|_| Vec::new()),
            weights: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Reads the features of a row, and gives its logit without the bias.
    #[inline(always)]
    pub(super) fn load<M: Move<W>>(
        &mut self,
        rule: M,
        cells: &[&Cell<W>],
        values: Option<&[f32]>,
    ) -> f32 {
        let (count, padded) = (cells.len(), cells.len().next_multiple_of(LANES));
        for floats in self.states.iter_mut().chain([&mut self.weights]) {
            floats.resize(padded, 0.0);
            floats[count..].fill(0.0);
        }
        let states = self.states.each_mut().map(|floats| &mut floats[..count]);
        for (at, cell) in cells.iter().enumerate() {
            let state = load(cell);
            for i in 0..W {
                states[i][at] = state[i];
            }
        }
        self.values.clear();
        match values {
            Some(values) => self.values.extend_from_slice(values),
            None => self.values.resize(count, 1.0),
        }
        self.values.resize(padded, 0.0);
        rule.weights(&self.states, &mut self.weights);
        self.dot()
    }

    /// The sum of weights times values.
    #[inline(always)]
    fn dot(&self) -> f32 {
        let mut sums = [0.0; LANES];
        let weights = self.weights.as_chunks::<LANES>().0;
        let values = self.values.as_chunks::<LANES>().0;
        for (weights, values) in weights.iter().zip(values) {
            for lane in 0..LANES {
                sums[lane] += weights[lane] * values[lane];
            }
        }
        sums.iter().sum()
    }

    /// Moves the features by the row's `slope`.
    #[inline(always)]
    pub(super) fn store<M: Move<W>>(&mut self, rule: M, cells: &[&Cell<W>], slope: f32) {
        self.values.iter_mut().for_each(|value| *value *= slope);
        rule.move_all(&mut self.states, &self.weights, &self.values);
        let states = self.states.each_ref().map(|floats| &floats[..cells.len()]);
        for (at, cell) in cells.iter().enumerate() {
            store(cell, std::array::from_fn(|i| states[i][at]));
        }
    }
}
