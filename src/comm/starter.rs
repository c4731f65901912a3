//! Who started this process, and as one of how many: read from the environment before MPI starts.

use std::thread;
use std::time::Duration;

use serde::Serialize;

use super::mpi::PREFERRED;
use crate::{Error, Result};

/// The numbers from here on are Slurm's names for steps that are no tasks of srun: the batch script, an interactive shell.
const SPECIAL_STEPS: u64 = 0xffff_fff0;

/// What started a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Starter {
    /// `mpirun` of Open MPI.
    OpenMpi,
    /// `mpiexec` of MPICH and its relatives.
    Hydra,
    /// `srun`.
    Srun,
    /// Something else that speaks PMIx.
    Pmix,
    /// A shell, or anything else that starts one process.
    Plain,
}

/// How a process was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Start {
    /// By whom.
    pub starter: Starter,
    /// This process's number among those that were started together.
    pub rank: usize,
    /// How many were, where that is told.
    pub size: Option<usize>,
    /// The version of PMIx that the starter offers; empty where it does not say which.
    pub pmix: Option<String>,
    /// MPI's parameters that phalanx would set, with what the user set instead.
    pub chosen: Vec<(String, String)>,
    /// MPI's parameters that phalanx sets, with their values.
    pub set: Vec<(String, String)>,
}

impl Start {
    /// Reads the environment; to be called before MPI starts, which adds to it.
    pub fn read() -> Self {
        Self::from(|name| std::env::var(name).ok())
    }

    /// Whether this process was started by itself, as far as can be told without MPI.
    pub fn alone(&self) -> bool {
        self.size == Some(1) || self.starter == Starter::Plain
    }

    /// Before MPI has started: keeps a failed rank other than the first until that one has told why. The first rank
    /// to exit has the launcher end all others, and a message that is still to come would be lost.
    pub fn let_first_speak(&self) {
        if self.rank > 0 {
            thread::sleep(Duration::from_secs(2));
        }
    }

    /// The starter in words.
    pub fn how(&self) -> String {
        let how = match self.starter {
            Starter::OpenMpi => "mpirun of Open MPI",
            Starter::Hydra => "mpiexec of MPICH",
            Starter::Srun => "srun",
            Starter::Pmix => "unknown, with PMIx",
            Starter::Plain => "none: a world of one rank",
        };
        match (self.starter, self.pmix.as_deref()) {
            (Starter::Srun, None) => format!("{how} without PMIx"),
            (Starter::Srun, Some(version)) => {
                format!("{how} with PMIx {version}").trim_end().into()
            }
            _ => how.into(),
        }
    }

    /// An error where processes were started together and are not in one world of MPI, which `library` is: each would do all of
    /// the work, and all would write to the same places.
    pub fn joined(&self, size: usize, library: &str) -> Result<()> {
        match self.size {
            Some(told) if told > size => Err(Error::Apart {
                how: self.how(),
                told,
                size,
                advice: self.advice(library),
                lines: self.lines(library, told),
            }),
            _ => Ok(()),
        }
    }

    /// What to do where processes are started together and do not find each other.
    pub fn advice(&self, library: &str) -> String {
        match (self.starter, library) {
            (Starter::Srun, "Open MPI") => {
                "start it by srun --mpi=pmix (`srun --mpi=list` shows whether Slurm has it), or by mpirun inside the allocation".into()
            }
            (Starter::Srun, _) => format!(
                "{library} does not join ranks over srun's PMIx: start it by srun --mpi=pmi2, or by its own mpiexec inside the allocation"
            ),
            _ => format!(
                "this program was built with {library}: start it by the mpirun of {library}, or build it with the MPI of this mpirun"
            ),
        }
    }

    /// This very command, as it works under Slurm; none where only another program would.
    fn lines(&self, library: &str, size: usize) -> Vec<String> {
        let starters = match (self.starter, library) {
            (Starter::Srun, "Open MPI") => ["srun --mpi=pmix", "mpirun"],
            (Starter::Srun, _) => ["srun --mpi=pmi2", "mpiexec"],
            _ => return Vec::new(),
        };
        let words: Vec<String> = std::env::args().collect();
        let words = words.join(" ");
        starters
            .map(|starter| format!("{starter} -n {size} {words}"))
            .into()
    }

