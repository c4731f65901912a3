//! What a rank and its host use while it trains: `resources.csv`, a row a second, and `now.json`.
//!
//! A thread of each rank takes the samples. It is not the watchdog's: that one must beat on while a file system hangs. It
//! never enters MPI, and what it cannot write is one warning.

mod dstat;
mod gpu;
mod process;
mod pulse;
mod recent;
mod row;
mod table;
mod usage;

pub(super) use process::is_there;
pub use pulse::{Beat, Pulse};

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::top::{Now, State, clock};
use crate::board::{Board, Glance};
use crate::{Error, Result};
use gpu::Gpu;
use recent::Recent;
use row::{At, Row, tenths};
use table::Table;
use usage::Usage;

/// From one row to the next.
pub const EVERY: Duration = Duration::from_secs(1);

/// At most between two measurements of proportional memory, which are closer at the begin of a run, and how many times the time that the
/// last one took at least: the system walks all pages for it.
const PROPORTIONAL_EVERY: Duration = Duration::from_secs(10);
const PROPORTIONAL_SHARE: u32 = 1000;

/// What is written of resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Records {
    /// Nothing.
    Off,
    /// `resources.csv` and `now.json`.
    Csv,
    /// These, and on the first rank of each host `dstat.csv`.
    Dstat,
}

/// Whose resources they are.
#[derive(Clone, Debug)]
pub struct Who {
    /// The rank, and of how many.
    pub rank: usize,
    /// See `rank`.
    pub ranks: usize,
    /// Whether it is the first of its host.
    pub is_first: bool,
    /// Where it writes.
    pub folder: PathBuf,
    /// Where its GPU is on the host's bus, if it has one.
    pub gpu: Option<String>,
}

/// Takes the samples of one rank.
pub struct Sampler(Option<Files>);

struct Files {
    who: Who,
    host: String,
    pulse: Arc<Pulse>,
    rows: Option<Table>,
    dstat: Option<Table>,
    /// How many times as often as others it takes samples.
    often: u32,
    /// Whether there was a warning: one is enough.
    warned: bool,
}

impl Sampler {
    /// Opens the files of a rank, for a run that begins, or goes on from a step and from what its clock showed then.
    pub fn open(records: Records, who: Who, pulse: Arc<Pulse>, from: Option<(u64, f64)>) -> Self {
        if records == Records::Off {
            return Self(None);
        }
        let host = hostname::get().map_or("?".into(), |name| name.to_string_lossy().into_owned());
        let mut files = Files {
            who,
            host,
            pulse,
            rows: None,
            dstat: None,
            often: 1,
            warned: false,
        };
        let made = std::fs::create_dir_all(&files.who.folder);
        if let Err(error) = made {
            let problem = Error::io("create folder", &files.who.folder)(error);
            files.warn(&problem);
            return Self(None);
        }
        files.rows = files
            .open_rows(from)
            .map_or_else(|error| files.fail(&error), Some);
        if records == Records::Dstat && files.who.is_first {
            files.dstat = files
                .open_dstat(from)
                .map_or_else(|error| files.fail(&error), Some);
        }
        Self(Some(files))
    }

    /// So many times as often, for who wants to know what samples cost.
    pub fn often(mut self, times: u32) -> Self {
        if let Some(files) = &mut self.0 {
            files.often = times.max(1);
        }
        self
    }

    /// Does `work` while a thread takes samples; the rank marks on `board` what it does.
    pub fn over<T>(self, board: Option<Rc<Board>>, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let Some(mut files) = self.0 else {
            drop(board);
            return work();
        };
        let (over, failed) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            let glance = board.as_ref().map(|board| board.glance());
            let (over, failed) = (&over, &failed);
            let thread = scope.spawn(move || files.go(glance, over, failed));
            let _end = End {
                over,
                thread: thread.thread(),
            };
            let done = work();
            failed.store(done.is_err(), Ordering::Relaxed);
            done
        })
    }
}

