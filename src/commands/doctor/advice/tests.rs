//! Each rule: a set-up without fault, and one thing changed.

use super::*;
use crate::comm::{Library, Start, Starter};
use crate::commands::doctor::disk::Disk;
use crate::commands::doctor::facts::{Rank, Setup};
use crate::commands::doctor::latency::Latency;
use crate::commands::doctor::speed::Speed;
use crate::commands::doctor::trials::Trials;

fn disk(folder: &str, kind: &str) -> Disk {
    Disk {
        folder: folder.into(),
        kind: kind.into(),
        size: 20 << 30,
        free: 10 << 30,
    }
}

fn host(name: &str) -> Host {
    Host {
        name: name.into(),
        cpu: "A processor".into(),
        cores: 4,
        isa: ("AVX2".into(), "AVX2".into()),
        vectors: true,
        blas_core: "Haswell".into(),
        load: 0.5,
        blas_threads: 1,
        memory: 32 << 30,
        available: 30 << 30,
        budget: Some(30 << 30),
        addresses: None,
        locked: Some(8 << 20),
        rdma: false,
        shared: Some(disk("/dev/shm", "tmpfs")),
        huge: "madvise".into(),
        huge_shared: "never".into(),
        folder: Some(disk("/data", "ext4")),
    }
}

fn rank(host: &str, local: usize) -> Rank {
    Rank {
        host: host.into(),
        local,
        cpus: local.to_string(),
        cores: 1.0,
        copy: 9.0,
        gflops: 90.0,
    }
}

/// Two ranks with a core each on one host, with nothing to change.
fn healthy() -> Facts {
    Facts {
        start: Start {
            starter: Starter::OpenMpi,
            rank: 0,
            size: Some(2),
            pmix: Some("4.2".into()),
            chosen: vec![("OMPI_MCA_osc".into(), "^ucx".into())],
            set: vec![("OMPI_MCA_btl_vader_eager_limit".into(), "65536".into())],
        },
        library: Library {
            name: "Open MPI".into(),
            version: "4.1.4".into(),
            standard: (3, 1),
            threads: "funneled",
        },
        setup: Setup {
            windows: Some("rdma".into()),
            yields: Some(false),
            osc: Some("^ucx".into()),
            pml: Some(String::new()),
            btl: Some("^tcp".into()),
            eager: Some("65536".into()),
        },
        ranks: vec![rank("a", 0), rank("a", 1)],
        hosts: vec![host("a")],
        speed: Speed {
            copy: 10.0,
            gflops: 100.0,
        },
        trials: Trials::default(),
        latency: Latency {
            barrier: Some(1e-6),
            small: Some(2e-6),
            long: Some(0.01),
            add: Some(1e-6),
            add_busy: Some(2e-6),
            add_busy_far: None,
        },
        hdf5: "1.10.8".into(),
        locking: None,
    }
}

/// The same with a rank on each of two hosts.
fn two_hosts() -> Facts {
    let mut facts = healthy();
    facts.hosts.push(host("b"));
    facts.ranks[1].host = "b".into();
    facts.latency.add_busy = None;
    facts.latency.add_busy_far = Some(50e-6);
    facts
}

/// Changes one thing in `facts`: this alone must be found, with this mark and a value and advice that hold the words.
fn found(
    mut facts: Facts,
    change: impl FnOnce(&mut Facts),
    name: &str,
    mark: Mark,
    words: [&str; 2],
) {
    change(&mut facts);
    let all = diagnose(&facts);
    let bad: Vec<&Finding> = all
        .iter()
        .filter(|found| found.mark != Mark::Good)
        .collect();
    assert_eq!(bad.len(), 1, "{name}: {bad:#?}");
    assert_eq!((bad[0].name, bad[0].mark), (name, mark));
    let advice = bad[0].advice.as_deref().unwrap_or_default();
    assert!(bad[0].value.contains(words[0]), "{}", bad[0].value);
    assert!(advice.contains(words[1]), "{advice}");
}

fn noted(change: impl FnOnce(&mut Facts), name: &str, words: [&str; 2]) {
    found(healthy(), change, name, Mark::Note, words);
}

fn value(facts: &Facts, name: &str) -> String {
    let all = diagnose(facts);
    let mut all = all.into_iter();
    all.find(|found| found.name == name).unwrap().value
}

#[test]
fn nothing_is_wrong_with_a_healthy_set_up() {
    for facts in [healthy(), two_hosts()] {
        let all = diagnose(&facts);
        let bad: Vec<_> = all
            .iter()
            .filter(|f| f.mark != Mark::Good || f.advice.is_some())
            .collect();
        assert!(bad.is_empty(), "{bad:#?}");
    }
    assert_eq!(value(&healthy(), "library"), "Open MPI 4.1.4, standard 3.1");
    assert_eq!(value(&healthy(), "windows"), "served by osc/rdma");
    let settings = value(&healthy(), "settings");
    assert_eq!(
        settings,
        "osc=^ucx (by you), btl=^tcp, btl_vader_eager_limit=65536 (by phalanx)"
    );
    assert_eq!(
        value(&two_hosts(), "ranks"),
        "2 ranks on 2 hosts, 1 on each"
    );
}

