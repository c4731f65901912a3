//! `phalanx doctor`: what it says of this machine, and of launchers that do not bring the ranks together.

use std::process::Command;

use serde_json::Value;

use crate::between::two_hosts;
use crate::job::{LIMIT, good, job};
use crate::launch::{Ended, mpirun, phalanx, run};
use crate::mpis::Mpi;

/// Jobs by name.
pub const JOBS: [(&str, fn()); 6] = [
    ("a doctor finds that ranks add up exactly", healthy),
    ("a doctor sees two hosts and what joins them", between),
    (
        "a doctor notices tasks of srun that are worlds of one",
        srun,
    ),
    ("a doctor notices the launcher of another MPI", other_mpi),
    ("a doctor reports shared memory that MPI refuses", refused),
    ("a doctor knows MPICH", mpich),
];

/// What a doctor said as JSON.
fn facts(ended: Ended) -> (Option<i32>, Value) {
    let line = ended.output.lines().find(|line| line.starts_with('{'));
    let line = line.unwrap_or_else(|| panic!("no JSON in\n{}", ended.output));
    (ended.code, serde_json::from_str(line).unwrap())
}

/// The finding called `name`.
fn finding<'a>(said: &'a Value, name: &str) -> &'a Value {
    let all = said["findings"].as_array().unwrap();
    let found = all.iter().find(|found| found["name"] == name);
    found.unwrap_or_else(|| panic!("{name} in {said}"))
}

fn is(said: &Value, name: &str, mark: &str, words: &str) {
    let found = finding(said, name);
    assert_eq!(found["mark"], mark, "{found}");
    assert!(found["value"].as_str().unwrap().contains(words), "{found}");
}

/// The sums that must be exact.
fn exact(said: &Value) {
    for name in [
        "accumulate",
        "counters",
        "counters by messages",
        "shared memory",
        "all-reduce",
    ] {
        is(said, name, "good", "ok: exact");
    }
}

fn healthy() {
    let folder = tempfile::tempdir().unwrap();
    for size in [1, 3] {
        let said = job(size, folder.path(), "doctor");
        for words in ["Open MPI 4", "good     accumulate ", "serialized"] {
            assert!(said.contains(words), "{words} in\n{said}");
        }
        let end = ["Nothing to change", "What to change\n  1. "];
        assert!(end.iter().any(|end| said.contains(end)), "{said}");
        let mut command = phalanx(size, folder.path());
        command.args(["doctor", "--json"]);
        let (code, said) = facts(run(command, LIMIT));
        assert_eq!(code, Some(0), "{said}");
        exact(&said);
        assert_eq!(said["fit"], true);
        assert_eq!(said["facts"]["library"]["name"], "Open MPI");
        assert_eq!(said["facts"]["ranks"].as_array().unwrap().len(), size);
        let ranks = if size == 1 {
            "1 rank".into()
        } else {
            format!("{size} ranks")
        };
        is(&said, "launcher", "good", &ranks);
        is(&said, "settings", "good", "osc=^ucx (by phalanx)");
    }
    let nothing = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(nothing, 0, "a doctor leaves nothing behind");
}

/// Windows between these hosts are served by messages, which a rank that computes does not answer.
fn between() {
    two_hosts(|hosts| {
        let folder = tempfile::tempdir().unwrap();
        let mut command = hosts.phalanx(&Mpi::Open, folder.path());
        command.args(["doctor", "--json"]);
        let (code, said) = facts(run(command, LIMIT));
        assert_eq!(code, Some(0), "{said}");
        exact(&said);
        is(&said, "ranks", "good", "4 ranks on 2 hosts, 2 on each");
        is(&said, "windows", "good", "osc/pt2pt");
        is(&said, "idle ranks", "good", "let others");
        is(&said, "add to a busy host", "note", "slow: ");
    });
}

/// The program alone, in an environment as srun makes it.
fn alone(environment: &str) -> (Option<i32>, Value) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    command.args(["doctor", "--json"]);
    let pairs = environment
        .split(' ')
        .filter_map(|pair| pair.split_once('='));
    command.envs(pairs);
    facts(run(command, LIMIT))
}

