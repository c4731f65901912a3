//! Where each rank's time went, and its row in `ranks.csv`.

use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{Ledger, Watched};
use crate::comm::Comm;
use crate::exchange::{Conduct, Spent};
use crate::nn::Tally;
use crate::{Error, Result};

/// One rank's work and where its time went.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Times {
    #[serde(skip, default = "Instant::now")]
    begin: Instant,
    /// What had passed of a run before it was resumed.
    before: Duration,
    /// Steps taken.
    pub steps: u64,
    /// Samples seen.
    pub samples: u64,
    /// Waiting for batches.
    pub load: Duration,
    /// Forward and backward.
    pub compute: Duration,
    /// Exchanging, updating included.
    pub exchange: Duration,
    /// Waiting for other ranks.
    pub wait: Duration,
    /// Evaluating.
    pub evaluate: Duration,
    /// Copying what goes into checkpoints, and waiting for them at the end.
    #[serde(default)]
    pub checkpoint: Duration,
}

impl Times {
    /// Nothing done yet.
    pub fn start() -> Self {
        let zero = Duration::ZERO;
        Self {
            begin: Instant::now(),
            before: zero,
            steps: 0,
            samples: 0,
            load: zero,
            compute: zero,
            exchange: zero,
            wait: zero,
            evaluate: zero,
            checkpoint: zero,
        }
    }

    /// As they are now, for a run that goes on later.
    pub fn now(&self) -> Self {
        Self {
            before: self.before + self.begin.elapsed(),
            ..self.clone()
        }
    }

    /// The clock begins to run on from here.
    pub fn go_on(&mut self) {
        self.begin = Instant::now();
    }

    /// Adds one step.
    pub fn add(&mut self, load: Duration, compute: Duration, spent: Spent, samples: u64) {
        self.steps += 1;
        self.samples += samples;
        self.load += load;
        self.compute += compute;
        self.exchange += spent.exchange;
        self.wait += spent.wait;
    }

    /// Seconds that had passed of a run before it was resumed.
    pub fn past(&self) -> f64 {
        self.before.as_secs_f64()
    }

    /// Seconds since the start.
    pub fn elapsed(&self) -> f64 {
        (self.before + self.begin.elapsed()).as_secs_f64()
    }

    /// Seconds of so many since the start that did not go into evaluation.
    pub fn training(&self, seconds: f64) -> f64 {
        seconds - self.evaluate.as_secs_f64()
    }

    /// Names and seconds of the parts of a step.
    pub fn parts(&self) -> [(&'static str, f64); 4] {
        let parts = [
            ("compute", self.compute),
            ("exchange", self.exchange),
            ("wait", self.wait),
            ("load", self.load),
        ];
        parts.map(|(name, time)| (name, time.as_secs_f64()))
    }
}

/// A row of `ranks.csv`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RankReport {
    /// The rank.
    pub rank: usize,
    /// Its host.
    pub host: String,
    /// Steps it took part in.
    pub steps: u64,
    /// Steps among them that were skipped.
    pub skipped: u64,
    /// Its share of all updates: of a step taken together, an equal part.
    pub share: f64,
    /// Samples it computed on.
    pub samples: u64,
    /// Seconds in forward and backward.
    pub compute_s: f64,
    /// Seconds exchanging.
    pub exchange_s: f64,
    /// Seconds waiting for other ranks.
    pub wait_s: f64,
    /// Seconds waiting for batches.
    pub load_s: f64,
    /// Seconds evaluating.
    pub evaluate_s: f64,
    /// Seconds with checkpoints.
    pub checkpoint_s: f64,
    /// Seconds that all others together waited for it, and the rank that it waited for the longest; where that is known.
    pub late_s: Option<f64>,
    /// See `late_s`.
    pub waited_for: Option<usize>,
    /// Seconds of compute in which no core was free for it, where the system tells.
    pub starved_s: Option<f64>,
    /// Test accuracy of its own parameters when it had taken its last step.
    pub test_accuracy: Option<f64>,
    /// Their accuracy on the validation set, where that one was watched.
    pub validation_accuracy: Option<f64>,
    /// Digest of its parameters in the end.
    pub checksum: String,
    /// Peak resident memory in MiB.
    pub memory_mb: f64,
    /// Steps that the slowest rank was behind when this one read parameters, on the average and at the most; where ranks do
    /// not step together.
    pub staleness_mean: Option<f64>,
    /// See `staleness_mean`.
    pub staleness_most: Option<u64>,
    /// Its gradients that came too late to be used.
    pub dropped: u64,
    /// All that the exchange has to tell; not in the file.
    #[serde(skip)]
    pub conduct: Conduct,
    /// Seconds that it waited for each rank; not in the file. Empty where that is not known.
    #[serde(skip)]
    pub waited: Vec<f64>,
}

