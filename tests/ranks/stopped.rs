//! Runs that are asked to stop: a checkpoint, exit code 4, and on from there.

use std::path::Path;
use std::time::Duration;

use crate::job::{begins, folder, job, toml};
use crate::launch::{Ended, children, exists, none_left, phalanx, signal, start, wait};

/// Jobs by name.
pub const JOBS: [(&str, fn()); 4] = [
    (
        "a signal to any rank stops all with a checkpoint to go on from",
        signals,
    ),
    (
        "a signal stops runs whose ranks go their own ways",
        own_ways,
    ),
    ("a second signal ends a run at once", second),
    ("a run stops when its time is over", time_limit),
];

/// Starts a run without end, and once it trains does `strike` with mpirun and the ranks; gives how it ended.
fn struck(folder: &Path, words: &str, out: &str, strike: impl Fn(u32, &[u32])) -> Ended {
    strike_run(folder, &format!("softmax train.h5 {words}"), out, strike)
}

/// As `struck`, of a run of anything.
pub fn strike_run(folder: &Path, words: &str, out: &str, strike: impl Fn(u32, &[u32])) -> Ended {
    let mut command = phalanx(3, folder);
    let words = format!("train {words} --steps 100000000 --log-every 1 --out {out}");
    command.args(words.split_whitespace());
    let child = start(command);
    begins(&folder.join(out));
    let ranks = children(child.id());
    assert_eq!(ranks.len(), 3, "mpirun has three ranks");
    strike(child.id(), &ranks);
    let ended = wait(child, Duration::from_secs(60));
    none_left(&ranks);
    ended
}

/// The step of the only checkpoint in a run folder.
pub fn only_step(run: &Path) -> u64 {
    let entries = std::fs::read_dir(run.join("checkpoints")).unwrap();
    let names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 1, "{names:?}");
    let name = names[0].to_str().unwrap();
    name.strip_prefix("step-").unwrap().parse().unwrap()
}

fn signals() {
    let folder = folder();
    let path = folder.path();
    for (name, rank, exchange) in [
        ("USR1", 2, "node-shared"),
        ("TERM", 0, "all-reduce"),
        ("INT", 1, "node-shared"),
    ] {
        let words = format!("--exchange {exchange} --optimizer adam");
        let ended = struck(path, &words, name, |_, ranks| signal(name, ranks[rank]));
        assert_eq!(ended.code, Some(4), "{}", ended.output);
        let step = only_step(&path.join(name));
        let told = format!("stopped after step {step} by SIG{name} on rank {rank}");
        assert!(ended.output.contains(&told), "{told} in\n{}", ended.output);
        assert!(
            ended
                .output
                .contains(&format!("phalanx train --resume {name}"))
        );
        assert!(!path.join(name).join("result.toml").exists());
        let length = format!("--steps {}", step + 20);
        job(3, path, &format!("train --resume {name} {length}"));
        let whole = format!("train softmax train.h5 {words} {length} --out whole-{name}");
        job(3, path, &whole);
        let result = |run: &str| toml(path.join(run).join("result.toml"))["checksum"].clone();
        assert_eq!(
            result(name),
            result(&format!("whole-{name}")),
            "after step {step}"
        );
    }
    // To mpirun, which passes it on.
    let ended = struck(path, "", "passed", |mpirun, _| signal("USR1", mpirun));
    assert_eq!(ended.code, Some(4), "{}", ended.output);
    only_step(&path.join("passed"));
}

fn own_ways() {
    let folder = folder();
    let path = folder.path();
    for (name, exchange) in [
        (
            "one-sided",
            "--exchange one-sided --optimizer momentum --lr 0.01",
        ),
        ("in-step", "--exchange one-sided --staleness 0"),
        ("local", "--sync-every 5"),
        ("backup", "--aggregate 2-of-3"),
    ] {
        let ended = struck(path, exchange, name, |_, ranks| signal("USR1", ranks[1]));
        assert_eq!(ended.code, Some(4), "{name}: {}", ended.output);
        let step = only_step(&path.join(name));
        let resume = format!("train --resume {name} --steps {}", step + 60);
        let printed = job(3, path, &resume);
        assert!(
            printed.contains(&format!("going on after step {step}")),
            "{printed}"
        );
    }
}

fn second() {
    let folder = folder();
    // A rank that never comes to the end of its step cannot stop in order.
    let words = "--inject stall:1:40 --stall-timeout 0";
    let ended = struck(folder.path(), words, "run", |_, ranks| {
        std::thread::sleep(Duration::from_millis(1000));
        signal("TERM", ranks[1]);
        std::thread::sleep(Duration::from_millis(1500));
        assert!(exists(ranks[1]), "the first is a wish");
        signal("TERM", ranks[1]);
    });
    assert!(
        ended.code.is_some_and(|code| code != 0 && code != 4),
        "{}",
        ended.output
    );
    assert!(ended.time < Duration::from_secs(10), "{:?}", ended.time);
}

fn time_limit() {
    let folder = folder();
    let words = "--time-limit 3s --checkpoint-every 1s --keep 1";
    let ended = struck(folder.path(), words, "run", |_, _| ());
    assert_eq!(ended.code, Some(4), "{}", ended.output);
    assert!(
        ended.output.contains("by the time limit"),
        "{}",
        ended.output
    );
    let step = only_step(&folder.path().join("run"));
    let printed = job(
        3,
        folder.path(),
        &format!("train --resume run --steps {}", step + 3),
    );
    assert!(
        printed.contains(&format!("going on after step {step}")),
        "{printed}"
    );
}
