//! Who started this process, and as one of how many: read from the environment before MPI starts.

use serde::Serialize;

use super::mpi::PREFERRED;

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
    fn what_the_user_set_is_told_from_what_phalanx_sets() {
        let start = read("OMPI_MCA_osc=sm PMIX_RANK=0 PMIX_VERSION=4.2");
        assert_eq!(start.chosen, [("OMPI_MCA_osc".into(), "sm".into())]);
        assert_eq!(start.set.len(), PREFERRED.len() - 1);
        assert_eq!(start.pmix.as_deref(), Some("4.2"));
        assert_eq!(read("").pmix, None);
    }
}
