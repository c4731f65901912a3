//! Whether a run fits into memory, asked before any of it is taken.

use std::fs;
use std::path::Path;

use crate::comm::Comm;
use crate::data::Dataset;
use crate::exchange::{Kind, Tail};
use crate::nn::Model;
use crate::optim::Rule;
use crate::{Error, Result};

/// Share of what is available that a run may plan with: scratch space and the system's own needs are not in the formula.
const MARGIN: f64 = 0.9;
/// Bytes of a float.
const FLOAT: u64 = 4;

/// The bytes that one rank of a run needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// Whatever the batch: parameters, gradients, what optimizer and exchange keep.
    pub fixed: u64,
    /// For each sample that it takes at once.
    pub each: u64,
    /// The fewest samples that it takes at once, in evaluations.
    pub least: usize,
}

impl Need {
    /// What a rank needs to train `model` on `data` with `ranks` of them. `copies` of the parameters are kept beside.
    pub fn of(
        model: &Model,
        data: &Dataset,
        (rule, exchange): (Rule, Kind),
        ranks: usize,
        copies: u64,
    ) -> Self {
        let params = model.params() as u64;
        let slice = params.div_ceil(ranks as u64);
        // Gradients, and parameters as they are before and after.
        let (state, shared) = match exchange {
            // Its part of what all ranks have in common.
            Kind::NodeShared | Kind::Auto => (slice, Tail::LEN as u64 + slice),
            // What MPI needs to add up in, and a window's memory: up to all parameters.
            _ => (params, params),
        };
        let floats = 2 * params + rule.state() as u64 * state + shared + copies * params;
        let pooled = model.summary().into_iter();
        let pooled = pooled.filter(|layer| layer.name == "max_pool");
        let places: usize = pooled.map(|layer| layer.output.len()).sum();
        let pixels = data.shape.len() as u64;
        let stored = if data.element() == "u8" { 1 } else { FLOAT };
        // Read through HDF5, a batch is in use, one is waiting and one is being read.
        let batches = if data.is_read_ahead() { 3 } else { 1 };
        let label_and_number = 4 + 8;
        Self {
            fixed: FLOAT * floats,
            each: FLOAT * (model.floats(1) + places) as u64
                + FLOAT * pixels
                + batches * (stored * pixels + label_and_number),
            least: 1,
        }
    }

    /// With room for what a rank copies for a checkpoint of `model`, where `ranks` of them share it; `kept` says whether the best
    /// parameters are in it too.
    pub fn with_snapshot(
        self,
        model: &Model,
        (rule, exchange): (Rule, Kind),
        ranks: usize,
        kept: bool,
    ) -> Self {
        let params = model.params() as u64;
        let slice = params.div_ceil(ranks as u64);
        let state = rule.state() as u64;
        let floats = match exchange.is_synchronous() {
            true => (1 + state + u64::from(kept)) * slice,
            // What the optimizer remembers is each rank's own, and the first one alone has the best.
            false => slice + (1 + state + u64::from(kept)) * params,
        };
        Self {
            fixed: self.fixed + FLOAT * floats,
            ..self
        }
    }

    /// Bytes for `share` samples at once.
    pub fn bytes(&self, share: usize) -> u64 {
        let samples = share.max(self.least) as u64;
        self.fixed.saturating_add(self.each.saturating_mul(samples))
    }
}

/// The batches of a run, as far as memory is concerned.
#[derive(Clone, Copy, Debug)]
pub struct Batches {
    /// Samples of the first step.
    pub batch: usize,
    /// Samples that it may grow to.
    pub limit: usize,
    /// Ranks that share a step.
    pub team: usize,
    /// All samples: a step has no more.
    pub samples: usize,
}

impl Batches {
    /// The most that a rank takes at once of a step of `batch` samples.
    pub fn share(&self, batch: usize) -> usize {
        batch.min(self.samples).div_ceil(self.team)
    }

    /// The same where a rank takes no more than `most` samples at once, whatever memory it has. Refuses a first step that has more.
    pub fn counted(self, most: usize) -> Result<Self> {
        let largest = most.saturating_mul(self.team);
        let batch = self.batch.min(self.samples);
        match self.share(batch) <= most {
            true => Ok(Self {
                limit: self.limit.min(largest),
                ..self
            }),
            false => Err(Error::Uncounted {
                batch,
                largest: Some(largest).filter(|&largest| largest > 0),
            }),
        }
    }

    /// The limit that there can be with so much `memory` for a rank in a `place`, where `bytes` says what samples at once need.
    /// Refuses a first step that does not fit.
    pub fn limit(
        &self,
        place: &'static str,
        memory: Option<u64>,
        mut bytes: impl FnMut(usize) -> u64,
    ) -> Result<usize> {
        let most = self.share(self.limit);
        let need = bytes(most);
        let Some(have) = memory.filter(|&have| need > have) else {
            return Ok(self.limit);
        };
        let largest = largest(have, most, &mut bytes) * self.team;
        let batch = self.batch.min(self.samples);
        if largest >= batch {
            return Ok(largest);
        }
        Err(Error::Memory {
            batch,
            place,
            need: bytes(self.share(batch)),
            have,
            largest: Some(largest).filter(|&largest| largest > 0),
        })
    }
}

/// The most samples at once, fewer than `most`, for which `memory` is enough.
fn largest(memory: u64, most: usize, bytes: &mut impl FnMut(usize) -> u64) -> usize {
    let (mut fits, mut fails) = (0, most);
    while fails - fits > 1 {
        let middle = fits + (fails - fits) / 2;
        match bytes(middle) <= memory {
            true => fits = middle,
            false => fails = middle,
        }
    }
    fits
}

