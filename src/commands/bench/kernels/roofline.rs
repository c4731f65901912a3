//! What a device can at most, from what it tells of itself.

use super::case::Case;
use crate::backend::cuda::Facts;

/// The limits of a device.
pub(super) struct Peak {
    /// FLOP/s of single precision, without tensor cores.
    single: f64,
    /// FLOP/s of double precision, without tensor cores.
    double: f64,
    /// Bytes a second of its memory.
    memory: f64,
}

impl Peak {
    /// Where the number of cores of a multiprocessor is known, by compute capability, and clocks are told.
    pub(super) fn of(facts: &Facts) -> Option<Self> {
        // Cores of single precision, and how many of them one of double precision counts for.
        let (cores, share) = match facts.capability {
            (7, 0) | (8, 0) => (64.0, 2.0),
            (7, 5) => (64.0, 32.0),
            (8, 6) | (8, 9) | (12, _) => (128.0, 64.0),
            (9, 0) | (10, _) => (128.0, 2.0),
            _ => return None,
        };
        let single = f64::from(facts.multiprocessors) * cores * 2.0 * f64::from(facts.clock) * 1e3;
        // Memory moves twice a clock.
        let memory = 2.0 * f64::from(facts.memory_clock) * 1e3 * f64::from(facts.memory_bus) / 8.0;
        let known = !facts.emulated && single > 0.0 && memory > 0.0;
        known.then_some(Self {
            single,
            double: single / share,
            memory,
        })
    }

    /// Seconds that a launch takes at least.
    pub(super) fn seconds(&self, case: &Case) -> f64 {
        let flops = if case.double {
            self.double
        } else {
            self.single
        };
        (case.flops / flops).max(case.bytes / self.memory)
    }

    pub(super) fn describe(&self) -> String {
        format!(
            "peak from its clocks: {:.1} TFLOP/s single, {:.1} double, {:.0} GB/s",
            self.single / 1e12,
            self.double / 1e12,
            self.memory / 1e9
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NVIDIA's data sheet of the A100 with 40 GB: 19.5 and 9.7 TFLOP/s, 1555 GB/s.
    #[test]
    fn the_peak_of_an_a100_is_that_of_its_data_sheet() {
        let facts = Facts {
            index: 0,
            name: "A100".into(),
            address: None,
            capability: (8, 0),
            memory: 40 << 30,
            multiprocessors: 108,
            clock: 1_410_000,
            memory_clock: 1_215_000,
            memory_bus: 5120,
            emulated: false,
        };
        let peak = Peak::of(&facts).unwrap();
        assert!((peak.single / 1e12 - 19.5).abs() < 0.05, "{}", peak.single);
        assert!((peak.double / 1e12 - 9.7).abs() < 0.1, "{}", peak.double);
        assert!((peak.memory / 1e9 - 1555.0).abs() < 1.0, "{}", peak.memory);
        let emulated = Facts {
            emulated: true,
            ..facts
        };
        assert!(Peak::of(&emulated).is_none());
    }
}
