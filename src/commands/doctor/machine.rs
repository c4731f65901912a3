//! What the operating system tells about a host.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::disk::Disk;
use crate::backend::cpu::{Isa, blas_core, blas_threads, isa};
use crate::comm::parameter;

/// One host.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// The model of its processor.
    pub cpu: String,
    /// Cores (with two threads on a core: threads) that are in use.
    pub cores: usize,
    /// The set of vector instructions that the kernels use, and the largest that the machine has.
    pub isa: (String, String),
    /// Whether the kernels use vectors at all.
    pub vectors: bool,
    /// Processes that wanted to run, averaged over the last minute.
    pub load: f64,
    /// Threads of BLAS in each rank.
    pub blas_threads: usize,
    /// The core that BLAS takes this one for.
    pub blas_core: String,
    /// Bytes of memory.
    pub memory: u64,
    /// Bytes of it that are free or can be made so.
    pub available: u64,
    /// Bytes that the control groups and the system together leave to this process.
    pub budget: Option<u64>,
    /// Limits on bytes of this process, where there are any: of its addresses, and of what it may keep from being moved.
    pub addresses: Option<u64>,
    /// As `addresses`, of memory that may not be moved, which networks with RDMA need.
    pub locked: Option<u64>,
    /// Whether there is such a network.
    pub rdma: bool,
    /// Where MPI puts memory that ranks share.
    pub shared: Option<Disk>,
    /// Huge pages for a process's own memory: always, madvise or never.
    pub huge: String,
    /// Huge pages for memory that processes share: always, within_size, advise, never, deny or force.
    pub huge_shared: String,
    /// The current folder.
    pub folder: Option<Disk>,
}

impl Host {
    /// Asks the system; MPI must have started.
    pub(super) fn read() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (cpu, memory, limits) = (
            text("/proc/cpuinfo"),
            text("/proc/meminfo"),
            text("/proc/self/limits"),
        );
        let model = ["model name", "Hardware", "Model"].iter();
        let model = model.filter_map(|name| entry(&cpu, name)).next();
        let kib = |name| number(&memory, name).unwrap_or(0) << 10;
        let huge = "/sys/kernel/mm/transparent_hugepage/";
        Self {
            name: hostname::get().map_or("?".into(), |name| name.to_string_lossy().into_owned()),
            cpu: model.unwrap_or("unknown").to_owned(),
            cores: cpu
                .lines()
                .filter(|line| line.starts_with("processor"))
                .count()
                .max(1),
            isa: (isa().to_string(), Isa::found().to_string()),
            vectors: isa() > Isa::Portable,
            load: number(&text("/proc/loadavg"), "").unwrap_or(0.0),
            blas_threads: blas_threads(),
            blas_core: blas_core(),
            memory: kib("MemTotal:"),
            available: kib("MemAvailable:"),
            budget: crate::train::available(),
            addresses: limit(&limits, "Max address space"),
            locked: limit(&limits, "Max locked memory"),
            rdma: fs::read_dir("/sys/class/infiniband").is_ok_and(|mut all| all.next().is_some()),
            shared: Disk::of(Path::new(&shared_folder())),
            huge: chosen(&text(&format!("{huge}enabled"))),
            huge_shared: chosen(&text(&format!("{huge}shmem_enabled"))),
            folder: Disk::of(Path::new(".")),
        }
    }
}

/// The cores that this process may use, as the system lists them.
pub(super) fn allowed_cpus() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let list = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.unwrap_or_default().trim().to_owned()
}

/// Where MPI puts memory that ranks share: Open MPI tells, others use the system's place.
fn shared_folder() -> String {
    let names = ["osc_sm_backing_directory", "btl_vader_backing_directory"];
    let told = names.iter().find_map(|name| parameter(name));
    told.filter(|folder| !folder.is_empty())
        .unwrap_or_else(|| "/dev/shm".into())
}

/// The text behind `name` and a colon.
fn entry<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let found = lines.find(|(key, _)| key.trim() == name);
    found.map(|(_, value)| value.trim())
}

/// The first number behind `name` at the beginning of a line.
fn number<T: std::str::FromStr>(text: &str, name: &str) -> Option<T> {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line?.split_whitespace().next()?.parse().ok()
}

/// The soft limit called `name`, where there is one.
fn limit(limits: &str, name: &str) -> Option<u64> {
    number(limits, name)
}

/// The word in brackets.
fn chosen(choices: &str) -> String {
    let word = choices
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    word.map_or("unknown", |(word, _)| word).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_files_are_understood() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
            Max locked memory         8388608              8388608              bytes     \n\
            Max address space         unlimited            unlimited            bytes     \n";
        assert_eq!(limit(limits, "Max locked memory"), Some(8 << 20));
        assert_eq!(limit(limits, "Max address space"), None);
        assert_eq!(chosen("always [madvise] never\n"), "madvise");
        assert_eq!(chosen(""), "unknown");
        let cpu = "processor\t: 0\nmodel name\t: A processor\nflags\t\t: fma avx2\n";
        assert_eq!(entry(cpu, "model name"), Some("A processor"));
        assert_eq!(number("0.52 0.40 0.3 1/200 77\n", ""), Some(0.52));
    }
}