fn srun() {
    let task = "SLURM_JOB_ID=7 SLURM_NTASKS=4 SLURM_STEP_ID=0 SLURM_PROCID=0";
    let (code, said) = alone(task);
    assert_eq!(code, Some(1), "{said}");
    assert_eq!(said["fit"], false);
    is(
        &said,
        "launcher",
        "problem",
        "started 4 processes, but MPI's world has 1",
    );
    assert!(
        said["advice"][0]
            .as_str()
            .unwrap()
            .contains("srun --mpi=pmix"),
        "{said}"
    );
    exact(&said);
    // Of tasks that did not find each other only the first speaks, and all fail.
    let mut second = Command::new(env!("CARGO_BIN_EXE_phalanx"));
    second.arg("doctor").env("SLURM_STEP_ID", "0");
    second.env("SLURM_PROCID", "1").env("SLURM_NTASKS", "4");
    let ended = run(second, LIMIT);
    assert_eq!(ended.code, Some(1), "{}", ended.output);
    assert!(!ended.output.contains("launcher"), "{}", ended.output);
    // A shell in an allocation of four tasks, and one that Slurm started as an interactive step.
    for shell in [
        "SLURM_JOB_ID=7 SLURM_NTASKS=4",
        "SLURM_JOB_ID=7 SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_STEP_ID=4294967290",
    ] {
        let (code, said) = alone(shell);
        assert_eq!(code, Some(0), "{said}");
        is(&said, "launcher", "good", "a world of one");
    }
}

/// Processes that mpiexec of MPICH starts with the program of Open MPI, and the other way round: also training is refused.
fn other_mpi() {
    let Some(mpich) = Mpi::mpich() else { return };
    let mpiexec = || {
        let mut command = Command::new("mpiexec.mpich");
        command.args(["-n", "2", env!("CARGO_BIN_EXE_phalanx")]);
        command
    };
    let mpirun = || {
        let mut command = mpirun(2);
        command.arg(mpich.program());
        command
    };
    let apart = "started 2 processes, but MPI's world has 1";
    let cases: [(&dyn Fn() -> Command, &str); 2] = [
        (&mpiexec, "the mpirun of Open MPI"),
        (&mpirun, "the mpirun of MPICH"),
    ];
    for (start, advice) in cases {
        let mut command = start();
        command.args(["doctor", "--json"]);
        let (code, said) = facts(run(command, LIMIT));
        assert!(code.is_some_and(|code| code != 0), "{said}");
        is(&said, "launcher", "problem", apart);
        assert!(
            said["advice"][0].as_str().unwrap().contains(advice),
            "{said}"
        );
        let mut command = start();
        command.args(["train", "softmax", "nowhere.h5"]);
        let ended = run(command, LIMIT);
        assert_eq!(ended.code, Some(2), "{}", ended.output);
        for words in [apart, advice] {
            let told = ended.output.matches(words).count();
            assert_eq!(told, 1, "{words}: {}", ended.output);
        }
    }
}

fn refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = phalanx(2, folder.path());
    command
        .args(["doctor", "--json"])
        .env("OMPI_MCA_osc", "^ucx,sm");
    let (code, said) = facts(run(command, LIMIT));
    assert!(code.is_some_and(|code| code != 0), "{said}");
    is(&said, "shared memory", "problem", "MPI_Win_allocate_shared");
    is(&said, "accumulate", "good", "ok: exact");
    is(&said, "settings", "good", "osc=^ucx,sm (by you)");
}

fn mpich() {
    let Some(mpi) = Mpi::mpich() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut command = mpi.phalanx(3, folder.path());
    command.args(["doctor", "--json"]);
    let ended = run(command, LIMIT);
    let said: Value = serde_json::from_str(good(ended).trim()).unwrap();
    exact(&said);
    assert_eq!(said["facts"]["library"]["name"], "MPICH");
    is(&said, "launcher", "good", "mpiexec of MPICH, 3 ranks");
    is(&said, "idle ranks", "good", "let others have their core");
}