/// Ends the thread however the work ends.
struct End<'a> {
    over: &'a AtomicBool,
    thread: &'a Thread,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// When proportional memory is measured: soon again at the begin of a run, so that a short one has a curve of it too, and later less often.
struct Walks {
    next: Instant,
    pause: Duration,
    often: u32,
}

impl Walks {
    fn from(begin: Instant, often: u32) -> Self {
        Self {
            next: begin,
            pause: EVERY,
            often,
        }
    }

    /// One that is due a little later is due now: samples come when they come.
    fn is_due(&self, now: Instant) -> bool {
        now + EVERY / self.often / 2 >= self.next
    }

    /// The one that began `now` has taken so long.
    fn took(&mut self, now: Instant, time: Duration) {
        self.next = now + self.pause.max(time * PROPORTIONAL_SHARE) / self.often;
        self.pause = (self.pause * 2).min(PROPORTIONAL_EVERY);
    }
}

impl Files {
    fn open_rows(&self, from: Option<(u64, f64)>) -> Result<Table> {
        let path = self.who.folder.join("resources.csv");
        let at = self.at(0.0, None);
        let empty = Row::between(at, &Usage::default(), &Usage::default(), 1.0);
        let mut head = csv::Writer::from_writer(Vec::new());
        head.serialize(empty).expect("writing to memory");
        let head = head.into_inner().expect("writing to memory");
        let end = head.iter().position(|&byte| byte == b'\n');
        let head = &head[..=end.expect("a line")];
        let Some((step, seconds)) = from else {
            return Table::create(&path, head);
        };
        let past = |line: &str| {
            let mut cells = line.split(',');
            let time = cells.next().and_then(|cell| cell.parse::<f64>().ok());
            let number = cells.nth(2).and_then(|cell| cell.parse::<u64>().ok());
            time.is_some_and(|time| time <= seconds) && number.is_some_and(|number| number <= step)
        };
        Table::go_on(&path, head, 1, past)
    }

    fn open_dstat(&self, from: Option<(u64, f64)>) -> Result<Table> {
        let path = self.who.folder.join("dstat.csv");
        let mut head = Vec::new();
        let user = std::env::var("USER").unwrap_or("root".into());
        dstat::head(&mut head, &self.host, &user, &recent::date(clock())).expect("to memory");
        let Some((step, _)) = from else {
            return Table::create(&path, &head);
        };
        let past = |line: &str| {
            let last = line.trim_end().rsplit(',').next();
            last.and_then(|cell| cell.parse::<u64>().ok())
                .is_some_and(|number| number <= step)
        };
        Table::go_on(&path, &head, dstat::HEAD, past)
    }

    /// Takes samples until the work is `over`, and one then.
    fn go(&mut self, glance: Option<Glance>, over: &AtomicBool, failed: &AtomicBool) {
        let is_over = || over.load(Ordering::Acquire);
        while self.pulse.seconds().is_none() && !is_over() {
            thread::park_timeout(EVERY / 10);
        }
        let gpu = self.who.gpu.as_deref().and_then(Gpu::open);
        let every = EVERY / self.often;
        let (begin, mut count) = (Instant::now(), 0);
        let mut last = (begin, Usage::now(self.dstat.is_some()));
        let (mut recent, mut walks) = (Recent::default(), Walks::from(begin, self.often));
        recent.add(self.pulse.seconds().unwrap_or(0.0), self.pulse.beat());
        loop {
            count += 1;
            let next = begin + every * count;
            while !is_over() && Instant::now() < next {
                thread::park_timeout(next.saturating_duration_since(Instant::now()));
            }
            let ended = is_over();
            // A process that was suspended has missed some.
            count = count.max((begin.elapsed().as_micros() / every.as_micros()) as u32);
            let (now, usage) = (Instant::now(), Usage::now(self.dstat.is_some()));
            let passed = (now - last.0).as_secs_f64();
            let seconds = self.pulse.seconds().unwrap_or(0.0);
            let at = self.at(seconds, glance.as_ref());
            let mut row = Row::between(at, &last.1, &usage, passed);
            row = row.with(gpu.as_ref().and_then(Gpu::load));
            if walks.is_due(now) {
                row.proportional_mb = Some(tenths(super::proportional_memory_mb()));
                walks.took(now, now.elapsed());
            }
            self.write(&row, &last.1, &usage, passed);
            recent.add(seconds, self.pulse.beat());
            let state = match (ended, failed.load(Ordering::Relaxed)) {
                (false, _) => State::Running,
                (true, false) => State::Ended,
                (true, true) => State::Failed,
            };
            self.tell(&row, &recent, state);
            self.pulse.leave(row.numbers());
            last = (now, usage);
            if ended {
                return;
            }
        }
    }

