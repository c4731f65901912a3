//! What a run tells while training goes on: `metrics.csv` and progress on rank 0, event files and signs of life on every rank.

mod events;
mod tap;

pub use events::Events;
pub use tap::Tap;

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Times, Watched};
use crate::exchange::Conduct;
use crate::nn::Tally;
use crate::observe::resources::{Beat, Pulse};
use crate::observe::tensorboard::Spread;
use crate::observe::{Progress, Voice, emit};
use crate::{Error, Result, files};

/// At least between two lines about evaluations.
const BETWEEN_LINES: Duration = Duration::from_millis(200);

/// A row of `metrics.csv`. Loss and accuracy are over the samples since the row before.
#[derive(Serialize)]
struct Row {
    step: u64,
    epoch: f64,
    samples: u64,
    seconds: f64,
    loss: Option<f64>,
    accuracy: Option<f64>,
    lr: f32,
    batch: usize,
    noise_scale: Option<f64>,
    samples_per_s: Option<f64>,
    watched_loss: Option<f64>,
    watched_accuracy: Option<f64>,
}

/// The columns' names, where `watched` was evaluated.
fn header(watched: Watched) -> [String; 12] {
    let name = watched.name();
    let (loss, accuracy) = (format!("{name}_loss"), format!("{name}_accuracy"));
    [
        "step",
        "epoch",
        "samples",
        "seconds",
        "loss",
        "accuracy",
        "lr",
        "batch",
        "noise_scale",
        "samples_per_s",
        &loss,
        &accuracy,
    ]
    .map(str::to_owned)
}

/// Where a run is after a step.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Steps taken, and in the whole run as far as that is known.
    pub step: u64,
    /// See `step`.
    pub total: u64,
    /// Passes over the data.
    pub epoch: f64,
    /// Samples seen.
    pub samples: u64,
    /// Learning rate of the last step.
    pub lr: f32,
    /// Samples of a step.
    pub batch: usize,
    /// The gradient noise scale in samples, where it is known.
    pub noise_scale: Option<f64>,
}

/// Takes note of steps and evaluations: on the first rank in `metrics.csv`, on every one for those who look on.
#[derive(Default)]
pub struct Journal {
    book: Option<Book>,
    events: Option<Events>,
    pulse: Option<Arc<Pulse>>,
}

struct Book {
    file: csv::Writer<File>,
    path: std::path::PathBuf,
    progress: Progress,
    watched: Watched,
    every: u64,
    /// What came since the last row.
    recent: Tally,
    /// Step, training seconds and samples at the last row.
    last: (u64, f64, u64),
    /// Loss, accuracy and speed of the last row, and the step that progress shows.
    known: Option<(f64, f64, f64)>,
    shown: u64,
    /// When an evaluation was last printed.
    told: Option<Instant>,
}

/// Where a journal is, for a run that goes on later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Page {
    recent: Tally,
    last: (u64, f64, u64),
}

impl Journal {
    /// For ranks that keep no `metrics.csv`.
    pub fn none() -> Self {
        Self::default()
    }

    /// Leaves there how far the rank is, and writes events too where there are to be any.
    pub fn attach(&mut self, pulse: Arc<Pulse>, events: Option<Events>) {
        (self.pulse, self.events) = (Some(pulse), events);
        if let (Some(events), Some(book)) = (&mut self.events, &self.book) {
            events.go_on(book.last.0);
        }
    }

    /// The run's clock goes on.
    pub fn begin(&mut self, times: &Times) {
        if let Some(pulse) = &self.pulse {
            pulse.begin(times.elapsed());
        }
        if let Some(events) = &mut self.events {
            events.begin(times);
        }
    }

    /// Hears how stale the updates of this rank are, if it writes of this step, as it does where it is `tested` next.
    pub fn hear(&mut self, step: u64, tested: bool, conduct: impl FnOnce() -> Conduct) {
        match &mut self.events {
            Some(events) if tested || events.is_due(step) => events.hear(conduct()),
            _ => {}
        }
    }

    /// How weights and gradients are spread at this moment.
    pub fn spread(&mut self, step: u64, spread: Vec<Spread>) {
        match &mut self.events {
            Some(events) if !spread.is_empty() => events.spread(step, &spread),
            _ => {}
        }
    }

    /// Ends what is shown; events may still be told how the run has ended.
    pub fn close(self) -> Option<Events> {
        self.events
    }

