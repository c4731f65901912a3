//! Which rows a step takes: a pure function of global numbers and the seed.

use std::ops::Range;

use super::exchange::Picked;
use crate::data::Steps;
use crate::data::sampler::Permutation;

/// How rows are put in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shuffle {
    /// As they are stored.
    None,
    /// A step's rows are neighbours; steps are in random order.
    Steps,
    /// Every row by itself.
    Rows,
}

impl Shuffle {
    /// As the user reads it.
    pub fn describe(self) -> &'static str {
        match self {
            Self::None => "as they are stored",
            Self::Steps => "steps in random order, their rows neighbours",
            Self::Rows => "all in random order",
        }
    }
}

/// The order of rows in every epoch.
pub struct Order {
    shuffle: Shuffle,
    seed: u64,
    /// Of the epoch that was asked for last.
    known: Option<(u64, Permutation)>,
}

impl Order {
    /// The order that `seed` names.
    pub fn new(shuffle: Shuffle, seed: u64) -> Self {
        Self {
            shuffle,
            seed,
            known: None,
        }
    }

    /// The rows of `step`.
    pub fn rows(&mut self, step: u64, steps: &Steps) -> Picked {
        let place = steps.place(step);
        let (epoch, range) = (place.epoch, place.positions);
        match self.shuffle {
            Shuffle::None => Picked::Run(range),
            Shuffle::Rows => {
                let order = self.permutation(epoch, steps.samples());
                Picked::Each(range.map(|position| order.at(position)).collect())
            }
            Shuffle::Steps => {
                let count = steps.in_epoch(epoch) as usize;
                let number = (step - steps.first(epoch)) as usize;
                let step = self.permutation(epoch, count).at(number);
                Picked::Run(neighbours(step, steps.batch(step as u64), steps.samples()))
            }
        }
    }

    fn permutation(&mut self, epoch: u64, n: usize) -> &Permutation {
        if self.known.as_ref().is_none_or(|(known, _)| *known != epoch) {
            self.known = Some((epoch, Permutation::new(n, self.seed, epoch)));
        }
        let (_, permutation) = self.known.as_ref().expect("just made");
        permutation
    }
}

/// The rows of the `number`-th step where they are in order.
fn neighbours(number: usize, batch: usize, rows: usize) -> Range<usize> {
    let start = number * batch;
    start..(start + batch).min(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Length;

    #[test]
    fn every_epoch_has_every_row_once_in_its_own_order() {
        let steps = Steps::new(1003, 10, Length::Epochs(3));
        for shuffle in [Shuffle::None, Shuffle::Steps, Shuffle::Rows] {
            let mut order = Order::new(shuffle, 5);
            let mut epochs = Vec::new();
            for epoch in 0..3 {
                let mut rows = Vec::new();
                for step in steps.first(epoch)..steps.first(epoch + 1) {
                    let picked = order.rows(step, &steps);
                    rows.extend((0..picked.len()).map(|i| picked.number(i)));
                }
                let mut sorted = rows.clone();
                sorted.sort_unstable();
                assert!(sorted.into_iter().eq(0..1003), "{shuffle:?}");
                epochs.push(rows);
            }
            assert_eq!(epochs[0] == epochs[1], shuffle == Shuffle::None);
        }
    }
}