#[test]
fn ranks_that_did_not_find_each_other_are_a_problem() {
    let apart = |starter, library: &str, advice| {
        let change = |facts: &mut Facts| {
            facts.start.starter = starter;
            facts.start.size = Some(4);
            facts.library.name = library.into();
        };
        let words = ["started 4 processes, but MPI's world has 2", advice];
        found(healthy(), change, "launcher", Mark::Problem, words);
    };
    apart(Starter::Srun, "Open MPI", "srun --mpi=pmix");
    apart(Starter::Srun, "MPICH", "srun --mpi=pmi2");
    apart(Starter::OpenMpi, "MPICH", "the mpirun of MPICH");
    apart(Starter::Hydra, "Open MPI", "the mpirun of Open MPI");
    let mut srun = healthy();
    srun.start.starter = Starter::Srun;
    assert_eq!(value(&srun, "launcher"), "srun with PMIx 4.2, 2 ranks");
    srun.start.pmix = None;
    assert_eq!(value(&srun, "launcher"), "srun without PMIx, 2 ranks");
}

#[test]
fn wrong_sums_are_a_problem() {
    type Place = fn(&mut Facts) -> &mut Option<String>;
    let all: [(Place, &str, &str); 5] = [
        (|f| &mut f.trials.windows, "accumulate", "OMPI_MCA_osc"),
        (|f| &mut f.trials.counters, "counters", "/dev/shm"),
        (
            |f| &mut f.trials.far_counters,
            "counters by messages",
            "OMPI_MCA_osc",
        ),
        (|f| &mut f.trials.shared, "shared memory", "/dev/shm"),
        (
            |f| &mut f.trials.reductions,
            "all-reduce",
            "another version",
        ),
    ];
    for (place, name, advice) in all {
        let change = |facts: &mut Facts| *place(facts) = Some("3 values were wrong".into());
        found(
            healthy(),
            change,
            name,
            Mark::Problem,
            ["wrong: 3 values", advice],
        );
    }
}

#[test]
fn an_old_or_single_threaded_mpi_is_noted() {
    let old = |facts: &mut Facts| {
        facts.library.name = "MPICH".into();
        facts.library.version = "3.4.3".into();
    };
    noted(old, "library", ["MPICH 3.4.3", "4.0"]);
    noted(
        |f| f.library.threads = "single",
        "threads",
        ["single", "--threads"],
    );
}

#[test]
fn ranks_that_share_cores_are_noted() {
    let bound = |facts: &mut Facts| {
        facts.setup.yields = Some(true);
        facts.ranks.iter_mut().for_each(|rank| rank.cores = 0.5);
    };
    noted(bound, "cores", ["0.50", "--bind-to core"]);
    let many = |facts: &mut Facts| {
        bound(facts);
        facts.hosts[0].cores = 1;
        facts.hosts[0].load = 0.1;
    };
    noted(many, "cores", ["of 1)", "2 ranks share 1 cores"]);
    let mut spinning = healthy();
    many(&mut spinning);
    spinning.setup.yields = Some(false);
    let all = diagnose(&spinning);
    let idle = all.iter().find(|found| found.name == "idle ranks").unwrap();
    assert_eq!(idle.mark, Mark::Note);
    let advice = idle.advice.as_deref().unwrap();
    assert!(
        advice.contains("OMPI_MCA_mpi_yield_when_idle=1"),
        "{advice}"
    );
    spinning.setup.yields = None;
    assert!(value(&spinning, "idle ranks").contains("does not tell"));
}

#[test]
fn limits_on_memory_are_noted() {
    noted(
        |f| f.hosts[0].budget = Some(2 << 30),
        "free",
        ["2.0 GiB of 32.0 GiB", "--mem"],
    );
    noted(
        |f| f.hosts[0].addresses = Some(8 << 30),
        "limit",
        ["8.0 GiB", "ulimit -v"],
    );
    noted(
        |f| f.hosts[0].rdma = true,
        "pinned",
        ["8.0 MiB", "ulimit -l"],
    );
    noted(
        |f| f.hosts[0].huge = "never".into(),
        "huge pages",
        ["never", "echo always"],
    );
}

