//! Jobs between hosts, and what is checked of a job wherever its ranks run.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::hosts::{Hosts, hosts};
use crate::job::{LIMIT, begins, csv, folder, good, job, number, toml};
use crate::launch::{none_left, run, signal, start, wait};
use crate::mpis::Mpi;

/// Jobs by name.
pub const JOBS: [(&str, fn()); 7] = [
    ("two hosts in step compute what one host does", || {
        two_hosts(|hosts| in_step_between(&Mpi::Open, hosts))
    }),
    ("two hosts out of step take every step once", || {
        two_hosts(|hosts| out_of_step_between(&Mpi::Open, hosts))
    }),
    ("two hosts give the bits of one rank in shards", || {
        two_hosts(|hosts| reproducible_between(&Mpi::Open, hosts))
    }),
    ("two hosts keep the bound on staleness, and average", || {
        two_hosts(|hosts| bounded_between(&Mpi::Open, hosts))
    }),
    (
        "a host of one rank that is stopped is named by another host",
        stopped_host,
    ),
    ("a rank killed on another host ends the job", || {
        two_hosts(|hosts| killed_between(&Mpi::Open, hosts))
    }),
    (
        "three hosts may have different numbers of ranks",
        uneven_hosts,
    ),
];

/// Bytes of the parameters of softmax regression on the digits.
const PARAMETERS: u64 = 4 * 7850;

/// Runs `check` on two hosts of two ranks each.
pub fn two_hosts(check: impl FnOnce(&Hosts)) {
    if let Some(hosts) = hosts(&[2, 2]) {
        check(&hosts);
    }
}

fn uneven_hosts() {
    if let Some(hosts) = hosts(&[1, 2, 1]) {
        in_step_between(&Mpi::Open, &hosts);
        out_of_step_between(&Mpi::Open, &hosts);
    }
}

/// `start` is the job without its words. Runs it by `exchange`, and compares with the same on one host by messages.
pub fn in_step(start: Command, size: usize, folder: &Path, exchange: &str) {
    let words = "train softmax train.h5 --test test.h5 --epochs 4 --lr 0.2 --global-batch 120";
    good(run_words(
        start,
        &format!("{words} --exchange {exchange} --out there --force"),
    ));
    let same = format!("{words} --exchange all-reduce --out here --force");
    job(size, folder, &same);
    let params = ["there", "here"].map(|run| {
        let file = folder.join(run).join("model.h5");
        phalanx::nn::load(&file).unwrap().1
    });
    let differences = params[0].iter().zip(&params[1]);
    let worst = differences.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst < 1e-5, "parameters differ by {worst}");
    let steps = toml(folder.join("there/result.toml"))["steps"].as_integer();
    assert_eq!(steps, Some(100));
    same_bits(&folder.join("there"), size);
}

/// `start` is the job without its words. Asynchronous training takes all steps, and learns.
pub fn out_of_step(start: Command, size: usize, folder: &Path, placement: &str) {
    let words = format!(
        "train softmax train.h5 --test test.h5 --epochs 10 --batch 50 --exchange one-sided --placement {placement} --out there --force"
    );
    good(run_words(start, &words));
    let run = folder.join("there");
    let ranks = same_bits(&run, size);
    assert_eq!(
        ranks.iter().sum::<f64>(),
        600.0,
        "every step once: {ranks:?}"
    );
    let losses = csv(run.join("metrics.csv"));
    let losses: Vec<f64> = losses
        .iter()
        .filter(|row| !row["test_loss"].is_empty())
        .map(|row| number(row, "test_loss"))
        .collect();
    assert!(losses.len() > 3, "{losses:?}");
    assert!(losses[losses.len() - 1] < 0.8 * losses[0], "{losses:?}");
}

/// [`in_step`] between hosts, which must have sent each other at least every sum of gradients.
pub fn in_step_between(mpi: &Mpi, hosts: &Hosts) {
    let folder = folder();
    for exchange in ["all-reduce", "node-shared"] {
        let before = hosts.received();
        in_step(
            hosts.phalanx(mpi, folder.path()),
            hosts.size(),
            folder.path(),
            exchange,
        );
        see_each_other(&folder.path().join("there"), hosts);
        for (after, before) in hosts.received().iter().zip(before) {
            let received = after - before;
            assert!(
                received > 100 * PARAMETERS,
                "{exchange}: {received} bytes came by the network"
            );
        }
    }
}

/// Shards give the same bits on hosts of several ranks as on one rank alone.
pub fn reproducible_between(mpi: &Mpi, hosts: &Hosts) {
    let folder = folder();
    let words =
        "train lenet train.h5 --epochs 1 --optimizer momentum --global-batch 120 --reproducible";
    job(1, folder.path(), &format!("{words} --out alone"));
    let checksum =
        |run: &str| toml(folder.path().join(run).join("result.toml"))["checksum"].clone();
    for exchange in ["all-reduce", "node-shared"] {
        let words = format!("{words} --exchange {exchange} --out {exchange}");
        good(run_words(hosts.phalanx(mpi, folder.path()), &words));
        see_each_other(&folder.path().join(exchange), hosts);
        assert_eq!(checksum(exchange), checksum("alone"), "{exchange}");
    }
}

