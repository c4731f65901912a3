//! A set that several ranks write.

use std::path::Path;

use super::SetFolder;
use crate::comm::{Comm, agree, path_of_first};
use crate::{Error, Result};

/// Makes a set called `out` of the shards that `write` puts into the folder it is given, on all ranks; *collective*.
///
/// The folder must be one that every rank sees. If a rank fails, nothing is left of the set on any.
pub fn write_together<T>(
    comm: &dyn Comm,
    out: &Path,
    force: bool,
    write: impl FnOnce(&Path) -> Result<T>,
) -> Result<T> {
    let folder = match comm.rank() {
        0 => SetFolder::create(out, force).map(Some),
        _ => Ok(None),
    };
    let folder = agree(comm, folder)?;
    let path = path_of_first(comm, folder.as_ref().map(|folder| folder.path().into()));
    let seen = match path.is_dir() {
        true => write(&path),
        false => Err(Error::file(
            &path,
            format!("is not seen by rank {}", comm.rank()),
            "give a place that all hosts share, or start all ranks on one host",
        )),
    };
    match agree(comm, seen) {
        Ok(written) => {
            let finished = folder.map_or(Ok(()), SetFolder::finish);
            agree(comm, finished).map(|()| written)
        }
        Err(error) => {
            drop(folder);
            // A rank that fails ends the job: not before the first has removed what was begun.
            comm.barrier();
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::comm::run_ranks;

    #[test]
    fn a_rank_that_fails_leaves_nothing_of_the_set() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("set");
        let ends = run_ranks(3, |comm| {
            write_together(comm, &out, false, |path| {
                fs::write(path.join(comm.rank().to_string()), "half").unwrap();
                match comm.rank() {
                    1 => Err(Error::Usage("no".into())),
                    _ => Ok(()),
                }
            })
            .is_err()
        });
        assert_eq!(ends, [true; 3]);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
