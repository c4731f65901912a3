//! Agreement on failure: what only one rank can see must not leave the others waiting.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use super::Comm;
use crate::{Error, Result};

/// What a rank says of itself where one has failed.
const GOOD: u8 = 0;
const HEARD: u8 = 1;
const FAILED: u8 = 2;

/// Gives every rank its own value if all succeeded, else an error on every rank; *collective*.
///
/// A rank that failed keeps its own error; the others learn the lowest failed rank's. Costs one small reduction when
/// all is well.
pub fn agree<T>(comm: &dyn Comm, mine: Result<T>) -> Result<T> {
    let mut failed = [u64::from(mine.is_err())];
    comm.max(&mut failed);
    if failed == [0] {
        return mine;
    }
    let (kind, code, message) = match &mine {
        Ok(_) => (GOOD, 0, String::new()),
        Err(Error::Peer { code, message, .. }) => (HEARD, *code, message.clone()),
        Err(error) => (FAILED, error.exit_code(), error.report()),
    };
    let answers = comm.gather(&[&[kind, code], message.as_bytes()].concat());
    let of = |kind: u8| answers.iter().position(|answer| answer[0] == kind);
    // Who has only heard of a failure, in an agreement before this one, has none to tell.
    let first = of(FAILED).or_else(|| of(HEARD));
    let first = first.expect("a rank reported failure");
    // Of several failures only the first is printed, so that the user reads one message and not one per rank.
    match mine {
        Err(error) if first == comm.rank() => Err(error),
        _ => Err(Error::Peer {
            rank: first,
            message: String::from_utf8_lossy(&answers[first][2..]).into_owned(),
            code: answers[first][1],
        }),
    }
}

/// The path that rank 0 has, on every rank; empty where it has none; *collective*.
pub fn path_of_first(comm: &dyn Comm, path: Option<PathBuf>) -> PathBuf {
    let path = path.unwrap_or_default();
    let mut all = comm.gather(path.as_os_str().as_bytes());
    OsString::from_vec(all.swap_remove(0)).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::run_ranks;

    #[test]
    fn every_rank_learns_of_the_lowest_failure() {
        let ends = run_ranks(4, |comm| {
            let mine = match comm.rank() {
                rank @ (1 | 3) => Err(Error::Usage(format!("rank {rank} cannot"))),
                rank => Ok(rank),
            };
            agree(comm, mine).map_err(|error| (error.to_string(), error.exit_code()))
        });
        assert_eq!(ends[1], Err(("rank 1 cannot".into(), 2)));
        for rank in [0, 2, 3] {
            assert_eq!(ends[rank], Err(("rank 1 failed: rank 1 cannot".into(), 2)));
        }
    }

    #[test]
    fn success_passes_each_ranks_own_value() {
        let ends = run_ranks(3, |comm| agree(comm, Ok(comm.rank() * 2)).unwrap());
        assert_eq!(ends, [0, 2, 4]);
    }

    #[test]
    fn a_path_of_any_bytes_reaches_every_rank() {
        let odd = PathBuf::from(OsString::from_vec(vec![b'r', 0xff, b'n']));
        let paths = run_ranks(3, |comm| {
            let mine = (comm.rank() == 0).then(|| odd.clone());
            path_of_first(comm, mine)
        });
        assert_eq!(paths, [odd.clone(), odd.clone(), odd]);
    }

    #[test]
    fn an_agreement_on_what_was_agreed_keeps_who_failed() {
        run_ranks(3, |comm| {
            let mine = match comm.rank() {
                1 => Err(Error::Usage("a mistake".into())),
                _ => Ok(()),
            };
            let twice = agree(comm, agree(comm, mine)).unwrap_err();
            match comm.rank() {
                1 => assert!(matches!(twice, Error::Usage(_))),
                _ => assert!(matches!(twice, Error::Peer { rank: 1, .. })),
            }
        });
    }
}
