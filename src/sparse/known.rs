//! The arithmetic of one row whose features are cells of shared memory: read, computed on in vectors, written.
// Lanes are indexed: iterators would hide which is which.
#![allow(clippy::needless_range_loop)]

use std::sync::atomic::Ordering;

use super::asked::Asked;
use super::rule::Move;
use crate::backend::cpu::{Cell, LANES, Lanes};
use crate::data::rows::Row;

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

/// The rule at this moment, for features in common memory and for copies of a rank's own, whose time is another.
#[derive(Clone, Copy)]
pub(super) struct Rules<M> {
    pub(super) common: M,
    pub(super) own: M,
}

impl<M> Rules<M> {
    /// The same at the rate `lr`.
    pub(super) fn at_rate<const W: usize>(self, lr: f32) -> Self
    where
        M: Move<W>,
    {
        Self {
            common: self.common.at_rate(lr),
            own: self.own.at_rate(lr),
        }
    }

    /// The weights of the features from `at` on, of which `states` were read.
    #[inline(always)]
    fn weights<L: Lanes, const W: usize>(
        self,
        lanes: L,
        states: [L::Floats; W],
        copied: &[bool],
        at: usize,
    ) -> L::Floats
    where
        M: Move<W>,
    {
        let weights = self.common.weights(lanes, states);
        if M::TIME.is_none() {
            return weights;
        }
        let states = states.map(|floats| lanes.each(floats));
        let mut weights = lanes.each(weights);
        for i in 0..LANES {
            if copied[at + i] {
                weights[i] = self.own.weight(states.map(|floats| floats[i]));
            }
        }
        lanes.of(weights)
    }

    /// The logit of a row without the bias, by its features as they are now; `meanwhile` is called for every few of them.
    #[inline(always)]
    pub(super) fn logit<const W: usize>(
        self,
        lanes: impl Lanes,
        asked: &Asked<W>,
        mut meanwhile: impl FnMut(),
    ) -> f32
    where
        M: Move<W>,
    {
        let mut sums = lanes.splat(0.0);
        for (i, cells) in asked.cells.as_chunks().0.iter().enumerate() {
            let at = i * LANES;
            let weights = self.weights(lanes, lanes.read(cells), &asked.copied, at);
            let values = lanes.of(values(asked.row, at));
            sums = lanes.add(sums, lanes.mul(weights, values));
            meanwhile();
        }
        lanes.sum(sums)
    }

    /// Moves the features of a row, as they are now, by its `slope`; `meanwhile` as in `logit`. Where copies have a time, it is
    /// `own_time`.
    #[inline(always)]
    pub(super) fn learn<const W: usize>(
        self,
        lanes: impl Lanes,
        asked: &Asked<W>,
        (slope, own_time): (f32, f32),
        mut meanwhile: impl FnMut(),
    ) where
        M: Move<W>,
    {
        let slopes = lanes.splat(slope);
        for (i, cells) in asked.cells.as_chunks().0.iter().enumerate() {
            let at = i * LANES;
            let states = lanes.read(cells);
            let weights = self.weights(lanes, states, &asked.copied, at);
            let gradients = lanes.mul(lanes.of(values(asked.row, at)), slopes);
            lanes.write(
                cells,
                self.common.moves(lanes, states, (weights, gradients)),
            );
            if let Some(time) = M::TIME {
                let copies = cells.iter().zip(&asked.copied[at..]);
                for (cell, _) in copies.filter(|(_, copied)| **copied) {
                    cell[time].store(own_time.to_bits(), Ordering::Relaxed);
                }
            }
            meanwhile();
        }
    }
}

/// Values of which the first 0, 1, 2 … are 1.
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

/// The values of a row's features from `at` on, and zeros behind the last.
#[inline(always)]
fn values(row: Row, at: usize) -> [f32; LANES] {
    let few = (row.indices.len() - at).min(LANES);
    let Some(values) = row.values else {
        return ONES[few];
    };
    let mut all = [0.0; LANES];
    for (all, value) in all.iter_mut().zip(&values[at..][..few]) {
        *all = *value;
    }
    all
}
