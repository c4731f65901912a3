//! A run that is met with a fault, goes on, and is compared with one that was left alone.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use crate::job::{good, toml};
use crate::launch::{Ended, mpirun, run, start};
use crate::shim::{Events, Fault};

/// How much is tried.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// Some moments of each kind.
    Some,
    /// All of them.
    All,
}

impl Amount {
    /// So many of `all`, spread over them, or all.
    pub fn of(self, all: u64, some: u64) -> Vec<u64> {
        match self {
            Self::All => (1..=all).collect(),
            Self::Some => (0..some)
                .map(|i| 1 + i * (all - 1) / (some - 1).max(1))
                .collect(),
        }
    }
}

/// What came of it.
#[derive(Default)]
pub struct Outcome {
    /// Faults that came.
    pub moments: usize,
    /// Runs that went on to their end.
    pub resumed: usize,
    /// Those that ended in the same bits.
    pub equal: usize,
    /// What was wrong.
    pub wrong: Vec<String>,
}

/// The longest that a run may take, on a machine that does much else.
pub const LIMIT: Duration = Duration::from_secs(300);

/// Steps of a run, and from one checkpoint to the next.
const STEPS: &str = "60";
const EVERY: &str = "20";

/// Runs of one kind, with the bits that they must end in.
pub struct Bench {
    folder: TempDir,
    size: usize,
    words: String,
    expected: String,
}

impl Bench {
    /// Runs of `size` ranks.
    pub fn new(size: usize) -> Self {
        Self::of(
            size,
            &format!("--steps {STEPS} --checkpoint-every {EVERY} --keep 1"),
        )
    }

    /// As `new`, with other words about steps and checkpoints.
    pub fn of(size: usize, about: &str) -> Self {
        // Set is what is chosen by measurement otherwise.
        let train = "mlp train.h5 --global-batch 80 --optimizer momentum --lr 0.05 --exchange all-reduce --no-tune";
        let data = "digits train.h5 --samples 400";
        Self::with(size, data, &format!("{train} {about}"))
    }

    /// Runs of a sparse model, slow enough for their checkpoints to be written one after the other.
    pub fn sparse(size: usize) -> Self {
        let data = "clicks train --bits 12 --rows 4000";
        let train = "sparse train --global-batch 100 --optimizer adagrad --exchange owners";
        let slow: Vec<_> = (0..size)
            .map(|rank| format!("--inject slow:{rank}:50"))
            .collect();
        let about = format!("--steps {STEPS} --checkpoint-every {EVERY} --keep 1");
        Self::with(size, data, &format!("{train} {about} {}", slow.join(" ")))
    }