/// Between hosts too, no rank is farther ahead than the bound allows; and ranks by themselves average.
pub fn bounded_between(mpi: &Mpi, hosts: &Hosts) {
    let folder = folder();
    let words = "train softmax train.h5 --epochs 4 --batch 50";
    let bounded = format!("{words} --exchange one-sided --staleness 2 --out bounded");
    good(run_words(hosts.phalanx(mpi, folder.path()), &bounded));
    let ranks = csv(folder.path().join("bounded/ranks.csv"));
    assert!(
        ranks.iter().all(|row| number(row, "staleness_most") <= 2.0),
        "{ranks:?}"
    );
    let local = format!("{words} --sync-every 5 --out local");
    good(run_words(hosts.phalanx(mpi, folder.path()), &local));
    for run in ["bounded", "local"] {
        let steps = same_bits(&folder.path().join(run), hosts.size());
        assert_eq!(steps.iter().sum::<f64>(), 240.0, "{run}: {steps:?}");
    }
}

/// [`out_of_step`] between hosts, with both placements.
pub fn out_of_step_between(mpi: &Mpi, hosts: &Hosts) {
    let folder = folder();
    for placement in ["sharded", "rank0"] {
        let before: u64 = hosts.received().iter().sum();
        out_of_step(
            hosts.phalanx(mpi, folder.path()),
            hosts.size(),
            folder.path(),
            placement,
        );
        see_each_other(&folder.path().join("there"), hosts);
        let received = hosts.received().iter().sum::<u64>() - before;
        // Sharded: a rank reads and moves at least half of the parameters elsewhere, at every step.
        if placement == "sharded" {
            assert!(
                received > 600 * PARAMETERS,
                "{received} bytes came by the network"
            );
        }
    }
}

/// A rank that is killed on the last host ends the job on all of them.
pub fn killed_between(mpi: &Mpi, hosts: &Hosts) {
    let folder = folder();
    for exchange in ["all-reduce", "one-sided"] {
        let mut command = hosts.phalanx(mpi, folder.path());
        let words = format!(
            "train softmax train.h5 --test test.h5 --epochs 1000000 --exchange {exchange} --out {exchange}"
        );
        command.args(words.split_whitespace());
        let child = start(command);
        begins(&folder.path().join(exchange));
        let ranks = [hosts.ranks_on(0), hosts.ranks_on(1)];
        assert!(ranks.iter().all(|ranks| ranks.len() == 2), "{ranks:?}");
        signal("KILL", ranks[1][1]);
        let ended = wait(child, Duration::from_secs(20));
        assert!(
            ended.code.is_some_and(|code| code != 0),
            "{exchange}: exit code {:?}\n{}",
            ended.code,
            ended.output
        );
        none_left(ranks.iter().flatten());
        assert!(!folder.path().join(exchange).join("model.h5").exists());
    }
}

/// Nobody on the stopped host can tell: heartbeats between hosts must.
fn stopped_host() {
    let Some(hosts) = hosts(&[1, 1, 1]) else {
        return;
    };
    let folder = folder();
    let mut command = hosts.phalanx(&Mpi::Open, folder.path());
    let words = "train softmax train.h5 --epochs 1000000 --stall-timeout 3 --exchange node-shared --out run";
    command.args(words.split_whitespace());
    let child = start(command);
    begins(&folder.path().join("run"));
    signal("STOP", hosts.ranks_on(1)[0]);
    // Heartbeats of a silent host get a second of grace, and daemons on other hosts end a little later.
    let ended = wait(child, Duration::from_secs(30));
    assert_eq!(ended.code, Some(3), "{}", ended.output);
    let name = hosts.names_by_rank()[1];
    for words in ["with rank 1 ", name, "stalled.json"] {
        assert!(ended.output.contains(words), "{words} in\n{}", ended.output);
    }
    let text = fs::read_to_string(folder.path().join("run/stalled.json")).unwrap();
    let board: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(board["ranks"].as_array().map(Vec::len), Some(3), "{text}");
}

fn run_words(mut start: Command, words: &str) -> crate::launch::Ended {
    start.args(words.split_whitespace());
    run(start, LIMIT)
}

/// Each rank's steps; all ranks must end with the same parameters.
fn same_bits(run: &Path, size: usize) -> Vec<f64> {
    let ranks = csv(run.join("ranks.csv"));
    assert_eq!(ranks.len(), size);
    for rank in &ranks {
        assert_eq!(rank["checksum"], ranks[0]["checksum"]);
    }
    ranks.iter().map(|rank| number(rank, "steps")).collect()
}

/// Ranks know their hosts by name, and MPI tells them apart: `hosts` is counted by the memory that ranks share.
fn see_each_other(run: &Path, hosts: &Hosts) {
    let ranks = csv(run.join("ranks.csv"));
    let names: Vec<&str> = ranks.iter().map(|rank| rank["host"].as_str()).collect();
    assert_eq!(names, hosts.names_by_rank());
    let counted = toml(run.join("settings.toml"))["hosts"].as_integer();
    assert_eq!(counted, Some(hosts.count() as i64));
}
