//! What a rank and its host use while it trains: `resources.csv`, a row a second.

mod usage;

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::{Error, Result};
use usage::Usage;

/// From one row to the next.
pub const EVERY: Duration = Duration::from_secs(1);

/// Rows from one measurement of proportional memory to the next: the system walks all pages for it.
const PROPORTIONAL_EVERY: u64 = 10;

/// A row of `resources.csv`: rates are over the time since the row before.
#[derive(Serialize)]
struct Row<'a> {
    seconds: f64,
    rank: usize,
    /// What the rank was doing at the moment of the row, and in which step.
    phase: &'a str,
    step: u64,
    /// Of one core.
    cpu_percent: f64,
    resident_mb: f64,
    proportional_mb: Option<f64>,
    minor_faults_per_s: f64,
    major_faults_per_s: f64,
    yielded_per_s: f64,
    preempted_per_s: f64,
    read_kb_per_s: f64,
    written_kb_per_s: f64,
    /// Of all cores of the host.
    host_cpu_percent: f64,
    host_memory_mb: f64,
    host_received_kb_per_s: f64,
    host_sent_kb_per_s: f64,
    host_read_kb_per_s: f64,
    host_written_kb_per_s: f64,
}

/// Writes one rank's `resources.csv`.
pub struct Resources {
    file: csv::Writer<std::fs::File>,
    path: PathBuf,
    rank: usize,
    begin: Instant,
    /// Seconds that the run had when this process went on with it.
    before: f64,
    last: (Instant, Usage),
    rows: u64,
}

impl Resources {
    /// A new file at `path`, or more rows of the one that is there, for a run that went on after `before` seconds.
    pub fn open(path: &Path, rank: usize, before: f64) -> Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path);
        let file = file.map_err(Error::io("write", path))?;
        let is_new = file.metadata().map_err(Error::io("write", path))?.len() == 0;
        let now = Instant::now();
        Ok(Self {
            file: csv::WriterBuilder::new()
                .has_headers(is_new)
                .from_writer(file),
            path: path.to_path_buf(),
            rank,
            begin: now,
            before,
            last: (now, Usage::now()),
            rows: 0,
        })
    }

    /// Adds a row; the rank is in `phase` of `step`.
    pub fn sample(&mut self, phase: &str, step: u64) -> Result<()> {
        let (now, usage) = (Instant::now(), Usage::now());
        let (then, was) = self.last;
        let passed = (now - then).as_secs_f64().max(1e-6);
        let mib = |bytes: u64| tenths(bytes as f64 / (1 << 20) as f64);
        let rate = |now: u64, was: u64| tenths(now.saturating_sub(was) as f64 / passed);
        let kib = |now: u64, was: u64| tenths(now.saturating_sub(was) as f64 / 1024.0 / passed);
        let (own, before) = (usage.own, was.own);
        let (host, host_before) = (usage.host, was.host);
        let busy = host.busy() - host_before.busy();
        let all = busy + host.free() - host_before.free();
        let measured = self.rows.is_multiple_of(PROPORTIONAL_EVERY);
        let row = Row {
            seconds: tenths(self.before + (now - self.begin).as_secs_f64()),
            rank: self.rank,
            phase,
            step,
            cpu_percent: tenths(100.0 * (own.cpu - before.cpu) / passed),
            resident_mb: mib(own.resident),
            proportional_mb: measured.then(|| tenths(super::proportional_memory_mb())),
            minor_faults_per_s: rate(own.minor_faults, before.minor_faults),
            major_faults_per_s: rate(own.major_faults, before.major_faults),
            yielded_per_s: rate(own.yielded, before.yielded),
            preempted_per_s: rate(own.preempted, before.preempted),
            read_kb_per_s: kib(own.read, before.read),
            written_kb_per_s: kib(own.written, before.written),
            host_cpu_percent: tenths(100.0 * busy / all.max(1e-9)),
            host_memory_mb: mib(host.memory),
            host_received_kb_per_s: kib(host.received, host_before.received),
            host_sent_kb_per_s: kib(host.sent, host_before.sent),
            host_read_kb_per_s: kib(host.read, host_before.read),
            host_written_kb_per_s: kib(host.written, host_before.written),
        };
        self.last = (now, usage);
        self.rows += 1;
        let written = self.file.serialize(row).map_err(std::io::Error::other);
        written
            .and_then(|()| self.file.flush())
            .map_err(Error::io("write", &self.path))
    }
}

fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}
