//! A row of `resources.csv`: what a rank and its host used since the row before.

use serde::Serialize;

use super::gpu::Load;
use super::usage::Usage;

/// Rates are over the time since the row before. Every name that ends in `_percent`, `_mb` or `_per_s` is a number.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    /// On the clock of `metrics.csv`.
    pub seconds: f64,
    pub rank: usize,
    /// What the rank was doing at the moment of the row, and in which step.
    pub phase: &'static str,
    pub step: u64,
    /// Of one core.
    pub cpu_percent: f64,
    pub resident_mb: f64,
    /// Where memory that ranks share is divided among them; not measured for every row.
    pub proportional_mb: Option<f64>,
    pub minor_faults_per_s: f64,
    pub major_faults_per_s: f64,
    /// Of the main thread: it gave its core up, or was pushed from it.
    pub yielded_per_s: f64,
    pub preempted_per_s: f64,
    pub read_kb_per_s: f64,
    pub written_kb_per_s: f64,
    /// Of all cores of the host.
    pub host_cpu_percent: f64,
    pub host_memory_mb: f64,
    pub host_received_kb_per_s: f64,
    pub host_sent_kb_per_s: f64,
    pub host_read_kb_per_s: f64,
    pub host_written_kb_per_s: f64,
    /// Of the rank's GPU, by all that use it.
    pub gpu_percent: Option<f64>,
    pub gpu_memory_mb: Option<f64>,
}

/// Where and when a row is taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    pub seconds: f64,
    pub rank: usize,
    pub phase: &'static str,
    pub step: u64,
}

impl Row {
    /// What was used from `was` to `now`, in which so many seconds `passed`.
    pub(super) fn between(at: At, was: &Usage, now: &Usage, passed: f64) -> Self {
        let passed = passed.max(1e-6);
        let rate = |now: u64, was: u64| tenths(now.saturating_sub(was) as f64 / passed);
        let kib = |now: u64, was: u64| tenths(now.saturating_sub(was) as f64 / 1024.0 / passed);
        let (own, before) = (now.own, was.own);
        let (host, host_before) = (now.host, was.host);
        let busy = host.busy() - host_before.busy();
        let all = busy + host.free() - host_before.free();
        Self {
            seconds: tenths(at.seconds),
            rank: at.rank,
            phase: at.phase,
            step: at.step,
            cpu_percent: tenths(100.0 * (own.cpu - before.cpu) / passed),
            resident_mb: mib(own.resident),
            proportional_mb: None,
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
            gpu_percent: None,
            gpu_memory_mb: None,
        }
    }

    /// With what the rank's GPU does.
    pub(super) fn with(mut self, load: Option<Load>) -> Self {
        self.gpu_percent = load.map(|load| f64::from(load.percent));
        self.gpu_memory_mb = load.map(|load| mib(load.memory));
        self
    }

    /// Its measurements by name: numbers of this row that are there.
    pub(super) fn numbers(&self) -> Vec<(String, f64)> {
        let row = serde_json::to_value(self).expect("plain values");
        let fields = row.as_object().into_iter().flatten();
        let measured = |name: &str| {
            ["_percent", "_mb", "_per_s"]
                .iter()
                .any(|end| name.ends_with(end))
        };
        fields
            .filter(|(name, _)| measured(name))
            .filter_map(|(name, value)| Some((name.clone(), value.as_f64()?)))
            .collect()
    }
}

pub(super) fn mib(bytes: u64) -> f64 {
    tenths(bytes as f64 / (1 << 20) as f64)
}

pub(super) fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_over_the_time_that_passed() {
        let mut was = Usage::default();
        was.own.cpu = 1.0;
        was.host.idle = 4.0;
        let mut now = was;
        now.own.cpu = 2.5;
        now.own.resident = 3 << 20;
        now.own.minor_faults = 100;
        now.own.read = 8 << 10;
        (now.host.user, now.host.idle) = (3.0, 5.0);
        now.host.sent = 1 << 20;
        let at = At {
            seconds: 12.34,
            rank: 3,
            phase: "load",
            step: 7,
        };
        let row = Row::between(at, &was, &now, 2.0);
        assert_eq!((row.seconds, row.step), (12.3, 7));
        assert_eq!((row.cpu_percent, row.host_cpu_percent), (75.0, 75.0));
        assert_eq!((row.resident_mb, row.minor_faults_per_s), (3.0, 50.0));
        assert_eq!((row.read_kb_per_s, row.host_sent_kb_per_s), (4.0, 512.0));
        let numbers = row.numbers();
        // What was not measured has no number, and neither have rank, step and time.
        assert_eq!(numbers.len(), 14);
        assert!(numbers.contains(&("resident_mb".into(), 3.0)));
        let row = row.with(Some(Load {
            percent: 40,
            memory: 5 << 20,
        }));
        assert_eq!(
            (row.gpu_percent, row.gpu_memory_mb),
            (Some(40.0), Some(5.0))
        );
    }

    /// A counter that starts again, such as that of an interface that was taken away, is no rate below zero.
    #[test]
    fn counters_that_start_again_are_no_rates() {
        let mut was = Usage::default();
        was.host.received = 1000;
        let at = At {
            seconds: 0.0,
            rank: 0,
            phase: "load",
            step: 0,
        };
        let row = Row::between(at, &was, &Usage::default(), 1.0);
        assert_eq!(row.host_received_kb_per_s, 0.0);
    }
}