/// Bytes that each rank may take, the same number on every rank; none where the system does not tell. *Collective*.
pub fn budget(comm: &dyn Comm) -> Option<u64> {
    let available = available().map_or(u64::MAX, |bytes| (bytes as f64 * MARGIN) as u64);
    // The least of all ranks is the greatest of the complements.
    let mut least = [!(available / comm.local_size() as u64)];
    comm.max(&mut least);
    let unknown = u64::MAX / comm.local_size() as u64;
    Some(!least[0]).filter(|&bytes| bytes < unknown)
}

/// Bytes that this process and its children can still get from the system or from its control groups.
pub(crate) fn available() -> Option<u64> {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let system = field(&meminfo, "MemAvailable:").map(|kib| kib << 10);
    let limits = groups.lines().filter_map(group_left);
    system.into_iter().chain(limits).min()
}

/// The number behind `name` in a file of names and numbers.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line?.split_whitespace().next()?.parse().ok()
}

/// Bytes left under the limits of a control group and those it is in; `line` is one of `/proc/self/cgroup`.
fn group_left(line: &str) -> Option<u64> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?);
    let (root, limit, usage) = match controllers {
        "" => ("/sys/fs/cgroup", "memory.max", "memory.current"),
        "memory" => (
            "/sys/fs/cgroup/memory",
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
        ),
        _ => return None,
    };
    let folder = Path::new(root).join(path.trim_start_matches('/'));
    let folders = folder.ancestors().take_while(|at| at.starts_with(root));
    let left = folders.filter_map(|at| {
        let read = |name: &str| fs::read_to_string(at.join(name)).ok();
        left(&read(limit)?, &read(usage)?, &read("memory.stat")?)
    });
    left.min()
}

/// What a limit leaves: files that are only cached can go.
fn left(limit: &str, usage: &str, stat: &str) -> Option<u64> {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let cached = ["inactive_file ", "active_file "].map(|name| field(stat, name).unwrap_or(0));
    let used = number(usage)?.saturating_sub(cached.iter().sum());
    Some(number(limit)?.saturating_sub(used))
}

/// Bytes as the user reads them.
pub fn readable(bytes: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_batch_is_the_last_that_fits() {
        let need = Need {
            fixed: 1000,
            each: 30,
            least: 4,
        };
        assert_eq!([1, 4, 5].map(|n| need.bytes(n)), [1120, 1120, 1150]);
        let largest = |memory| largest(memory, 100, &mut |n| need.bytes(n));
        assert_eq!(largest(1150), 5);
        assert_eq!(largest(1149), 4);
        assert_eq!(largest(1119), 0, "not even the least");
        assert_eq!(largest(999), 0, "not even the parameters");
        assert_eq!(need.bytes(usize::MAX), u64::MAX, "and no overflow");
    }

    #[test]
    fn a_batch_is_refused_and_a_limit_lowered_where_memory_ends() {
        let need = Need {
            fixed: 1000,
            each: 10,
            least: 1,
        };
        let limit = |memory, batch, limit| {
            let batches = Batches {
                batch,
                limit,
                team: 2,
                samples: 500,
            };
            batches.limit("each rank", memory, |n| need.bytes(n))
        };
        assert_eq!(limit(None, 1 << 40, 1 << 40).unwrap(), 1 << 40);
        assert_eq!(limit(Some(1250), 20, 50).unwrap(), 50, "25 samples each");
        assert_eq!(limit(Some(1250), 20, 51).unwrap(), 50);
        // A step has no more than all samples.
        assert_eq!(limit(Some(3500), 1 << 40, 1 << 40).unwrap(), 1 << 40);
        let refused = |memory| limit(Some(memory), 600, 600).unwrap_err().to_string();
        assert_eq!(
            refused(2024),
            "a step of 500 samples needs 3.4 KiB of memory on each rank, and there are 2.0 KiB: at most 204 samples a step fit"
        );
        assert!(refused(1009).ends_with("this model fits with no batch"));
    }

    #[test]
    fn a_batch_is_refused_and_a_limit_lowered_where_counting_ends() {
        let counted = |batch, limit| {
            let batches = Batches {
                batch,
                limit,
                team: 2,
                samples: 500,
            };
            batches.counted(100).map(|batches| batches.limit)
        };
        assert_eq!(counted(20, 50).unwrap(), 50);
        assert_eq!(counted(200, 1 << 40).unwrap(), 200);
        let refused = counted(201, 201).unwrap_err().to_string();
        assert!(
            refused.ends_with("at most 200 samples a step fit"),
            "{refused}"
        );
    }

    #[test]
    fn control_groups_leave_what_is_not_cached() {
        let stat = "cache 9\ninactive_file 100\nactive_file 50\ntotal_cache 9\n";
        assert_eq!(left("1000\n", "400\n", stat), Some(750));
        assert_eq!(left("300\n", "500\n", stat), Some(0));
        assert_eq!(left("max\n", "500\n", stat), None);
        assert_eq!(
            field("MemFree: 1 kB\nMemAvailable:  77 kB\n", "MemAvailable:"),
            Some(77)
        );
    }

    #[test]
    fn bytes_have_a_unit() {
        let texts = [512, 3 << 20, 5 << 30, 7 << 41].map(readable);
        assert_eq!(texts, ["0.5 KiB", "3.0 MiB", "5.0 GiB", "14.0 TiB"]);
    }
}
