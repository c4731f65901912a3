//! A rank's event file: what its run tells to TensorBoard.

use std::sync::Arc;

use super::{Moment, Row, is_due};
use crate::exchange::{Conduct, Histogram};
use crate::observe::resources::Pulse;
use crate::observe::tensorboard::{EventFile, Spread};
use crate::train::{Times, Watched};
use crate::{Error, Result};

/// Writes rows of numbers at the steps of `metrics.csv`. What cannot be written is one warning, and the last of it.
pub struct Events {
    file: Option<EventFile>,
    /// Where measurements of resources are left.
    pulse: Arc<Pulse>,
    watched: Watched,
    every: u64,
    /// The step of the last row.
    last: u64,
    /// Seconds, samples and times of this rank at the last row.
    before: (f64, u64, [f64; 5]),
    /// How updates were at the last row, and at this one.
    conduct: Conduct,
    heard: Option<Conduct>,
}

impl Events {
    /// Writes to `file`, whose last row was at the step `last`, a row each `every` steps.
    pub fn new(
        file: EventFile,
        (every, last): (u64, u64),
        watched: Watched,
        pulse: Arc<Pulse>,
    ) -> Self {
        Self {
            file: Some(file),
            pulse,
            watched,
            every,
            last,
            before: (0.0, 0, [0.0; 5]),
            conduct: Conduct::default(),
            heard: None,
        }
    }

    /// The last row was at another step, as `metrics.csv` has it.
    pub(super) fn go_on(&mut self, last: u64) {
        self.last = last;
    }

    pub(super) fn begin(&mut self, times: &Times) {
        self.before = (times.elapsed(), times.samples, seconds(times));
    }

    /// Whether there is a row at a step.
    pub(super) fn is_due(&self, step: u64) -> bool {
        self.file.is_some() && is_due(step, self.last, self.every)
    }

    /// Hears how the updates of this rank were, for the next row.
    pub(super) fn hear(&mut self, conduct: Conduct) {
        self.heard = Some(conduct);
    }

    /// A row with what `metrics.csv` has at this moment, on the rank that writes it, and with what this rank has to tell.
    pub(super) fn row(&mut self, times: &Times, moment: &Moment, row: Option<&Row>) {
        let mut values = row.map(|row| self.of_all(row)).unwrap_or_default();
        values.extend(self.of_rank(times));
        values.extend(self.staleness());
        let measured = self.pulse.take().into_iter();
        values.extend(measured.map(|(name, value)| (format!("resources/{name}"), value)));
        self.last = moment.step;
        let values = values.iter().map(|(name, value)| (name.as_str(), *value));
        self.write(|file| {
            file.scalars(moment.step, values)?;
            file.flush()
        });
    }

    /// What `metrics.csv` says of the run.
    fn of_all(&self, row: &Row) -> Vec<(String, f64)> {
        let watched = self.watched.name();
        let values = [
            ("train/loss".into(), row.loss),
            ("train/accuracy".into(), row.accuracy),
            ("train/lr".into(), Some(f64::from(row.lr))),
            ("train/batch".into(), Some(row.batch as f64)),
            ("train/epoch".into(), Some(row.epoch)),
            ("train/noise_scale".into(), row.noise_scale),
            ("train/samples_per_s".into(), row.samples_per_s),
            (format!("{watched}/loss"), row.watched_loss),
            (format!("{watched}/accuracy"), row.watched_accuracy),
        ];
        let there = values.into_iter();
        there
            .filter_map(|(name, value)| Some((name, value?)))
            .collect()
    }

    /// Where this rank's time went since the last row, and how fast it was.
    fn of_rank(&mut self, times: &Times) -> Vec<(String, f64)> {
        let now = (times.elapsed(), times.samples, seconds(times));
        let before = std::mem::replace(&mut self.before, now);
        let passed = (now.0 - before.0).max(1e-9);
        let names = ["compute", "exchange", "wait", "load", "evaluate"];
        let share = |i: usize| {
            let share = (now.2[i] - before.2[i]) / passed;
            (format!("time/{}", names[i]), share)
        };
        let mut values: Vec<_> = (0..names.len()).map(share).collect();
        let speed = now.1.saturating_sub(before.1) as f64 / passed;
        values.push(("rank/samples_per_s".into(), speed));
        values
    }

    /// How stale this rank's updates were since the last row; nothing where ranks step together.
    fn staleness(&mut self) -> Vec<(String, f64)> {
        let Some(now) = self.heard.take() else {
            return Vec::new();
        };
        let before = std::mem::replace(&mut self.conduct, now);
        let kinds = [
            ("behind", &self.conduct.behind, &before.behind),
            ("missed", &self.conduct.missed, &before.missed),
        ];
        let mean = |(name, now, before): (&str, &Histogram, _)| {
            let mean = now.mean_since(before)?;
            Some((format!("staleness/{name}"), mean))
        };
        let mut values: Vec<_> = kinds.into_iter().filter_map(mean).collect();
        if !values.is_empty() {
            values.push(("staleness/dropped".into(), self.conduct.dropped as f64));
        }
        values
    }

    pub(super) fn spread(&mut self, step: u64, spread: &[Spread]) {
        self.write(|file| {
            let mut all = spread.iter();
            all.try_for_each(|spread| file.spread(step, spread))
        });
    }

    /// The run has ended well at `step`, with these numbers by name.
    pub fn end(&mut self, step: u64, results: &[(&str, f64)]) {
        self.write(|file| {
            file.end_run(step, results)?;
            file.flush()
        });
    }

    fn write(&mut self, write: impl FnOnce(&mut EventFile) -> Result<()>) {
        let Some(Err(error)) = self.file.as_mut().map(write) else {
            return;
        };
        self.file = None;
        Self::warn(&error);
    }

    /// Tells that a rank has no event file, or none any more.
    pub fn warn(error: &Error) {
        log::warn!("no more events for TensorBoard: {error}; training goes on");
    }
}

/// Seconds in the parts of a step and in evaluation.
fn seconds(times: &Times) -> [f64; 5] {
    let [compute, exchange, wait, load] = times.parts().map(|(_, seconds)| seconds);
    [compute, exchange, wait, load, times.evaluate.as_secs_f64()]
}