#[test]
fn shared_memory_that_is_small_or_on_disk_is_noted() {
    let small = |facts: &mut Facts| facts.hosts[0].shared.as_mut().unwrap().free = 64 << 20;
    noted(small, "shared", ["64.0 MiB", "--shm-size"]);
    let slow = |facts: &mut Facts| facts.hosts[0].shared = Some(disk("/tmp", "ext4"));
    noted(slow, "shared", ["/tmp", "backing_directory"]);
    noted(
        |f| f.hosts[0].shared = None,
        "shared",
        ["no place", "tmpfs"],
    );
    let other = |facts: &mut Facts| facts.hosts[1].shared.as_mut().unwrap().free = 1;
    found(
        two_hosts(),
        other,
        "shared",
        Mark::Note,
        ["on b", "--shm-size"],
    );
}

#[test]
fn slow_processors_are_noted() {
    noted(
        |f| f.hosts[0].vectors = false,
        "vectors",
        ["AVX2", "AVX-512"],
    );
    noted(
        |f| f.ranks[1].gflops = 40.0,
        "peak",
        ["40 on the slowest", "--bind-to core"],
    );
    noted(
        |f| f.hosts[0].blas_threads = 4,
        "BLAS",
        ["4 threads", "OPENBLAS_NUM_THREADS"],
    );
    noted(
        |f| f.hosts[0].load = 7.0,
        "load",
        ["7.0 processes on 4 cores", "others"],
    );
    let mut mixed = two_hosts();
    mixed.hosts[1].cpu = "Another".into();
    assert_eq!(
        value(&mixed, "model"),
        "A processor, 4 cores (a); Another, 4 cores (b)"
    );
}

#[test]
fn storage_that_is_full_remote_or_locked_is_noted() {
    noted(
        |f| f.locking = Some("TRUE".into()),
        "file locks",
        ["TRUE", "unset"],
    );
    let remote = |facts: &mut Facts| facts.hosts[0].folder = Some(disk("/home", "nfs4"));
    noted(remote, "folder", ["/home: nfs4", "local disk"]);
    let full = |facts: &mut Facts| facts.hosts[0].folder.as_mut().unwrap().free = 1 << 20;
    noted(full, "folder", ["1.0 MiB are free", "--out"]);
    noted(
        |f| f.hosts[0].folder = None,
        "folder",
        ["not there", "every host"],
    );
    let mut off = healthy();
    off.locking = Some("FALSE".into());
    assert_eq!(value(&off, "file locks"), "HDF5_USE_FILE_LOCKING=FALSE");
}

#[test]
fn slow_meetings_are_noted() {
    noted(
        |f| f.latency.barrier = Some(1e-3),
        "barrier",
        ["slow: 1.0 ms", "bind each"],
    );
    noted(
        |f| f.latency.small = Some(300e-6),
        "all-reduce of 8 B",
        ["300.0 µs", "bind each"],
    );
    noted(
        |f| f.latency.add = Some(5e-3),
        "add to next rank",
        ["5.0 ms", "bind each"],
    );
    noted(
        |f| f.latency.long = Some(0.5),
        "all-reduce of 16 MiB",
        ["0.03 GB/s", "memory"],
    );
    let waits = |facts: &mut Facts| facts.latency.add_busy = Some(0.18);
    noted(waits, "add to a busy rank", ["180.0 ms", "OMPI_MCA_osc"]);
}

#[test]
fn hosts_may_be_slower_to_reach_but_not_much() {
    let far = |change: fn(&mut Facts), name, words| {
        found(two_hosts(), change, name, Mark::Note, words);
    };
    far(
        |f| f.latency.add_busy_far = Some(0.18),
        "add to a busy host",
        ["slow", "small batches"],
    );
    far(
        |f| f.latency.barrier = Some(5e-3),
        "barrier",
        ["5.0 ms", "btl_tcp_if_include"],
    );
    far(
        |f| f.latency.long = Some(1.0),
        "all-reduce of 16 MiB",
        ["0.02", "1 Gbit/s"],
    );
    let mut facts = two_hosts();
    facts.latency.barrier = Some(1e-3);
    assert_eq!(value(&facts, "barrier"), "ok: 1.0 ms");
}

#[test]
fn a_rank_alone_has_nobody_to_meet() {
    let mut facts = healthy();
    facts.ranks.truncate(1);
    facts.start.starter = Starter::Plain;
    facts.start.size = None;
    facts.latency = Latency::default();
    facts.setup.windows = None;
    assert!(
        diagnose(&facts)
            .iter()
            .all(|found| found.mark == Mark::Good)
    );
    assert_eq!(value(&facts, "launcher"), "none: a world of one rank");
    assert!(value(&facts, "latency").contains("mpirun"));
}

#[test]
fn an_mpi_that_does_not_come_back_gets_advice_by_what_it_did() {
    assert!(stuck("adding to windows").contains("OMPI_MCA_osc"));
    assert!(stuck("gathering facts").contains("btl_tcp_if_include"));
}
