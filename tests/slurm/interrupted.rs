//! Runs that lose their nodes and go on: they must end in the bits of a run left alone.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use crate::cluster::{Check, Cluster, open};
use crate::job::csv;
use crate::scripts::checksum;
use crate::submitted::Submitted;

/// Jobs by name.
pub const JOBS: [Check; 4] = [
    (
        "slurm: a job preempted twice, by mpirun and by srun, ends in the bits of one left alone",
        preempted,
    ),
    (
        "slurm: a job at its time limit is queued again and ends in the bits of one left alone",
        out_of_time,
    ),
    (
        "slurm: a job that loses a node is queued again and ends in the bits of one left alone",
        lost_node,
    ),
    (
        "slurm: a job that is cancelled stays cancelled, with a checkpoint",
        cancelled,
    ),
];

/// What all of them train, on two nodes with two ranks each.
pub const WORDS: &str = "--steps 400 --global-batch 40 --lr 0.05 --exchange node-shared";
/// Ranks that do.
const RANKS: usize = 4;
/// Longest that a job may take to get further, and to be queued again and end.
const LIMIT: Duration = Duration::from_secs(90);

/// Stands for the program: on the first `SLOW` starts of a job its 400 steps take more than the minute that the shortest job has, so
/// that none ends before it is disturbed.
const SLOWLY: &str = "#!/bin/sh
if [ \"${SLURM_RESTART_COUNT:-0}\" -lt \"$SLOW\" ]; then
    set -- \"$@\" --inject \"slow:0:10000\"
fi
exec target/release/phalanx \"$@\"
";

/// How a run ended that nothing disturbed.
pub struct Alone {
    /// The checksum of its parameters.
    pub checksum: String,
    /// The steps and losses that it wrote down.
    metrics: Vec<[String; 2]>,
}

/// A run left alone, once for all that compare with it.
pub fn left_alone(cluster: &Cluster) -> &'static Alone {
    static ALONE: OnceLock<Alone> = OnceLock::new();
    ALONE.get_or_init(|| {
        let job = Submitted::train(cluster, &[("RUN", "alone")], WORDS);
        job.ends("COMPLETED", LIMIT);
        let run = cluster.home().join("alone");
        Alone {
            checksum: checksum(&run, RANKS),
            metrics: metrics(run),
        }
    })
}

/// The steps and losses that a run wrote down.
fn metrics(run: PathBuf) -> Vec<[String; 2]> {
    let rows = csv(run.join("metrics.csv"));
    let pair = |row: &std::collections::BTreeMap<String, String>| {
        ["step", "loss"].map(|name| row[name].clone())
    };
    rows.iter().map(pair).collect()
}

/// A run that is disturbed.
struct Disturbed<'a> {
    cluster: &'a Cluster,
    job: Submitted<'a>,
    run: PathBuf,
}

impl<'a> Disturbed<'a> {
    /// Submits one whose first starts, so many, are `slow`; its folder is `name-launcher`, `words` are for sbatch.
    fn new(cluster: &'a Cluster, (name, launcher): (&str, &str), slow: &str, words: &str) -> Self {
        let program = cluster.home().join("slowly");
        fs::write(&program, SLOWLY).unwrap();
        open(&program);
        let folder = format!("{name}-{launcher}");
        let variables = [
            ("RUN", folder.as_str()),
            ("LAUNCHER", launcher),
            ("PHALANX", "./slowly"),
            ("SLOW", slow),
        ];
        Self {
            cluster,
            job: Submitted::train_as(cluster, &variables, words, WORDS),
            run: cluster.home().join(&folder),
        }
    }

    /// Its checkpoints, oldest first.
    fn checkpoints(&self) -> Vec<String> {
        let entries = fs::read_dir(self.run.join("checkpoints"));
        let entries = entries.into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut steps: Vec<String> = names.filter(|name| name.starts_with("step-")).collect();
        steps.sort();
        steps
    }

    fn newest(&self) -> Option<String> {
        self.checkpoints().pop()
    }