    /// Where it is; nothing where none is kept.
    pub fn page(&self) -> Page {
        let page = |book: &Book| Page {
            recent: book.recent,
            last: book.last,
        };
        self.book.as_ref().map(page).unwrap_or_default()
    }

    /// Goes on with `metrics.csv` at `path` where it was after `step` steps: rows behind that are cut off.
    pub fn go_on(
        path: &Path,
        watched: Watched,
        (every, total): (u64, u64),
        (step, page): (u64, Page),
    ) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(Error::io("read", path))?;
        let head = header(watched).join(",");
        if text.lines().next() != Some(head.as_str()) {
            let hint = "it is not the one of this run";
            return Err(Error::file(
                path,
                format!("does not begin with `{head}`"),
                hint,
            ));
        }
        let is_past = |line: &&str| {
            let number = line.split(',').next().and_then(|cell| cell.parse().ok());
            number.is_some_and(|row: u64| row <= step)
        };
        // A row without its end was cut off when the machine went down.
        let rows = text.split_inclusive('\n').skip(1);
        let rows = rows.filter(|row| row.ends_with('\n'));
        let kept: String = rows.take_while(|row| is_past(row)).collect();
        files::write_text(path, &format!("{head}\n{kept}"))?;
        let file = File::options().append(true).open(path);
        let file = file.map_err(Error::io("open", path))?;
        let mut journal = Self::keep(file, path, watched, (every, total));
        if let Some(book) = &mut journal.book {
            (book.recent, book.last) = (page.recent, page.last);
            book.progress.skip(page.last.0);
            book.shown = page.last.0;
        }
        Ok(journal)
    }

    /// Starts `metrics.csv` at `path`, with a row each `every` steps of `total`.
    pub fn create(path: &Path, watched: Watched, every: u64, total: u64) -> Result<Self> {
        let file = File::create(path).map_err(Error::io("create", path))?;
        let mut journal = Self::keep(file, path, watched, (every, total));
        let book = journal.book.as_mut().expect("it is kept");
        // At once: a run that goes on from an early checkpoint finds it.
        let begun = book.file.write_record(header(watched));
        begun
            .map_err(std::io::Error::other)
            .and_then(|()| book.file.flush())
            .map_err(Error::io("write", path))?;
        Ok(journal)
    }

    fn keep(file: File, path: &Path, watched: Watched, (every, total): (u64, u64)) -> Self {
        let file = csv::WriterBuilder::new()
            .has_headers(false)
            .from_writer(file);
        let book = Book {
            file,
            path: path.to_path_buf(),
            progress: Progress::new("training", total),
            watched,
            every,
            recent: Tally::default(),
            last: (0, 0.0, 0),
            known: None,
            shown: 0,
            told: None,
        };
        Self {
            book: Some(book),
            ..Self::default()
        }
    }

    /// After a step; if it is `tested` next, the row waits for that.
    pub fn trained(
        &mut self,
        times: &Times,
        moment: &Moment,
        tally: Tally,
        tested: bool,
    ) -> Result<()> {
        if let Some(pulse) = &self.pulse {
            pulse.set(&Beat {
                step: moment.step,
                total: moment.total,
                epoch: moment.epoch,
                samples: times.samples,
                parts: times.parts().map(|(_, seconds)| seconds),
                loss: (tally.count > 0).then(|| tally.mean_loss()),
            });
        }
        let row = match &mut self.book {
            None => None,
            Some(book) => {
                book.recent = book.recent.plus(tally);
                book.show(times, moment);
                let due = !tested && is_due(moment.step, book.last.0, book.every);
                due.then(|| book.row(times, moment, None)).transpose()?
            }
        };
        match &mut self.events {
            Some(events) if !tested && events.is_due(moment.step) => {
                events.row(times, moment, row.as_ref());
            }
            _ => {}
        }
        Ok(())
    }

    /// After an evaluation.
    pub fn tested(&mut self, times: &Times, moment: &Moment, tally: Tally) -> Result<()> {
        let Some(book) = &mut self.book else {
            if let Some(events) = &mut self.events {
                events.row(times, moment, None);
            }
            return Ok(());
        };
        // Short epochs need no line each: the last one told is recent, and the table at the end has the result.
        if book.told.is_none_or(|told| told.elapsed() >= BETWEEN_LINES) {
            book.told = Some(Instant::now());
            let Moment { step, epoch, .. } = moment;
            let (loss, accuracy) = (tally.mean_loss(), 100.0 * tally.accuracy());
            let name = book.watched.name();
            book.progress.line(&format!(
                "step {step:>7}  epoch {epoch:6.2}  {name} loss {loss:.4}  {name} accuracy {accuracy:.2} %"
            ));
        }
        let row = book.row(times, moment, Some(tally))?;
        if let Some(events) = &mut self.events {
            events.row(times, moment, Some(&row));
        }
        Ok(())
    }
}