    /// Runs of `train`, on data that is made as `data` says.
    fn with(size: usize, data: &str, train: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut make = Command::new(env!("CARGO_BIN_EXE_phalanx"));
        make.args(["data", "make"]).args(data.split(' '));
        make.current_dir(folder.path());
        good(run(make, LIMIT));
        let words = format!("train {train}");
        let mut bench = Self {
            folder,
            size,
            words,
            expected: String::new(),
        };
        let (events, out) = (Events::new(bench.path()), bench.out("alone"));
        let ended = run(bench.command("alone", &events, Fault::None), LIMIT);
        good(ended);
        bench.expected = checksum(&out).expect("it ended");
        bench
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The run folder called `name`.
    pub fn out(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// Events of files in checkpoints, in a run that nothing happens to.
    pub fn events(&self) -> u64 {
        let events = Events::new(self.path());
        good(run(self.command("counted", &events, Fault::None), LIMIT));
        fs::remove_dir_all(self.out("counted")).unwrap();
        events.count()
    }

    /// The run into `name`, begun or gone on with, where checkpoints meet with `fault`.
    pub fn command(&self, name: &str, events: &Events, fault: Fault) -> Command {
        let checkpoints = self.out(name).join("checkpoints");
        self.told(name, &events.variables(&checkpoints, fault))
    }

    /// The run into `name`, with variables for its ranks; mpirun does not get them.
    fn told(&self, name: &str, variables: &[(&str, String)]) -> Command {
        let program = env!("CARGO_BIN_EXE_phalanx");
        let mut command = match self.size {
            1 => Command::new(program),
            size => mpirun(size),
        };
        for (name, value) in variables {
            match self.size {
                1 => command.env(name, value),
                _ => command.args(["-x", &format!("{name}={value}")]),
            };
        }
        if self.size > 1 {
            command.arg(program);
        }
        command.current_dir(self.path());
        command.args(self.words.split(' '));
        command.args(["--out", name, "--continue"]);
        command
    }

    /// Starts the run with a fault, which ends it or not.
    pub fn start(&self, name: &str, fault: Fault) -> Child {
        start(self.command(name, &Events::new(self.path()), fault))
    }

    /// Ends what is left of a run: ranks may outlive an mpirun that was killed, and would write beside those that go on.
    fn clear(&self) {
        let folder = fs::canonicalize(self.path()).unwrap();
        let works_here = |process: &u32| {
            fs::read_link(format!("/proc/{process}/cwd")).is_ok_and(|cwd| cwd == folder)
        };
        loop {
            let all = fs::read_dir("/proc").unwrap();
            let all = all.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
            let left: Vec<u32> = all.filter(works_here).collect();
            if left.is_empty() {
                return;
            }
            left.into_iter().for_each(kill);
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Goes on with the run in `name`, after `what` happened, to its end, which is compared.
    pub fn go_on(&self, name: &str, what: &str, outcome: &mut Outcome) {
        outcome.moments += 1;
        self.clear();
        let Ended { code, output, .. } = run(self.told(name, &[]), LIMIT);
        if code != Some(0) {
            let wrong = format!("{what}: does not go on, exit code {code:?}\n{output}");
            outcome.wrong.push(wrong);
            return;
        }
        outcome.resumed += 1;
        let left = leftovers(&self.out(name).join("checkpoints"));
        if !left.is_empty() {
            outcome.wrong.push(format!("{what}: leaves {left:?}"));
        }
        self.compare(name, what, outcome);
    }

    /// Compares a run that came to its end.
    pub fn compare(&self, name: &str, what: &str, outcome: &mut Outcome) {
        match checksum(&self.out(name)) {
            Some(found) if found == self.expected => outcome.equal += 1,
            found => outcome.wrong.push(format!(
                "{what}: ends in {found:?}, expected {}",
                self.expected
            )),
        }
        fs::remove_dir_all(self.out(name)).unwrap();
    }
}

/// Kills a process, which may have ended meanwhile.
pub fn kill(process: u32) {
    let words = format!("kill -s KILL {process} 2>/dev/null");
    let _ = Command::new("sh").args(["-c", &words]).status();
}

/// What a run ended with, if it did.
fn checksum(out: &Path) -> Option<String> {
    let path = out.join("result.toml");
    path.exists()
        .then(|| toml(path)["checksum"].as_str().unwrap().to_owned())
}

/// What is half written or half removed, among the checkpoints of a run.
fn leftovers(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let names = entries.map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.to_string_lossy().into_owned());
    names.filter(|name| name.starts_with('.')).collect()
}

/// The steps of the checkpoints in a run folder, and how many files each has.
pub fn checkpoints(out: &Path) -> BTreeMap<u64, usize> {
    let entries = fs::read_dir(out.join("checkpoints")).into_iter().flatten();
    let step = |path: PathBuf| {
        let name = path
            .file_name()?
            .to_str()?
            .strip_prefix("step-")?
            .to_owned();
        Some((name.parse().ok()?, fs::read_dir(path).ok()?.count()))
    };
    entries
        .filter_map(|entry| step(entry.ok()?.path()))
        .collect()
}
