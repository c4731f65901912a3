//! How a data set is cut into the steps of a run: a pure function of global numbers, so that all ranks agree.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// How long to train at the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Length {
    /// Passes over the data.
    Epochs(u64),
    /// Updates of the parameters.
    Steps(u64),
}

/// Where a step's samples are: positions of one epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The epoch, from 0.
    pub epoch: u64,
    /// Positions in the epoch's order.
    pub positions: Range<usize>,
}

/// Epochs whose steps are of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// Its first epoch, and its first step; it lasts until the next piece.
    epoch: u64,
    step: u64,
    /// Samples of one step; the last step of an epoch takes what is left.
    batch: usize,
}

/// The steps of a run. The batch may grow from epoch to epoch; within one it is the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steps {
    samples: usize,
    length: Length,
    /// In order, the first from epoch 0.
    pieces: Vec<Piece>,
}

impl Steps {
    /// `samples` in steps of `batch`.
    pub fn new(samples: usize, batch: usize, length: Length) -> Self {
        let first = Piece {
            epoch: 0,
            step: 0,
            batch,
        };
        Self {
            samples,
            length,
            pieces: vec![first],
        }
    }

    /// From `epoch` on, which is not before the last change, steps are of `batch` samples.
    pub fn grow(&mut self, epoch: u64, batch: usize) {
        let step = self.first(epoch);
        let last = self.pieces.last_mut().expect("there is a first piece");
        assert!(last.epoch <= epoch, "the past stays as it was");
        if last.epoch == epoch {
            last.batch = batch;
        } else {
            self.pieces.push(Piece { epoch, step, batch });
        }
    }

    /// How the batch has grown.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Goes on with a batch that has grown elsewhere.
    pub fn go_on(&mut self, pieces: Vec<Piece>) {
        if !pieces.is_empty() {
            self.pieces = pieces;
        }
    }

    /// Samples in the data set.
    pub fn samples(&self) -> usize {
        self.samples
    }

    /// Steps of the whole run, as far as it is known how the batch grows.
    pub fn total(&self) -> u64 {
        match self.length {
            Length::Epochs(epochs) => self.first(epochs),
            Length::Steps(steps) => steps,
        }
    }

    /// The share of the run that is over after `steps` steps.
    pub fn progress(&self, steps: u64) -> f64 {
        let part = match self.length {
            Length::Epochs(epochs) => self.epochs(steps) / epochs as f64,
            Length::Steps(all) => steps as f64 / all as f64,
        };
        part.min(1.0)
    }

    /// The first step of `epoch`.
    pub fn first(&self, epoch: u64) -> u64 {
        let after = self.pieces.partition_point(|piece| piece.epoch <= epoch);
        let piece = self.pieces[after - 1];
        let steps = (epoch - piece.epoch).saturating_mul(self.each(piece));
        piece.step.saturating_add(steps)
    }

    /// Steps in `epoch`.
    pub fn in_epoch(&self, epoch: u64) -> u64 {
        self.first(epoch.saturating_add(1)) - self.first(epoch)
    }

    /// The steps that so many epochs take, rounded.
    pub fn of(&self, epochs: f64) -> u64 {
        let (whole, part) = (epochs as u64, epochs.fract());
        let part = (part * self.in_epoch(whole) as f64).round() as u64;
        self.first(whole).saturating_add(part)
    }

    /// Samples of `step`, if it is not the last of its epoch.
    pub fn batch(&self, step: u64) -> usize {
        self.piece(step).batch
    }

    /// The samples of `step`, counted from 0 over all epochs.
    pub fn place(&self, step: u64) -> Place {
        let piece = self.piece(step);
        let (into, each) = (step - piece.step, self.each(piece));
        let start = (into % each) as usize * piece.batch;
        Place {
            epoch: piece.epoch + into / each,
            positions: start..(start + piece.batch).min(self.samples),
        }
    }

    /// Samples seen after `steps` steps.
    pub fn seen(&self, steps: u64) -> u64 {
        let Place { epoch, positions } = self.place(steps);
        epoch * self.samples as u64 + positions.start as u64
    }

    /// Passes over the data after `steps` steps.
    pub fn epochs(&self, steps: u64) -> f64 {
        self.seen(steps) as f64 / self.samples as f64
    }

    fn piece(&self, step: u64) -> Piece {
        let after = self.pieces.partition_point(|piece| piece.step <= step);
        self.pieces[after - 1]
    }

    /// Steps in an epoch of `piece`.
    fn each(&self, piece: Piece) -> u64 {
        self.samples.div_ceil(piece.batch) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_cover_an_epoch_with_a_short_last_one() {
        let steps = Steps::new(10, 4, Length::Epochs(2));
        let places: Vec<_> = (0..4).map(|step| steps.place(step)).collect();
        let place = |epoch, positions| Place { epoch, positions };
        assert_eq!(
            places,
            [
                place(0, 0..4),
                place(0, 4..8),
                place(0, 8..10),
                place(1, 0..4)
            ]
        );
        assert_eq!([0, 1, 3, 4].map(|n| steps.seen(n)), [0, 4, 10, 14]);
        assert_eq!((steps.total(), steps.of(1.5), steps.of(9.0)), (6, 5, 27));
    }

    #[test]
    fn a_growing_batch_takes_every_sample_once_an_epoch() {
        let mut steps = Steps::new(100, 7, Length::Epochs(9));
        steps.grow(2, 14);
        steps.grow(3, 30);
        steps.grow(3, 33);
        steps.grow(6, 1000);
        let mut step = 0;
        for epoch in 0..9 {
            assert_eq!(steps.first(epoch), step);
            let mut next = 0;
            for _ in 0..steps.in_epoch(epoch) {
                assert_eq!(steps.seen(step), epoch * 100 + next as u64);
                let place = steps.place(step);
                assert_eq!((place.epoch, place.positions.start), (epoch, next));
                let full = place.positions.len() == steps.batch(step);
                assert!(full || place.positions.end == 100);
                next = place.positions.end;
                step += 1;
            }
            assert_eq!(next, 100, "epoch {epoch} is whole");
        }
        assert_eq!((steps.total(), step), (15 * 2 + 8 + 4 * 3 + 3, 53));
        assert_eq!(
            [0, 30, 38, 50].map(|step| steps.batch(step)),
            [7, 14, 33, 1000]
        );
    }

    #[test]
    fn growth_to_come_changes_nothing_of_the_past() {
        let steps = Steps::new(50, 6, Length::Steps(100));
        let mut grown = steps.clone();
        grown.grow(3, 12);
        let past = 0..steps.first(3);
        assert!(
            past.clone()
                .all(|step| steps.place(step) == grown.place(step))
        );
        assert!(
            past.clone()
                .all(|step| steps.seen(step) == grown.seen(step))
        );
        assert_eq!((grown.total(), grown.progress(25)), (100, 0.25));
    }

    #[test]
    fn progress_goes_by_epochs_where_these_end_the_run() {
        let mut steps = Steps::new(100, 10, Length::Epochs(4));
        steps.grow(2, 50);
        assert_eq!(
            [0, 10, 20, 22, 24].map(|n| steps.progress(n)),
            [0.0, 0.25, 0.5, 0.75, 1.0]
        );
    }

    #[test]
    fn numbers_without_end_do_not_overflow() {
        let steps = Steps::new(60_000, 1, Length::Epochs(1 << 60));
        assert_eq!(steps.total(), u64::MAX);
        assert_eq!(steps.of(1e300), u64::MAX);
    }
}