/// Whether a multiple of `every` lies between the `last` row and this step.
fn is_due(step: u64, last: u64, every: u64) -> bool {
    step / every != last / every
}

impl Row {
    /// Its cells by the names of its columns, as far as there are any.
    fn by_name(&self, names: &[String]) -> Value {
        let mut writer = csv::WriterBuilder::new()
            .has_headers(false)
            .from_writer(Vec::new());
        writer.serialize(self).expect("plain values");
        let line = writer.into_inner().expect("writing to memory");
        let line = String::from_utf8_lossy(&line).into_owned();
        let cells = line.trim_end().split(',');
        let pairs = names.iter().zip(cells).filter(|(_, cell)| !cell.is_empty());
        // Numbers as they are in the file; one that is none, such as `NaN`, is none in JSON either.
        let value = |cell: &str| serde_json::from_str(cell).unwrap_or(Value::Null);
        pairs
            .map(|(name, cell)| (name.clone(), value(cell)))
            .collect()
    }
}

impl Book {
    /// Shows how far the run is.
    fn show(&mut self, times: &Times, moment: &Moment) {
        self.progress.set_total(moment.total);
        let more = moment.step.saturating_sub(self.shown);
        self.shown = moment.step;
        let known = self.known;
        self.progress.advance(more, |short| {
            let parts = times.parts();
            let all: f64 = parts.iter().map(|(_, seconds)| seconds).sum();
            let share = 100.0 * parts[1].1 / all.max(1e-9);
            let epoch = moment.epoch;
            let Some((loss, accuracy, speed)) = known else {
                return format!("epoch {epoch:.2}  exchange {share:.0} %");
            };
            let percent = 100.0 * accuracy;
            match short {
                true => format!("ep {epoch:.1} loss {loss:.3} acc {percent:.1} % {:.1}k/s exch {share:.0} %", speed / 1e3),
                false => format!(
                    "epoch {epoch:.2}  loss {loss:.4}  acc {percent:.1} %  {speed:.0} samples/s  exchange {share:.0} %"
                ),
            }
        });
    }

    fn row(&mut self, times: &Times, moment: &Moment, test: Option<Tally>) -> Result<Row> {
        let Moment { step, samples, .. } = *moment;
        let (_, last_seconds, last_samples) = self.last;
        let (seconds, count) = (times.training(times.elapsed()), self.recent.count);
        let speed = (samples - last_samples) as f64 / (seconds - last_seconds).max(1e-9);
        let some = (count > 0).then_some(self.recent);
        let row = Row {
            step,
            epoch: round(moment.epoch, 1e4),
            samples,
            seconds: round(times.elapsed(), 1e6),
            loss: some.map(|tally| round(tally.mean_loss(), 1e6)),
            accuracy: some.map(|tally| round(tally.accuracy(), 1e6)),
            lr: moment.lr,
            batch: moment.batch,
            noise_scale: moment.noise_scale.map(|scale| round(scale, 10.0)),
            samples_per_s: some.map(|_| speed.round()),
            watched_loss: test.map(|tally| round(tally.mean_loss(), 1e6)),
            watched_accuracy: test.map(|tally| round(tally.accuracy(), 1e6)),
        };
        if let (Some(loss), Some(accuracy)) = (row.loss, row.accuracy) {
            self.known = Some((loss, accuracy, speed));
        }
        if Voice::get() == Voice::Json {
            let names = header(self.watched);
            emit("row", row.by_name(&names));
        }
        // Flushed row by row: a killed run keeps all rows so far, and never half of one.
        let written = self
            .file
            .serialize(&row)
            .map_err(std::io::Error::other)
            .and_then(|()| self.file.flush());
        written.map_err(Error::io("write", &self.path))?;
        self.recent = Tally::default();
        self.last = (step, seconds, samples);
        Ok(row)
    }
}

fn round(value: f64, unit: f64) -> f64 {
    (value * unit).round() / unit
}