    /// Waits until it has started, and has written a checkpoint since.
    fn gets_further(&self) {
        let further = || {
            let said = self.job.output();
            let starts = || said.lines().filter(|line| line.contains(": start "));
            let started = starts().count() > said.matches(": queued again").count();
            // The script tells which one it starts from.
            let from = starts().next_back().unwrap_or_default();
            let newest = self.newest();
            started && newest.is_some_and(|newest| !from.ends_with(&newest))
        };
        self.job.until(LIMIT, "it gets further", further);
    }

    /// Waits until it has been queued again so many times.
    fn queued_again(&self, times: usize) {
        let so = || self.job.says(": queued again") >= times;
        self.job.until(LIMIT, "it is queued again", so);
    }

    /// It must end, after so many starts, as a run left alone did.
    fn ends_as_alone(&self, starts: usize) {
        self.job.ends("COMPLETED", LIMIT);
        let said = self.job.output();
        assert!(said.contains(&format!(": start {starts} on ")), "{said}");
        let next = format!(": start {} on ", starts + 1);
        assert!(!said.contains(&next), "{said}");
        let alone = left_alone(self.cluster);
        assert_eq!(checksum(&self.run, RANKS), alone.checksum, "{said}");
        assert_eq!(metrics(self.run.clone()), alone.metrics, "{said}");
    }
}

/// Once where Slurm sends the signal that a job asked for, and once where it ends the job's steps, as it does by default.
fn preempted(cluster: &Cluster) {
    let runs = [("mpirun", "n1,n2"), ("srun", "n1,n3")].map(|(launcher, nodes)| {
        let words = format!("--nodelist={nodes}");
        Disturbed::new(cluster, ("preempted", launcher), "2", &words)
    });
    for (times, signal) in [
        (1, "SlurmctldParameters=preempt_send_user_signal\n"),
        (2, ""),
    ] {
        cluster.configure(signal);
        runs.iter().for_each(Disturbed::gets_further);
        let urgent = "--partition=urgent --nodes=3 --exclusive --output=/dev/null --wrap=hostname";
        let urgent = Submitted::new(cluster, &[], urgent);
        runs.iter().for_each(|run| run.queued_again(times));
        urgent.ends("COMPLETED", LIMIT);
    }
    runs.iter().for_each(|run| run.ends_as_alone(3));
}

/// Slurm looks at time limits every 30 s: the signal may come that much earlier than asked for.
fn out_of_time(cluster: &Cluster) {
    let words = "--time=1 --signal=B:USR1@45";
    let run = Disturbed::new(cluster, ("late", "mpirun"), "1", words);
    run.queued_again(1);
    assert_eq!(run.job.says("USR1: the end is near"), 1);
    run.ends_as_alone(2);
}

fn lost_node(cluster: &Cluster) {
    let runs = ["mpirun", "srun"].map(|launcher| {
        let words = "--nodelist=n1,n2";
        Disturbed::new(cluster, ("lost", launcher), "1", words)
    });
    runs.iter().for_each(Disturbed::gets_further);
    cluster.crash(2);
    // Slurm has to find out by itself.
    let state = || cluster.as_root("sinfo --noheader --nodes=n2 --partition=normal --format=%T");
    let down = || state().starts_with("down");
    cluster.until(LIMIT, || format!("n2 is down: {}", state()), down);
    cluster.boot(2);
    runs.iter().for_each(|run| run.ends_as_alone(2));
}

fn cancelled(cluster: &Cluster) {
    let runs = ["mpirun", "srun"]
        .map(|launcher| Disturbed::new(cluster, ("cancelled", launcher), "1", ""));
    for run in runs {
        run.gets_further();
        let before = run.newest();
        cluster.as_user(&[], &format!("scancel {}", run.job.id));
        run.job.ends("CANCELLED", LIMIT);
        assert_eq!(run.job.says(": queued again"), 0, "{}", run.job.output());
        assert!(run.newest() >= before && before.is_some());
    }
}
