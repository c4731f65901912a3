//! What the launcher's environment tells before MPI has started.

use std::env;
use std::thread;
use std::time::Duration;

/// This process's place as mpirun or srun announced it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The rank this process will have.
    pub rank: usize,
    /// How many ranks there will be.
    pub size: usize,
}

impl Launch {
    /// Reads Open MPI's, then the PMI's (MPICH, srun) variables; a process started plainly is a world of one.
    pub fn detect() -> Self {
        const NAMES: [(&str, &str); 3] = [
            ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
            ("PMIX_RANK", "PMIX_SIZE"),
            ("PMI_RANK", "PMI_SIZE"),
        ];
        let number = |name| env::var(name).ok()?.parse().ok();
        let found = NAMES.iter().find_map(|(rank, size)| {
            let rank = number(rank)?;
            Some(Self {
                rank,
                size: number(size).unwrap_or(rank + 1),
            })
        });
        found.unwrap_or(Self { rank: 0, size: 1 })
    }

    /// Before MPI has started: keeps a failed rank other than the first until that one has told why. The first rank
    /// to exit has the launcher end all others, and a message that is still to come would be lost.
    pub fn let_first_speak(self) {
        if self.rank > 0 {
            thread::sleep(Duration::from_secs(2));
        }
    }
}
