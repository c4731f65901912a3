//! The MPIs that are tested, each with the program built against it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use crate::launch::{mpirun, run, skip};

/// Longest that building the program may take, without anything built before.
const PATIENCE: Duration = Duration::from_secs(1800);

/// An MPI and a program that links it.
pub enum Mpi {
    /// The default, which everything else is tested with.
    Open,
    /// Another one beside it; the path is that of the program.
    Mpich(PathBuf),
}

impl Mpi {
    /// MPICH with the program built against it; none, and the job marked as skipped, where it is not installed.
    pub fn mpich() -> Option<Self> {
        static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
        let built = BUILT.get_or_init(build_with_mpich).clone();
        if built.is_none() {
            skip("mpicc.mpich is not installed");
        }
        built.map(Self::Mpich)
    }

    /// The program.
    pub fn program(&self) -> &Path {
        match self {
            Self::Open => Path::new(env!("CARGO_BIN_EXE_phalanx")),
            Self::Mpich(program) => program,
        }
    }

    /// `mpirun -n SIZE phalanx` on this host in `folder`, ready for arguments.
    pub fn phalanx(&self, size: usize, folder: &Path) -> Command {
        let mut command = match self {
            Self::Open => mpirun(size),
            Self::Mpich(_) => {
                let mut command = Command::new("mpiexec.mpich");
                command.args(["-n", &size.to_string()]);
                command
            }
        };
        command.arg(self.program()).current_dir(folder);
        command
    }

    /// The launcher's words for a job on `hosts` (`name:ranks,…`) that are reached by `agent`.
    pub fn between_hosts(&self, hosts: &str, agent: &Path) -> Vec<String> {
        let agent = agent.display();
        let words = match self {
            // The ranks of all hosts share this machine's cores: they may neither spin nor be bound to the first ones.
            Self::Open => format!(
                "mpirun.openmpi --host {hosts} --bind-to none --mca mpi_yield_when_idle 1 --mca plm rsh --mca plm_rsh_agent {agent}"
            ),
            Self::Mpich(_) => {
                format!("mpiexec.mpich -hosts {hosts} -launcher ssh -launcher-exec {agent}")
            }
        };
        words.split(' ').map(Into::into).collect()
    }

    /// What its launcher wants in the environment.
    pub fn environment(&self) -> Vec<(&str, &str)> {
        match self {
            Self::Open => vec![
                ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
                ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
            ],
            // UCX would look for memory that ranks share across namespaces too.
            Self::Mpich(_) => vec![("UCX_TLS", "tcp,self"), ("UCX_NET_DEVICES", "eth0")],
        }
    }
}

/// The program, built in a folder of its own: the crate `mpi` does not notice that MPICC has changed.
///
/// Nothing is optimised, which takes half of the time to build and is fast enough for the small sets of these jobs.
fn build_with_mpich() -> Option<PathBuf> {
    Command::new("mpicc.mpich").arg("-show").output().ok()?;
    let ours = Path::new(env!("CARGO_BIN_EXE_phalanx")).ancestors().nth(2);
    let target = ours.expect("target/debug/phalanx").join("mpich");
    let mut cargo = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    cargo.args(["build", "--quiet", "--bin", "phalanx"]);
    for profile in ["package.\"*\".opt-level=0", "opt-level=0", "debug=false"] {
        cargo.args(["--config", &format!("profile.dev.{profile}")]);
    }
    cargo.env("CARGO_INCREMENTAL", "0");
    cargo.arg("--target-dir").arg(&target);
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    cargo.env("MPICC", "mpicc.mpich");
    let ended = run(cargo, PATIENCE);
    assert_eq!(ended.code, Some(0), "{}", ended.output);
    println!("  built with MPICH in {:.0} s", ended.time.as_secs_f64());
    let program = target.join("debug/phalanx");
    let text = fs::read(&program).unwrap();
    let links = |name: &str| text.windows(name.len()).any(|part| part == name.as_bytes());
    assert!(links("libmpich.so") && !links("libmpi.so"));
    assert!(!links("libhdf5_openmpi"), "HDF5 must bring no other MPI");
    Some(program)
}
