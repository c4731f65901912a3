//! Rules about memory, processors and storage.

use super::{Facts, Section, least, on, said};
use crate::train::readable;

/// Less shared memory than this is soon full: parameters and gradients of 30 million parameters on a few ranks.
const FEW_SHARED: u64 = 1 << 30;
/// Less space than this in the current folder is soon full.
const FEW_SPACE: u64 = 1 << 30;

/// Memory: how much, where, in which pages, how fast.
pub(super) fn memory(facts: &Facts, out: &mut Section) {
    let host = least(facts, |host| host.budget.unwrap_or(host.available) as f64);
    let (budget, at) = (host.budget.unwrap_or(host.available), on(facts, host));
    let value = format!(
        "{} of {} are free{at}",
        readable(budget),
        readable(host.memory)
    );
    if (budget as f64) < 0.9 * host.available as f64 {
        let advice = "a control group leaves less than the machine has: ask for more (Slurm: --mem or --mem-per-cpu; containers: --memory), or start fewer ranks";
        out.note("free", format!("{value}, by a limit"), advice);
    } else {
        out.good("free", value);
    }
    if let Some(limit) = facts.hosts.iter().filter_map(|host| host.addresses).min() {
        let advice = "MPI and mapped data sets need addresses, not memory: ulimit -v unlimited";
        out.note("limit", format!("addresses: {}", readable(limit)), advice);
    }
    let locked = facts.hosts.iter().filter(|host| host.rdma);
    if let Some(limit) = locked.filter_map(|host| host.locked).min() {
        let advice = "networks with RDMA pin memory: ulimit -l unlimited, in the limits of the resource manager too";
        out.note("pinned", format!("at most {}", readable(limit)), advice);
    }
    shared(facts, out);
    pages(facts, out);
    let alone = facts.speed.copy;
    let together: f64 = facts.ranks.iter().map(|rank| rank.copy).sum();
    out.good(
        "copying",
        match facts.size() {
            1 => format!("{alone:.1} GB/s read and written"),
            n => format!("{alone:.1} GB/s by one rank, {together:.1} GB/s by all {n} at once"),
        },
    );
}

fn shared(facts: &Facts, out: &mut Section) {
    let free = |host: &super::Host| host.shared.as_ref().map_or(0, |disk| disk.free);
    let host = least(facts, |host| free(host) as f64);
    let at = on(facts, host);
    let Some(disk) = &host.shared else {
        let advice = "MPI needs a place for memory that ranks share: mount a tmpfs on /dev/shm";
        out.note("shared", format!("no place for it{at}"), advice);
        return;
    };
    let value = format!(
        "{} of {} are free in {}{at}",
        readable(disk.free),
        readable(disk.size),
        disk.folder
    );
    if !["tmpfs", "ramfs", "hugetlbfs"].contains(&disk.kind.as_str()) {
        let advice = format!(
            "shared memory lies in files of {}, whose pages are written to disk: let it be in /dev/shm (Open MPI: OMPI_MCA_osc_sm_backing_directory and OMPI_MCA_btl_vader_backing_directory)",
            disk.kind
        );
        out.note("shared", value, advice);
    } else if disk.free < FEW_SHARED {
        let advice = format!(
            "a model of n parameters on r ranks of a node needs about 4·n·(r + 1) bytes in {}: make it larger (containers: --shm-size=8g; as root: mount -o remount,size=8G /dev/shm), or train with --exchange all-reduce",
            disk.folder
        );
        out.note("shared", value, advice);
    } else {
        out.good("shared", value);
    }
}

fn pages(facts: &Facts, out: &mut Section) {
    let off = |choice: &str| ["never", "deny"].contains(&choice);
    let value = said(facts, |host| {
        format!("own memory: {}, shared: {}", host.huge, host.huge_shared)
    });
    let folder = "/sys/kernel/mm/transparent_hugepage";
    if facts.hosts.iter().any(|host| off(&host.huge)) {
        let advice = format!(
            "large models may gain from huge pages, which are off: as root, echo always > {folder}/enabled"
        );
        out.note("huge pages", value, advice);
    } else {
        out.good("huge pages", value);
    }
}

