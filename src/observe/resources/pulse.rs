//! What the thread that trains leaves for the one that looks on, and the other way round; nobody waits for anybody.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

/// How far a rank is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Beat {
    /// Steps taken, and in the whole run as far as that is known.
    pub step: u64,
    /// See `step`.
    pub total: u64,
    /// Passes over the data.
    pub epoch: f64,
    /// Samples that this rank has seen.
    pub samples: u64,
    /// Seconds of this rank in compute, exchange, wait and load.
    pub parts: [f64; 4],
    /// The last loss that is known, where one is.
    pub loss: Option<f64>,
}

/// Cells of a beat: step, total, epoch, samples, parts, loss.
const CELLS: usize = 9;

/// The meeting place of the two threads of a rank.
#[derive(Default)]
pub struct Pulse {
    cells: [AtomicU64; CELLS],
    /// When the clock of the run was set going, and what it showed then.
    begun: OnceLock<(Instant, f64)>,
    /// The last measurements that nobody has taken yet.
    measured: Mutex<Vec<(String, f64)>>,
}

impl Pulse {
    /// The run's clock goes on from here.
    pub fn begin(&self, seconds: f64) {
        let _ = self.begun.set((Instant::now(), seconds));
    }

    /// What the run's clock shows, once it goes.
    pub fn seconds(&self) -> Option<f64> {
        let (begun, before) = self.begun.get()?;
        Some(before + begun.elapsed().as_secs_f64())
    }

    /// Leaves how far the rank is: a few stores.
    pub fn set(&self, beat: &Beat) {
        let loss = beat.loss.unwrap_or(f64::NAN);
        let [compute, exchange, wait, load] = beat.parts.map(f64::to_bits);
        let epoch = beat.epoch.to_bits();
        let values = [
            beat.step,
            beat.total,
            epoch,
            beat.samples,
            compute,
            exchange,
            wait,
            load,
            loss.to_bits(),
        ];
        let cells = self.cells.iter().zip(values);
        cells.for_each(|(cell, value)| cell.store(value, Ordering::Relaxed));
    }

    /// How far the rank is. It may be half of one step and half of the next: it is for the eye.
    pub fn beat(&self) -> Beat {
        let whole = |at: usize| self.cells[at].load(Ordering::Relaxed);
        let real = |at: usize| f64::from_bits(whole(at));
        Beat {
            step: whole(0),
            total: whole(1),
            epoch: real(2),
            samples: whole(3),
            parts: [real(4), real(5), real(6), real(7)],
            loss: Some(real(8)).filter(|loss| !loss.is_nan() && whole(0) > 0),
        }
    }

    /// Leaves measurements by name.
    pub(super) fn leave(&self, measured: Vec<(String, f64)>) {
        if let Ok(mut place) = self.measured.lock() {
            *place = measured;
        }
    }

    /// The last measurements, once; none if they are just being left.
    pub fn take(&self) -> Vec<(String, f64)> {
        let place = self.measured.try_lock();
        place.map_or(Vec::new(), |mut place| std::mem::take(&mut *place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_found() {
        let pulse = Pulse::default();
        assert_eq!((pulse.seconds(), pulse.beat().loss), (None, None));
        let beat = Beat {
            step: 5,
            total: 9,
            epoch: 0.5,
            samples: 50,
            parts: [1.0, 2.0, 3.0, 4.0],
            loss: Some(0.25),
        };
        pulse.set(&beat);
        assert_eq!(pulse.beat(), beat);
        pulse.begin(7.0);
        assert!(pulse.seconds().is_some_and(|seconds| seconds >= 7.0));
        pulse.leave(vec![("cpu_percent".into(), 99.0)]);
        assert_eq!(pulse.take().len(), 1);
        assert!(pulse.take().is_empty());
    }
}
