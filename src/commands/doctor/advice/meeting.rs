//! Rules about tests: whether sums are exact, and how long ranks take to meet.

use super::{Facts, Section};
use crate::commands::doctor::latency::BUSY;

/// Longest times that are no note, in seconds, where each rank has a core: on one host, between hosts; and where not.
struct Limits {
    near: f64,
    far: f64,
    crowded: f64,
}

/// A barrier and a small all-reduce: some messages one after the other.
const MEET: Limits = Limits {
    near: 200e-6,
    far: 2e-3,
    crowded: 20e-3,
};
/// One addition.
const ADD: Limits = Limits {
    near: 200e-6,
    far: 2e-3,
    crowded: 20e-3,
};
/// Bytes of the long all-reduce.
const LONG: f64 = (16 << 20) as f64;
/// Slower than this between hosts, in GB/s: a network of 1 Gbit/s reaches it.
const SLOW_NETWORK: f64 = 0.05;
/// Slower than this share of a copy, on one host.
const SLOW_SHARE: f64 = 0.02;

/// All of them.
pub(super) fn rules(facts: &Facts, out: &mut Section) {
    sums(facts, out);
    if facts.size() == 1 {
        return out.good(
            "latency",
            "one rank has nobody to meet: start this under mpirun",
        );
    }
    let slow = if facts.crowded() {
        "ranks wait for cores, not for messages: start fewer, and see idle ranks above"
    } else if facts.hosts.len() > 1 {
        "the network between hosts is slow: name the fastest interface (Open MPI: --mca btl_tcp_if_include; MPICH: UCX_NET_DEVICES); fewer, larger steps wait less often"
    } else {
        "ranks of one host should meet within microseconds: bind each to a core of its own, and look for other processes on these cores"
    };
    let latency = &facts.latency;
    let times = [
        ("barrier", latency.barrier, MEET),
        ("all-reduce of 8 B", latency.small, MEET),
        ("add to next rank", latency.add, ADD),
    ];
    for (name, seconds, limits) in times {
        timed(facts, out, name, seconds, limits, slow);
    }
    busy(facts, out);
    long(facts, out);
}

fn sums(facts: &Facts, out: &mut Section) {
    let trials = &facts.trials;
    let windows = "windows are wrong, and one-sided exchanges between hosts with them: let another part of MPI serve them (Open MPI: OMPI_MCA_osc=^ucx, or OMPI_MCA_pml=ucx OMPI_MCA_osc=ucx,sm), or train with --exchange all-reduce";
    let shared = "shared memory does not work, and node-shared and one-sided exchanges need it: allow MPI to use it (Open MPI: OMPI_MCA_osc must not exclude sm), make room in /dev/shm, or train with --exchange all-reduce";
    let broken = "MPI adds up wrongly: use another version of it, and train nothing with this one";
    let all = [
        ("accumulate", &trials.windows, windows),
        ("counters", &trials.counters, shared),
        ("counters by messages", &trials.far_counters, windows),
        ("shared memory", &trials.shared, shared),
        ("all-reduce", &trials.reductions, broken),
    ];
    for (name, outcome, advice) in all {
        match outcome {
            None => out.good(name, "ok: exact"),
            Some(wrong) => out.problem(name, format!("wrong: {wrong}"), advice),
        }
    }
}

fn timed(
    facts: &Facts,
    out: &mut Section,
    name: &'static str,
    seconds: Option<f64>,
    limits: Limits,
    advice: &str,
) {
    let Some(seconds) = seconds else { return };
    let limit = match () {
        () if facts.crowded() => limits.crowded,
        () if facts.hosts.len() > 1 => limits.far,
        () => limits.near,
    };
    if seconds > limit {
        out.note(name, format!("slow: {}", time(seconds)), advice);
    } else {
        out.good(name, format!("ok: {}", time(seconds)));
    }
}

/// Additions to a rank that computes: they wait until it is done, or they do not.
fn busy(facts: &Facts, out: &mut Section) {
    let near = if facts.library.name == "Open MPI" {
        "a window of the same host is not reached while its rank computes: it should be in shared memory (OMPI_MCA_osc=^ucx); one-sided exchanges of one host, which use no windows, do not lose by it"
    } else {
        "this MPI reaches a window only when its rank calls MPI, on the same host too: one-sided exchanges of one host, which use no windows, do not lose by it"
    };
    let far = "between hosts, ranks are reached only when they call MPI: one-sided exchanges wait for a step of the slowest; ranks in step (--exchange auto) do not lose by it, and small batches lose less";
    let all = [
        ("add to a busy rank", facts.latency.add_busy, near),
        ("add to a busy host", facts.latency.add_busy_far, far),
    ];
    for (name, seconds, advice) in all {
        let Some(seconds) = seconds else { continue };
        // A rank that shares its core may have to wait for that, but not for as long.
        if seconds > 0.5 * BUSY.as_secs_f64() {
            let value = format!("slow: {}, until it has computed", time(seconds));
            out.note(name, value, advice);
        } else {
            out.good(name, format!("ok: {}", time(seconds)));
        }
    }
}

fn long(facts: &Facts, out: &mut Section) {
    let Some(seconds) = facts.latency.long else {
        return;
    };
    let speed = LONG / seconds / 1e9;
    let value = format!("{}, {speed:.2} GB/s", time(seconds));
    let (slow, advice) = if facts.hosts.len() > 1 {
        (
            speed < SLOW_NETWORK,
            "slower than 1 Gbit/s between hosts: name a faster interface (Open MPI: --mca btl_tcp_if_include; MPICH: UCX_NET_DEVICES)",
        )
    } else {
        (
            speed < SLOW_SHARE * facts.speed.copy,
            "far slower than memory: see cores and load above, and /dev/shm",
        )
    };
    if slow {
        out.note("all-reduce of 16 MiB", format!("slow: {value}"), advice);
    } else {
        out.good("all-reduce of 16 MiB", format!("ok: {value}"));
    }
}

/// A time with its unit.
fn time(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.1} µs", s * 1e6),
        s => format!("{:.1} ms", s * 1e3),
    }
}