    /// As told by an environment.
    fn from(get: impl Fn(&str) -> Option<String>) -> Self {
        let number = |name: &str| get(name)?.trim().parse::<u64>().ok();
        let count = |name: &str| number(name).map(|number| number as usize);
        // An allocation alone (salloc, or the shell of a batch job) has SLURM_NTASKS too, and no such step.
        let step = number("SLURM_STEP_ID").filter(|&step| step < SPECIAL_STEPS);
        let task = step.and_then(|_| count("SLURM_PROCID"));
        let tasks = || count("SLURM_STEP_NUM_TASKS").or_else(|| count("SLURM_NTASKS"));
        let hydra = get("HYDI_CONTROL_FD").is_some() || task.is_none();
        // The nearest first: mpirun may run inside a task of srun, and inherits its variables.
        let (starter, rank, size) = if let Some(size) = count("OMPI_COMM_WORLD_SIZE") {
            (Starter::OpenMpi, count("OMPI_COMM_WORLD_RANK"), Some(size))
        } else if let Some(size) = count("PMI_SIZE").filter(|_| hydra) {
            (Starter::Hydra, count("PMI_RANK"), Some(size))
        } else if task.is_some() {
            (Starter::Srun, task, tasks())
        } else if let Some(rank) = count("PMIX_RANK") {
            (Starter::Pmix, Some(rank), None)
        } else {
            (Starter::Plain, None, None)
        };
        let pmix = get("PMIX_RANK").map(|_| get("PMIX_VERSION").unwrap_or_default());
        let theirs = |name: &str| get(name).map(|value| (name.to_owned(), value));
        let ours = PREFERRED.iter().filter(|(name, _)| get(name).is_none());
        Self {
            starter,
            rank: rank.unwrap_or(0),
            size,
            pmix,
            chosen: PREFERRED
                .iter()
                .filter_map(|(name, _)| theirs(name))
                .collect(),
            set: ours.map(|(n, v)| ((*n).into(), (*v).into())).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(variables: &str) -> (Starter, usize, Option<usize>) {
        let start = read(variables);
        (start.starter, start.rank, start.size)
    }

    fn read(variables: &str) -> Start {
        Start::from(|name| {
            let pairs = variables
                .split_whitespace()
                .filter_map(|v| v.split_once('='));
            let mut found = pairs.filter(|(n, _)| *n == name);
            found.next().map(|(_, value)| value.to_owned())
        })
    }

    #[test]
    fn launchers_are_told_by_their_variables() {
        assert_eq!(start(""), (Starter::Plain, 0, None));
        let mpirun = "OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=3 PMIX_RANK=3";
        assert_eq!(start(mpirun), (Starter::OpenMpi, 3, Some(4)));
        let hydra = "PMI_RANK=1 PMI_SIZE=2 HYDI_CONTROL_FD=7";
        assert_eq!(start(hydra), (Starter::Hydra, 1, Some(2)));
        let srun = "SLURM_STEP_ID=0 SLURM_PROCID=2 SLURM_NTASKS=4";
        assert_eq!(start(srun), (Starter::Srun, 2, Some(4)));
        let pmi2 = format!("{srun} PMI_RANK=2 PMI_SIZE=4 PMI_FD=9");
        assert_eq!(start(&pmi2), (Starter::Srun, 2, Some(4)));
        assert_eq!(start("PMIX_RANK=1"), (Starter::Pmix, 1, None));
    }

    #[test]
    fn a_shell_inside_an_allocation_is_no_task_of_srun() {
        assert_eq!(start("SLURM_NTASKS=4"), (Starter::Plain, 0, None));
        let batch = "SLURM_NTASKS=4 SLURM_PROCID=0";
        assert_eq!(start(batch), (Starter::Plain, 0, None));
        let interactive = "SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_STEP_ID=4294967290";
        assert_eq!(start(interactive), (Starter::Plain, 0, None));
        // A shell that srun started as one task of an allocation of four.
        let shell = "SLURM_NTASKS=4 SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0 SLURM_STEP_ID=1";
        assert_eq!(start(shell), (Starter::Srun, 0, Some(1)));
    }

    #[test]
    fn a_launcher_inside_a_task_of_srun_counts() {
        let task = "SLURM_STEP_ID=0 SLURM_PROCID=2 SLURM_NTASKS=4 PMIX_RANK=2";
        let open = format!("{task} OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_RANK=0");
        assert_eq!(start(&open), (Starter::OpenMpi, 0, Some(1)));
        let hydra = format!("{task} PMI_RANK=0 PMI_SIZE=1 HYDI_CONTROL_FD=7");
        assert_eq!(start(&hydra), (Starter::Hydra, 0, Some(1)));
    }

    #[test]
    fn processes_started_together_must_be_in_one_world() {
        let task = "SLURM_STEP_ID=0 SLURM_PROCID=2 SLURM_STEP_NUM_TASKS=4 SLURM_NTASKS=8";
        let report = |library, pmi: &str| {
            let start = read(&format!("{task} {pmi}"));
            assert!(!start.alone());
            let error = start.joined(1, library).unwrap_err();
            assert_eq!(error.exit_code(), 2);
            error.report()
        };
        let open = report("Open MPI", "");
        assert!(open.starts_with("srun without PMIx started 4 processes, but MPI's world has 1:"));
        assert!(
            open.contains("\n    srun --mpi=pmix -n 4 ") && open.contains("\n    mpirun -n 4 ")
        );
        let mpich = report("MPICH", "PMIX_RANK=2");
        assert!(mpich.starts_with("srun with PMIx started 4 processes"));
        assert!(mpich.contains("\n    srun --mpi=pmi2 -n 4 "));
        assert!(read(task).joined(4, "Open MPI").is_ok());
        // One task, the shell of a batch job, and Open MPI's mpirun inside a job.
        for fine in [
            "SLURM_STEP_ID=0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 SLURM_NTASKS=8",
            "SLURM_NTASKS=8 SLURM_PROCID=0",
        ] {
            assert!(read(fine).alone() && read(fine).joined(1, "Open MPI").is_ok());
        }
        let mpirun = format!("{task} OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1");
        assert!(!read(&mpirun).alone() && read(&mpirun).joined(2, "Open MPI").is_ok());
    }

    #[test]
    fn what_the_user_set_is_told_from_what_phalanx_sets() {
        let start = read("OMPI_MCA_osc=sm PMIX_RANK=0 PMIX_VERSION=4.2");
        assert_eq!(start.chosen, [("OMPI_MCA_osc".into(), "sm".into())]);
        assert_eq!(start.set.len(), PREFERRED.len() - 1);
        assert_eq!(start.pmix.as_deref(), Some("4.2"));
        assert_eq!(read("").pmix, None);
    }
}