/// What one rank has to tell when a run is over.
pub struct RankWork<'a> {
    /// Where its time went.
    pub times: &'a Times,
    /// How its updates were among those of others.
    pub conduct: &'a Conduct,
    /// For whom it waited at steps that ranks take together, where that was noted.
    pub ledger: Option<&'a Ledger>,
    /// Steps that were skipped.
    pub skipped: u64,
    /// Which set was looked at, and what it gave with the rank's own parameters.
    pub watched: Watched,
    /// See `watched`.
    pub own: Option<Tally>,
    /// Digest of its parameters.
    pub checksum: u64,
}

impl RankReport {
    /// Every rank's row, in rank order; *collective*.
    pub fn gather(comm: &dyn Comm, work: &RankWork) -> Vec<Self> {
        let (times, conduct) = (work.times, work.conduct);
        let is_stale = conduct.behind.total() > 0;
        let seconds = |time: Duration| (time.as_secs_f64() * 1e6).round() / 1e6;
        let own = |set| work.own.filter(|_| work.watched == set);
        let mine = Self {
            rank: comm.rank(),
            host: hostname::get().map_or("?".into(), |name| name.to_string_lossy().into_owned()),
            steps: times.steps,
            skipped: work.skipped,
            share: 0.0,
            samples: times.samples,
            compute_s: seconds(times.compute),
            exchange_s: seconds(times.exchange),
            wait_s: seconds(times.wait),
            load_s: seconds(times.load),
            evaluate_s: seconds(times.evaluate),
            checkpoint_s: seconds(times.checkpoint),
            late_s: None,
            waited_for: None,
            starved_s: (work.ledger.and_then(Ledger::starved))
                .map(|time| (time * 1e6).round() / 1e6),
            test_accuracy: own(Watched::Test).map(|tally| tally.accuracy()),
            validation_accuracy: own(Watched::Validation).map(|tally| tally.accuracy()),
            checksum: format!("{:016x}", work.checksum),
            memory_mb: crate::observe::peak_memory_mb().round(),
            staleness_mean: is_stale.then(|| conduct.behind.mean()),
            staleness_most: is_stale.then(|| conduct.behind.most()),
            dropped: conduct.dropped,
            conduct: Conduct::default(),
            waited: Vec::new(),
        };
        let noted = work.ledger.map(Ledger::waited).unwrap_or_default();
        let waited = match noted.is_empty() {
            true => &conduct.waited[..],
            false => noted,
        };
        let bytes =
            serde_json::to_vec(&(mine, conduct, waited)).expect("a report of plain numbers");
        let read = |bytes: &Vec<u8>| -> Self {
            let (report, conduct, waited): (Self, Conduct, Vec<f64>) =
                serde_json::from_slice(bytes).expect("written by the same program");
            Self {
                conduct,
                waited,
                ..report
            }
        };
        let mut all: Vec<Self> = comm.gather(&bytes).iter().map(read).collect();
        charge(&mut all);
        let total: u64 = all.iter().map(Self::updates).sum();
        all.iter_mut()
            .for_each(|report| report.share = report.updates() as f64 / total.max(1) as f64);
        all
    }

    /// Steps in which its gradients counted.
    pub fn updates(&self) -> u64 {
        self.steps - self.dropped
    }

    /// Writes `waits.csv`: seconds that each rank waited for each other one, where it did.
    pub fn write_waits(path: &Path, reports: &[Self]) -> Result<()> {
        let mut text = String::from("rank,waited_for,seconds\n");
        for report in reports {
            for (whom, seconds) in report.waited.iter().enumerate() {
                if *seconds > 0.0 {
                    text += &format!("{},{whom},{seconds:.6}\n", report.rank);
                }
            }
        }
        crate::files::write_text(path, &text)
    }

    /// Writes `ranks.csv`.
    pub fn write(path: &Path, reports: &[Self]) -> Result<()> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        for report in reports {
            writer.serialize(report).expect("rows of plain values");
        }
        let bytes = writer.into_inner().expect("writing to memory");
        let text = String::from_utf8(bytes).map_err(|error| Error::file(path, error, ""))?;
        crate::files::write_text(path, &text)
    }
}

/// Tells each rank's report how long others waited for it, and for whom it waited the longest.
fn charge(all: &mut [RankReport]) {
    if all.iter().all(|report| report.waited.is_empty()) {
        return;
    }
    for rank in 0..all.len() {
        let late: f64 = all
            .iter()
            .filter_map(|report| report.waited.get(rank))
            .sum();
        let waited = all[rank].waited.iter().enumerate();
        let most = waited.max_by(|(_, a), (_, b)| a.total_cmp(b));
        all[rank].waited_for = most.filter(|(_, time)| **time > 0.0).map(|(whom, _)| whom);
        all[rank].late_s = Some((late * 1e6).round() / 1e6);
    }
}