/// The processor: what it is, what it reaches, who else uses it.
pub(super) fn cpu(facts: &Facts, out: &mut Section) {
    out.good(
        "model",
        said(facts, |host| format!("{}, {} cores", host.cpu, host.cores)),
    );
    let vectors = said(facts, |host| match &host.isa {
        (used, found) if used == found => used.clone(),
        (used, found) => format!("{used}, as PHALANX_ISA asks; the machine has {found}"),
    });
    if facts.hosts.iter().all(|host| host.vectors) {
        out.good("vectors", vectors);
    } else {
        let advice = "phalanx's kernels are made for AVX2 and AVX-512: they run several times slower here; choose nodes with them (Slurm: --constraint)";
        out.note("vectors", vectors, advice);
    }
    peak(facts, out);
    blas(facts, out);
    load(facts, out);
}

fn peak(facts: &Facts, out: &mut Section) {
    let alone = facts.speed.gflops;
    let all = facts.ranks.iter().map(|rank| rank.gflops);
    let slowest = all.fold(f64::INFINITY, f64::min);
    if facts.size() == 1 {
        return out.good("peak", format!("{alone:.0} GFLOP/s on a core"));
    }
    let value = format!(
        "{alone:.0} GFLOP/s on a core alone, {slowest:.0} on the slowest while all compute"
    );
    // Where ranks are more than cores, this is as it must be and said there.
    if slowest < 0.5 * alone && !facts.crowded() {
        let advice = "cores are much slower together than alone: ranks may be bound to two threads of one core (Open MPI: --map-by core --bind-to core), or others use the machine";
        return out.note("peak", value, advice);
    }
    out.good("peak", value);
}

fn blas(facts: &Facts, out: &mut Section) {
    let most = facts.hosts.iter().map(|host| host.blas_threads).max();
    let most = most.unwrap_or(1);
    let value = said(facts, |host| match host.blas_threads {
        1 => format!("1 thread a rank, made for {}", host.blas_core),
        n => format!("{n} threads a rank, made for {}", host.blas_core),
    });
    let cores = facts.ranks.iter().map(|rank| rank.cores);
    if most > 1 && most as f64 > cores.fold(f64::INFINITY, f64::min) {
        let advice = "threads of BLAS are more than a rank's cores: unset OPENBLAS_NUM_THREADS and OMP_NUM_THREADS, or set them to 1";
        out.note("BLAS", value, advice);
    } else {
        out.good("BLAS", value);
    }
}

fn load(facts: &Facts, out: &mut Section) {
    let host = least(facts, |host| host.cores as f64 - host.load);
    let value = format!(
        "{:.1} processes on {} cores in the last minute{}",
        host.load,
        host.cores,
        on(facts, host)
    );
    if host.load > 0.5 * host.cores as f64 {
        let advice = "others use this machine too: what is measured meanwhile, here and in benches, is slower than it could be";
        out.note("load", value, advice);
    } else {
        out.good("load", value);
    }
}

/// HDF5 and the current folder.
pub(super) fn storage(facts: &Facts, out: &mut Section) {
    out.good("HDF5", facts.hdf5.clone());
    let forced = |value: &str| ["TRUE", "1", "BEST_EFFORT"].contains(&value);
    match &facts.locking {
        Some(value) if forced(value) => out.note(
            "file locks",
            format!("HDF5_USE_FILE_LOCKING={value}"),
            "phalanx opens files without locks, and this forces them, which fails on many network file systems: unset it",
        ),
        Some(value) => out.good("file locks", format!("HDF5_USE_FILE_LOCKING={value}")),
        None => out.good("file locks", "none, as phalanx opens files"),
    }
    let free = |host: &super::Host| host.folder.as_ref().map_or(0, |disk| disk.free);
    let host = least(facts, |host| free(host) as f64);
    let at = on(facts, host);
    let Some(disk) = &host.folder else {
        let advice = "start in a folder that every host has: ranks read data and write runs there";
        return out.note(
            "folder",
            format!("the current folder is not there{at}"),
            advice,
        );
    };
    let value = format!(
        "{}: {}, {} are free{at}",
        disk.folder,
        disk.kind,
        readable(disk.free)
    );
    if disk.free < FEW_SPACE {
        let advice = "runs and data sets need space: work in a folder with more, or give --out";
        out.note("folder", value, advice);
    } else if disk.is_remote() {
        let advice = "the current folder is on a network: ranks map data sets into memory and read them over it once, so copy large ones to a local disk of each host first";
        out.note("folder", value, advice);
    } else {
        out.good("folder", value);
    }
}