    fn at(&self, seconds: f64, glance: Option<&Glance>) -> At {
        let (step, phase) = glance.map_or((0, "start"), |glance| {
            let (step, phase) = glance.read();
            (step, phase.name())
        });
        At {
            seconds,
            rank: self.who.rank,
            phase,
            step,
        }
    }

    fn write(&mut self, row: &Row, was: &Usage, now: &Usage, passed: f64) {
        let fill = |line: &mut Vec<u8>| {
            let mut writer = csv::WriterBuilder::new()
                .has_headers(false)
                .from_writer(line);
            writer.serialize(row)?;
            writer.flush()
        };
        let written = self.rows.as_mut().map(|rows| rows.add(fill));
        if let Some(Err(error)) = written {
            self.rows = self.fail(&error);
        }
        let place = (row.rank, row.step);
        let fill = |line: &mut Vec<u8>| dstat::row(line, place, (&was.host, &now.host), passed);
        let written = self.dstat.as_mut().map(|rows| rows.add(fill));
        if let Some(Err(error)) = written {
            self.dstat = self.fail(&error);
        }
    }

    fn tell(&mut self, row: &Row, recent: &Recent, state: State) {
        let beat = self.pulse.beat();
        let [compute, exchange, wait, load] = recent.percents();
        let now = Now {
            rank: self.who.rank,
            ranks: self.who.ranks,
            host: self.host.clone(),
            pid: std::process::id(),
            time: clock(),
            state,
            seconds: row.seconds,
            step: row.step.max(beat.step),
            total: beat.total,
            epoch: beat.epoch,
            phase: row.phase.into(),
            loss: beat.loss.filter(|loss| loss.is_finite()),
            samples: beat.samples,
            samples_per_s: tenths(recent.speed()),
            cpu_percent: row.cpu_percent,
            resident_mb: row.resident_mb,
            compute_percent: compute,
            exchange_percent: exchange,
            wait_percent: wait,
            load_percent: load,
        };
        if let Err(error) = now.write(&self.who.folder) {
            let error = Error::io("write", self.who.folder.join(super::top::FILE))(error);
            self.warn(&error);
        }
    }

    /// What is left of a file that cannot be written.
    fn fail(&mut self, error: &Error) -> Option<Table> {
        self.warn(error);
        None
    }

    fn warn(&mut self, error: &Error) {
        if !std::mem::replace(&mut self.warned, true) {
            log::warn!("resources are not recorded any more: {error}; training goes on");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_measured_soon_again_at_first_and_never_for_more_than_its_share() {
        let begin = Instant::now();
        let at = |second: u32, took: Duration| {
            let mut walks = Walks::from(begin, 1);
            let due = |second: &u32| {
                // Some samples come late, and the next one in time.
                let late = Duration::from_millis(u64::from(second % 3) * 100);
                let now = begin + EVERY * *second + late;
                let due = walks.is_due(now);
                if due {
                    walks.took(now, took);
                }
                due
            };
            (1..=second).filter(due).collect::<Vec<u32>>()
        };
        assert_eq!(at(40, Duration::from_micros(200)), [1, 2, 4, 8, 16, 26, 36]);
        assert_eq!(at(40, Duration::from_millis(15)), [1, 16, 31]);
    }
}
