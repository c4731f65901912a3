//! A job that was submitted: what state it is in, and what it printed.

use std::fs;
use std::time::Duration;

use crate::cluster::Cluster;

/// A job, or an array of jobs.
pub struct Submitted<'a> {
    cluster: &'a Cluster,
    /// Slurm's number of it.
    pub id: String,
}

impl<'a> Submitted<'a> {
    /// Submits a job by `sbatch WORDS`, with these variables.
    pub fn new(cluster: &'a Cluster, variables: &[(&str, &str)], words: &str) -> Self {
        let id = cluster.as_user(variables, &format!("sbatch --parsable {words}"));
        Self::found(cluster, id.trim())
    }

    /// A job that something else has submitted.
    pub fn found(cluster: &'a Cluster, id: &str) -> Self {
        Self {
            cluster,
            id: id.into(),
        }
    }

    /// Submits `slurm/train_cpu.sbatch WORDS` for softmax regression on two nodes with two ranks each.
    pub fn train(cluster: &'a Cluster, variables: &[(&str, &str)], words: &str) -> Self {
        Self::train_as(cluster, variables, "", words)
    }

    /// The same with `options` of sbatch.
    pub fn train_as(
        cluster: &'a Cluster,
        variables: &[(&str, &str)],
        options: &str,
        words: &str,
    ) -> Self {
        let all = [&[("MODEL", "softmax"), ("CHECKPOINT", "10")], variables].concat();
        let size = "--nodes=2 --ntasks-per-node=2";
        let words = format!("{size} {options} slurm/train_cpu.sbatch {words}");
        Self::new(cluster, &all, &words)
    }

    /// The states that its jobs are in, each once.
    pub fn states(&self) -> Vec<String> {
        let id = &self.id;
        let all = self.cluster.as_root(&format!(
            "squeue --noheader --states=all --array --jobs={id} --format=%T"
        ));
        let mut all: Vec<String> = all.lines().map(|line| line.trim().into()).collect();
        all.sort();
        all.dedup();
        all
    }

    /// Waits until it has ended, in this state.
    pub fn ends(&self, state: &str, limit: Duration) {
        self.over(limit);
        assert_eq!(self.states(), [state], "{}", self.output());
    }

    /// Waits until it has ended, however.
    pub fn over(&self, limit: Duration) {
        let what = || format!("job {} has ended\n{}", self.id, self.output());
        self.cluster.until(limit, what, || self.is_over());
    }

    fn is_over(&self) -> bool {
        const OVER: [&str; 6] = [
            "COMPLETED",
            "FAILED",
            "CANCELLED",
            "TIMEOUT",
            "NODE_FAIL",
            "PREEMPTED",
        ];
        let states = self.states();
        states.iter().all(|state| OVER.contains(&state.as_str()))
    }

    /// Waits until something is so of a job that has not ended, or fails with what it printed.
    pub fn until(&self, limit: Duration, what: &str, so: impl Fn() -> bool) {
        let told = || format!("job {}: {what}\n{}", self.id, self.output());
        self.cluster.until(limit, told, || {
            let over = self.is_over();
            let so = so();
            assert!(so || !over, "it has ended before {}", told());
            so
        });
    }

    /// What it printed, all of its jobs and starts.
    pub fn output(&self) -> String {
        let mut files: Vec<_> = fs::read_dir(self.cluster.home())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| {
                let name = path.file_name().unwrap().to_string_lossy();
                let ours = |end: &str| name.ends_with(&format!("-{}{end}", self.id));
                ours(".out") || name.contains(&format!("-{}_", self.id))
            })
            .collect();
        files.sort();
        let texts = files.iter().map(fs::read_to_string);
        texts.map(Result::unwrap_or_default).collect()
    }

    /// How often its output has these words.
    pub fn says(&self, words: &str) -> usize {
        self.output().matches(words).count()
    }
}
